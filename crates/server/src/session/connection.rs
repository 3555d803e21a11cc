//! The session's task: bytes in, messages handled, bytes out.

use std::sync::Arc;

use base::{SqlError, SqlState};
use pgproto::conversation::{Conversation, Route, Via};
use pgproto::frontend::Frontend;
use pgproto::{backend, frame, frontend};
use sql::session::{Session, SessionStart};

use super::control::{Control, IdleBranch, Interruption};
use super::host::{Counted, Host};
use super::long_input::LongInput;
use super::messages::Left;
use super::output::Output;
use super::stopwatch::Stopwatch;
use super::watch::Watch;
use crate::executor::{self, Noted, TaskUse, Wait};
use crate::reception::Authenticated;
use crate::shared::Shared;
use crate::stream::Stream;
use crate::tenants::Home;
use crate::tenants::restoring::Restoring;

/// Others have used the caches since its last message: in a millisecond a worker runs some hundred statements.
const COLD_AFTER: base::Nanos = base::Nanos::from_millis(1);
/// As long as that, and they have pushed out what is more than they use in a turn, too: to look for the statements of a batch is worth what it takes.
const ALL_COLD_AFTER: base::Nanos = base::Nanos::from_millis(5);
/// Output gathered before it is sent although more is to come.
const OUTPUT_LEN_MAX: usize = 64 << 10;
/// Capacity of the input buffer an idle session keeps.
const IDLE_INPUT_CAPACITY_MAX: usize = 1 << 10;
/// An answer that the point path may give to any query waits to be read although there is no room for it, but not for long, and
/// within a bound of its own.
const READ_SOON_LEN_MAX: usize = 4 << 20;
const READ_TIME_MAX: base::Nanos = base::Nanos::from_secs(5);
/// How long the last words to a client may take.
const GOODBYE_TIME_MAX: base::Nanos = base::Nanos::from_secs(2);

/// Why a session ended.
pub(super) enum End {
    /// The client said goodbye or is gone.
    Gone,
    /// The client is told.
    Fatal(SqlError),
}

impl From<SqlError> for End {
    fn from(error: SqlError) -> End {
        End::Fatal(error)
    }
}

/// What is to be done with a message.
enum Looked<'f> {
    Skip,
    Handle(Frontend<'f>),
    /// It fails, by whatever it came.
    Refuse(SqlError, Via),
}

/// What continues when a COPY FROM STDIN has its data.
pub(super) enum Resume {
    /// The statements after the COPY in a Query; its text, if it is short.
    Query(String),
    /// Nothing: an Execute runs one statement.
    Execute,
}

/// A session's whole state. Dropping it rolls back and gives its place and its locks back.
pub(super) struct Connection {
    pub(super) shared: Arc<Shared>,
    pub(super) home: Arc<Home>,
    pub(super) control: Arc<Control>,
    pub(super) stream: Stream,
    pub(super) input: Vec<u8>,
    pub(super) long_input: Arc<LongInput>,
    answers: LongInput,
    read_soon: LongInput,
    pub(super) output: Output,
    pub(super) conversation: Conversation,
    pub(super) session: Session,
    pub(super) watch: Arc<Watch>,
    /// The opening of the tenant that the session belongs to.
    pub(super) incarnation: u64,
    pub(super) copying: Option<Resume>,
    /// The tenant that the data of a COPY FROM STDIN is the backup of.
    pub(super) restoring: Option<Restoring>,
    /// The client waits for what is in `output`.
    pub(super) flush_wanted: bool,
    /// The client was told that its session is ready, and has sent nothing since that a cancellation could be of.
    pub(super) is_ready: bool,
    /// A Sync has come behind the message that is handled.
    pub(super) sync_follows: bool,
    /// Since when a whole message is waited for, if one is.
    waits_since: Option<base::Nanos>,
    /// The statement that waits for a lock from time to time, and since when it does.
    pub(super) waits_at_times: Option<(u64, base::Nanos)>,
    /// How long its statements take.
    pub(super) stopwatch: Stopwatch,
    /// What its task takes.
    pub(super) used: Arc<TaskUse>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        let session = &mut self.session;
        self.home.release(self.incarnation, |home| session.end(home));
    }
}

