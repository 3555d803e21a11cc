//! Calls of the session, and the waits between a call that paused and the same call again.

use base::{Nanos, SqlError, SqlResult, SqlState};
use sql::session::{Home, Pause, Session, Timeouts};

use super::connection::{Connection, End};
use super::control::Interruption;
use super::output::Output;
use crate::executor;
use crate::tenants::statements;

/// Why a pause did not end as hoped.
pub(super) enum Failed {
    Interrupted(Interruption),
    Error(SqlError),
    End(End),
}

impl From<Interruption> for Failed {
    fn from(interruption: Interruption) -> Failed {
        Failed::Interrupted(interruption)
    }
}
impl From<SqlError> for Failed {
    fn from(error: SqlError) -> Failed {
        Failed::Error(error)
    }
}
impl From<End> for Failed {
    fn from(end: End) -> Failed {
        Failed::End(end)
    }
}

fn canceled(message: &str) -> SqlError {
    SqlError::new(SqlState::QUERY_CANCELED, message)
}

impl Connection {
    /// One call of the session, in one turn of its home.
    #[inline]
    pub(super) fn turn<T>(
        &mut self,
        call: impl FnOnce(&mut Session, &mut Home<'_>, &mut Output) -> Result<T, Pause>,
    ) -> Result<Result<T, Pause>, End> {
        let (session, output) = (&mut self.session, &mut self.output);
        Ok(self.home.with_opening(self.incarnation, |home| call(session, home, output))?)
    }

    /// Awaits what a call paused for, after which the same call is made again. The inner error is the statement's, and the
    /// session has noted it; the outer one ends the session. `began`: when the statement first paused.
    pub(super) async fn wait(&mut self, pause: Pause, began: Nanos) -> Result<SqlResult<()>, End> {
        let timeouts = self.session.timeouts();
        let deadline = timeouts.statement.map(|limit| began + limit);
        let is_lock = matches!(pause, Pause::Lock(_));
        let error = match self.pause(pause, timeouts, deadline).await {
            Ok(()) => return Ok(Ok(())),
            Err(Failed::End(end)) => return Err(end),
            Err(Failed::Error(error)) => error,
            Err(Failed::Interrupted(interruption)) => {
                if let Some(fatal) = interruption.fatal() {
                    return Err(End::Fatal(fatal));
                }
                match interruption {
                    Interruption::Deadline if is_lock && deadline.is_none_or(|d| env::now() < d) => {
                        SqlError::new(SqlState::LOCK_NOT_AVAILABLE, "canceling statement due to lock timeout")
                    }
                    Interruption::Deadline => canceled("canceling statement due to statement timeout"),
                    _ => canceled("canceling statement due to user request"),
                }
            }
        };
        self.fail(&error)?;
        Ok(Err(error))
    }

    /// Awaits what a call paused for.
    async fn pause(
        &mut self,
        pause: Pause,
        timeouts: Timeouts,
        deadline: Option<Nanos>,
    ) -> Result<(), Failed> {
        match pause {
            Pause::Lock(wait) => {
                let lock_deadline = timeouts.lock.map(|limit| env::now() + limit);
                let first = match (deadline, lock_deadline) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
                self.control.race(first, wait).await?;
            }
            Pause::Page(request) => self.control.race(deadline, self.home.load_page(request)).await??,
            Pause::Sleep(time) => self.control.race(deadline, env::sleep(time)).await?,
            Pause::Analytic(request) => self.analytic(*request, deadline).await?,
            Pause::Host(statement) => {
                // Not raced: once begun, making or dropping a tenant goes on to its end.
                let outcome = statements::run(&self.shared, &self.control, statement).await;
                self.session.host_done(outcome);
            }
            Pause::Yield => {
                self.flush().await?;
                executor::yield_now().await;
                if let Some(interruption) = self.control.pending() {
                    return Err(interruption.into());
                }
                if deadline.is_some_and(|deadline| env::now() >= deadline) {
                    return Err(Interruption::Deadline.into());
                }
            }
            Pause::Error(error) => return Err(error.into()),
        }
        Ok(())
    }
}
