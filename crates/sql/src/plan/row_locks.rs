//! FOR UPDATE and its kin: which relations' rows are locked, how strongly, and what to do where they are locked.

use std::sync::Arc;

use base::{SqlError, SqlResult, SqlState};
use sqlparser::ast;
use tenant::catalog::Privileges;

use super::binder::Binder;
use super::from_clause::FromTree;
use super::level::{Level, RelationSource};
use super::outer_joins;
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
            let strength = match lock {
                LockWord::KeyShare => LockStrength::KeyShare,
                LockWord::Share => LockStrength::Share,
                LockWord::NoKeyUpdate => LockStrength::NoKeyUpdate,
                LockWord::Update => LockStrength::Update,
            };
            let word = words(strength);
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
                    Some(RelationSource::Derived(_) | RelationSource::Open(_)) => {
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

/// # Errors
/// 0A000 where a relation whose rows are locked may have none in a row of the FROM, of which those outer joins are left that the conditions
/// need.
pub(super) fn refuse_optional(level: &Level, trees: &[FromTree], locks: &[LockPlan]) -> SqlResult<()> {
    for index in outer_joins::optional(trees) {
        let key = level.relations[index].key;
        if let Some(lock) = locks.iter().find(|lock| Some(lock.key) == key) {
            let word = words(lock.strength);
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("{word} cannot be applied to the nullable side of an outer join"),
            ));
        }
    }
    Ok(())
}

fn words(strength: LockStrength) -> &'static str {
    match strength {
        LockStrength::KeyShare => "FOR KEY SHARE",
        LockStrength::Share => "FOR SHARE",
        LockStrength::NoKeyUpdate => "FOR NO KEY UPDATE",
        LockStrength::Update => "FOR UPDATE",
    }
}

#[cfg(test)]
mod tests {
    use base::SqlState;

    use crate::session::testing::Bench;

    #[test]
    fn rows_that_an_outer_join_may_have_none_of_are_not_locked() {
        let mut bench = Bench::new();
        let mut session = bench.session();
        bench.run(
            &mut session,
            "CREATE TABLE a (id int PRIMARY KEY, b int); CREATE TABLE b (id int PRIMARY KEY, n int);
             INSERT INTO a VALUES (1, 1), (2, NULL); INSERT INTO b VALUES (1, 7)",
        );
        for (from, what) in [
            ("a LEFT JOIN b ON b.id = a.b", "UPDATE"),
            ("a LEFT JOIN b ON b.id = a.b", "SHARE OF b"),
            ("b RIGHT JOIN a ON b.id = a.b", "NO KEY UPDATE OF b"),
            ("a LEFT JOIN b ON b.id = a.b WHERE b.id IS NULL", "KEY SHARE"),
            ("a LEFT JOIN (b JOIN a a2 ON a2.b = b.id) ON b.id = a.b", "UPDATE OF a2"),
        ] {
            let error = bench.fail(&mut session, &format!("SELECT a.id FROM {from} FOR {what}"));
            assert_eq!(error.state(), SqlState::FEATURE_NOT_SUPPORTED, "{from}");
            let word = what.split(" OF").next().unwrap();
            let message = format!("FOR {word} cannot be applied to the nullable side of an outer join");
            assert_eq!(error.message(), message);
        }
        for (from, rows) in [
            ("a LEFT JOIN b ON b.id = a.b ORDER BY 1 FOR UPDATE OF a", &["1", "2"][..]),
            // Their conditions make inner joins of these.
            ("a LEFT JOIN b ON b.id = a.b WHERE b.n = 7 FOR UPDATE", &["1"][..]),
            ("a LEFT JOIN b ON b.id = a.b WHERE b.n = 7 OR b.n = 8 FOR UPDATE OF b", &["1"][..]),
            ("a LEFT JOIN b ON b.id = a.b WHERE b.n IN (SELECT 7) FOR UPDATE", &["1"][..]),
        ] {
            assert_eq!(bench.run(&mut session, &format!("SELECT a.id FROM {from}")).lines(), rows, "{from}");
        }
    }
}
