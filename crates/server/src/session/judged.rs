//! One statement as the runaway rules see it: what it took so far, and what they said of it.

use std::sync::Arc;

use base::Nanos;
use governor::{Runaway, RunawayVerdict, StatementUsage, TenantRules};
use sql::session::Underway;

use crate::analytic_pool::QueryMeter;

/// Of the statement of a session that runs, or ran last.
#[derive(Default)]
pub(super) struct Judged {
    /// Which statement it is.
    serial: u64,
    runaway: Runaway,
    rules: Option<Arc<TenantRules>>,
    /// Which version of the rules these are.
    pub(super) version: u64,
    /// Processor time of turns and queries that have ended.
    cpu: Nanos,
    /// I/Os that its session's task waited for, of turns that have ended, and of queries that have.
    io: u64,
    /// Rows of queries that have ended.
    query_rows: u64,
    /// The turn it is in: when it began, and how many I/Os had blocked the worker by then.
    turn: Option<(Nanos, u64)>,
    query: Option<QueryMeter>,
    /// When it was last looked at.
    pub(super) looked: Nanos,
    /// What ended it.
    ended_by: Option<RunawayVerdict>,
}

impl Judged {
    /// Other rules are in force.
    pub(super) fn set_rules(&mut self, rules: Option<Arc<TenantRules>>, version: u64) {
        self.version = version;
        self.rules.clone_from(&rules);
        self.runaway.renew(rules);
    }

    /// Goes over to another statement, if this is one. What its session's present turn took before is not its own.
    pub(super) fn turn_to(&mut self, statement: &Underway) {
        if self.serial == statement.serial {
            return;
        }
        *self = Judged {
            serial: statement.serial,
            runaway: Runaway::new(self.rules.clone()),
            rules: self.rules.take(),
            version: self.version,
            turn: self.turn,
            looked: statement.began,
            ..Judged::default()
        };
    }

    pub(super) fn begin_turn(&mut self, now: Nanos, blocking_ios: u64) {
        self.turn = Some((now, blocking_ios));
    }

    /// The turn ends, and with it what of it the statement under way took; `None` if none is.
    pub(super) fn end_turn(&mut self, statement: Option<&Underway>, now: Nanos, blocking_ios: u64) {
        let Some(turn) = self.turn else { return };
        if let Some(statement) = statement {
            self.turn_to(statement);
            let (cpu, io) = of_turn(turn, statement, now, blocking_ios);
            self.cpu += cpu;
            self.io += io;
        }
        self.turn = None;
    }

    /// The statement waits for so many I/Os.
    pub(super) fn add_ios(&mut self, ios: u64) {
        self.io += ios;
    }

    pub(super) fn begin_query(&mut self, meter: QueryMeter) {
        self.query = Some(meter);
    }

    pub(super) fn end_query(&mut self) {
        if let Some(meter) = self.query.take() {
            let taken = meter.taken();
            self.cpu += taken.cpu;
            self.io += taken.io;
            self.query_rows += taken.rows;
        }
    }

    /// Whether what it took may grow while its session waits.
    pub(super) fn has_query(&self) -> bool {
        self.query.is_some()
    }

    fn usage(&self, statement: &Underway, now: Nanos, blocking_ios: u64) -> StatementUsage {
        let (turn_cpu, turn_io) =
            self.turn.map_or_else(Default::default, |turn| of_turn(turn, statement, now, blocking_ios));
        let query = self.query.as_ref().map(QueryMeter::taken).unwrap_or_default();
        StatementUsage {
            elapsed: now - statement.began,
            cpu: self.cpu + turn_cpu + query.cpu,
            // A query that outgrew the point path reads on an analytical thread what it has read already.
            rows: statement.rows.max(self.query_rows + query.rows),
            io: self.io + turn_io + query.io,
        }
    }

    /// What the rules say of it now, each rule once.
    pub(super) fn judge(
        &mut self,
        statement: &Underway,
        now: Nanos,
        blocking_ios: u64,
    ) -> Option<RunawayVerdict> {
        self.looked = now;
        if !self.runaway.is_watching() {
            return None;
        }
        let usage = self.usage(statement, now, blocking_ios);
        self.runaway.judge(&usage)
    }

    /// The smallest thresholds that no rule has acted by.
    pub(super) fn nearest(&self) -> Option<StatementUsage> {
        self.runaway.nearest()
    }

    pub(super) fn end_by(&mut self, verdict: RunawayVerdict) {
        self.ended_by = Some(verdict);
    }