/// Gives the session's place back, also if the session could not be made.
struct Place(Arc<Shared>, Arc<Control>, Arc<Home>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.sessions.end(&self.1);
        self.2.session_ended();
    }
}

/// Runs a session to its end. Polled on the home worker of the tenant.
pub(crate) fn serve(
    shared: Arc<Shared>,
    home: Arc<Home>,
    control: Arc<Control>,
    client: Authenticated,
) -> impl Future<Output = ()> + Send {
    let used = Arc::default();
    Noted::new(&used, serve_noted(shared, home, control, client, used.clone()))
}

async fn serve_noted(
    shared: Arc<Shared>,
    home: Arc<Home>,
    control: Arc<Control>,
    mut client: Authenticated,
    used: Arc<TaskUse>,
) {
    let _place = Place(shared.clone(), control.clone(), home.clone());
    let output = Output::new(std::mem::take(&mut client.output));
    let watch = Arc::new(Watch::new(home.statement_limits(), &shared.runaways, &control));
    let long_input = shared.sessions.long_input(&control);
    let (answers, read_soon) = shared.sessions.answers(&control);
    let counted = Counted { table: home.statements().clone(), used: used.clone() };
    let host =
        Host::new(shared.clone(), control.clone(), watch.clone(), Some(counted), Some(long_input.clone()));
    let (session, incarnation) = match begin(&home, &control, host, &client).await {
        Ok(session) => session,
        Err(error) => {
            let mut output = output;
            output.report(&error.with_severity(base::Severity::Fatal));
            if client.stream.send(output.take()).await.0.is_ok() {
                client.stream.finish().await;
            }
            return;
        }
    };
    let mut connection = Connection {
        shared,
        home,
        control,
        stream: client.stream,
        input: client.input,
        long_input,
        answers,
        read_soon,
        output,
        conversation: Conversation::new(),
        session,
        watch,
        incarnation,
        copying: None,
        restoring: None,
        flush_wanted: true,
        is_ready: true,
        sync_follows: false,
        waits_since: None,
        waits_at_times: None,
        stopwatch: Stopwatch::default(),
        used,
    };
    connection.greet();
    match connection.run().await {
        Err(End::Fatal(error)) => {
            tracing::info!(tenant = connection.control.tenant.0, session = connection.control.id.0, error = ?error.to_string(), "session ended");
            connection.say_goodbye(error).await;
        }
        Ok(()) | Err(End::Gone) => {
            let deadline = env::now() + GOODBYE_TIME_MAX;
            let _ = env::timeout_at(Some(deadline), connection.stream.sent()).await;
        }
    }
    connection.end().await;
}

async fn begin(
    home: &Arc<Home>,
    control: &Arc<Control>,
    host: Host,
    client: &Authenticated,
) -> Result<(Session, u64), SqlError> {
    home.open().await?;
    let start = SessionStart {
        id: control.id,
        tenant: control.tenant,
        database: client.database.clone(),
        user: client.user.clone(),
        administrator: client.admission.administrator,
        parameters: client.parameters.clone(),
        host: Arc::new(host),
    };
    let session = home.with(|home| Session::new(start, home.tenant))??;
    Ok((session, home.incarnation()))
}

impl Connection {
    fn greet(&mut self) {
        self.control.show_application(&self.session.application_name());
        self.session.send_start_warnings(&mut self.output);
        for (name, value) in self.session.parameter_statuses() {
            backend::parameter_status(self.output.raw(), name, &value);
        }
        backend::backend_key_data(self.output.raw(), self.control.key());
        self.ready_for_query();
    }

