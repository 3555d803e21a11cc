//! Statements that run away: rules by elapsed time, processor time, rows read and I/O, and what is done about it.
//!
//! A rule ([`RunawayTerms`]) has thresholds and an action, a name, and a scope: all tenants or one. It acts on a statement that exceeds any of its thresholds, once. The server keeps
//! the rules ([`RunawayRules`]); a statement is judged by those of its tenant ([`Runaway`]), and by nothing and at no cost if there are none. What an action is, the caller
//! knows: a line in the server's log, [`crate::CpuScheduler::set_background`] for this statement, or its end with 57014.

mod judge;
mod terms;

use std::sync::{Arc, Mutex, MutexGuard};

use base::TenantId;

pub use judge::{Runaway, RunawayMeasure, RunawayVerdict, StatementUsage};
pub use terms::{RunawayAction, RunawayError, RunawayKey, RunawayTerms};

/// Whose statements a rule is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunawayScope {
    All,
    Tenant(TenantId),
}

impl RunawayScope {
    fn has(self, tenant: TenantId) -> bool {
        match self {
            RunawayScope::All => true,
            RunawayScope::Tenant(scope) => scope == tenant,
        }
    }
}

/// A rule in force.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunawayRule {
    pub name: Arc<str>,
    pub scope: RunawayScope,
    pub terms: RunawayTerms,
    /// Another one each time that the rule is set: then it acts anew.
    serial: u64,
}

/// The rules that a tenant's statements are judged by, in the order they were made. Never empty; never changes.
#[derive(Debug)]
pub struct TenantRules {
    rules: Vec<RunawayRule>,
}

/// All rules of a server. Read at the beginning of a statement, which takes a short lock only where a tenant has rules.
#[derive(Default)]
pub struct RunawayRules {
    rules: Mutex<Rules>,
}

#[derive(Default)]
struct Rules {
    /// In the order they were made.
    all: Vec<RunawayRule>,
    serial: u64,
}

impl RunawayRules {
    /// Rules of a server at most: a statement remembers in one word which of them acted.
    pub const RULES_MAX: usize = 64;

    fn lock(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock().expect("no panic under the rules' lock")
    }

    /// Makes a rule, or changes the one of that name, which stays where it is in the order. Statements that run are judged by it once they
    /// [`Runaway::renew`]. Nothing changes on error.
    pub fn set(&self, name: &str, scope: RunawayScope, terms: RunawayTerms) -> Result<(), RunawayError> {
        terms.validate()?;
        let mut rules = self.lock();
        let at = rules.all.iter().position(|rule| &*rule.name == name);
        if at.is_none() && rules.all.len() == Self::RULES_MAX {
            return Err(RunawayError::TooMany { max: Self::RULES_MAX });
        }
        rules.serial += 1;
        let rule = RunawayRule { name: name.into(), scope, terms, serial: rules.serial };
        match at {
            Some(at) => rules.all[at] = rule,
            None => rules.all.push(rule),
        }
        Ok(())
    }

    /// Drops the rule of that name; whether there was one.
    pub fn remove(&self, name: &str) -> bool {
        let mut rules = self.lock();
        let before = rules.all.len();
        rules.all.retain(|rule| &*rule.name != name);
        rules.all.len() < before
    }

    /// Drops the rules about this tenant alone: it was dropped.
    pub fn forget(&self, tenant: TenantId) {
        self.lock().all.retain(|rule| rule.scope != RunawayScope::Tenant(tenant));
    }

    /// One of them.
    pub fn get(&self, name: &str) -> Option<RunawayRule> {
        self.lock().all.iter().find(|rule| &*rule.name == name).cloned()
    }

    /// All of them, in the order they were made.
    pub fn all(&self) -> Vec<RunawayRule> {
        self.lock().all.clone()
    }

    /// Those that a tenant's statements are judged by; `None` if there are none. Ask when rules or tenants change, and keep it with the tenant: it allocates.
    pub fn of_tenant(&self, tenant: TenantId) -> Option<Arc<TenantRules>> {
        let rules = self.lock();
        let of_it: Vec<RunawayRule> =
            rules.all.iter().filter(|rule| rule.scope.has(tenant)).cloned().collect();
        (!of_it.is_empty()).then(|| Arc::new(TenantRules { rules: of_it }))
    }
}

const _: () = assert!(RunawayRules::RULES_MAX <= u64::BITS as usize);

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(rows: u64) -> RunawayTerms {
        RunawayTerms { rows: Some(rows), ..RunawayTerms::default() }
    }

    fn names(rules: &RunawayRules, tenant: TenantId) -> Vec<String> {
        rules
            .of_tenant(tenant)
            .map_or_else(Vec::new, |of| of.rules.iter().map(|rule| rule.name.to_string()).collect())
    }

    #[test]
    fn a_tenant_has_its_own_rules_and_those_of_all() {
        let rules = RunawayRules::default();
        let (acme, other) = (TenantId(20), TenantId(21));
        assert!(rules.of_tenant(acme).is_none());
        rules.set("b", RunawayScope::Tenant(acme), terms(1)).unwrap();
        rules.set("a", RunawayScope::All, terms(2)).unwrap();
        assert_eq!(
            (names(&rules, acme), names(&rules, other)),
            (vec!["b".into(), "a".into()], vec!["a".to_owned()])
        );
        rules.set("b", RunawayScope::All, terms(3)).unwrap();
        assert_eq!(names(&rules, other), ["b", "a"], "a changed rule stays in its place");
        rules.set("a", RunawayScope::Tenant(acme), terms(3)).unwrap();
        rules.forget(acme);
        assert_eq!(names(&rules, acme), ["b"]);
        assert!(rules.remove("b") && !rules.remove("b"));
        assert!(rules.of_tenant(other).is_none() && rules.all().is_empty());
    }

    #[test]
    fn one_rule_too_many_is_refused_and_changes_nothing() {
        let rules = RunawayRules::default();
        for n in 0..RunawayRules::RULES_MAX {
            rules.set(&n.to_string(), RunawayScope::All, terms(1)).unwrap();
        }
        let before = rules.all();
        let error = rules.set("one more", RunawayScope::All, terms(1)).unwrap_err();
        assert_eq!(error, RunawayError::TooMany { max: 64 });
        assert!(rules.set("3", RunawayScope::All, RunawayTerms::default()).is_err(), "it watches nothing");
        assert_eq!(rules.all(), before);
        rules.set("3", RunawayScope::All, terms(9)).unwrap();
        assert_eq!(rules.all().len(), before.len());
    }
}
