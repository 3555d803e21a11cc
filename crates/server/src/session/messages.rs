//! What each message of the client does.
//!
//! Most messages are answered within one turn of the home: [`Connection::handle_now`] does that, in one poll unless they are long. Only
//! what pauses goes on in [`Connection::handle`].

use base::SqlError;
use pgproto::conversation::Via;
use pgproto::frontend::{Bind, Execute, Frontend, Target};
use smallvec::SmallVec;
use sql::session::{Executed, Home, LONG_TEXT_MIN, Pause, Session};

use super::connection::{Connection, End, Resume};
use super::output::Output;

/// A query that makes a debug build panic within its turn of the tenant's home.
const PANIC_IN_QUERY: &str = "SELECT 'panic in this query, in a debug build'";

/// Bytes of a COPY's data from which on they may be more rows than are stored at once.
const LONG_DATA_MIN: usize = 256;

/// What is left of a message after a call.
pub(super) enum Left {
    Nothing,
    /// Await this, then call again.
    Pause(Pause),
    /// Give the data of a RESTORE to the tenant that is made of them.
    Restore,
    /// A COPY FROM STDIN has ended: go on with the statements behind it in its Query.
    Query(String),
}

/// A message's call without an outcome of its own, to be told apart from one that paused.
type Called<T> = Result<Option<T>, Pause>;

impl Connection {
    /// Handles a message to its end. `left`: what [`Connection::handle_now`] left of it.
    pub(super) async fn handle(&mut self, message: &Frontend<'_>, left: Left) -> Result<(), End> {
        let mut left = left;
        loop {
            match left {
                Left::Nothing => return Ok(()),
                Left::Query(sql) => {
                    let message = Frontend::Query(&sql);
                    let left = self.handle_now(&message, false).await?;
                    return Box::pin(self.handle(&message, left)).await;
                }
                Left::Restore => {
                    if let Err(error) = self.restore(message).await? {
                        self.told(message, &error);
                        return Ok(());
                    }
                    if matches!(message, Frontend::CopyData(_)) {
                        return Ok(());
                    }
                }
                Left::Pause(pause) => {
                    if let Err(error) = self.wait(pause).await? {
                        self.told(message, &error);
                        return Ok(());
                    }
                }
            }
            left = self.handle_now(message, false).await?;
        }
    }

    /// Handles a message as far as it goes without waiting. `first`: not called again after a pause.
    #[inline]
    pub(super) async fn handle_now(&mut self, message: &Frontend<'_>, first: bool) -> Result<Left, End> {
        if let Some(more) = self.restore_now(message) {
            return Ok(if more { Left::Restore } else { Left::Nothing });
        }
        let called = match message {
            Frontend::Query(sql) => {
                self.stopwatch.executes(first);
                let outcome = self.long_turn(|session, home, out| {
                    let executed = session.query(home, sql, out);
                    assert!(
                        !cfg!(debug_assertions) || *sql != PANIC_IN_QUERY,
                        "the client asked for a panic"
                    );
                    executed
                });
                let called = outcome.await.map(|outcome| self.told_of(message, outcome))?;
                called.map(|done| done.map(|executed| self.queried(executed, sql)))
            }
            Frontend::Parse(parse) => {
                let oids: SmallVec<[u32; 16]> = parse.parameter_oids.iter().collect();
                // A short text may be the name of a long view.
                let outcome = self.long_turn(|session, home, out| {
                    session.parse(home, parse.statement, parse.query, &oids, out)
                });
                outcome.await.map(|outcome| self.told_of(message, outcome))?
            }
            Frontend::Bind(bind) => match self.bind_soon(message, bind)? {
                Some(called) => called,
                // What it keeps meanwhile is not in every session's task.
                None => Box::pin(self.bind_at_length(message, bind)).await?,
            },
            Frontend::Describe(target) => match self.describe_soon(message, *target)? {
                Some(called) => called,
                None => {
                    let outcome = self.long_turn(|session, home, out| describe(session, home, *target, out));
                    outcome.await.map(|outcome| self.told_of(message, outcome))?
                }
            },
            Frontend::Execute(execute) => {
                self.stopwatch.executes(first);
                if let Some(called) = self.execute_soon(message, execute)? {
                    return Ok(match called {
                        Ok(executed) => {
                            executed.into_iter().for_each(|executed| self.executed(executed));
                            Left::Nothing
                        }
                        Err(pause) => Left::Pause(pause),
                    });
                }
                let sync_follows = self.sync_follows;
                let outcome = self.long_turn(|session, home, out| {
                    session.note_sync_follows(sync_follows);
                    session.execute(home, execute.portal, execute.rows_max, out)
                });
                let called = outcome.await.map(|outcome| self.told_of(message, outcome))?;
                called.map(|done| done.map(|executed| self.executed(executed)))
            }
            Frontend::Sync => {
                // What was put off to the end of the transaction takes as long as a statement does.
                let called = if self.session.ends_at_length() {
                    let outcome = self.long_turn(|session, home, out| session.sync(home, out)).await?;
                    self.told_of(message, outcome)
                } else {
                    self.called(message, |session, home, out| session.sync(home, out))?
                };
                called.map(|done| done.map(|()| self.ready_for_query()))
            }
            Frontend::CopyData(data) => {
                // The session keeps what it was given: after a pause it goes on with that.
                let data = if first { data } else { &[][..] };
                if first && data.len() < LONG_DATA_MIN {
                    self.called(message, |session, home, _| session.copy_data(home, data))?
                } else {
                    let outcome = self.long_turn(|session, home, _| session.copy_data(home, data)).await?;
                    self.told_of(message, outcome)
                }
            }
            Frontend::CopyDone => {
                let outcome = self.long_turn(|session, home, out| session.copy_done(home, out)).await?;
                let called = self.told_of(message, outcome);
                if let Ok(Some(())) = called {
                    self.conversation.copy_in_ended();
                    if let Some(Resume::Query(sql)) = self.copying.take() {
                        return Ok(Left::Query(sql));
                    }
                }
                called
            }
            Frontend::CopyFail(_) | Frontend::FunctionCall | Frontend::Authentication(_) => {
                // What it keeps meanwhile is not in every session's task.
                Box::pin(self.handle_failing(message)).await?;
                Ok(None)
            }
            other => {
                self.handle_odd(other)?;
                Ok(None)
            }
        };
        Ok(match called {
            Ok(_) => Left::Nothing,
            Err(pause) => Left::Pause(pause),
        })
    }