    async fn run(&mut self) -> Result<(), End> {
        loop {
            let input = std::mem::take(&mut self.input);
            let (mut at, mut before) = (0, 0);
            while let Some(message) = frame::next(&input[at..])? {
                // Many short messages are to others what a long one is. What was executed is ended without more ado, and what was bound is
                // executed: the clock is looked at once for the two.
                let is_end = message.tag == b'S' && self.session.is_between_messages();
                let is_bound = message.tag == b'E' && before == b'B';
                if at > 0 && !is_end && !is_bound {
                    self.give_way().await?;
                }
                before = message.tag;
                at += message.wire_len();
                self.sync_follows = input.get(at) == Some(&b'S');
                match self.look_at(message)? {
                    Looked::Skip => {}
                    Looked::Handle(message) => match self.handle_now(&message, true).await? {
                        Left::Nothing => {}
                        left => self.handle(&message, left).await?,
                    },
                    // What it keeps meanwhile is not in every session's task.
                    Looked::Refuse(error, via) => Box::pin(self.refuse_message(&error, via)).await?,
                }
                if self.output.len() > OUTPUT_LEN_MAX {
                    self.flush().await?;
                }
            }
            if at > 0 {
                self.waits_since = None;
            }
            let early = self.keep_rest(input, at);
            if self.flush_wanted {
                self.flush().await?;
            }
            if !early {
                self.receive().await?;
                // What is there already may have been received without a wait.
                self.give_way().await?;
            }
        }
    }

    /// Ends the poll if it has lasted. Of what a client sends, or takes, faster than it is handled, each step may end without a wait: others have
    /// their turns all the same.
    pub(super) async fn give_way(&mut self) -> Result<(), End> {
        if executor::poll_elapsed() >= executor::TURN_MAX {
            self.pass_turn()?;
            executor::yield_now().await;
        }
        Ok(())
    }

    /// The error of a message that is not handled. A cancellation is of all messages since the client was told that its session is ready: one that
    /// came while none of them ran ends those that follow.
    fn canceled_before(&mut self, message: &Frontend<'_>) -> Result<Option<SqlError>, End> {
        if self.is_ready && !matches!(message, Frontend::Flush) {
            self.is_ready = false;
            self.control.begin_statement();
        }
        if !matches!(message, Frontend::Parse(_) | Frontend::Bind(_) | Frontend::Execute(_)) {
            return Ok(None);
        }
        let Some(interruption) = self.control.pending() else { return Ok(None) };
        match interruption.fatal() {
            Some(fatal) => Err(End::Fatal(fatal)),
            None => Ok(Some(interruption.canceled())),
        }
    }

    /// Keeps the beginning of a message, and memory only for that. True if more came while a message was handled: then
    /// there may be whole messages.
    fn keep_rest(&mut self, mut input: Vec<u8>, used: usize) -> bool {
        let early = std::mem::take(&mut self.input);
        if used < input.len() || !early.is_empty() {
            input.drain(..used);
            input.extend_from_slice(&early);
            // What a long message took is not the next one's.
            if input.capacity() > 4 * input.len().max(IDLE_INPUT_CAPACITY_MAX) {
                input.shrink_to_fit();
            }
            self.input = input;
        } else if input.capacity() <= IDLE_INPUT_CAPACITY_MAX {
            input.clear();
            self.input = input;
        }
        !early.is_empty()
    }

    async fn receive(&mut self) -> Result<(), End> {
        self.pass_turn()?;
        let _idle = self.idle_branch();
        self.receive_more().await
    }

    /// For a wait for the client, or for other sessions: the log's upkeep is told of it where it keeps the log.
    pub(super) fn idle_branch(&self) -> Option<IdleBranch> {
        self.control.idle(self.session.has_branch())
    }

