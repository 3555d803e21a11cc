//! CREATE SEQUENCE and ALTER SEQUENCE. Options may come in any order, of which `sqlparser` knows one.

use base::{SqlError, SqlResult};
use sqlparser::ast::DataType;

use super::tokens::Tokens;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SequenceOption {
    Increment(i64),
    /// `None` for NO MINVALUE.
    Min(Option<i64>),
    /// `None` for NO MAXVALUE.
    Max(Option<i64>),
    Start(i64),
    /// `None` for RESTART alone.
    Restart(Option<i64>),
    Cache(i64),
    Cycle(bool),
    /// Table and column; `None` for OWNED BY NONE.
    OwnedBy(Option<Vec<String>>),
}

/// `ALTER SEQUENCE name options`
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AlterSequence {
    pub name: Vec<String>,
    pub if_exists: bool,
    /// `AS type`
    pub ty: Option<DataType>,
    pub options: Vec<SequenceOption>,
}

/// `CREATE SEQUENCE name options`
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CreateSequence {
    pub name: Vec<String>,
    pub if_not_exists: bool,
    /// `AS type`
    pub ty: Option<DataType>,
    pub options: Vec<SequenceOption>,
}

pub(super) fn parse_create(tokens: &mut Tokens<'_>) -> SqlResult<Option<CreateSequence>> {
    let temporary = [&["CREATE", "TEMPORARY", "SEQUENCE"], &["CREATE", "TEMP", "SEQUENCE"]];
    if temporary.iter().any(|words| tokens.peek_words(*words)) {
        return Err(SqlError::unsupported("a temporary sequence"));
    }
    if !tokens.take_words(&["CREATE", "SEQUENCE"]) {
        return Ok(None);
    }
    let if_not_exists = tokens.take_words(&["IF", "NOT", "EXISTS"]);
    let name = tokens.object_name()?;
    let (ty, options) = type_and_options(tokens)?;
    Ok(Some(CreateSequence { name, if_not_exists, ty, options }))
}

pub(super) fn parse(tokens: &mut Tokens<'_>) -> SqlResult<Option<AlterSequence>> {
    if !tokens.peek_words(&["ALTER", "SEQUENCE"]) {
        return Ok(None);
    }
    // Renaming, moving and owning are read with those of other kinds (`utility`).
    if super::utility::is_alter_of_object(tokens) {
        return Ok(None);
    }
    tokens.take_words(&["ALTER", "SEQUENCE"]);
    let if_exists = tokens.take_if_exists();
    let name = tokens.object_name()?;
    let (ty, options) = type_and_options(tokens)?;
    Ok(Some(AlterSequence { name, if_exists, ty, options }))
}

fn type_and_options(tokens: &mut Tokens<'_>) -> SqlResult<(Option<DataType>, Vec<SequenceOption>)> {
    let (mut ty, mut options) = (None, Vec::new());
    while !tokens.at_end() {
        if tokens.take_word("AS") {
            ty = Some(tokens.data_type()?);
        } else {
            options.push(option(tokens)?);
        }
    }
    Ok((ty, options))
}

pub(super) fn option(tokens: &mut Tokens<'_>) -> SqlResult<SequenceOption> {
    use SequenceOption::{Cache, Cycle, Increment, Max, Min, OwnedBy, Restart, Start};
    if tokens.take_words(&["NO", "MINVALUE"]) {
        return Ok(Min(None));
    }
    if tokens.take_words(&["NO", "MAXVALUE"]) {
        return Ok(Max(None));
    }
    if tokens.take_words(&["NO", "CYCLE"]) {
        return Ok(Cycle(false));
    }
    if tokens.take_word("CYCLE") {
        return Ok(Cycle(true));
    }
    if tokens.take_word("INCREMENT") {
        tokens.take_word("BY");
        return Ok(Increment(tokens.integer()?));
    }
    if tokens.take_word("MINVALUE") {
        return Ok(Min(Some(tokens.integer()?)));
    }
    if tokens.take_word("MAXVALUE") {
        return Ok(Max(Some(tokens.integer()?)));
    }
    if tokens.take_word("START") {
        tokens.take_word("WITH");
        return Ok(Start(tokens.integer()?));
    }
    if tokens.take_word("RESTART") {
        if tokens.take_word("WITH") || tokens.peek_number() {
            return Ok(Restart(Some(tokens.integer()?)));
        }
        return Ok(Restart(None));
    }
    if tokens.take_word("CACHE") {
        return Ok(Cache(tokens.integer()?));
    }
    if tokens.take_words(&["OWNED", "BY"]) {
        if tokens.take_word("NONE") {
            return Ok(OwnedBy(None));
        }
        return Ok(OwnedBy(Some(tokens.object_name()?)));
    }
    Err(tokens.unexpected())
}
