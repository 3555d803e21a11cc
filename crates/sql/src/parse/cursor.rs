//! DECLARE, FETCH, MOVE, CLOSE.

use base::{SqlError, SqlResult, SqlState};
use sqlparser::ast;

use super::tokens::Tokens;
use super::{changes_rows, is_change};

/// How FETCH or MOVE goes; counts may be negative, which turns the direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FetchDirection {
    /// `None` for all.
    Forward(Option<i64>),
    /// `None` for all.
    Backward(Option<i64>),
    Absolute(i64),
    Relative(i64),
}

#[derive(Clone, Debug)]
pub enum CursorStatement {
    Declare {
        name: String,
        /// A query.
        statement: Box<ast::Statement>,
        sql: String,
        /// What the query takes in memory, by estimate.
        size: usize,
        binary: bool,
        scroll: Option<bool>,
        hold: bool,
    },
    Fetch {
        name: String,
        direction: FetchDirection,
        only_move: bool,
    },
    /// `None` for ALL.
    Close(Option<String>),
}

pub(super) fn parse(tokens: &mut Tokens<'_>) -> SqlResult<Option<CursorStatement>> {
    if tokens.take_word("DECLARE") {
        return declare(tokens).map(Some);
    }
    if tokens.take_word("CLOSE") {
        let name = if tokens.take_word("ALL") { None } else { Some(tokens.identifier()?) };
        return Ok(Some(CursorStatement::Close(name)));
    }
    let only_move = tokens.peek_words(&["MOVE"]);
    if tokens.take_word("FETCH") || tokens.take_word("MOVE") {
        let direction = direction(tokens)?;
        if !tokens.take_word("FROM") {
            tokens.take_word("IN");
        }
        return Ok(Some(CursorStatement::Fetch { name: tokens.identifier()?, direction, only_move }));
    }
    Ok(None)
}

fn declare(tokens: &mut Tokens<'_>) -> SqlResult<CursorStatement> {
    let name = tokens.identifier()?;
    let (mut binary, mut scroll) = (false, None);
    loop {
        if tokens.take_word("BINARY") {
            binary = true;
        } else if tokens.take_words(&["NO", "SCROLL"]) {
            scroll = Some(false);
        } else if tokens.take_word("SCROLL") {
            scroll = Some(true);
        } else if tokens.take_word("INSENSITIVE") || tokens.take_word("ASENSITIVE") {
            // Every cursor shows the state at its DECLARE, as PostgreSQL's do.
        } else {
            break;
        }
    }
    tokens.expect_word("CURSOR")?;
    let hold = if tokens.take_words(&["WITH", "HOLD"]) {
        true
    } else {
        tokens.take_words(&["WITHOUT", "HOLD"]);
        false
    };
    tokens.expect_word("FOR")?;
    let (sql, size) = (tokens.rest_text().1.to_owned(), tokens.rest_size());
    let query = Box::new(tokens.query()?);
    if changes_rows(&query) || is_change(&query) {
        let message = "DECLARE CURSOR must not contain data-modifying statements in WITH";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    if !query.locks.is_empty() {
        return Err(SqlError::unsupported("a cursor with FOR UPDATE or FOR SHARE"));
    }
    let statement = Box::new(ast::Statement::Query(query));
    Ok(CursorStatement::Declare { name, statement, sql, size, binary, scroll, hold })
}

fn direction(tokens: &mut Tokens<'_>) -> SqlResult<FetchDirection> {
    use FetchDirection::{Absolute, Backward, Forward, Relative};
    let direction = if tokens.take_word("NEXT") {
        Forward(Some(1))
    } else if tokens.take_word("PRIOR") {
        Backward(Some(1))
    } else if tokens.take_word("FIRST") {
        Absolute(1)
    } else if tokens.take_word("LAST") {
        Absolute(-1)
    } else if tokens.take_word("ABSOLUTE") {
        Absolute(tokens.integer()?)
    } else if tokens.take_word("RELATIVE") {
        Relative(tokens.integer()?)
    } else if tokens.take_word("ALL") {
        Forward(None)
    } else if tokens.take_word("FORWARD") {
        Forward(count(tokens)?)
    } else if tokens.take_word("BACKWARD") {
        Backward(count(tokens)?)
    } else if tokens.peek_number() {
        Forward(Some(tokens.integer()?))
    } else {
        Forward(Some(1))
    };
    Ok(direction)
}

fn count(tokens: &mut Tokens<'_>) -> SqlResult<Option<i64>> {
    if tokens.take_word("ALL") {
        return Ok(None);
    }
    if tokens.peek_number() { tokens.integer().map(Some) } else { Ok(Some(1)) }
}