    async fn receive_more(&mut self) -> Result<(), End> {
        self.output.shrink();
        self.session.settle(self.is_ready);
        self.long_input.hold(self.input.len())?;
        if let Some(wanted) = frame::announced_len(&self.input) {
            // Doubling from the start would copy a long message many times; its announced length is not trusted
            // further than what is there already.
            let more = wanted.saturating_sub(self.input.len());
            self.input.reserve(more.min(self.input.len().max(env::RECV_SPARE_MIN)));
        }
        if self.conversation.copying_in().is_some() {
            return self.receive_copy().await;
        }
        let timeouts = self.session.timeouts();
        let in_transaction = self.session.transaction_status() != b'I';
        let limit = if in_transaction { timeouts.idle_in_transaction } else { timeouts.idle };
        let began = env::now();
        // Who sends a message byte by byte is idle all the same.
        let since = *self.waits_since.get_or_insert(began);
        let deadline = limit.map(|limit| since + limit);
        let input = std::mem::take(&mut self.input);
        let receiving = self.stream.recv(input);
        let received = if self.is_ready {
            self.control.race_idle(deadline, receiving).await
        } else {
            self.control.race_to_end(deadline, receiving).await
        };
        let now = env::now();
        if now - began >= COLD_AFTER {
            self.session.prefetch();
            self.home.prefetch();
        }
        self.home.add_wait(Wait::Client, now - began);
        self.stopwatch.received(now);
        self.session.received(now);
        match received {
            Ok((Ok(0) | Err(_), _)) => Err(End::Gone),
            Ok((Ok(_), input)) => {
                if now - began >= ALL_COLD_AFTER {
                    self.session.prefetch_statements(frontend::statements_bound(&input));
                }
                self.input = input;
                // What has come is not begun any more.
                self.control.told_to_end().map_or(Ok(()), |end| Err(End::Fatal(end)))
            }
            Err(Interruption::Deadline) if in_transaction => Err(End::Fatal(SqlError::fatal(
                SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
                "terminating connection due to idle-in-transaction timeout",
            ))),
            Err(Interruption::Deadline) => Err(End::Fatal(SqlError::fatal(
                SqlState::IDLE_SESSION_TIMEOUT,
                "terminating connection due to idle-session timeout",
            ))),
            Err(other) => Err(other.fatal().map_or(End::Gone, End::Fatal)),
        }
    }

    /// As [`Connection::receive_more`] while a COPY waits for data; a cancellation ends the COPY.
    async fn receive_copy(&mut self) -> Result<(), End> {
        // A client that never pauses would never be found waiting.
        let patience = self.patience();
        let received = match self.check(&patience) {
            Err(interruption) => Err(interruption),
            // An empty buffer: if the receive is dropped, the next one finds every byte.
            Ok(()) => {
                self.control.activity().wait_event = Some(("Client", "ClientRead"));
                let received = self.control.race(&patience, self.stream.recv(Vec::new())).await;
                self.control.activity().wait_event = None;
                received
            }
        };
        match received {
            Ok((Ok(0) | Err(_), _)) => Err(End::Gone),
            Ok((Ok(_), more)) => {
                self.input.extend_from_slice(&more);
                Ok(())
            }
            Err(interruption) => {
                if let Some(fatal) = interruption.fatal() {
                    return Err(End::Fatal(fatal));
                }
                self.give_up_restore().await;
                // What it keeps meanwhile is not in every session's task.
                Box::pin(self.refuse_message(&interruption.canceled(), Via::Simple)).await?;
                self.flush().await
            }
        }
    }

    /// Has others find what the messages so far have locked, before they have their turns.
    pub(super) fn pass_turn(&mut self) -> Result<(), End> {
        if self.session.is_between_messages() {
            let session = &mut self.session;
            self.home.with_opening(self.incarnation, |home| session.pass_turn(home))?;
        }
        Ok(())
    }