    /// Messages that call nothing of the session, or seldom.
    fn handle_odd(&mut self, message: &Frontend<'_>) -> Result<(), End> {
        match message {
            Frontend::Close(Target::Statement(name)) => self.session.close_statement(name, &mut self.output),
            Frontend::Close(Target::Portal(name)) => self.session.close_portal(name, &mut self.output),
            Frontend::Flush => {
                self.stopwatch.ended();
                self.flush_wanted = true;
            }
            Frontend::Terminate => return Err(End::Gone),
            other => unreachable!("{other:?} is handled elsewhere"),
        }
        Ok(())
    }

    /// Messages by which what the session was doing fails.
    async fn handle_failing(&mut self, message: &Frontend<'_>) -> Result<(), End> {
        let error = match message {
            Frontend::CopyFail(reason) => {
                let failed = self.long_turn(|session, home, _| Ok(session.copy_fail(home, reason))).await?;
                self.end_copy(&failed.expect("nothing to wait for"));
                return Ok(());
            }
            Frontend::FunctionCall => SqlError::unsupported("the function call protocol"),
            _ => SqlError::new(
                base::SqlState::PROTOCOL_VIOLATION,
                "unexpected authentication message in a running session",
            ),
        };
        self.fail(&error).await?;
        self.report(&error, Via::Simple);
        Ok(())
    }

