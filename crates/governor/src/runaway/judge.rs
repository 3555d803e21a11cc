//! One statement, held against the rules of its tenant.

use std::fmt;
use std::sync::Arc;

use base::Nanos;

use super::{RunawayAction, RunawayRule, TenantRules};

/// What a statement took since it began. No amount ever falls.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct StatementUsage {
    pub elapsed: Nanos,
    pub cpu: Nanos,
    pub rows: u64,
    pub io: u64,
}

/// Which threshold was exceeded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunawayMeasure {
    Elapsed,
    Cpu,
    Rows,
    Io,
}

/// A rule acts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunawayVerdict {
    pub rule: Arc<str>,
    pub action: RunawayAction,
    pub measure: RunawayMeasure,
    /// How much was used and allowed, in nanoseconds, rows or I/Os.
    pub used: u64,
    pub allowed: u64,
}

impl RunawayVerdict {
    /// `1000001 rows, more than 1000000`
    pub fn figures(&self) -> String {
        let seconds = |nanos: u64| format!("{:.3} s", Nanos(nanos).as_secs_f64());
        let RunawayVerdict { used, allowed, .. } = self;
        match self.measure {
            RunawayMeasure::Elapsed => format!("{} elapsed, more than {}", seconds(*used), seconds(*allowed)),
            RunawayMeasure::Cpu => {
                format!("{} of processor time, more than {}", seconds(*used), seconds(*allowed))
            }
            RunawayMeasure::Rows => format!("{used} rows, more than {allowed}"),
            RunawayMeasure::Io => format!("{used} I/Os, more than {allowed}"),
        }
    }
}

impl fmt::Display for RunawayVerdict {
    /// `runaway rule "long reads": 1000001 rows, more than 1000000`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "runaway rule \"{}\": {}", self.rule, self.figures())
    }
}

/// A statement's judge. Where there are no rules a look at one word is all it costs; where there are, four comparisons until one acts.
#[derive(Clone, Debug, Default)]
pub struct Runaway {
    watch: Option<Watch>,
}

#[derive(Clone, Debug)]
struct Watch {
    rules: Arc<TenantRules>,
    /// By rule: whether it acted.
    acted: u64,
    /// The smallest thresholds of those that have not acted: what is not beyond any of them needs no look at the rules.
    nearest: StatementUsage,
}

impl Runaway {
    /// A judge of a statement that begins, by the rules of its tenant. Allocates nothing.
    pub fn new(rules: Option<Arc<TenantRules>>) -> Runaway {
        let mut runaway = Runaway::default();
        runaway.renew(rules);
        runaway
    }

    /// Whether there is anything to judge by: if not, nothing needs to be measured for it.
    pub fn is_watching(&self) -> bool {
        self.watch.is_some()
    }

    /// The smallest thresholds of rules that have not acted; the largest number where none looks at it. `None` without rules. Until one of them is
    /// exceeded [`Runaway::judge`] finds nothing.
    pub fn nearest(&self) -> Option<StatementUsage> {
        self.watch.as_ref().map(|watch| watch.nearest)
    }

    /// The tenant's rules changed: from now on these. A rule that acted on the statement does not act again unless it was set anew.
    pub fn renew(&mut self, rules: Option<Arc<TenantRules>>) {
        let before = self.watch.take();
        self.watch = rules.map(|rules| {
            let acted_before = |rule: &RunawayRule| {
                before.as_ref().is_some_and(|watch| {
                    let same = watch.rules.rules.iter().position(|known| known.serial == rule.serial);
                    same.is_some_and(|at| watch.acted & 1 << at != 0)
                })
            };
            let acted = rules.rules.iter().enumerate();
            let acted =
                acted.filter(|(_, rule)| acted_before(rule)).fold(0, |acted, (at, _)| acted | 1 << at);
            let mut watch = Watch { rules, acted, nearest: StatementUsage::default() };
            watch.find_nearest();
            watch
        });
    }

    /// The next rule that acts on a statement that used so much, if any: of several the one that was made first, so call it until there is none. Each
    /// rule acts once a statement. Cheap enough for every quantum and every few hundred rows.
    pub fn judge(&mut self, usage: &StatementUsage) -> Option<RunawayVerdict> {
        let watch = self.watch.as_mut()?;
        let near = &watch.nearest;
        if usage.elapsed <= near.elapsed
            && usage.cpu <= near.cpu
            && usage.rows <= near.rows
            && usage.io <= near.io
        {
            return None;
        }
        watch.act(usage)
    }
}

