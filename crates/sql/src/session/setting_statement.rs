//! SET, SHOW, RESET, DISCARD, SET CONSTRAINTS.

use base::{SqlError, SqlResult, SqlState};
use types::{Datum, PgType, TypeMod, quote_ident};

use super::reply::Field;
use super::run::{Ran, Run};
use super::setting::{Id, Lasting, on_or_off};
use super::{Home, Pause, Reply, Session};
use crate::ddl;
use crate::parse::{DiscardWhat, IsolationLevel, SettingStatement, SettingValue, TransactionModes};

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
                let lasting = if *local { Lasting::Transaction } else { Lasting::Session };
                if *local {
                    self.warn_outside_block("SET LOCAL", run, out);
                }
                if let SettingValue::Values(values) = value
                    && let Some(modes) = modes_of(name, &values.join(", "))?
                {
                    self.set_transaction(modes)?;
                    return Ok(Ran::Tag("SET".into()));
                }
                self.set(home, name, text_of(name, value).as_deref(), lasting)?;
                self.keep(0)?;
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
                self.set(home, name, None, Lasting::Session)?;
                "RESET"
            }
            SettingStatement::Reset(None) => {
                self.settings.borrow_mut().reset_all()?;
                "RESET"
            }
            SettingStatement::Discard(what) => {
                self.discard(home, *what, run)?;
                if *what == DiscardWhat::All { "DISCARD ALL" } else { discard_tag(*what) }
            }
            SettingStatement::Characteristics(modes) => {
                self.set_characteristics(home, *modes)?;
                "SET"
            }
            SettingStatement::Constraints { names, deferred } => {
                self.warn_outside_block("SET CONSTRAINTS", run, out);
                ddl::set_constraints(self, home, names.as_deref(), *deferred)?;
                "SET CONSTRAINTS"
            }
        };
        Ok(Ran::Tag(tag.into()))
    }

    fn set(&self, home: &Home<'_>, name: &str, value: Option<&str>, lasting: Lasting) -> SqlResult<()> {
        let catalog = self.peek_catalog(home);
        super::role::set(catalog, &mut self.settings.borrow_mut(), name, value, lasting)
    }

    fn set_characteristics(&self, home: &Home<'_>, modes: TransactionModes) -> SqlResult<()> {
        for (name, value) in [
            ("default_transaction_isolation", modes.isolation.map(|level| level.as_str())),
            ("default_transaction_read_only", modes.read_only.map(on_or_off)),
            ("default_transaction_deferrable", modes.deferrable.map(on_or_off)),
        ] {
            if value.is_some() {
                self.set(home, name, value, Lasting::Session)?;
            }
        }
        Ok(())
    }

    fn discard(&mut self, home: &mut Home<'_>, what: DiscardWhat, run: &Run<'_>) -> Result<(), Pause> {
        match what {
            DiscardWhat::All => {
                if self.in_larger_transaction(run) {
                    let message = "DISCARD ALL cannot run inside a transaction block";
                    return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message).into());
                }
                self.portals.clear();
                self.statements.clear();
                self.set(home, "session_authorization", None, Lasting::Session)?;
                self.settings.borrow_mut().reset_all()?;
                home.tenant.end_session(self.start.id);
                self.sequences.borrow_mut().clear();
            }
            DiscardWhat::Plans => self.statements.forget_plans(),
            DiscardWhat::Sequences => self.sequences.borrow_mut().clear(),
            // There are no temporary tables.
            DiscardWhat::Temp => {}
        }
        Ok(())
    }
}

/// What a setting of the transaction alone says of it; `None` for the others.
///
/// # Errors
/// 22023.
fn modes_of(name: &str, value: &str) -> SqlResult<Option<TransactionModes>> {
    let mut modes = TransactionModes::default();
    let is_named = |id: Id| id.name().eq_ignore_ascii_case(name);
    if is_named(Id::transaction_isolation) {
        modes.isolation = IsolationLevel::from_name(&Id::transaction_isolation.checked(value)?);
    } else if is_named(Id::transaction_read_only) {
        modes.read_only = Some(Id::transaction_read_only.checked(value)? == "on");
    } else if is_named(Id::transaction_deferrable) {
        modes.deferrable = Some(Id::transaction_deferrable.checked(value)? == "on");
    } else {
        return Ok(None);
    }
    Ok(Some(modes))
}

/// A setting's value as one text; `None` for DEFAULT.
pub(super) fn text_of(name: &str, value: &SettingValue) -> Option<String> {
    match value {
        SettingValue::Default => None,
        SettingValue::Values(values) if name == "search_path" => {
            // Each name quoted, so that it reads back as it was given.
            Some(values.iter().map(|value| quote_ident(value)).collect::<Vec<_>>().join(", "))
        }
        SettingValue::Values(values) => Some(values.join(", ")),
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
