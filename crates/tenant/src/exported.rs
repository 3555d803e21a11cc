//! Snapshots that a transaction gives to others of its tenant under an identifier (`pg_export_snapshot`), for as long as it is open.
//!
//! Each is held under a transaction's number of its own, as if that transaction read it: it counts as the tenant's and is revoked as any other
//! old snapshot, and what is written meanwhile is remembered for whoever reads it next.

use std::sync::Arc;

use base::{SqlError, SqlResult, SqlState, TxnId};

use crate::space::revoked;
use crate::tenant::Tenant;
use crate::txn::{Isolation, SnapshotOf, Txn};
use crate::view::View;

/// Different snapshots that one transaction may have exported. Under READ COMMITTED it may export another one behind each commit of others.
const EXPORTED_MAX: usize = 64;

/// What exported a snapshot, and what it was then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Exported {
    exporter: TxnId,
    isolation: Isolation,
    read_only: bool,
}

impl View<'_> {
    /// `pg_export_snapshot`: the identifier of what the transaction reads, its own changes left out; [`Tenant::import_snapshot`] takes it
    /// until the transaction ends. The same one again for the same snapshot.
    ///
    /// # Errors
    /// 0A000 under READ COMMITTED where the transaction's changes are in a branch, 54000 after very many of them, 72000 if the snapshot was revoked.
    pub fn export_snapshot(&mut self) -> SqlResult<String> {
        self.tenant.export_snapshot(self.txn)
    }
}

impl Tenant {
    fn export_snapshot(&mut self, txn: &Txn) -> SqlResult<String> {
        if txn.branched && txn.frozen.is_none() {
            return Err(SqlError::unsupported(
                "pg_export_snapshot after very many changes under READ COMMITTED",
            ));
        }
        let read = self.snapshot_of(txn)?.cloned();
        let frozen = read.unwrap_or_else(|| self.freeze());
        let exported = Exported { exporter: txn.id, isolation: txn.isolation, read_only: txn.read_only };
        let is_same =
            |number: &TxnId| self.snapshots.get(number).is_some_and(|held| Arc::ptr_eq(held, &frozen));
        let again = self.exported.iter().find(|&(number, held)| *held == exported && is_same(number));
        if let Some((number, _)) = again {
            return Ok(identifier(*number));
        }
        if self.exported.values().filter(|held| held.exporter == txn.id).count() >= EXPORTED_MAX {
            self.let_go(frozen);
            let message = format!("a transaction exports no more than {EXPORTED_MAX} snapshots");
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        let number = TxnId(self.next_txn);
        self.next_txn += 1;
        self.history.begin(frozen.commit);
        self.snapshots.insert(number, frozen);
        self.exported.insert(number, exported);
        Ok(identifier(number))
    }

    /// `SET TRANSACTION SNAPSHOT`: `txn`, which has read nothing yet, reads what another one exported.
    ///
    /// # Errors
    /// 25001 where it has a snapshot or changed something, 0A000 under READ COMMITTED and for a SERIALIZABLE one where the exporter is not such a one or
    /// only reads, 22023 for an identifier that is none (any more), 72000 if the snapshot was revoked.
    pub fn import_snapshot(&mut self, txn: &mut Txn, identifier: &str) -> SqlResult<()> {
        if txn.frozen.is_some() || txn.has_changes() {
            return Err(too_late_to_import());
        }
        let unsupported = |message: &str| Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        if txn.isolation == Isolation::ReadCommitted {
            return unsupported(
                "a snapshot-importing transaction must have isolation level SERIALIZABLE or REPEATABLE READ",
            );
        }
        let invalid = || {
            let message = format!("invalid snapshot identifier: \"{identifier}\"");
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
        };
        let number = number_of(identifier).ok_or_else(invalid)?;
        let exported = *self.exported.get(&number).ok_or_else(invalid)?;
        if txn.isolation == Isolation::Serializable {
            if exported.isolation != Isolation::Serializable {
                return unsupported(
                    "a serializable transaction cannot import a snapshot from a non-serializable transaction",
                );
            }
            if exported.read_only && !txn.read_only {
                return unsupported(
                    "a non-read-only serializable transaction cannot import a snapshot from a read-only transaction",
                );
            }
        }
        let frozen = self.snapshots.get(&number).cloned().ok_or_else(revoked)?;
        // The exporter reads it still: what was written since is remembered.
        self.history.begin(frozen.commit);
        txn.frozen = Some(SnapshotOf { commit: frozen.commit, catalog: Arc::clone(&frozen.catalog) });
        self.snapshots.insert(txn.id, frozen);
        txn.observe(self.pending.newest());
        Ok(())
    }

    /// What `exporter` exported nobody can import any more; whoever has, reads on.
    pub(crate) fn end_exports(&mut self, exporter: TxnId) {
        let own = self.exported.iter().filter(|(_, exported)| exported.exporter == exporter);
        let numbers: Vec<TxnId> = own.map(|(number, _)| *number).collect();
        for number in numbers {
            self.exported.remove(&number);
            if let Some(frozen) = self.snapshots.remove(&number) {
                self.let_go(frozen);
            }
            self.history.end();
        }
    }
}

/// 25001, for a SET TRANSACTION SNAPSHOT that is not a transaction's first statement.
#[must_use]
pub fn too_late_to_import() -> SqlError {
    let message = "SET TRANSACTION SNAPSHOT must be called before any query";
    SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message)
}

/// In PostgreSQL's form.
fn identifier(number: TxnId) -> String {
    format!("{:08X}-{:08X}-1", number.0 >> 32, number.0 & u64::from(u32::MAX))
}

fn number_of(text: &str) -> Option<TxnId> {
    let (high, rest) = text.split_once('-')?;
    let low = rest.strip_suffix("-1")?;
    let part = |digits: &str| u32::from_str_radix(digits, 16).ok().map(u64::from);
    let number = TxnId((part(high)? << 32) | part(low)?);
    (identifier(number) == text).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_is_read_in_its_own_form_alone() {
        for number in [TxnId(1), TxnId(0x1_0000_00AB), TxnId(u64::MAX)] {
            assert_eq!(number_of(&identifier(number)), Some(number));
        }
        assert_eq!(identifier(TxnId(27)), "00000000-0000001B-1");
        let others = ["", "1", "00000000-0000001b-1", "0-1B-1", "00000000-0000001B-2", "+0000000-0000001B-1"];
        for text in others {
            assert_eq!(number_of(text), None, "{text}");
        }
    }
}
