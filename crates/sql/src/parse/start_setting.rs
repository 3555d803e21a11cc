//! Settings that sessions start with: `ALTER ROLE … SET`, `ALTER DATABASE … SET`, and RESET of them.

use base::{SqlError, SqlResult};

use super::setting::{self, SettingValue};
use super::tokens::Tokens;

/// Whose sessions start with a setting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SessionsOf {
    Role(String),
    /// `ALTER ROLE ALL`.
    EveryRole,
    Database(String),
    RoleInDatabase {
        role: String,
        database: String,
    },
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SettingChange {
    /// DEFAULT takes it back.
    Set(String, SettingValue),
    /// `SET name FROM CURRENT`.
    FromCurrent(String),
    Reset(String),
    ResetAll,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StartSetting {
    pub of: SessionsOf,
    pub change: SettingChange,
}

pub(super) fn parse(tokens: &mut Tokens<'_>) -> SqlResult<Option<StartSetting>> {
    let of = |tokens: &mut Tokens<'_>| -> SqlResult<Option<SessionsOf>> {
        if tokens.take_words(&["ALTER", "DATABASE"]) {
            return tokens.name().map(|name| Some(SessionsOf::Database(name)));
        }
        if !tokens.take_words(&["ALTER", "ROLE"]) && !tokens.take_words(&["ALTER", "USER"]) {
            return Ok(None);
        }
        let role = if tokens.take_word("ALL") { None } else { Some(tokens.name()?) };
        let database = if tokens.take_words(&["IN", "DATABASE"]) { Some(tokens.name()?) } else { None };
        Ok(Some(match (role, database) {
            (None, None) => SessionsOf::EveryRole,
            (None, Some(database)) => SessionsOf::Database(database),
            (Some(role), None) => SessionsOf::Role(role),
            (Some(role), Some(database)) => SessionsOf::RoleInDatabase { role, database },
        }))
    };
    let mut ahead = tokens.ahead();
    if of(&mut ahead).ok().flatten().is_none() {
        return Ok(None);
    }
    let is_set = ahead.peek_words(&["SET"]) && !ahead.peek_words(&["SET", "TABLESPACE"]);
    if !is_set && !ahead.peek_words(&["RESET"]) {
        return Ok(None);
    }
    let Some(of) = of(tokens)? else { return Err(tokens.unexpected()) };
    Ok(Some(StartSetting { of, change: change(tokens)? }))
}

fn change(tokens: &mut Tokens<'_>) -> SqlResult<SettingChange> {
    if tokens.take_word("RESET") {
        return Ok(setting::show_name(tokens)?.map_or(SettingChange::ResetAll, SettingChange::Reset));
    }
    tokens.expect_word("SET")?;
    let mut ahead = tokens.ahead();
    if let Ok(Some(_)) = setting::show_name(&mut ahead)
        && ahead.peek_words(&["FROM", "CURRENT"])
    {
        let name = setting::show_name(tokens)?.ok_or_else(|| tokens.unexpected())?;
        tokens.take_words(&["FROM", "CURRENT"]);
        return Ok(SettingChange::FromCurrent(name));
    }
    if tokens.peek_words(&["TRANSACTION"]) {
        return Err(SqlError::unsupported("SET TRANSACTION for sessions that start"));
    }
    let (name, value) = setting::assignment(tokens)?;
    Ok(SettingChange::Set(name, value))
}
