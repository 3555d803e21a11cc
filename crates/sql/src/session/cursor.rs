//! DECLARE, FETCH, MOVE, CLOSE. A cursor's rows are gathered at its DECLARE, so it shows that moment whatever happens after,
//! as PostgreSQL's do; they are kept until it is closed, in a temporary file where they are many.

use std::sync::Arc;

use base::{SqlError, SqlState};

use super::counting::StatementText;
use super::kept_rows::{Giving, KeptRows};
use super::prepared::{Portal, PortalRows};
use super::reply::{Field, Format, Formats};
use super::run::{Ran, Run};
use super::{Home, Pause, Reply, RowStore, Session};
use crate::parse::{CursorStatement, FetchDirection, ParsedStatement};

impl Session {
    pub(super) fn cursor_statement(
        &mut self,
        home: &mut Home<'_>,
        statement: &CursorStatement,
        run: &Run<'_>,
        out: &mut dyn Reply,
    ) -> Result<Ran, Pause> {
        let tag = match statement {
            CursorStatement::Declare { name, statement, sql, size, binary, scroll, hold } => {
                let (fields, rows) = self.declared_rows(home, name, *hold, run)?;
                let kept = name.len() + size + rows.in_memory();
                self.require_room_to_keep(kept)?;
                let portal = Portal {
                    sql: StatementText::new(sql),
                    statement: Some(Arc::new(ParsedStatement::Ast(statement.clone()))),
                    plan: None,
                    parameters: Default::default(),
                    formats: if *binary { Formats::all(Format::Binary) } else { Formats::default() },
                    rows: PortalRows::Kept(KeptRows { fields, rows, position: 0, tag_word: "FETCH" }),
                    hold: *hold,
                    cursor: true,
                    scroll: *scroll != Some(false),
                    number: 0,
                    kept,
                };
                self.portals.insert(name, portal);
                "DECLARE CURSOR".to_owned()
            }
            CursorStatement::Close(None) => {
                self.portals.retain(|portal| !portal.cursor);
                "CLOSE CURSOR ALL".to_owned()
            }
            CursorStatement::Close(Some(name)) => {
                self.portals.take(name).ok_or_else(|| no_cursor(name))?;
                "CLOSE CURSOR".to_owned()
            }
            CursorStatement::Fetch { name, direction, only_move } => {
                let count = self.fetch(home, name, *direction, *only_move, run, out)?;
                format!("{} {count}", if *only_move { "MOVE" } else { "FETCH" })
            }
        };
        Ok(Ran::Tag(tag.into()))
    }

    /// The rows of the cursor `name` that is being declared.
    fn declared_rows(
        &mut self,
        home: &mut Home<'_>,
        name: &str,
        hold: bool,
        run: &Run<'_>,
    ) -> Result<(Arc<[Field]>, RowStore), Pause> {
        if !hold && !self.in_larger_transaction(run) {
            let message = "DECLARE CURSOR can only be used in transaction blocks";
            return Err(SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, message).into());
        }
        if self.portals.contains(name) {
            let message = format!("cursor \"{name}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_CURSOR, message).into());
        }
        let planned = run.planned.expect("a DECLARE is planned as its query is");
        let (fields, rows, _) = self.keep_rows(home, planned, run.parameters)?;
        Ok((fields, rows))
    }

    /// The columns of a FETCH.
    pub(super) fn fetch_fields(&self, statement: &CursorStatement) -> Arc<[Field]> {
        match statement {
            CursorStatement::Fetch { name, only_move: false, .. } => {
                match self.portals.get(name).map(|p| &p.rows) {
                    Some(PortalRows::Kept(kept)) => Arc::clone(&kept.fields),
                    _ => Arc::default(),
                }
            }
            _ => Arc::default(),
        }
    }

    fn fetch(
        &mut self,
        home: &Home<'_>,
        name: &str,
        direction: FetchDirection,
        only_move: bool,
        run: &Run<'_>,
        out: &mut dyn Reply,
    ) -> Result<usize, Pause> {
        let context = self.format_for(home);
        let portal = self.portals.get_mut(name).ok_or_else(|| no_cursor(name))?;
        let scroll = portal.scroll;
        let PortalRows::Kept(kept) = &mut portal.rows else { return Err(no_cursor(name).into()) };
        // A Bind says what its client is to be told; a simple Query of a binary cursor has binary rows.
        let formats = if run.describe && portal.cursor { &portal.formats } else { run.formats };
        let mut giving = match self.giving.take() {
            Some(giving) => giving,
            None => {
                let walk = walk(kept.position, kept.rows.len(), direction);
                if !scroll && goes_back(kept.position, kept.rows.len(), direction, only_move) {
                    return Err(SqlError::new(
                        SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                        "cursor can only scan forward",
                    )
                    .with_hint("Declare it with SCROLL option to enable backward scan.")
                    .into());
                }
                formats.require_columns(kept.fields.len())?;
                kept.position = walk.position;
                if only_move {
                    return Ok(walk.count);
                }
                if run.describe {
                    out.row_description(&kept.fields, formats);
                }
                Giving::new(walk.first, walk.count, walk.backward)
            }
        };
        if let Err(pause) = kept.give(&mut giving, &mut self.loaded_rows, formats, &context, out) {
            self.giving = Some(giving);
            return Err(pause);
        }
        Ok(giving.count)
    }
}

/// Where a FETCH goes: so many rows from one (counted from 0) on or back, and the position it leaves.
#[derive(Debug, PartialEq)]
struct Walk {
    first: usize,
    count: usize,
    position: usize,
    backward: bool,
}

