//! The vocabulary every other crate shares: identifiers, units, limits and the error a client sees.
//!
//! Level 0: depends on nothing of ours, holds no state, performs no I/O.

mod ids;
mod io_class;
pub mod limits;
mod prefetch;
mod sql_error;
mod units;

pub use ids::{
    CommitNo, Epoch, Lsn, Oid, PageNo, SessionId, SlotNo, TenantId, TreeId, TxnId, VolumeNo, WorkerId,
};
pub use io_class::IoClass;
pub use prefetch::{prefetch, prefetch_value};
pub use sql_error::{Severity, SqlError, SqlState};
pub use units::{ByteCount, Micros, Nanos, ParseByteCountError};

/// Result of an operation whose failure is told to the client as it stands.
pub type SqlResult<T> = Result<T, SqlError>;
