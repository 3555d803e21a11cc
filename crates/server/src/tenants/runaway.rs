//! The rules about statements that run away, and how often each has acted.
//!
//! Truth is the table `rowhouse.runaway_rules`, but for the counts, which begin with the server. Sessions keep what concerns them and look at a
//! number that grows with each change ([`Runaways::version`]), so that a server without rules reads one word for each statement.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::TenantId;
use governor::{RunawayError, RunawayRule, RunawayRules, RunawayScope, RunawayTerms, TenantRules};

/// What is remembered of a rule beside its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct StoredRule {
    /// Rules act in this order.
    pub(super) number: u64,
    pub(super) scope: RunawayScope,
    pub(super) terms: RunawayTerms,
}

const NUMBER: &str = "number";
const TENANT: &str = "tenant";

impl fmt::Display for StoredRule {
    /// `number = 3, tenant = 17, rows = 1000, action = cancel`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{NUMBER} = {}, ", self.number)?;
        if let RunawayScope::Tenant(tenant) = self.scope {
            write!(f, "{TENANT} = {tenant}, ")?;
        }
        write!(f, "{}", self.terms)
    }
}

/// A row is not one of ours.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadRule;

impl From<RunawayError> for BadRule {
    fn from(_: RunawayError) -> BadRule {
        BadRule
    }
}

impl FromStr for StoredRule {
    type Err = BadRule;

    /// Reads what is displayed.
    fn from_str(text: &str) -> Result<StoredRule, BadRule> {
        let (mut number, mut scope, mut terms) = (None, RunawayScope::All, RunawayTerms::default());
        for option in text.split(", ") {
            match option.split_once(" = ").ok_or(BadRule)? {
                (NUMBER, value) => number = value.parse().ok(),
                (TENANT, value) => {
                    scope = RunawayScope::Tenant(TenantId(value.parse().map_err(|_| BadRule)?));
                }
                (key, value) => terms.set(key, value)?,
            }
        }
        terms.validate()?;
        Ok(StoredRule { number: number.ok_or(BadRule)?, scope, terms })
    }
}

#[derive(Clone, Copy, Default)]
struct Kept {
    number: u64,
    acted: u64,
}

/// All rules of a server. Readable from any thread.
#[derive(Default)]
pub(crate) struct Runaways {
    rules: RunawayRules,
    version: AtomicU64,
    /// By name.
    kept: Mutex<BTreeMap<String, Kept>>,
}

/// A rule in force, and how often it has acted since the server started.
pub(crate) struct RuleFigures {
    pub(crate) rule: RunawayRule,
    pub(crate) acted: u64,
}

impl Runaways {
    fn kept(&self) -> MutexGuard<'_, BTreeMap<String, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Grows with each change of the rules; 0 before the first.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// What a tenant's statements are judged by; as new as [`Runaways::version`] said before, at least. Allocates where there are rules.
    pub(crate) fn of_tenant(&self, tenant: TenantId) -> Option<Arc<TenantRules>> {
        self.rules.of_tenant(tenant)
    }

    /// Counts that a rule has acted; one that was dropped meanwhile counts nothing.
    pub(crate) fn note_acted(&self, rule: &str) {
        if let Some(kept) = self.kept().get_mut(rule) {
            kept.acted += 1;
        }
    }

    /// All of them, in the order they were made.
    pub(crate) fn list(&self) -> Vec<RuleFigures> {
        let kept = self.kept();
        let acted = |rule: &RunawayRule| kept.get(&*rule.name).map_or(0, |kept| kept.acted);
        self.rules.all().into_iter().map(|rule| RuleFigures { acted: acted(&rule), rule }).collect()
    }

    pub(super) fn get(&self, name: &str) -> Option<StoredRule> {
        let rule = self.rules.get(name)?;
        let number = self.kept().get(name).map_or(0, |kept| kept.number);
        Some(StoredRule { number, scope: rule.scope, terms: rule.terms })
    }

