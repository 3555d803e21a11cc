//! Calls of the session, and the waits between a call that paused and the same call again.

use std::pin::pin;

use base::{Lsn, Nanos, SqlError, SqlResult};
use futures::future::{Either, select};
use sql::session::{Home, Pause, Session};
use tenant::{PageRequest, WriterWait};

use super::connection::{Connection, End};
use super::control::{Interruption, Patience};
use super::output::Output;
use super::watch::StatementPatience;
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
        let Connection { session, output, watch, shared, home, incarnation, .. } = self;
        Ok(home.with_opening(*incarnation, |home| {
            watch.turn(&shared.env, session, |session| call(session, home, output))
        })?)
    }

    /// As [`Connection::turn`] for what may be long: then it lasts several turns, and nobody else sees the tenant between them.
    pub(super) async fn long_turn<T: Send + 'static>(
        &mut self,
        call: impl FnOnce(&mut Session, &mut Home<'_>, &mut Output) -> Result<T, Pause>,
    ) -> Result<Result<T, Pause>, End> {
        let Connection { session, output, watch, shared, home, incarnation, used, .. } = self;
        let call = |home: &mut Home<'_>| {
            let before = executor::suspensions();
            let outcome = watch.turn(&shared.env, session, |session| call(session, home, output));
            // Its task may not be the next of the tenant's to have a turn.
            if executor::suspensions() != before && session.is_between_messages() {
                session.pass_turn(home);
            }
            outcome
        };
        // SAFETY: what the call borrows is the connection's, which is a part of the task's future, as this one is: a task is never leaked.
        let outcome = unsafe { home.with_opening_at_length(*incarnation, used, call) }.await;
        Ok(outcome?)
    }

    /// Awaits what a call paused for, after which the same call is made again. The inner error is the statement's, and the
    /// session has noted it; the outer one ends the session.
    pub(super) async fn wait(&mut self, pause: Pause) -> Result<SqlResult<()>, End> {
        self.pass_turn()?;
        let patience = self.patience();
        if let Pause::Pages(requests) = &pause {
            let ios = requests.iter().map(PageRequest::ios).sum();
            self.watch.add_ios(&patience.statement, ios);
            self.used.add(Nanos(0), ios);
        }
        let error = match self.pause(pause, patience).await {
            Ok(()) => return Ok(Ok(())),
            Err(Failed::End(end)) => return Err(end),
            Err(Failed::Error(error)) => error,
            Err(Failed::Interrupted(interruption)) => {
                if let Some(fatal) = interruption.fatal() {
                    return Err(End::Fatal(fatal));
                }
                interruption.canceled()
            }
        };
        self.fail(&error).await?;
        Ok(Err(error))
    }

    /// Has the session take back what it was doing, which may be much: others have their turns meanwhile.
    pub(super) async fn fail(&mut self, error: &SqlError) -> Result<(), End> {
        let failed = self.long_turn(|session, home, _| {
            session.fail(home, error);
            Ok(())
        });
        failed.await?.expect("nothing to wait for");
        Ok(())
    }

    /// Gives back what the session has of its tenant, at its end: others have their turns meanwhile, as they have not where it is dropped.
    pub(super) async fn end(&mut self) {
        let ended = self.long_turn(|session, home, _| {
            session.end(home);
            Ok(())
        });
        // Of a tenant that was opened again there is nothing to give back.
        let _ = ended.await;
    }

    /// How long the statement under way may wait.
    pub(super) fn patience(&self) -> StatementPatience {
        let statement = self.session.underway();
        StatementPatience { watch: self.watch.clone(), statement, lock_until: None }
    }

    /// Whether the statement under way is to end. For who never waits: a wait finds out by itself.
    pub(super) fn check(&self, patience: &StatementPatience) -> Result<(), Interruption> {
        let interruption = self.control.pending().or_else(|| patience.look(env::now()));
        interruption.map_or(Ok(()), Err)
    }

    /// Awaits what a call paused for, and counts the wait.
    async fn pause(&mut self, pause: Pause, patience: StatementPatience) -> Result<(), Failed> {
        let kind = match &pause {
            Pause::Lock(_) => Some(Wait::Lock),
            Pause::Pages(_) | Pause::StoredRows(_) => Some(Wait::PageRead),
            Pause::Slice(_) | Pause::Memory(WriterWait::Log(_)) => Some(Wait::LogFlush),
            Pause::Memory(_) => Some(Wait::Memory),
            Pause::OwnCap(_) => Some(Wait::OwnCap),
            _ => None,
        };
        let began = env::now();
        if let Some(interruption) = patience.look(began) {
            return Err(interruption.into());
        }
        let outcome = self.await_shown(pause, patience).await;
        if let Some(kind) = kind {
            self.home.add_wait(kind, env::now() - began);
        }
        outcome
    }

    /// As [`Connection::await_end`], shown in `pg_stat_activity` meanwhile.
    async fn await_shown(&mut self, pause: Pause, patience: StatementPatience) -> Result<(), Failed> {
        let event = match &pause {
            Pause::Lock(wait) => ("Lock", wait.kind),
            Pause::Pages(_) => ("IO", "DataFileRead"),
            Pause::StoredRows(_) => ("IO", "BufFileRead"),
            Pause::Slice(_) | Pause::Memory(WriterWait::Log(_)) => ("IO", "WALSync"),
            Pause::Memory(_) => ("IPC", "PageMemory"),
            Pause::Sleep(_) => ("Timeout", "PgSleep"),
            Pause::OwnCap(_) => ("Timeout", "OwnCap"),
            // They are at work elsewhere, or at once again.
            Pause::Analytic(_) | Pause::Host(_) | Pause::Yield | Pause::Error(_) => {
                return self.await_end(pause, patience).await;
            }
        };
        self.control.activity().wait_event = Some(event);
        let outcome = self.await_end(pause, patience).await;
        self.control.activity().wait_event = None;
        outcome
    }

    async fn await_end(&mut self, pause: Pause, patience: StatementPatience) -> Result<(), Failed> {
        self.note_silence(&pause);
        match pause {
            Pause::Lock(wait) => {
                let (now, serial) = (env::now(), patience.statement.serial);
                // Such waits for one lock follow one another, and are one to the client.
                let since = match self.waits_at_times {
                    Some((of, since)) if of == serial && wait.at_most.is_some() => since,
                    _ => now,
                };
                self.waits_at_times = wait.at_most.map(|_| (serial, since));
                let until = wait.at_most.map(|most| now + most);
                let lock_until = self.session.timeouts().lock.map(|limit| since + limit);
                let patience = StatementPatience { lock_until, ..patience };
                let _idle = self.idle_branch();
                // Whether it was granted the statement finds out.
                let _ = self.control.race(patience, env::timeout_at(until, wait)).await?;
            }
            Pause::Pages(requests) => self.control.race(&patience, self.home.load_pages(requests)).await??,
            Pause::StoredRows(read) => {
                let loaded = self.control.race(&patience, read.read()).await??;
                self.session.stored_rows_loaded(loaded);
            }
            Pause::Memory(wait) => self.control.race(&patience, self.home.await_memory(wait)).await??,
            Pause::Sleep(time) | Pause::OwnCap(time) => {
                let _idle = self.idle_branch();
                self.race_with_client(&patience, env::sleep(time)).await?
            }
            Pause::Analytic(request) => {
                let _querying = self.session.has_branch().then(|| self.control.querying_branch());
                self.analytic(*request, &patience).await?
            }
            Pause::Host(statement) => self.host_statement(statement, &patience).await?,
            Pause::Yield | Pause::Slice(_) => {
                if let Pause::Slice(end) = pause {
                    self.control.race(&patience, self.home.wait_durable(end)).await??;
                }
                self.flush().await?;
                executor::yield_now().await;
                self.check(&patience)?;
            }
            Pause::Error(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Notes for how long a transaction with parts in the log has added nothing to them.
    fn note_silence(&self, pause: &Pause) {
        let writes = match pause {
            Pause::Slice(end) => *end > Lsn(0),
            Pause::Memory(WriterWait::Log(_)) => true,
            _ => false,
        };
        self.control.note_silent_branch(!writes && self.session.has_branch(), env::now());
    }

    /// As [`super::control::Control::race`] for work that may take long: a client that hangs up meanwhile ends the session,
    /// and what it sends is kept for later.
    pub(super) async fn race_with_client<T>(
        &mut self,
        patience: &StatementPatience,
        work: impl Future<Output = T>,
    ) -> Result<T, Failed> {
        let mut work = pin!(work);
        while self.input.len() < EARLY_INPUT_LEN_MAX {
            // An empty buffer: if the receive is dropped, the next one finds every byte.
            let early = pin!(self.stream.recv(Vec::new()));
            match self.control.race(patience, select(work.as_mut(), early)).await? {
                Either::Left((output, _)) => return Ok(output),
                Either::Right(((Ok(0) | Err(_), _), _)) => return Err(End::Gone.into()),
                Either::Right(((Ok(_), more), _)) => self.input.extend_from_slice(&more),
            }
        }
        Ok(self.control.race(patience, work).await?)
    }
}