impl Watch {
    fn waiting(&self) -> impl Iterator<Item = (usize, &RunawayRule)> {
        self.rules.rules.iter().enumerate().filter(|(at, _)| self.acted & 1 << at == 0)
    }

    #[cold]
    fn act(&mut self, usage: &StatementUsage) -> Option<RunawayVerdict> {
        let (at, verdict) = self.waiting().find_map(|(at, rule)| Some((at, exceeded(rule, usage)?)))?;
        self.acted |= 1 << at;
        self.find_nearest();
        Some(verdict)
    }

    fn find_nearest(&mut self) {
        let mut nearest =
            StatementUsage { elapsed: Nanos(u64::MAX), cpu: Nanos(u64::MAX), rows: u64::MAX, io: u64::MAX };
        for (_, rule) in self.waiting() {
            let terms = &rule.terms;
            nearest.elapsed = nearest.elapsed.min(terms.elapsed.unwrap_or(nearest.elapsed));
            nearest.cpu = nearest.cpu.min(terms.cpu.unwrap_or(nearest.cpu));
            nearest.rows = nearest.rows.min(terms.rows.unwrap_or(nearest.rows));
            nearest.io = nearest.io.min(terms.io.unwrap_or(nearest.io));
        }
        self.nearest = nearest;
    }
}

/// What a rule says of a statement that used so much.
fn exceeded(rule: &RunawayRule, usage: &StatementUsage) -> Option<RunawayVerdict> {
    let terms = &rule.terms;
    let nanos = |time: Option<Nanos>| time.map(|time| time.0);
    let measures = [
        (RunawayMeasure::Elapsed, usage.elapsed.0, nanos(terms.elapsed)),
        (RunawayMeasure::Cpu, usage.cpu.0, nanos(terms.cpu)),
        (RunawayMeasure::Rows, usage.rows, terms.rows),
        (RunawayMeasure::Io, usage.io, terms.io),
    ];
    measures.into_iter().find_map(|(measure, used, allowed)| {
        let allowed = allowed.filter(|allowed| used > *allowed)?;
        Some(RunawayVerdict { rule: rule.name.clone(), action: terms.action, measure, used, allowed })
    })
}

#[cfg(test)]
mod tests {
    use base::TenantId;
    use proptest::prelude::*;

    use super::*;
    use crate::runaway::{RunawayRules, RunawayScope, RunawayTerms};

    const TENANT: TenantId = TenantId(16);

    fn usage(elapsed: u64, cpu: u64, rows: u64, io: u64) -> StatementUsage {
        StatementUsage { elapsed: Nanos(elapsed), cpu: Nanos(cpu), rows, io }
    }

    fn rules(of: &[(&str, RunawayTerms)]) -> RunawayRules {
        let rules = RunawayRules::default();
        of.iter().for_each(|(name, terms)| rules.set(name, RunawayScope::All, *terms).unwrap());
        rules
    }

    fn rows(rows: u64, action: RunawayAction) -> RunawayTerms {
        RunawayTerms { rows: Some(rows), action, ..RunawayTerms::default() }
    }

    fn names(runaway: &mut Runaway, usage: StatementUsage) -> Vec<String> {
        std::iter::from_fn(|| runaway.judge(&usage)).map(|verdict| verdict.rule.to_string()).collect()
    }

    #[test]
    fn without_rules_nothing_is_judged() {
        let mut runaway = Runaway::new(None);
        assert!(!runaway.is_watching());
        assert_eq!(runaway.judge(&usage(u64::MAX, u64::MAX, u64::MAX, u64::MAX)), None);
    }

    #[test]
    fn each_rule_acts_once_when_its_threshold_is_exceeded() {
        let rules =
            rules(&[("end", rows(100, RunawayAction::Cancel)), ("tell", rows(10, RunawayAction::Log))]);
        let mut runaway = Runaway::new(rules.of_tenant(TENANT));
        assert!(runaway.is_watching());
        assert_eq!(runaway.judge(&usage(0, 0, 10, 0)), None, "exactly the threshold is allowed");
        let verdict = runaway.judge(&usage(0, 0, 11, 0)).expect("more is not");
        assert_eq!((verdict.action, verdict.measure), (RunawayAction::Log, RunawayMeasure::Rows));
        assert_eq!(verdict.to_string(), "runaway rule \"tell\": 11 rows, more than 10");
        assert_eq!(runaway.judge(&usage(0, 0, 99, 0)), None);
        assert_eq!(names(&mut runaway, usage(0, 0, 1000, 0)), ["end"]);
        assert_eq!(names(&mut runaway, usage(0, 0, 5000, 0)), Vec::<String>::new());
        let mut at_once = Runaway::new(rules.of_tenant(TENANT));
        assert_eq!(names(&mut at_once, usage(0, 0, 1000, 0)), ["end", "tell"]);
    }

