//! Which of a session's statements its work is counted for.
//!
//! A session's task works for one statement after the other: what it takes from the end of one to the end of the next (reading the message, parsing,
//! binding, the run, the commit, the answer) is the next one's. Nothing is read between a statement's calls: at its end the totals of the task
//! ([`SessionHost::taken`]) are held against those of the end before. A statement that has ended is counted once its answer may be sent, so that
//! the commit by a Sync, and the wait for it to be durable, are its own; or when another one begins before that.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use base::Nanos;

use super::script::ClockRead;
use super::statement_counts::{StatementCounts, StatementTook, Taken};
use super::{Session, SessionHost};

/// The text of a prepared statement, with what is counted of it.
#[derive(Debug)]
pub struct StatementText {
    sql: Box<str>,
    /// Found at its first run; `None` if nothing is counted here.
    counts: OnceLock<Option<Arc<StatementCounts>>>,
}

impl StatementText {
    pub fn new(sql: &str) -> Arc<StatementText> {
        Arc::new(StatementText { sql: sql.into(), counts: OnceLock::new() })
    }

    /// Asks for its counts from memory at once.
    pub(super) fn prefetch_counts(&self) {
        if let Some(Some(counts)) = self.counts.get() {
            base::prefetch_value(&**counts);
        }
    }
}

impl Deref for StatementText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.sql
    }
}

/// How a statement ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    Rows(u64),
    Failed,
    /// Another part of its rows was given out; it was counted before.
    Part,
}

impl Outcome {
    /// As the command tag says it.
    pub(super) fn of_tag(tag: &str) -> Outcome {
        if tag.ends_with(" 1") {
            return Outcome::Rows(1);
        }
        Outcome::Rows(tag.rsplit(' ').next().and_then(|rows| rows.parse().ok()).unwrap_or(0))
    }
}

/// Whose the work of the session is.
#[derive(Debug, Default)]
pub(super) struct Counting {
    /// Of the statement that runs or ended last; `None` if nothing is counted.
    counts: Option<Arc<StatementCounts>>,
    runs: bool,
    /// How the statement ended that is to be counted.
    ended: Option<Outcome>,
    /// What the task had taken when the statement before was counted.
    counted: Taken,
    /// Since when the work is that of the statement that runs, or comes next.
    since: Nanos,
    /// When it began, in microseconds since 2000-01-01 UTC.
    at: i64,
}

impl Counting {
    /// A session begins, having taken so much.
    pub(super) fn begun(taken: Taken, now: Nanos) -> Counting {
        Counting { counted: taken, since: now, ..Counting::default() }
    }

    /// Messages came: the wait for them was nobody's.
    fn received(&mut self, now: Nanos) {
        if !self.runs && self.ended.is_none() {
            self.since = now;
        }
    }

    fn begin(&mut self, counts: Option<&Arc<StatementCounts>>, at: i64) {
        debug_assert!(!self.runs && self.ended.is_none(), "the statement before was counted");
        let is_known = match (&self.counts, counts) {
            (Some(known), Some(counts)) => Arc::ptr_eq(known, counts),
            (None, None) => true,
            _ => false,
        };
        if !is_known {
            self.counts = counts.cloned();
        }
        (self.runs, self.at) = (true, at);
    }

    fn end(&mut self, outcome: Outcome) {
        if std::mem::take(&mut self.runs) {
            self.ended = Some(outcome);
        }
    }

    /// The statement that ended took what was taken since the one before. `again` finds the counts of a text anew.
    fn count(
        &mut self,
        taken: Taken,
        now: Nanos,
        again: impl FnOnce(&Arc<StatementCounts>) -> Arc<StatementCounts>,
    ) {
        let Some(outcome) = self.ended.take() else { return };
        let own = taken - std::mem::replace(&mut self.counted, taken);
        let time = now - std::mem::replace(&mut self.since, now);
        let Some(counts) = &mut self.counts else { return };
        if counts.is_dropped() {
            *counts = again(counts);
        }
        let (rows, failed) = match outcome {
            Outcome::Rows(rows) => (rows, false),
            Outcome::Failed => (0, true),
            Outcome::Part => return counts.add_taken(own),
        };
        counts.add(&StatementTook { taken: own, rows, time, failed, at: self.at });
    }
}

impl Session {
    /// A statement begins, unless it runs already and was called again. `now`: the time, where the caller has just read it.
    pub(super) fn count_prepared(&mut self, text: &StatementText, now: Option<Nanos>) {
        if self.counting.runs {
            return;
        }
        self.count_ended_now(now);
        let host = &self.start.host;
        let counts = text.counts.get_or_init(|| host.statement_counts(text)).as_ref();
        match counts {
            Some(dropped) if dropped.is_dropped() => {
                let counts = host.statement_counts_again(dropped);
                self.counting.begin(Some(&counts), self.statement_start);
            }
            counts => self.counting.begin(counts, self.statement_start),
        }
    }