/// Positions: 0 before the first of `count` rows, `count + 1` behind the last.
fn walk(position: usize, count: usize, direction: FetchDirection) -> Walk {
    let (at, end) = (position as i128, count as i128 + 1);
    let single = |target: i128, backward: bool| {
        let target = target.clamp(0, end);
        let is_row = target > 0 && target < end;
        let first = if is_row { target as usize - 1 } else { 0 };
        Walk { first, count: usize::from(is_row), position: target as usize, backward }
    };
    match direction {
        FetchDirection::Absolute(n) => {
            let target = if n < 0 { end + i128::from(n) } else { i128::from(n) };
            single(target, target < at)
        }
        FetchDirection::Relative(n) => single(at + i128::from(n), n < 0),
        // Zero fetches the current row again.
        FetchDirection::Forward(Some(0)) | FetchDirection::Backward(Some(0)) => single(at, false),
        FetchDirection::Forward(Some(n)) if n < 0 => backward(at, n.checked_neg()),
        FetchDirection::Backward(Some(n)) if n < 0 => forward(at, end, n.checked_neg()),
        FetchDirection::Forward(n) => forward(at, end, n),
        FetchDirection::Backward(n) => backward(at, n),
    }
}

/// Whether a FETCH, or a MOVE if it `only_move`s, takes a cursor that can be read from the end on. As in PostgreSQL that is so of one that shows again what it
/// has shown, and of one that counts from the last row.
fn goes_back(position: usize, count: usize, direction: FetchDirection, only_move: bool) -> bool {
    match direction {
        FetchDirection::Absolute(n) => n < 0 || position > 0 && i128::from(n) <= position as i128,
        FetchDirection::Relative(0)
        | FetchDirection::Forward(Some(0))
        | FetchDirection::Backward(Some(0)) => !only_move && (1..=count).contains(&position),
        FetchDirection::Relative(n) => n < 0,
        FetchDirection::Forward(n) => n.is_some_and(|n| n < 0),
        FetchDirection::Backward(n) => n.is_none_or(|n| n > 0),
    }
}

fn forward(at: i128, end: i128, count: Option<i64>) -> Walk {
    let last = count.map_or(end, |count| (at + i128::from(count)).min(end));
    let count = (last.min(end - 1) - at).max(0) as usize;
    Walk { first: at as usize, count, position: last as usize, backward: false }
}

fn backward(at: i128, count: Option<i64>) -> Walk {
    let last = count.map_or(0, |count| (at - i128::from(count)).max(0));
    let count = (at - last.max(1)).max(0) as usize;
    Walk { first: (at - 2).max(0) as usize, count, position: last as usize, backward: true }
}

fn no_cursor(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_CURSOR_NAME, format!("cursor \"{name}\" does not exist"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::testing::Bench;

    #[test]
    fn what_was_shown_is_shown_again_by_cursors_that_scroll() {
        use FetchDirection::{Absolute, Backward, Forward, Relative};
        let back = |position, direction| goes_back(position, 3, direction, false);
        for direction in [Forward(Some(0)), Backward(Some(0)), Relative(0)] {
            assert_eq!([0, 1, 3, 4].map(|position| back(position, direction)), [false, true, true, false]);
            assert!(!goes_back(2, 3, direction, true));
        }
        for direction in
            [Absolute(2), Absolute(0), Absolute(-1), Relative(-1), Forward(Some(-1)), Backward(None)]
        {
            assert!(back(2, direction), "{direction:?}");
        }
        for direction in [Absolute(3), Relative(1), Forward(None), Forward(Some(9)), Backward(Some(-1))] {
            assert!(!back(2, direction), "{direction:?}");
        }
        assert_eq!(
            [Absolute(0), Absolute(1), Absolute(-1)].map(|direction| back(0, direction)),
            [false, false, true]
        );
    }

    #[test]
    fn a_cursor_without_scroll_shows_nothing_again() {
        for statement in ["FETCH 0 FROM c", "FETCH ABSOLUTE 1 FROM c", "FETCH LAST FROM c"] {
            let mut bench = Bench::new();
            let mut session = bench.session();
            bench.run(&mut session, "CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1), (2)");
            bench.run(&mut session, "BEGIN; DECLARE c NO SCROLL CURSOR FOR SELECT a FROM t ORDER BY a");
            assert_eq!(bench.run(&mut session, "FETCH 1 FROM c").lines(), ["1"]);
            let state = bench.fail(&mut session, statement).state();
            assert_eq!(state, SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "{statement}");
        }
    }

    #[test]
    fn a_cursor_walks_both_ways_and_stops_at_its_ends() {
        use FetchDirection::{Absolute, Backward, Forward, Relative};
        let go = |position, direction| {
            let Walk { first, count, position, backward } = walk(position, 3, direction);
            let rows: Vec<usize> = match backward {
                true => (0..=first).rev().take(count).collect(),
                false => (first..first + count).collect(),
            };
            (rows, position)
        };
        assert_eq!(go(0, Forward(Some(2))), (vec![0, 1], 2));
        assert_eq!(go(2, Forward(None)), (vec![2], 4));
        assert_eq!(go(4, Backward(Some(1))), (vec![2], 3));
        assert_eq!(go(4, Backward(None)), (vec![2, 1, 0], 0));
        assert_eq!(go(1, Absolute(-1)), (vec![2], 3));
        assert_eq!(go(1, Absolute(9)), (vec![], 4));
        assert_eq!(go(2, Relative(-1)), (vec![0], 1));
        assert_eq!(go(2, Forward(Some(0))), (vec![1], 2));
        assert_eq!(go(2, Forward(Some(-1))), (vec![0], 1));
        assert_eq!(go(0, Forward(Some(9))), (vec![0, 1, 2], 4));
    }
}