    #[test]
    fn any_of_the_thresholds_is_enough() {
        let terms = RunawayTerms {
            elapsed: Some(Nanos::from_secs(10)),
            cpu: Some(Nanos::from_secs(5)),
            rows: Some(7),
            io: Some(8),
            action: RunawayAction::Deprioritise,
        };
        let rules = rules(&[("r", terms)]);
        for (used, text) in [
            (usage(10_000_000_001, 0, 0, 0), "10.000 s elapsed, more than 10.000 s"),
            (usage(0, 6_500_000_000, 0, 0), "6.500 s of processor time, more than 5.000 s"),
            (usage(0, 0, 8, 0), "8 rows, more than 7"),
            (usage(0, 0, 0, 9), "9 I/Os, more than 8"),
        ] {
            let mut runaway = Runaway::new(rules.of_tenant(TENANT));
            let verdict = runaway.judge(&used).expect(text);
            assert_eq!(verdict.to_string(), format!("runaway rule \"r\": {text}"));
            assert_eq!(verdict.action, RunawayAction::Deprioritise);
            assert_eq!(runaway.judge(&usage(u64::MAX, u64::MAX, u64::MAX, u64::MAX)), None);
        }
    }

    #[test]
    fn changed_rules_judge_what_runs() {
        let rules = rules(&[("a", rows(10, RunawayAction::Log)), ("b", rows(20, RunawayAction::Log))]);
        let mut runaway = Runaway::new(rules.of_tenant(TENANT));
        assert_eq!(runaway.nearest().map(|nearest| nearest.rows), Some(10));
        assert_eq!(names(&mut runaway, usage(0, 0, 15, 0)), ["a"]);
        let nearest = runaway.nearest().expect("rules");
        assert_eq!((nearest.rows, nearest.elapsed), (20, Nanos(u64::MAX)), "a acted");
        rules.remove("b");
        rules.set("c", RunawayScope::Tenant(TENANT), rows(12, RunawayAction::Log)).unwrap();
        runaway.renew(rules.of_tenant(TENANT));
        assert_eq!(names(&mut runaway, usage(0, 0, 30, 0)), ["c"], "a acted, b is gone");
        rules.set("a", RunawayScope::All, rows(10, RunawayAction::Cancel)).unwrap();
        runaway.renew(rules.of_tenant(TENANT));
        assert_eq!(names(&mut runaway, usage(0, 0, 30, 0)), ["a"], "set anew");
        runaway.renew(None);
        assert!(!runaway.is_watching() && runaway.nearest().is_none());
    }

    proptest! {
        /// Against looking at every rule each time: the same rules act at the same time, each once.
        #[test]
        fn rules_act_as_if_each_were_looked_at(
            of in prop::collection::vec((prop::option::of(1..50u64), prop::option::of(1..50u64), prop::option::of(1..50u64), prop::option::of(1..50u64)), 0..64),
            steps in prop::collection::vec((0..9u64, 0..9u64, 0..9u64, 0..9u64), 1..12),
        ) {
            let rules = RunawayRules::default();
            let mut known = Vec::new();
            for (n, (elapsed, cpu, rows, io)) in of.into_iter().enumerate() {
                let terms = RunawayTerms { elapsed: elapsed.map(Nanos), cpu: cpu.map(Nanos), rows, io, action: RunawayAction::Log };
                if rules.set(&n.to_string(), RunawayScope::All, terms).is_ok() {
                    known.push((n.to_string(), terms, false));
                }
            }
            let mut runaway = Runaway::new(rules.of_tenant(TENANT));
            let mut used = usage(0, 0, 0, 0);
            for (elapsed, cpu, rows, io) in steps {
                used = usage(used.elapsed.0 + elapsed, used.cpu.0 + cpu, used.rows + rows, used.io + io);
                let mut expected = Vec::new();
                for (name, terms, acted) in &mut known {
                    let over = terms.elapsed.is_some_and(|max| used.elapsed > max)
                        || terms.cpu.is_some_and(|max| used.cpu > max)
                        || terms.rows.is_some_and(|max| used.rows > max)
                        || terms.io.is_some_and(|max| used.io > max);
                    if over && !*acted {
                        *acted = true;
                        expected.push(name.clone());
                    }
                }
                prop_assert_eq!(names(&mut runaway, used), expected);
            }
        }
    }
}
