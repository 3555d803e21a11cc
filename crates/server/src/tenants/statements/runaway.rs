//! CREATE, ALTER and DROP RUNAWAY RULE.

use std::sync::Arc;

use base::limits::IDENTIFIER_LEN_MAX;
use base::{SqlError, SqlResult, SqlState, TenantId};
use governor::{RunawayError, RunawayScope, RunawayTerms};
use sql::session::OptionChange;

use super::super::catalogue::{self, Named};
use super::super::claims::{Claim, Subject};
use super::super::runaway::StoredRule;
use super::server::apply;
use super::{existing, skipped};
use crate::shared::Shared;

/// A client's error for a rule that was refused: 42704 for an unknown option, 54000 for one rule too many, else 22023.
fn refused(error: &RunawayError) -> SqlError {
    let state = match error {
        RunawayError::UnknownKey { .. } => SqlState::UNDEFINED_OBJECT,
        RunawayError::TooMany { .. } => SqlState::PROGRAM_LIMIT_EXCEEDED,
        _ => SqlState::INVALID_PARAMETER_VALUE,
    };
    SqlError::new(state, error.to_string())
}

fn missing(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("runaway rule \"{name}\" does not exist"))
}

fn change_terms(terms: &mut RunawayTerms, change: &OptionChange) -> SqlResult<()> {
    apply(terms, change, RunawayTerms::set, RunawayTerms::reset).map_err(|error| refused(&error))?;
    terms.validate().map_err(|error| refused(&error))
}

pub(super) async fn create(
    shared: &Arc<Shared>,
    name: &str,
    tenant: Option<String>,
    options: Vec<(String, String)>,
    if_not_exists: bool,
) -> SqlResult<Vec<SqlError>> {
    let _claim = shared.claims.change(Subject::RunawayRules)?;
    if name.is_empty() || name.len() > IDENTIFIER_LEN_MAX {
        let message = format!("a runaway rule's name has 1 to {IDENTIFIER_LEN_MAX} bytes");
        return Err(SqlError::new(SqlState::INVALID_NAME, message));
    }
    if shared.runaways.get(name).is_some() {
        let exists =
            SqlError::new(SqlState::DUPLICATE_OBJECT, format!("runaway rule \"{name}\" already exists"));
        return if if_not_exists { Ok(vec![skipped(&exists)]) } else { Err(exists) };
    }
    // Until the rule is there the tenant is not dropped: that drops the rules about it.
    let (scope, _tenant_claim) = match tenant {
        Some(tenant) => {
            let claim = shared.claims.keep(Subject::Tenant(tenant.clone()))?;
            (RunawayScope::Tenant(existing(shared, &tenant)?.id), Some(claim))
        }
        None => (RunawayScope::All, None),
    };
    let mut terms = RunawayTerms::default();
    change_terms(&mut terms, &OptionChange::Set(options))?;
    let rule = shared.runaways.new_rule(scope, terms).map_err(|error| refused(&error))?;
    put_in_force(shared, name, &rule).await?;
    Ok(Vec::new())
}

pub(super) async fn alter(shared: &Arc<Shared>, name: &str, change: &OptionChange) -> SqlResult<()> {
    let _claim = shared.claims.change(Subject::RunawayRules)?;
    let mut rule = shared.runaways.get(name).ok_or_else(|| missing(name))?;
    change_terms(&mut rule.terms, change)?;
    put_in_force(shared, name, &rule).await
}

/// Remembers a rule, then has statements that run be judged by it. The caller has claimed the rules.
async fn put_in_force(shared: &Arc<Shared>, name: &str, rule: &StoredRule) -> SqlResult<()> {
    catalogue::set_named(shared, Named::RunawayRules, name, rule).await?;
    shared.runaways.set(name, rule).expect("checked, and the rules are claimed");
    let tenant = match rule.scope {
        RunawayScope::All => None,
        RunawayScope::Tenant(tenant) => Some(tenant),
    };
    shared.sessions.look_again(tenant);
    Ok(())
}

pub(super) async fn remove(shared: &Arc<Shared>, name: &str, if_exists: bool) -> SqlResult<Vec<SqlError>> {
    let _claim = shared.claims.change(Subject::RunawayRules)?;
    if shared.runaways.get(name).is_none() {
        let missing = missing(name);
        return if if_exists { Ok(vec![skipped(&missing)]) } else { Err(missing) };
    }
    catalogue::drop_named(shared, Named::RunawayRules, name).await?;
    shared.runaways.remove(name);
    Ok(Vec::new())
}

/// The rules about a tenant alone that is being dropped. While this lives nobody else changes any.
pub(super) struct RulesAbout<'a> {
    shared: &'a Arc<Shared>,
    names: Vec<Arc<str>>,
    _claim: Option<Claim<'a>>,
}

/// The caller has claimed the tenant.
///
/// # Errors
/// 55006 while rules are being changed.
pub(super) fn about(shared: &Arc<Shared>, tenant: TenantId) -> SqlResult<RulesAbout<'_>> {
    let has_any = !shared.runaways.about(tenant).is_empty();
    let _claim = has_any.then(|| shared.claims.change(Subject::RunawayRules)).transpose()?;
    Ok(RulesAbout { shared, names: shared.runaways.about(tenant), _claim })
}

impl RulesAbout<'_> {
    /// Drops them, once the tenant is gone for good. What cannot be dropped is at the next start.
    pub(super) async fn forget(self) {
        for name in &self.names {
            self.shared.runaways.remove(name);
            if let Err(error) = catalogue::drop_named(self.shared, Named::RunawayRules, name).await {
                tracing::error!(rule = &**name, %error, "a dropped tenant's runaway rule is dropped at the next start");
            }
        }
    }
}
