//! A tenant's database: catalog, rows, constraints, transactions, locks.
//!
//! Level 4. Knows no SQL text: defaults, checks and view queries are kept as text for the layer above. Holds no thread and
//! no clock, and never waits: an operation that would have to returns an [`Interrupt`], its caller takes the statement
//! back ([`Txn::mark`], [`Tenant::rewind_statement`]), waits, and runs the statement again.
//!
//! A [`Tenant`] belongs to one home thread at a time. What a statement executes against is a [`View`]: the live pages (or
//! the transaction's snapshot) with the transaction's own changes over them. Changes collect in the transaction's
//! overlay and reach the live pages in one turn at commit, so live pages are transaction-consistent between turns.
//! A broken invariant panics; the worker's edge closes and reopens the tenant.

mod branch;
pub mod catalog;
mod change_memory;
mod commit;
mod copy;
mod cursor;
pub mod ddl;
mod due;
mod exported;
mod foreign_key;
mod history;
mod interrupt;
mod kept;
mod key_types;
mod lock_list;
pub mod locks;
mod log_ahead;
mod memory;
mod overlay;
mod passing;
mod pending;
mod poured;
mod put_keys;
mod reads;
mod record_buffer;
mod redo_record;
mod redo_sink;
pub mod repair;
mod replay;
pub mod row;
mod row_lock;
mod sequence;
mod session_lock;
mod snapshot_view;
mod space;
mod tenant;
mod trees;
mod txn;
mod unique;
pub mod verify;
mod view;
mod watch;
mod write;

pub use branch::{BRANCH_BYTES_MIN, CaughtUp};
pub use commit::{Committed, GiveWay};
pub use copy::{Description, TenantCopy};
pub use cursor::{Direction, Scan};
pub use exported::too_late_to_import;
pub use interrupt::{Interrupt, Step};
pub use kept::Look;
pub use memory::{CommitWait, PageRequest, WriterWait};
pub use redo_sink::{RedoSet, RedoSink, state_of_log_failure};
pub use replay::{RecordSorter, Replayed, SortedBatch};
pub use row_lock::RowLocked;
pub use sequence::{LogWait, SequenceValue};
pub use snapshot_view::SnapshotScan;
pub use snapshot_view::SnapshotView;
pub use space::{Demand, SpaceUsed};
pub use tenant::{OpenError, Tenant, TenantMemory, state_of_file_error};
pub use txn::{Isolation, Mark, Savepoint, Txn};
pub use view::{Access, View};
pub use write::{Arbiter, Inserted, Updated};

#[cfg(test)]
mod tests;