    /// Sends all output, once everything it may speak of is durable.
    pub(super) async fn flush(&mut self) -> Result<(), End> {
        self.pass_turn()?;
        self.flush_wanted = false;
        if let Some(observed) = self.session.observed() {
            let began = env::now();
            let durable = self.control.race_to_end(None, self.home.wait_durable(observed)).await;
            self.home.add_wait(Wait::LogFlush, env::now() - began);
            match durable {
                Ok(durable) => durable?,
                // What the output says is told if it becomes durable before the goodbye.
                Err(interruption) => return Err(interruption.fatal().map_or(End::Gone, End::Fatal)),
            }
            self.session.reset_observed();
        }
        if self.stopwatch.has_ended() || self.session.has_ended_statement() {
            let now = env::now();
            if let Some((time, statements)) = self.stopwatch.answered(now) {
                self.home.statement_times().record(time, statements);
            }
            self.session.count_ended(now);
        }
        if self.output.is_empty() {
            return Ok(());
        }
        let mut out = self.output.take();
        match self.stream.send_soon(&mut out) {
            Ok(true) => {
                self.output.reuse(out);
                return Ok(());
            }
            Ok(false) => {}
            Err(_) => return Err(End::Gone),
        }
        let _idle = self.idle_branch();
        let (mut read_until, mut refused) = (None, None);
        if let Err(error) = self.answers.wait_to_send(out.len()) {
            if out.len() > READ_SOON_LEN_MAX || self.read_soon.wait_to_send(out.len()).is_err() {
                return Err(error.into());
            }
            (read_until, refused) = (Some(env::now() + READ_TIME_MAX), Some(error));
        }
        match self.control.race_to_end(read_until, self.stream.send(out)).await {
            Ok((Ok(()), out)) => {
                self.answers.wait_to_send(0)?;
                self.read_soon.wait_to_send(0)?;
                self.output.reuse(out);
                Ok(())
            }
            Ok((Err(_), _)) => Err(End::Gone),
            // The send goes on by itself; what is sent next follows it.
            Err(interruption) => Err(interruption.fatal().or(refused).map_or(End::Gone, End::Fatal)),
        }
    }

    /// Tells the client why the session ends; a client that does not read is not waited for long.
    async fn say_goodbye(&mut self, error: SqlError) {
        let deadline = env::now() + GOODBYE_TIME_MAX;
        if let Some(observed) = self.session.observed() {
            let durable = env::timeout_at(Some(deadline), self.home.wait_durable(observed)).await;
            if !matches!(durable, Ok(Ok(()))) {
                // What was to be told before may not be.
                self.output.take();
            }
        }
        self.output.report(&error.with_severity(base::Severity::Fatal));
        let out = self.output.take();
        if let Ok((Ok(()), _)) = env::timeout_at(Some(deadline), self.stream.send(out)).await {
            let _ = env::timeout_at(Some(deadline), self.stream.finish()).await;
        }
    }

    pub(super) fn ready_for_query(&mut self) {
        let status = match self.session.transaction_status() {
            b'I' => backend::TransactionStatus::Idle,
            b'E' => backend::TransactionStatus::Failed,
            _ => backend::TransactionStatus::InTransaction,
        };
        self.session.report_settings(&mut self.output);
        backend::ready_for_query(self.output.raw(), status);
        self.session.report_idle();
        self.stopwatch.ended();
        self.watch.statement_over();
        self.flush_wanted = true;
        self.is_ready = true;
    }

    fn look_at<'f>(&mut self, message: frame::Frame<'f>) -> Result<Looked<'f>, End> {
        match self.conversation.route(message.tag) {
            Route::Skip => return Ok(Looked::Skip),
            Route::BreaksCopy(error) => return Ok(Looked::Refuse(error, Via::Simple)),
            Route::Handle => {}
        }
        let decoded = match frontend::decode(message) {
            Ok(decoded) => decoded,
            Err(error) => return Ok(Looked::Refuse(error, Conversation::via(message.tag))),
        };
        Ok(match self.canceled_before(&decoded)? {
            None => Looked::Handle(decoded),
            Some(error) => Looked::Refuse(error, Via::Extended),
        })
    }

    /// Tells the client of a message that is not handled, or of a COPY's data that do not come, and has the session take back what it was doing: also a COPY
    /// FROM STDIN that waits for data, and then the error is the COPY's. `via`: of the message.
    async fn refuse_message(&mut self, error: &SqlError, via: Via) -> Result<(), End> {
        self.fail(error).await?;
        let via = self.conversation.copy_in_ended().unwrap_or(via);
        self.copying = None;
        self.restoring = None;
        self.report(error, via);
        Ok(())
    }

    /// Tells the client of an error and what follows it in the protocol.
    pub(super) fn report(&mut self, error: &SqlError, via: Via) {
        self.output.report(error);
        self.conversation.failed(via);
        match via {
            Via::Simple => self.ready_for_query(),
            Via::Extended => self.flush_wanted = true,
        }
    }
}
