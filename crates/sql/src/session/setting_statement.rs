//! SET, SHOW, RESET, DISCARD, SET ROLE.

use base::{SqlError, SqlResult, SqlState};
use types::{Datum, PgType, TypeMod, quote_ident};

use super::reply::Field;
use super::run::{Ran, Run};
use super::setting::{Id, Lasting};
use super::{Home, Pause, Reply, Session};
use crate::parse::{DiscardWhat, SettingStatement, SettingValue};

/// A text column made by the session.
pub(super) fn text_field(name: &str) -> Field {
    Field { name: name.to_owned(), table_oid: 0, attribute: 0, ty: PgType::Text, modifier: TypeMod::NONE }
}

/// The columns a statement answers with.
pub(super) fn fields(statement: &SettingStatement) -> Vec<Field> {
    match statement {
        SettingStatement::Show(None) => ["name", "setting", "description"].map(text_field).to_vec(),
        SettingStatement::Show(Some(name)) => vec![text_field(name)],
        _ => Vec::new(),
    }
}

impl Session {
    pub(super) fn setting_statement(
        &mut self,
        home: &mut Home<'_>,
        statement: &SettingStatement,
        run: &Run<'_>,
        out: &mut dyn Reply,
    ) -> Result<Ran, Pause> {
        let tag = match statement {
            SettingStatement::Set { name, value, local } => {
                self.set(name, value, *local)?;
                "SET"
            }
            SettingStatement::Show(Some(name)) => {
                let (canonical, value) =
                    self.settings.borrow().show(name, self.start.host.statement_time_max())?;
                let row = vec![Datum::text(value)];
                self.send_rows(home, &[text_field(&canonical)], &[row], run, out)?;
                "SHOW"
            }
            SettingStatement::Show(None) => {
                let all = self.settings.borrow().all(self.start.host.statement_time_max());
                let rows: Vec<_> = all
                    .into_iter()
                    .map(|(name, value, about)| {
                        vec![Datum::text(name), Datum::text(value), Datum::text(about)]
                    })
                    .collect();
                self.send_rows(home, &fields(statement), &rows, run, out)?;
                "SHOW"
            }
            SettingStatement::Reset(Some(name)) => {
                self.settings.borrow_mut().set(name, None, Lasting::Session)?;
                "RESET"
            }
            SettingStatement::Reset(None) => {
                self.settings.borrow_mut().reset_all();
                "RESET"
            }
            SettingStatement::Discard(what) => {
                self.discard(home, *what)?;
                if *what == DiscardWhat::All { "DISCARD ALL" } else { discard_tag(*what) }
            }
            SettingStatement::SetRole { role, local: _ } => {
                self.set_role(home, role.as_deref())?;
                "SET"
            }
            SettingStatement::SetSessionAuthorization { role, local: _ } => {
                self.set_session_authorization(home, role.as_deref())?;
                "SET"
            }
            // Nothing is deferrable, so every constraint already is what IMMEDIATE asks for.
            SettingStatement::SetConstraints => "SET CONSTRAINTS",
        };
        Ok(Ran::Tag(tag.into()))
    }

    fn set(&mut self, name: &str, value: &SettingValue, local: bool) -> SqlResult<()> {
        let lasting = if local { Lasting::Transaction } else { Lasting::Session };
        let text = match value {
            SettingValue::Default => None,
            SettingValue::Values(values) if name == "search_path" => {
                // Each name quoted, so that it reads back as it was given.
                Some(values.iter().map(|value| quote_ident(value)).collect::<Vec<_>>().join(", "))
            }
            SettingValue::Values(values) => Some(values.join(", ")),
        };
        match name {
            "transaction_isolation" | "transaction_read_only" => {
                let message = format!("use SET TRANSACTION to change \"{name}\"");
                Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
            }
            _ => self.settings.borrow_mut().set(name, text.as_deref(), lasting),
        }
    }

    fn discard(&mut self, home: &mut Home<'_>, what: DiscardWhat) -> Result<(), Pause> {
        match what {
            DiscardWhat::All => {
                if self.transaction.is_block() {
                    let message = "DISCARD ALL cannot run inside a transaction block";
                    return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message).into());
                }
                self.portals.clear();
                self.statements.clear();
                self.settings.borrow_mut().reset_all();
                home.tenant.end_session(self.start.id);
                self.sequences.borrow_mut().clear();
                self.set_role(home, None)?;
            }
            DiscardWhat::Plans => self.statements.values_mut().for_each(|statement| statement.plan = None),
            DiscardWhat::Sequences => self.sequences.borrow_mut().clear(),
            // There are no temporary tables.
            DiscardWhat::Temp => {}
        }
        Ok(())
    }

    /// Told to the client where the role's standing shows.
    pub(super) fn note_superuser(&mut self, superuser: bool) {
        self.settings.borrow_mut().set_by_server(Id::is_superuser, if superuser { "on" } else { "off" });
    }
}

fn discard_tag(what: DiscardWhat) -> &'static str {
    match what {
        DiscardWhat::All => "DISCARD ALL",
        DiscardWhat::Plans => "DISCARD PLANS",
        DiscardWhat::Sequences => "DISCARD SEQUENCES",
        DiscardWhat::Temp => "DISCARD TEMP",
    }
}
