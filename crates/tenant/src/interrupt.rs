//! Why an operation could not go on within its turn.

use base::{PageNo, SqlError, SqlState};
use storage::PageFault;

use crate::locks::LockWait;

/// An operation stopped. For all but `Error` the caller rolls the statement back to its start, waits, and runs it
/// again; locks gained meanwhile stay with the transaction.
#[derive(Debug)]
pub enum Interrupt {
    /// Another session holds a lock; resolves when it is granted.
    Wait(LockWait),
    /// A page is on disk only: have it read with [`crate::Tenant::page_request`].
    Miss(PageNo),
    /// The statement's end was asked for ([`crate::View::in_session`]): whoever runs it knows by whom.
    Asked,
    /// The statement fails.
    Error(SqlError),
}

/// Result of an operation that may have to wait.
pub type Step<T> = Result<T, Interrupt>;

impl From<SqlError> for Interrupt {
    fn from(error: SqlError) -> Interrupt {
        Interrupt::Error(error)
    }
}

impl From<PageFault> for Interrupt {
    #[cold]
    fn from(fault: PageFault) -> Interrupt {
        match fault {
            PageFault::Miss(page) => Interrupt::Miss(page),
            PageFault::Corrupt(corrupt) => {
                Interrupt::Error(SqlError::new(SqlState::DATA_CORRUPTED, corrupt.to_string()))
            }
        }
    }
}
