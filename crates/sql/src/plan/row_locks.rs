//! FOR UPDATE and its kin: which relations' rows are locked, how strongly, and what to do where they are locked.

use std::sync::Arc;

use base::{SqlError, SqlResult, SqlState};
use sqlparser::ast;
use tenant::catalog::Privileges;

use super::binder::Binder;
use super::level::{Level, RelationSource};
use super::point_plan::{AggregatePlan, DistinctPlan, LockPlan, LockStrength, LockWaitPolicy, TableUse};
use crate::expr::fold_ident;
use crate::parse::{LockWord, lock_targets};

impl Binder<'_> {
    pub(super) fn bind_locks(
        &self,
        clauses: &[ast::LockClause],
        level: &mut Level,
        aggregate: &Option<AggregatePlan>,
        distinct: &DistinctPlan,
    ) -> SqlResult<Vec<LockPlan>> {
        let mut locks: Vec<LockPlan> = Vec::new();
        for clause in clauses {
            let (lock, of) = lock_targets(clause)?;
            let (strength, word) = match lock {
                LockWord::KeyShare => (LockStrength::KeyShare, "FOR KEY SHARE"),
                LockWord::Share => (LockStrength::Share, "FOR SHARE"),
                LockWord::NoKeyUpdate => (LockStrength::NoKeyUpdate, "FOR NO KEY UPDATE"),
                LockWord::Update => (LockStrength::Update, "FOR UPDATE"),
            };
            let wait = match clause.nonblock {
                None => LockWaitPolicy::Wait,
                Some(ast::NonBlock::Nowait) => LockWaitPolicy::NoWait,
                Some(ast::NonBlock::SkipLocked) => LockWaitPolicy::SkipLocked,
            };
            let clash = match (aggregate, distinct) {
                (Some(a), _) if a.grouped => Some("GROUP BY clause"),
                (Some(a), _) if a.calls.is_empty() => Some("HAVING clause"),
                (Some(_), _) => Some("aggregate functions"),
                (None, DistinctPlan::All | DistinctPlan::On(_)) => Some("DISTINCT clause"),
                (None, DistinctPlan::No) => None,
            };
            if let Some(clash) = clash {
                return Err(SqlError::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    format!("{word} is not allowed with {clash}"),
                ));
            }
            let named = |name: &ast::Ident| {
                let name = fold_ident(name);
                level.relations.iter().position(|r| r.name == name).ok_or_else(|| {
                    SqlError::new(
                        SqlState::UNDEFINED_TABLE,
                        format!("relation \"{name}\" in {word} clause not found in FROM clause"),
                    )
                })
            };
            let targets: Vec<usize> = match &of[..] {
                [] => (0..level.relations.len()).collect(),
                names => names.iter().map(named).collect::<SqlResult<_>>()?,
            };
            for index in targets {
                let relation = &mut level.relations[index];
                let table = match &relation.source {
                    Some(RelationSource::Table(table)) => Arc::clone(table),
                    Some(RelationSource::Derived(_)) => {
                        return Err(SqlError::unsupported(format!("{word} of a view or a subquery")));
                    }
                    _ if of.is_empty() => continue,
                    Some(RelationSource::Common { .. }) => {
                        return Err(SqlError::new(
                            SqlState::FEATURE_NOT_SUPPORTED,
                            format!("{word} cannot be applied to a WITH query"),
                        ));
                    }
                    _ => {
                        return Err(SqlError::new(
                            SqlState::FEATURE_NOT_SUPPORTED,
                            format!("{word} cannot be applied to a function"),
                        ));
                    }
                };
                let key = *relation.key.get_or_insert_with(|| self.next_key());
                self.note_access(table.oid, Privileges::UPDATE);
                self.note_table(table.oid, TableUse::LockRows);
                self.set_effects();
                match locks.iter_mut().find(|lock| lock.key == key) {
                    Some(lock) => {
                        lock.strength = lock.strength.max(strength);
                        lock.wait = lock.wait.max(wait);
                    }
                    None => locks.push(LockPlan { table, name: relation.name.clone(), key, strength, wait }),
                }
            }
        }
        Ok(locks)
    }
}