    /// A rule as it would be stored if it were made now.
    ///
    /// # Errors
    /// It watches nothing, or there are as many as there can be.
    pub(super) fn new_rule(
        &self,
        scope: RunawayScope,
        terms: RunawayTerms,
    ) -> Result<StoredRule, RunawayError> {
        terms.validate()?;
        let kept = self.kept();
        if kept.len() >= RunawayRules::RULES_MAX {
            return Err(RunawayError::TooMany { max: RunawayRules::RULES_MAX });
        }
        let last = kept.values().map(|kept| kept.number).max().unwrap_or(0);
        Ok(StoredRule { number: last + 1, scope, terms })
    }

    /// Puts a rule in force, or another form of it. Statements that run are judged by it from their next look on.
    ///
    /// # Errors
    /// As [`Runaways::new_rule`]; then nothing was changed.
    pub(super) fn set(&self, name: &str, rule: &StoredRule) -> Result<(), RunawayError> {
        self.rules.set(name, rule.scope, rule.terms)?;
        self.kept().entry(name.to_owned()).or_default().number = rule.number;
        self.changed();
        Ok(())
    }

    pub(super) fn remove(&self, name: &str) {
        self.kept().remove(name);
        self.rules.remove(name);
        self.changed();
    }

    /// The names of the rules about this tenant alone.
    pub(super) fn about(&self, tenant: TenantId) -> Vec<Arc<str>> {
        let rules = self.rules.all().into_iter();
        rules.filter(|rule| rule.scope == RunawayScope::Tenant(tenant)).map(|rule| rule.name).collect()
    }

    fn changed(&self) {
        // Release: who sees the number finds the rules behind it.
        self.version.fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use base::Nanos;

    use super::*;

    fn rule(number: u64, scope: RunawayScope, rows: u64) -> StoredRule {
        StoredRule { number, scope, terms: RunawayTerms { rows: Some(rows), ..RunawayTerms::default() } }
    }

    #[test]
    fn a_stored_rule_reads_back_and_nothing_else_does() {
        let mut stored = rule(3, RunawayScope::Tenant(TenantId(17)), 9);
        stored.terms.elapsed = Some(Nanos::from_millis(1500));
        assert_eq!(stored.to_string(), "number = 3, tenant = 17, elapsed = 1500ms, rows = 9, action = log");
        assert_eq!(stored.to_string().parse(), Ok(stored));
        let of_all = rule(1, RunawayScope::All, 1);
        assert_eq!(of_all.to_string().parse(), Ok(of_all));
        for bad in [
            "",
            "number = 1",
            "rows = 1",
            "number = 1, rows = 0",
            "number = x, rows = 1",
            "number = 1, tenant = acme, rows = 1",
        ] {
            assert_eq!(bad.parse::<StoredRule>(), Err(BadRule), "{bad}");
        }
    }

    #[test]
    fn rules_are_numbered_in_the_order_they_were_made_and_counts_outlive_a_change() {
        let runaways = Runaways::default();
        assert_eq!(runaways.version(), 0);
        let scope = RunawayScope::Tenant(TenantId(17));
        for name in ["b", "a"] {
            let new = runaways.new_rule(scope, rule(0, scope, 5).terms).unwrap();
            runaways.set(name, &new).unwrap();
        }
        runaways.note_acted("b");
        runaways.note_acted("gone");
        let changed = StoredRule { terms: rule(0, scope, 6).terms, ..runaways.get("b").unwrap() };
        runaways.set("b", &changed).unwrap();
        let listed: Vec<_> = runaways
            .list()
            .iter()
            .map(|one| (one.rule.name.to_string(), one.rule.terms.rows, one.acted))
            .collect();
        assert_eq!(listed, [("b".to_owned(), Some(6), 1), ("a".to_owned(), Some(5), 0)]);
        assert_eq!((runaways.get("b").unwrap().number, runaways.get("a").unwrap().number), (1, 2));
        assert_eq!(runaways.about(TenantId(17)).len(), 2);
        let version = runaways.version();
        runaways.remove("b");
        assert!(runaways.version() > version);
        runaways.set("b", &runaways.new_rule(scope, changed.terms).unwrap()).unwrap();
        assert_eq!(
            runaways.list().last().map(|last| (last.rule.name.to_string(), last.acted)),
            Some(("b".into(), 0))
        );
    }
}
