//! Operations of ALTER TABLE that tune what is not here, as dumps have them: one of them, standing alone.

use base::{SqlError, SqlResult, SqlState};

use super::altered::{self, AlteredTable};
use super::tokens::Tokens;

/// `ALTER TABLE table …` without an effect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tuning {
    pub table: AlteredTable,
    pub of: Tuned,
}

/// What such an operation names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Tuned {
    /// `SET WITHOUT CLUSTER`; `REPLICA IDENTITY` of no index.
    Table,
    /// `CLUSTER ON index`, `REPLICA IDENTITY USING INDEX index`.
    Index(String),
    /// `SET STATISTICS` and `SET COMPRESSION`; `SET STORAGE` where `is_moved`, which is any but PLAIN.
    Column { name: String, is_moved: bool },
}

/// # Errors
/// 42601; 22023 for a value that PostgreSQL does not know.
pub(super) fn parse(tokens: &mut Tokens<'_>) -> SqlResult<Option<Tuning>> {
    let mut ahead = tokens.ahead();
    let Some(table) = altered::take_table(&mut ahead) else { return Ok(None) };
    let Some(of) = operation(&mut ahead)? else { return Ok(None) };
    if !altered::stands_alone(&ahead)? {
        return Ok(None);
    }
    tokens.take_rest();
    Ok(Some(Tuning { table, of }))
}

fn operation(tokens: &mut Tokens<'_>) -> SqlResult<Option<Tuned>> {
    if tokens.take_words(&["CLUSTER", "ON"]) {
        return Ok(Some(Tuned::Index(tokens.name()?)));
    }
    if tokens.take_words(&["SET", "WITHOUT", "CLUSTER"]) {
        return Ok(Some(Tuned::Table));
    }
    if tokens.take_words(&["REPLICA", "IDENTITY"]) {
        if tokens.take_words(&["USING", "INDEX"]) {
            return Ok(Some(Tuned::Index(tokens.name()?)));
        }
        let is_said = ["DEFAULT", "FULL", "NOTHING"].iter().any(|word| tokens.take_word(word));
        return if is_said { Ok(Some(Tuned::Table)) } else { Err(tokens.unexpected()) };
    }
    let Some(name) = altered::take_column(tokens) else { return Ok(None) };
    let is_moved = if tokens.take_words(&["SET", "STATISTICS"]) {
        let target = tokens.integer()?;
        if target < -1 {
            return Err(invalid(format!("statistics target {target} is too low")));
        }
        false
    } else if tokens.take_words(&["SET", "STORAGE"]) {
        one_of(tokens, "storage type", &["plain", "external", "extended", "main"])? != "plain"
    } else if tokens.take_words(&["SET", "COMPRESSION"]) {
        one_of(tokens, "compression method", &["pglz", "lz4", "default"])?;
        false
    } else {
        return Ok(None);
    };
    Ok(Some(Tuned::Column { name, is_moved }))
}

fn one_of(tokens: &mut Tokens<'_>, what: &str, known: &[&str]) -> SqlResult<String> {
    let name = tokens.name()?;
    if known.contains(&name.as_str()) {
        return Ok(name);
    }
    Err(invalid(format!("invalid {what} \"{name}\"")))
}

fn invalid(message: String) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}