    /// As [`Session::count_prepared`] for a statement that runs once.
    pub(super) fn count_text(&mut self, sql: &str) {
        if !self.counting.runs {
            self.count_ended_now(None);
            let counts = self.start.host.statement_counts(sql);
            self.counting.begin(counts.as_ref(), self.statement_start);
        }
    }

    /// The statement that runs has ended, if one does.
    pub(super) fn count_end(&mut self, outcome: Outcome) {
        self.counting.end(outcome);
    }

    fn count_ended_now(&mut self, now: Option<Nanos>) {
        if self.has_ended_statement() {
            let now = now.unwrap_or_else(|| self.start.host.now());
            self.count_ended(now);
        }
    }

    /// Whether a statement has ended that is not counted yet.
    #[inline]
    pub fn has_ended_statement(&self) -> bool {
        self.counting.ended.is_some()
    }

    /// Counts the statement that ended last, if it is not: its answer may be sent.
    pub fn count_ended(&mut self, now: Nanos) {
        let host: &dyn SessionHost = &*self.start.host;
        self.counting.count(host.taken(), now, |counts| host.statement_counts_again(counts));
    }

    /// Messages came, at `now`, for which the session had waited.
    #[inline]
    pub fn received(&mut self, now: Nanos) {
        self.clock_read = ClockRead::Due;
        self.counting.received(now);
    }

    /// What is counted of the statement that runs, for what it takes on other threads.
    pub fn running_counts(&self) -> Option<&Arc<StatementCounts>> {
        self.counting.counts.as_ref().filter(|_| self.counting.runs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Command;

    fn taken(cpu: u64, ios: u64) -> Taken {
        Taken { cpu: Nanos(cpu), ios }
    }

    fn count(counting: &mut Counting, cpu: u64, ios: u64, now: u64) {
        counting.count(taken(cpu, ios), Nanos(now), |_| unreachable!("nothing was dropped"));
    }

    #[test]
    fn work_is_the_next_statements_from_the_end_of_the_one_before() {
        let (first, second) = (Arc::new(StatementCounts::new("a")), Arc::new(StatementCounts::new("b")));
        let mut counting = Counting::begun(taken(100, 1), Nanos(1000));
        counting.received(Nanos(2000));
        counting.begin(Some(&first), 5);
        counting.received(Nanos(2100));
        counting.end(Outcome::Rows(3));
        counting.end(Outcome::Failed);
        count(&mut counting, 160, 4, 2300);
        count(&mut counting, 170, 9, 2400);
        let figures = first.figures();
        assert_eq!((figures.calls, figures.errors, figures.rows), (1, 0, 3), "the first end is the end");
        assert_eq!((figures.taken, figures.time), (taken(60, 3), Nanos(300)));
        assert_eq!((figures.first_seen, figures.last_seen), (5, 5));
        counting.received(Nanos(5000));
        counting.begin(Some(&second), 6);
        counting.end(Outcome::Failed);
        count(&mut counting, 200, 9, 5010);
        let figures = second.figures();
        assert_eq!((figures.calls, figures.errors, figures.rows), (1, 1, 0));
        assert_eq!((figures.taken, figures.time), (taken(40, 5), Nanos(10)));
    }

    #[test]
    fn a_part_of_the_rows_takes_and_is_no_call() {
        let counts = Arc::new(StatementCounts::new("a"));
        let mut counting = Counting::default();
        for outcome in [Outcome::Rows(9), Outcome::Part, Outcome::Part] {
            counting.begin(Some(&counts), 0);
            counting.end(outcome);
            let cpu = counting.counted.cpu.0 + 7;
            count(&mut counting, cpu, 0, 0);
        }
        let figures = counts.figures();
        assert_eq!((figures.calls, figures.rows, figures.taken.cpu), (1, 9, Nanos(21)));
    }

    #[test]
    fn counts_that_were_dropped_are_asked_for_again() {
        let (old, new) = (Arc::new(StatementCounts::new("a")), Arc::new(StatementCounts::new("a")));
        let mut counting = Counting::default();
        counting.begin(Some(&old), 0);
        counting.end(Outcome::Rows(0));
        old.set_dropped(true);
        counting.count(taken(5, 0), Nanos(1), |dropped| {
            assert!(Arc::ptr_eq(dropped, &old));
            new.clone()
        });
        assert_eq!((old.figures().calls, new.figures().calls), (0, 1));
    }

    #[test]
    fn rows_are_what_the_tag_says() {
        for (tag, rows) in
            [("SELECT 5", 5), ("INSERT 0 7", 7), ("COPY 3", 3), ("BEGIN", 0), ("CREATE TABLE", 0)]
        {
            assert_eq!(Outcome::of_tag(tag), Outcome::Rows(rows), "{tag}");
        }
        for (command, word) in [(Command::Select, "SELECT"), (Command::Insert, "INSERT 0")] {
            for rows in [0, 1, 2, 11, 101] {
                assert_eq!(command.tag(rows), format!("{word} {rows}"));
                assert_eq!(Outcome::of_tag(&command.tag(rows)), Outcome::Rows(rows));
            }
        }
    }
}