    /// A call, its error told to the client.
    #[inline]
    fn called<T>(
        &mut self,
        message: &Frontend<'_>,
        call: impl FnOnce(&mut Session, &mut Home<'_>, &mut Output) -> Result<T, Pause>,
    ) -> Result<Called<T>, End> {
        let outcome = self.turn(call)?;
        Ok(self.told_of(message, outcome))
    }

    /// What a call came to, its error told to the client.
    #[inline]
    fn told_of<T>(&mut self, message: &Frontend<'_>, outcome: Result<T, Pause>) -> Called<T> {
        match outcome {
            Ok(value) => Ok(Some(value)),
            Err(Pause::Error(error)) => {
                self.told(message, &error);
                Ok(None)
            }
            Err(pause) => Err(pause),
        }
    }

    /// Tells the client that a message failed.
    #[cold]
    fn told(&mut self, message: &Frontend<'_>, error: &SqlError) {
        match message {
            // See `queried`.
            Frontend::Query("") => self.report(&error.clone().without_location(), Via::Simple),
            Frontend::Query(sql) => self.report(&error.clone().located_in(sql), Via::Simple),
            Frontend::Parse(parse) => self.report(&error.clone().located_in(parse.query), Via::Extended),
            Frontend::Sync => {
                self.output.report(error);
                self.ready_for_query();
            }
            Frontend::CopyData(_) | Frontend::CopyDone => self.end_copy(error),
            _ => self.report(error, Via::Extended),
        }
    }

    fn queried(&mut self, executed: Executed, sql: &str) {
        match executed {
            Executed::Complete => self.ready_for_query(),
            Executed::CopyIn => {
                // The session has the statements that are left. A long text is not kept, for as long as the client takes with its data, only to tell
                // where in it one of them fails.
                let text = if sql.len() < LONG_TEXT_MIN { sql } else { "" };
                self.copying = Some(Resume::Query(text.to_owned()));
                self.stopwatch.forget();
                self.conversation.copy_in_began(Via::Simple);
                self.flush_wanted = true;
            }
        }
    }

    fn executed(&mut self, executed: Executed) {
        if executed == Executed::CopyIn {
            self.copying = Some(Resume::Execute);
            self.stopwatch.forget();
            self.conversation.copy_in_began(Via::Extended);
            self.flush_wanted = true;
        }
    }

    /// A Bind of little, whose statement is planned; `None` for another one.
    fn bind_soon(&mut self, message: &Frontend<'_>, bind: &Bind<'_>) -> Result<Option<Called<()>>, End> {
        if bind.parameters.encoded_len() >= LONG_TEXT_MIN {
            return Ok(None);
        }
        let values = BindValues::of(bind);
        let called = self.called(message, |session, home, out| {
            let is_soon = session.bind_soon(home, values.request(bind), out)?;
            Ok(is_soon.then_some(()))
        })?;
        Ok(done_soon(called))
    }

    async fn bind_at_length(&mut self, message: &Frontend<'_>, bind: &Bind<'_>) -> Result<Called<()>, End> {
        let values = BindValues::of(bind);
        let outcome = self.long_turn(|session, home, out| session.bind(home, values.request(bind), out));
        outcome.await.map(|outcome| self.told_of(message, outcome))
    }

    /// An Execute that comes by no place where it could be suspended, and needs no stack of its own for that; `None` for another one.
    fn execute_soon(
        &mut self,
        message: &Frontend<'_>,
        execute: &Execute<'_>,
    ) -> Result<Option<Called<Executed>>, End> {
        if execute.rows_max.is_some() || !self.session.runs_soon(execute.portal) {
            return Ok(None);
        }
        let sync_follows = self.sync_follows;
        let called = self.called(message, |session, home, out| {
            session.note_sync_follows(sync_follows);
            session.execute_soon(home, execute.portal, out)
        })?;
        Ok(done_soon(called))
    }

    /// A Describe of what is planned; `None` for another one.
    fn describe_soon(
        &mut self,
        message: &Frontend<'_>,
        target: Target<'_>,
    ) -> Result<Option<Called<()>>, End> {
        let called = self.called(message, |session, home, out| {
            let is_soon = match target {
                Target::Statement(name) => session.is_planned(home, name),
                Target::Portal(name) => session.is_described(name),
            };
            if is_soon { describe(session, home, target, out).map(Some) } else { Ok(None) }
        })?;
        Ok(done_soon(called))
    }

    fn end_copy(&mut self, error: &SqlError) {
        self.copying = None;
        self.restoring = None;
        if let Some(via) = self.conversation.copy_in_ended() {
            self.report(error, via);
        }
    }
}

/// Parts of a Bind as a session takes them.
struct BindValues<'a> {
    parameter_formats: SmallVec<[i16; 16]>,
    parameters: SmallVec<[Option<&'a [u8]>; 16]>,
    result_formats: SmallVec<[i16; 16]>,
}

impl<'a> BindValues<'a> {
    fn of(bind: &Bind<'a>) -> BindValues<'a> {
        BindValues {
            parameter_formats: bind.parameter_formats.iter().map(|format| format.code()).collect(),
            parameters: bind.parameters.iter().collect(),
            result_formats: bind.result_formats.iter().map(|format| format.code()).collect(),
        }
    }

    fn request<'b>(&'b self, bind: &Bind<'b>) -> sql::session::Bind<'b> {
        sql::session::Bind {
            portal: bind.portal,
            statement: bind.statement,
            parameter_formats: &self.parameter_formats,
            parameters: &self.parameters,
            result_formats: &self.result_formats,
        }
    }
}

fn describe(
    session: &mut Session,
    home: &mut Home<'_>,
    target: Target<'_>,
    out: &mut Output,
) -> Result<(), Pause> {
    match target {
        Target::Statement(name) => session.describe_statement(home, name, out),
        Target::Portal(name) => session.describe_portal(home, name, out),
    }
}

/// A call that was made only if it was known to be short: `None` if it was not.
fn done_soon<T>(called: Called<Option<T>>) -> Option<Called<T>> {
    match called {
        Ok(Some(None)) => None,
        Ok(Some(Some(done))) => Some(Ok(Some(done))),
        Ok(None) => Some(Ok(None)),
        Err(pause) => Some(Err(pause)),
    }
}
