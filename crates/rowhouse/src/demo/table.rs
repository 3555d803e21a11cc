//! The demo's live table: throughput, latency and CPU of each tenant, as its clients and the server see them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};

use base::Nanos;
use scenarios::{Figures, GroupView, View};

/// A group of more tenants is one line.
const LISTED_MAX: usize = 8;

/// CPU seconds by tenant so far.
pub(super) type Cpu = BTreeMap<String, f64>;

/// Redrawn in place on a terminal; a line a second elsewhere.
pub(super) struct Table {
    begun: Nanos,
    view: View,
    now: (Nanos, Cpu),
    before: (Nanos, Cpu),
    lines_drawn: usize,
    is_in_place: bool,
}

impl Table {
    pub(super) fn new(begun: Nanos) -> Table {
        Table {
            begun,
            view: View { story: None, groups: Vec::new() },
            now: (begun, Cpu::new()),
            before: (begun, Cpu::new()),
            lines_drawn: 0,
            is_in_place: std::io::stdout().is_terminal(),
        }
    }

    /// Takes how everything is now.
    pub(super) fn update(&mut self, now: Nanos, view: View, cpu: Cpu) {
        self.before = std::mem::replace(&mut self.now, (now, cpu));
        self.view = view;
    }

    /// Draws how everything is.
    pub(super) fn draw(&mut self) {
        let mut text = String::new();
        let lines = if self.is_in_place { self.lines() } else { vec![self.line_of_all()] };
        if self.lines_drawn > 0 {
            let _ = write!(text, "\x1b[{}A", self.lines_drawn);
        }
        for line in &lines {
            let _ = writeln!(text, "{}{line}", if self.is_in_place { "\x1b[2K" } else { "" });
        }
        if self.is_in_place {
            // What a table of more lines left below.
            text.push_str("\x1b[J");
            self.lines_drawn = lines.len();
        }
        let mut out = std::io::stdout().lock();
        // A closed terminal ends the demo elsewhere.
        let _ = out.write_all(text.as_bytes());
        let _ = out.flush();
    }

    fn seconds(&self) -> u64 {
        (self.now.0 - self.begun).as_secs_f64() as u64
    }

    fn line_of_all(&self) -> String {
        let rates = self.view.groups.iter().filter_map(|group| group.figures).map(|of| of.per_second);
        let sum = rates.fold(0.0, |sum, rate| sum + rate);
        let told = self.view.story.map_or("", |(_, step)| step);
        format!("{:>5} s {sum:>10.0} tx/s   {told}", self.seconds())
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some((title, step)) = self.view.story {
            lines.push(format!("{title}: {step}"));
        }
        lines.push(format!(
            "{:<24} {:>10} {:>9} {:>9} {:>9} {:>8}",
            "tenant", "tx/s", "p50 ms", "p95 ms", "p99 ms", "CPU %"
        ));
        for group in &self.view.groups {
            lines.extend(self.lines_of(group));
        }
        lines.push(format!("after {} s", self.seconds()));
        lines
    }

    fn lines_of(&self, group: &GroupView) -> Vec<String> {
        if let Some(error) = &group.error {
            return vec![format!("{}: {error}", group.name)];
        }
        let Some(figures) = group.figures.filter(|_| !group.tenants.is_empty()) else {
            return vec![format!("{}: {}", group.name, group.state)];
        };
        if group.tenants.len() <= LISTED_MAX {
            return group.tenants.iter().map(|(name, of)| line(name, of, self.cpu_of(name))).collect();
        }
        let cpu: Option<f64> = group.tenants.iter().map(|(name, _)| self.cpu_of(name)).sum();
        vec![line(&format!("{} ({})", group.name, group.tenants.len()), &figures, cpu)]
    }

    /// In percent of a core, of late.
    fn cpu_of(&self, tenant: &str) -> Option<f64> {
        let seconds = (self.now.0 - self.before.0).as_secs_f64();
        let (before, now) = (self.before.1.get(tenant)?, self.now.1.get(tenant)?);
        (seconds > 0.0).then(|| (now - before) / seconds * 100.0)
    }

    /// What was done in all by those who are there at the end.
    pub(super) fn summary(&self, view: &View, now: Nanos) -> String {
        let mut text = String::new();
        let mut total = 0;
        for group in &view.groups {
            let sum: u64 = group.tenants.iter().map(|(_, of)| of.transactions).sum();
            let cpu = group
                .tenants
                .iter()
                .filter_map(|(name, _)| self.now.1.get(name))
                .fold(0.0, |sum, of| sum + of);
            total += sum;
            let _ = writeln!(
                text,
                "{}: {sum} transactions of {} tenants, {cpu:.1} s of CPU",
                group.name,
                group.tenants.len()
            );
        }
        let seconds = ((now - self.begun).as_secs_f64() as u64).max(1);
        let _ = write!(text, "{total} transactions in {seconds} s, {} a second", total / seconds);
        text
    }
}

fn line(name: &str, figures: &Figures, cpu: Option<f64>) -> String {
    let ms = |value: Option<f64>| value.map_or("-".into(), |ms| format!("{ms:.2}"));
    let cpu = cpu.map_or("-".into(), |percent| format!("{percent:.1}"));
    let Figures { per_second, p50_ms, p95_ms, p99_ms, .. } = *figures;
    format!("{name:<24} {per_second:>10.1} {:>9} {:>9} {:>9} {cpu:>8}", ms(p50_ms), ms(p95_ms), ms(p99_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(transactions: u64, per_second: f64) -> Figures {
        let ms = Some(2.5);
        Figures { transactions, per_second, p50_ms: ms, p95_ms: ms, p99_ms: ms }
    }

    fn group(name: &str, tenants: usize) -> GroupView {
        GroupView {
            name: name.into(),
            state: "running",
            error: None,
            figures: Some(figures(10 * tenants as u64, tenants as f64)),
            tenants: (1..=tenants).map(|number| (format!("{name}{number}"), figures(10, 1.0))).collect(),
        }
    }

    #[test]
    fn few_tenants_have_a_line_each_and_many_share_one() {
        let mut table = Table::new(Nanos(0));
        let view =
            View { story: Some(("A story", "its step")), groups: vec![group("few", 2), group("many", 50)] };
        let cpu = |seconds: f64| Cpu::from([("few1".to_owned(), seconds)]);
        table.update(Nanos::from_secs(1), view.clone(), cpu(1.0));
        table.update(Nanos::from_secs(3), view.clone(), cpu(1.5));
        let text = table.lines().join("\n");
        assert!(text.starts_with("A story: its step\ntenant"), "{text}");
        let of = |name: &str| {
            text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name}: {text}"))
        };
        assert!(of("few1").ends_with("25.0") && of("few2").ends_with('-'), "{text}");
        assert!(of("many (50)").contains("50.0") && !text.contains("many1"), "{text}");
        assert_eq!(
            table.summary(&view, Nanos::from_secs(3)).lines().last(),
            Some("520 transactions in 3 s, 173 a second")
        );
    }

    #[test]
    fn what_does_not_work_yet_says_so() {
        let mut table = Table::new(Nanos(0));
        let loading = GroupView { state: "loading", figures: None, tenants: Vec::new(), ..group("a", 1) };
        let failed = GroupView { error: Some("no room".into()), ..group("b", 1) };
        table.update(Nanos::from_secs(1), View { story: None, groups: vec![loading, failed] }, Cpu::new());
        let text = table.lines().join("\n");
        assert!(text.contains("a: loading\nb: no room"), "{text}");
    }
}