    /// What ended it: it is to be told so whoever asks, although a rule acts once.
    pub(super) fn ended_by(&self) -> Option<&RunawayVerdict> {
        self.ended_by.as_ref()
    }
}

/// Processor time and blocking I/Os of a statement in the turn it is in.
fn of_turn(turn: (Nanos, u64), statement: &Underway, now: Nanos, blocking_ios: u64) -> (Nanos, u64) {
    let (began, ios) = turn;
    (now - began.max(statement.began), blocking_ios.saturating_sub(ios))
}

#[cfg(test)]
mod tests {
    use base::TenantId;
    use governor::{RunawayMeasure, RunawayRules, RunawayScope, RunawayTerms};

    use super::*;

    fn statement(serial: u64, began: u64) -> Underway {
        Underway { serial, began: Nanos(began), timeout: None, rows: 0 }
    }

    /// Judged by rules with these thresholds.
    fn judged(terms: &[RunawayTerms]) -> Judged {
        let (rules, mut judged) = (RunawayRules::default(), Judged::default());
        for (n, terms) in terms.iter().enumerate() {
            rules.set(&n.to_string(), RunawayScope::All, *terms).unwrap();
        }
        judged.set_rules(rules.of_tenant(TenantId(20)), 1);
        judged
    }

    fn measured(
        judged: &mut Judged,
        statement: &Underway,
        now: u64,
        ios: u64,
    ) -> Option<(RunawayMeasure, u64)> {
        judged.judge(statement, Nanos(now), ios).map(|verdict| (verdict.measure, verdict.used))
    }

    #[test]
    fn a_statement_has_the_time_and_the_reads_of_its_own_turns() {
        let cpu = RunawayTerms { cpu: Some(Nanos(100)), ..RunawayTerms::default() };
        let io = RunawayTerms { io: Some(10), ..RunawayTerms::default() };
        let mut judged = judged(&[cpu, io]);
        // The turn begins with another statement's end.
        let first = statement(1, 1050);
        judged.begin_turn(Nanos(1000), 500);
        judged.turn_to(&first);
        assert_eq!(measured(&mut judged, &first, 1150, 500), None);
        judged.end_turn(Some(&first), Nanos(1150), 505);
        // It waits, and takes nothing meanwhile but what it waits for.
        judged.add_ios(5);
        assert_eq!(measured(&mut judged, &first, 9000, 900), None);
        judged.begin_turn(Nanos(9000), 900);
        assert_eq!(measured(&mut judged, &first, 9001, 900), Some((RunawayMeasure::Cpu, 101)));
        assert_eq!(measured(&mut judged, &first, 9001, 901), Some((RunawayMeasure::Io, 11)));
        assert_eq!(measured(&mut judged, &first, 9900, 999), None, "each rule once");
        judged.end_turn(Some(&first), Nanos(9900), 999);
        // The next one has taken nothing.
        let second = statement(2, 9950);
        judged.turn_to(&second);
        assert_eq!(measured(&mut judged, &second, 9960, 2000), None);
        assert_eq!(judged.nearest().map(|nearest| nearest.cpu), Some(Nanos(100)), "its rules are there");
    }

    #[test]
    fn a_turn_in_which_nothing_is_left_to_judge_adds_nothing() {
        let cpu = RunawayTerms { cpu: Some(Nanos(100)), ..RunawayTerms::default() };
        let mut judged = judged(&[cpu]);
        judged.begin_turn(Nanos(0), 0);
        judged.end_turn(None, Nanos(5000), 0);
        let next = statement(1, 5000);
        judged.turn_to(&next);
        assert_eq!(measured(&mut judged, &next, 5001, 0), None);
        // Nor does one whose beginning was not noted, since there were no rules by then.
        judged.end_turn(Some(&next), Nanos(9000), 0);
        assert_eq!(measured(&mut judged, &next, 9000, 0), None);
    }

    #[test]
    fn what_ended_a_statement_is_told_again_and_does_not_end_the_next() {
        let rows = RunawayTerms { rows: Some(1), ..RunawayTerms::default() };
        let mut judged = judged(&[rows]);
        let first = Underway { rows: 2, ..statement(1, 0) };
        judged.turn_to(&first);
        let verdict = judged.judge(&first, Nanos(1), 0).expect("more than a row");
        judged.end_by(verdict.clone());
        judged.turn_to(&first);
        assert_eq!(judged.ended_by(), Some(&verdict));
        judged.turn_to(&statement(2, 5));
        assert_eq!(judged.ended_by(), None);
    }
}
