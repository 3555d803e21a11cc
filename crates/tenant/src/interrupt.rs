//! Why an operation could not go on within its turn.

use base::{PageNo, SqlError, SqlState};
use storage::PageFault;

use crate::locks::LockWait;

/// An operation stopped. For all but `Error` the caller rolls the statement back to its start, waits, and runs it
/// again; locks gained meanwhile stay with the transaction.
#[derive(Debug)]
pub enum Interrupt {
    /// Another session holds a lock; resolves when it is granted, and is to be waited for [`LockWait::at_most`].
    Wait(LockWait),
    /// A page is on disk only: have it read with [`crate::Tenant::page_requests`].
    Miss(PageNo),
    /// The statement's turn is over, or its end was asked for ([`crate::View::in_session`]), or it is to wait for the log ([`crate::Txn::take_log_wait`]):
    /// whoever runs it knows, and runs it again if nobody wants its end.
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
            fault => Interrupt::Error(error_of_fault(&fault)),
        }
    }
}

/// What a client is told of a page that cannot be had: XX001 for a damaged one, 58030 for a disk that cannot be read.
#[cold]
pub(crate) fn error_of_fault(fault: &PageFault) -> SqlError {
    let state = match fault {
        PageFault::Miss(_) | PageFault::Corrupt(_) => SqlState::DATA_CORRUPTED,
        PageFault::Unreadable(..) => SqlState::IO_ERROR,
    };
    SqlError::new(state, fault.to_string())
}
