//! SET, SHOW, RESET, DISCARD.

use base::SqlResult;
use sqlparser::tokenizer::Token;

use super::tokens::Tokens;
use super::transaction::{TransactionModes, some_modes};

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SettingValue {
    Default,
    /// One value, or a list such as a search path.
    Values(Vec<String>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiscardWhat {
    All,
    Plans,
    Sequences,
    Temp,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SettingStatement {
    Set {
        name: String,
        value: SettingValue,
        local: bool,
    },
    /// `None` for SHOW ALL.
    Show(Option<String>),
    /// `None` for RESET ALL.
    Reset(Option<String>),
    Discard(DiscardWhat),
    /// `SET SESSION CHARACTERISTICS`: the modes of the session's next transactions.
    Characteristics(TransactionModes),
    /// `SET CONSTRAINTS`; `None` for ALL.
    Constraints {
        names: Option<Vec<Vec<String>>>,
        deferred: bool,
    },
}

pub(super) fn parse(tokens: &mut Tokens<'_>) -> SqlResult<Option<SettingStatement>> {
    if tokens.take_word("SET") {
        return set(tokens).map(Some);
    }
    if tokens.take_word("SHOW") {
        return show_name(tokens).map(|name| Some(SettingStatement::Show(name)));
    }
    if tokens.take_word("RESET") {
        return show_name(tokens).map(|name| Some(SettingStatement::Reset(name)));
    }
    if tokens.take_word("DISCARD") {
        let what = if tokens.take_word("ALL") {
            DiscardWhat::All
        } else if tokens.take_word("PLANS") {
            DiscardWhat::Plans
        } else if tokens.take_word("SEQUENCES") {
            DiscardWhat::Sequences
        } else if tokens.take_word("TEMP") || tokens.take_word("TEMPORARY") {
            DiscardWhat::Temp
        } else {
            return Err(tokens.unexpected());
        };
        return Ok(Some(SettingStatement::Discard(what)));
    }
    Ok(None)
}

fn set(tokens: &mut Tokens<'_>) -> SqlResult<SettingStatement> {
    if tokens.take_word("CONSTRAINTS") {
        return constraints(tokens);
    }
    if tokens.take_words(&["SESSION", "CHARACTERISTICS", "AS", "TRANSACTION"]) {
        return some_modes(tokens).map(SettingStatement::Characteristics);
    }
    let local = tokens.take_word("LOCAL");
    if !local && !tokens.peek_words(&["SESSION", "AUTHORIZATION"]) {
        tokens.take_word("SESSION");
    }
    let (name, value) = assignment(tokens)?;
    Ok(SettingStatement::Set { name, value, local })
}

/// What stands behind SET, LOCAL and SESSION: a setting and its value.
pub(super) fn assignment(tokens: &mut Tokens<'_>) -> SqlResult<(String, SettingValue)> {
    if tokens.take_words(&["SESSION", "AUTHORIZATION"]) {
        let value = if tokens.take_word("DEFAULT") { SettingValue::Default } else { role(tokens)? };
        return Ok(("session_authorization".into(), value));
    }
    if tokens.take_word("ROLE") {
        let is_assigned = tokens.take(&Token::Eq) || tokens.take_word("TO");
        let value = if is_assigned { value(tokens)? } else { role(tokens)? };
        return Ok(("role".into(), value));
    }
    if tokens.take_words(&["TIME", "ZONE"]) {
        let value = if tokens.take_word("LOCAL") { SettingValue::Default } else { value(tokens)? };
        if matches!(&value, SettingValue::Values(values) if values.len() > 1) {
            return Err(tokens.unexpected());
        }
        return Ok(("timezone".into(), value));
    }
    if tokens.take_word("NAMES") {
        return Ok(("client_encoding".into(), value(tokens)?));
    }
    if tokens.take_words(&["XML", "OPTION"]) {
        let value = SettingValue::Values(vec![tokens.name()?]);
        return Ok(("xmloption".into(), value));
    }
    if tokens.take_word("SCHEMA") {
        let value = SettingValue::Values(vec![tokens.string()?]);
        return Ok(("search_path".into(), value));
    }
    let name = setting_name(tokens)?;
    if !tokens.take(&Token::Eq) {
        tokens.expect_word("TO")?;
    }
    Ok((name, value(tokens)?))
}

/// A role's name, which may stand in quotes of either kind.
fn role(tokens: &mut Tokens<'_>) -> SqlResult<SettingValue> {
    if tokens.peek_words(&["DEFAULT"]) {
        return Err(tokens.unexpected());
    }
    let name = if matches!(tokens.peek(), Token::Word(_)) { tokens.name()? } else { tokens.string()? };
    Ok(SettingValue::Values(vec![name]))
}

fn constraints(tokens: &mut Tokens<'_>) -> SqlResult<SettingStatement> {
    let names = if tokens.take_word("ALL") { None } else { Some(tokens.object_names()?) };
    let deferred = tokens.take_word("DEFERRED");
    if !deferred {
        tokens.expect_word("IMMEDIATE")?;
    }
    Ok(SettingStatement::Constraints { names, deferred })
}

fn setting_name(tokens: &mut Tokens<'_>) -> SqlResult<String> {
    Ok(tokens.object_name()?.join(".").to_lowercase())
}

/// A setting's name; `None` for ALL.
pub(super) fn show_name(tokens: &mut Tokens<'_>) -> SqlResult<Option<String>> {
    if tokens.take_word("ALL") {
        return Ok(None);
    }
    if tokens.take_words(&["TIME", "ZONE"]) {
        return Ok(Some("timezone".into()));
    }
    if tokens.take_words(&["TRANSACTION", "ISOLATION", "LEVEL"]) {
        return Ok(Some("transaction_isolation".into()));
    }
    if tokens.take_words(&["SESSION", "AUTHORIZATION"]) {
        return Ok(Some("session_authorization".into()));
    }
    setting_name(tokens).map(Some)
}

fn value(tokens: &mut Tokens<'_>) -> SqlResult<SettingValue> {
    if tokens.take_word("DEFAULT") {
        return Ok(SettingValue::Default);
    }
    let mut values = vec![single_value(tokens)?];
    while tokens.take(&Token::Comma) {
        values.push(single_value(tokens)?);
    }
    Ok(SettingValue::Values(values))
}

fn single_value(tokens: &mut Tokens<'_>) -> SqlResult<String> {
    match tokens.peek() {
        Token::Number(digits, _) => {
            let digits = digits.clone();
            tokens.next();
            Ok(digits)
        }
        Token::Minus => {
            tokens.next();
            match tokens.peek() {
                Token::Number(..) => Ok(format!("-{}", single_value(tokens)?)),
                _ => Err(tokens.unexpected()),
            }
        }
        Token::Word(_) if tokens.take_word("INTERVAL") => interval(tokens),
        Token::Word(_) => tokens.name(),
        _ => tokens.string(),
    }
}

/// The rest of a time zone's `INTERVAL '…' HOUR TO MINUTE`, as the text that the setting takes.
fn interval(tokens: &mut Tokens<'_>) -> SqlResult<String> {
    let text = tokens.string()?.replace('\'', "");
    let hours = tokens.take_word("HOUR");
    if hours && tokens.take_word("TO") {
        tokens.expect_word("MINUTE")?;
        return Ok(format!("INTERVAL '{text}'"));
    }
    let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'-' || b == b'+');
    Ok(if hours && is_number { format!("INTERVAL '{text} hour'") } else { format!("INTERVAL '{text}'") })
}
