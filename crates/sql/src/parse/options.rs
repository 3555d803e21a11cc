//! `(option = value, …)` of tenants, sizes, the server and volumes, and values of the options that PostgreSQL's statements have.

use base::{SqlError, SqlResult, SqlState};
use sqlparser::tokenizer::Token;

use super::tokens::Tokens;

/// What ALTER does to an object's options. Names are in lower case unless quoted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionChange {
    /// `SET (option = value, …)`
    Set(Vec<(String, String)>),
    /// `RESET (option, …)`
    Reset(Vec<String>),
}

/// `(option = value, …)`, each option once.
pub(super) fn options(tokens: &mut Tokens<'_>) -> SqlResult<Vec<(String, String)>> {
    tokens.expect(&Token::LParen)?;
    let mut options: Vec<(String, String)> = Vec::new();
    loop {
        let name = tokens.name()?;
        check_new(&name, options.iter().map(|(name, _)| name))?;
        tokens.expect(&Token::Eq)?;
        options.push((name, option_value(tokens)?));
        if !tokens.take(&Token::Comma) {
            break;
        }
    }
    tokens.expect(&Token::RParen)?;
    Ok(options)
}

/// `SET (option = value, …)` or `RESET (option, …)`.
pub(super) fn change(tokens: &mut Tokens<'_>) -> SqlResult<OptionChange> {
    if tokens.take_word("RESET") {
        tokens.expect(&Token::LParen)?;
        let mut names = Vec::new();
        for name in tokens.names()? {
            check_new(&name, names.iter())?;
            names.push(name);
        }
        tokens.expect(&Token::RParen)?;
        return Ok(OptionChange::Reset(names));
    }
    tokens.expect_word("SET")?;
    options(tokens).map(OptionChange::Set)
}

/// As PostgreSQL for options of its statements.
pub(super) fn check_new<'a>(name: &str, mut before: impl Iterator<Item = &'a String>) -> SqlResult<()> {
    if before.any(|other| other.eq_ignore_ascii_case(name)) {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "conflicting or redundant options")
            .with_detail(format!("The option \"{name}\" is given twice.")));
    }
    Ok(())
}

/// The value behind the name of an option, if there is one.
pub(super) fn value_if_any(tokens: &mut Tokens<'_>) -> SqlResult<Option<String>> {
    if matches!(tokens.peek(), Token::Comma | Token::RParen) {
        return Ok(None);
    }
    option_value(tokens).map(Some)
}

/// Whether an option of PostgreSQL's is on: it is without a value.
///
/// # Errors
/// 42601 for another value.
pub(crate) fn boolean(option: &str, value: Option<&str>) -> SqlResult<bool> {
    match value.map(str::to_lowercase).as_deref() {
        None | Some("true" | "on" | "1") => Ok(true),
        Some("false" | "off" | "0") => Ok(false),
        Some(_) => Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("{option} requires a Boolean value"))),
    }
}

fn option_value(tokens: &mut Tokens<'_>) -> SqlResult<String> {
    let sign = if tokens.take(&Token::Minus) { "-" } else { "" };
    match tokens.peek() {
        Token::Number(digits, _) => {
            let value = format!("{sign}{digits}");
            tokens.next();
            Ok(value)
        }
        _ if !sign.is_empty() => Err(tokens.unexpected()),
        Token::Word(_) => tokens.name(),
        _ => tokens.string(),
    }
}
