//! Calls of the session, and the waits between a call that paused and the same call again.

use std::pin::pin;

use base::{Nanos, SqlError, SqlResult, SqlState};
use futures::future::{Either, select};
use sql::session::{Home, Pause, Session, Timeouts};

use super::connection::{Connection, End};
use super::control::Interruption;
use super::output::Output;
use crate::executor::{self, Wait};

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

/// Bytes a client may send ahead of a long statement's end before it is no longer listened to.
const EARLY_INPUT_LEN_MAX: usize = 64 << 10;

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
    /// session has noted it; the outer one ends the session.
    pub(super) async fn wait(&mut self, pause: Pause) -> Result<SqlResult<()>, End> {
        self.pass_turn()?;
        let timeouts = self.session.timeouts();
        let deadline = self.session.deadline();
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
                    other => other.canceled(),
                }
            }
        };
        self.fail(&error)?;
        Ok(Err(error))
    }

    /// Awaits what a call paused for, and counts the wait.
    async fn pause(
        &mut self,
        pause: Pause,
        timeouts: Timeouts,
        deadline: Option<Nanos>,
    ) -> Result<(), Failed> {
        let kind = match &pause {
            Pause::Lock(_) => Some(Wait::Lock),
            Pause::Pages(_) => Some(Wait::PageRead),
            Pause::Memory(_) => Some(Wait::Memory),
            Pause::Slice(_) => Some(Wait::LogFlush),
            _ => None,
        };
        let began = env::now();
        let outcome = self.await_end(pause, timeouts, deadline).await;
        if let Some(kind) = kind {
            self.account.add_wait(kind, env::now() - began);
        }
        outcome
    }

    async fn await_end(
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
            Pause::Pages(requests) => self.control.race(deadline, self.home.load_pages(requests)).await??,
            Pause::Memory(wait) => self.control.race(deadline, self.home.await_memory(wait)).await??,
            Pause::Sleep(time) => self.race_with_client(deadline, env::sleep(time)).await?,
            Pause::Analytic(request) => self.analytic(*request, deadline).await?,
            Pause::Host(statement) => self.host_statement(statement, deadline).await?,
            Pause::Yield | Pause::Slice(_) => {
                if let Pause::Slice(end) = pause {
                    self.control.race(deadline, self.home.wait_durable(end)).await??;
                }
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

    /// As [`super::control::Control::race`] for work that may take long: a client that hangs up meanwhile ends the session,
    /// and what it sends is kept for later.
    pub(super) async fn race_with_client<T>(
        &mut self,
        deadline: Option<Nanos>,
        work: impl Future<Output = T>,
    ) -> Result<T, Failed> {
        let mut work = pin!(work);
        while self.input.len() < EARLY_INPUT_LEN_MAX {
            // An empty buffer: if the receive is dropped, the next one finds every byte.
            let early = pin!(self.stream.recv(Vec::new()));
            match self.control.race(deadline, select(work.as_mut(), early)).await? {
                Either::Left((output, _)) => return Ok(output),
                Either::Right(((Ok(0) | Err(_), _), _)) => return Err(End::Gone.into()),
                Either::Right(((Ok(_), more), _)) => self.input.extend_from_slice(&more),
            }
        }
        Ok(self.control.race(deadline, work).await?)
    }
}
