//! Prometheus' text format, version 0.0.4.

use std::fmt::Write as _;

use base::Nanos;

/// What is told at one scrape. Families are written one after the other, each with its HELP and TYPE.
#[derive(Default)]
pub(crate) struct Exposition(String);

/// What a family's values are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Never falls while the server runs, but for a tenant that is dropped. Its name ends in `_total`.
    Counter,
    Gauge,
}

/// A series' labels, as written.
#[derive(Clone, Default, Debug)]
pub(super) struct Labels(String);

impl Labels {
    /// One more. `value` may hold anything, as tenants' names do.
    pub(super) fn with(mut self, name: &str, value: &str) -> Labels {
        let comma = if self.0.is_empty() { "" } else { "," };
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let _ = write!(self.0, "{comma}{name}=\"{value}\"");
        self
    }

    fn braced(&self) -> String {
        if self.0.is_empty() { String::new() } else { format!("{{{}}}", self.0) }
    }
}

/// Counts by upper bound, those beyond the last one at the end, and the sum of what was counted.
pub(crate) struct Distribution<'a> {
    pub(crate) bounds: &'a [Nanos],
    pub(crate) counts: &'a [u64],
    pub(crate) sum: Nanos,
}

impl Exposition {
    pub(crate) fn into_text(self) -> String {
        self.0
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// A family; without series nothing is written.
    pub(super) fn family(
        &mut self,
        name: &str,
        kind: Kind,
        help: &str,
        series: impl IntoIterator<Item = (Labels, f64)>,
    ) {
        assert_eq!(name.ends_with("_total"), kind == Kind::Counter, "{name}");
        let mut series = series.into_iter().peekable();
        if series.peek().is_none() {
            return;
        }
        self.head(name, if kind == Kind::Counter { "counter" } else { "gauge" }, help);
        for (labels, value) in series {
            let _ = writeln!(self.0, "{name}{} {value}", labels.braced());
        }
    }

    /// A family of one series without labels.
    pub(super) fn one(&mut self, name: &str, kind: Kind, help: &str, value: f64) {
        self.family(name, kind, help, [(Labels::default(), value)]);
    }

    /// A family of histograms of times; its name ends in `_seconds`.
    pub(super) fn histograms<'a>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (Labels, Distribution<'a>)>,
    ) {
        assert!(name.ends_with("_seconds"), "{name}");
        self.head(name, "histogram", help);
        for (labels, of) in series {
            assert_eq!(of.counts.len(), of.bounds.len() + 1, "{name}");
            let mut count = 0;
            for (i, more) in of.counts.iter().enumerate() {
                count += more;
                let bound =
                    of.bounds.get(i).map_or("+Inf".to_owned(), |bound| bound.as_secs_f64().to_string());
                let within = labels.clone().with("le", &bound);
                let _ = writeln!(self.0, "{name}_bucket{} {count}", within.braced());
            }
            let (labels, sum) = (labels.braced(), of.sum.as_secs_f64());
            let _ = writeln!(self.0, "{name}_sum{labels} {sum}\n{name}_count{labels} {count}");
        }
    }

    /// A histogram without labels.
    pub(crate) fn histogram(&mut self, name: &str, help: &str, of: Distribution<'_>) {
        self.histograms(name, help, [(Labels::default(), of)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_have_help_type_and_series() {
        let mut out = Exposition::default();
        let named = |name: &str| Labels::default().with("tenant", name).with("wait", "lock");
        out.family("x_total", Kind::Counter, "Things.", [(named("a\"b\\c\nd"), 1.5), (named("e"), 7.0)]);
        out.one("y", Kind::Gauge, "Now.", 0.0);
        out.family("none_total", Kind::Counter, "Nothing.", []);
        let expected = "# HELP x_total Things.\n# TYPE x_total counter\n\
             x_total{tenant=\"a\\\"b\\\\c\\nd\",wait=\"lock\"} 1.5\nx_total{tenant=\"e\",wait=\"lock\"} 7\n\
             # HELP y Now.\n# TYPE y gauge\ny 0\n";
        assert_eq!(out.into_text(), expected);
    }

    #[test]
    fn a_histogram_counts_up_to_each_bound() {
        let mut out = Exposition::default();
        let bounds = [Nanos::from_millis(1), Nanos::from_secs(1)];
        let of = Distribution { bounds: &bounds, counts: &[2, 0, 1], sum: Nanos::from_millis(2500) };
        out.histograms("t_seconds", "Times.", [(Labels::default().with("tenant", "a"), of)]);
        let expected = "# HELP t_seconds Times.\n# TYPE t_seconds histogram\n\
             t_seconds_bucket{tenant=\"a\",le=\"0.001\"} 2\nt_seconds_bucket{tenant=\"a\",le=\"1\"} 2\n\
             t_seconds_bucket{tenant=\"a\",le=\"+Inf\"} 3\nt_seconds_sum{tenant=\"a\"} 2.5\nt_seconds_count{tenant=\"a\"} 3\n";
        assert_eq!(out.into_text(), expected);
    }

    #[test]
    #[should_panic(expected = "y_seconds")]
    fn a_counters_name_says_so() {
        Exposition::default().one("y_seconds", Kind::Counter, "Since ever.", 0.0);
    }
}
