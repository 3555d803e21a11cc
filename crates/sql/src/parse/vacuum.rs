//! VACUUM and ANALYZE: their options, of which ANALYZE alone does anything here, and the tables they are about.

use base::{SqlError, SqlResult, SqlState};
use sqlparser::tokenizer::Token;

use super::options::{boolean, value_if_any};
use super::tokens::Tokens;
use super::utility::Utility;

/// A table with those of its columns that are named; all if none are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableColumns {
    pub table: Vec<String>,
    pub columns: Vec<String>,
}

/// As in PostgreSQL.
const WORKERS_MAX: i64 = 1024;

pub(super) fn parse(tokens: &mut Tokens<'_>) -> SqlResult<Option<Utility>> {
    if tokens.take_word("VACUUM") {
        return vacuum(tokens).map(Some);
    }
    if !take_analyze(tokens) {
        return Ok(None);
    }
    if *tokens.peek() == Token::LParen {
        options(tokens, |name, value| match name {
            "verbose" | "skip_locked" => boolean(name, value).map(drop),
            _ => Err(unrecognized("ANALYZE", name)),
        })?;
    } else {
        tokens.take_word("VERBOSE");
    }
    Ok(Some(Utility::Analyze { tables: tables(tokens)? }))
}

fn take_analyze(tokens: &mut Tokens<'_>) -> bool {
    tokens.take_word("ANALYZE") || tokens.take_word("ANALYSE")
}

fn vacuum(tokens: &mut Tokens<'_>) -> SqlResult<Utility> {
    let (mut full, mut analyze) = (false, false);
    let (mut parallel, mut all_pages, mut toast) = (false, false, true);
    if *tokens.peek() == Token::LParen {
        options(tokens, |name, value| {
            match name {
                "full" => full = boolean(name, value)?,
                "analyze" => analyze = boolean(name, value)?,
                "disable_page_skipping" => all_pages = boolean(name, value)?,
                "process_toast" => toast = boolean(name, value)?,
                "parallel" => parallel = workers(value)? > 0,
                "freeze" | "verbose" | "skip_locked" | "truncate" => drop(boolean(name, value)?),
                "index_cleanup" if value.is_some_and(|value| value.eq_ignore_ascii_case("auto")) => {}
                "index_cleanup" => drop(boolean(name, value)?),
                _ => return Err(unrecognized("VACUUM", name)),
            }
            Ok(())
        })?;
    } else {
        full = tokens.take_word("FULL");
        tokens.take_word("FREEZE");
        tokens.take_word("VERBOSE");
        analyze = take_analyze(tokens);
    }
    let tables = tables(tokens)?;
    let of_columns = !analyze && tables.iter().any(|table| !table.columns.is_empty());
    for (is_refused, message) in [
        (full && parallel, "VACUUM FULL cannot be performed in parallel"),
        (of_columns, "ANALYZE option must be specified when a column list is provided"),
        (full && all_pages, "VACUUM option DISABLE_PAGE_SKIPPING cannot be used with FULL"),
        (full && !toast, "PROCESS_TOAST required with VACUUM FULL"),
    ] {
        if is_refused {
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
    }
    Ok(Utility::Vacuum { tables, analyze })
}

/// `(option [value], …)`, each given to `take`.
fn options(
    tokens: &mut Tokens<'_>,
    mut take: impl FnMut(&str, Option<&str>) -> SqlResult<()>,
) -> SqlResult<()> {
    tokens.expect(&Token::LParen)?;
    loop {
        let name = tokens.name()?;
        let name = if name == "analyse" { "analyze" } else { &name };
        take(name, value_if_any(tokens)?.as_deref())?;
        if !tokens.take(&Token::Comma) {
            return tokens.expect(&Token::RParen);
        }
    }
}

fn unrecognized(command: &str, option: &str) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, format!("unrecognized {command} option \"{option}\""))
}

fn workers(value: Option<&str>) -> SqlResult<i64> {
    let message = match value.map(str::parse) {
        None => format!("parallel option requires a value between 0 and {WORKERS_MAX}"),
        Some(Err(_)) => "parallel requires an integer value".to_owned(),
        Some(Ok(workers)) if (0..=WORKERS_MAX).contains(&workers) => return Ok(workers),
        Some(Ok(_)) => format!("parallel workers for vacuum must be between 0 and {WORKERS_MAX}"),
    };
    Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
}

/// `[table [(column, …)] [, …]]`
fn tables(tokens: &mut Tokens<'_>) -> SqlResult<Vec<TableColumns>> {
    let mut tables = Vec::new();
    if tokens.at_end() {
        return Ok(tables);
    }
    loop {
        let table = tokens.object_name()?;
        let mut columns = Vec::new();
        if tokens.take(&Token::LParen) {
            columns = tokens.names()?;
            tokens.expect(&Token::RParen)?;
        }
        tables.push(TableColumns { table, columns });
        if !tokens.take(&Token::Comma) {
            return Ok(tables);
        }
    }
}
