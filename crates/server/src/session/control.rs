//! How a session is reached from outside: by its cancel key, by administrators, by the end of the server.
//!
//! One [`Control`] a session, shared by the session's task, which obeys, and whoever asks. A request is a flag and a
//! wake-up; asking twice is asking once.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;

use base::limits::IDENTIFIER_LEN_MAX;
use base::{Nanos, SessionId, SqlError, SqlState, TenantId};
use env::Env;
use futures::task::AtomicWaker;
use governor::RunawayVerdict;
use pgproto::startup::CancelKey;
use rustc_hash::FxHashMap;
use sql::session::{BackendRow, StatementText};

use super::long_input::{Came, LongInput, LongInputs};
use super::watch::{TimeLimit, canceled_by};
use crate::executor::Background;

/// The last places, one in so many of all that are not kept for the administrator, are for tenants that have fewer sessions than this: one with many, by a client that
/// forgets its connections perhaps, keeps nobody else out.
const LAST_PLACES_PART: usize = 8;
const FEW_SESSIONS: usize = 16;

/// Longest query text `pg_stat_activity` shows, as PostgreSQL's default.
const QUERY_LEN_MAX: usize = 1024;

const CANCEL: u8 = 1;
const TERMINATE: u8 = 2;
const SHUTDOWN: u8 = 4;
const DROPPED: u8 = 8;
const KEEPS_LOG: u8 = 16;
const FILLS_LOG: u8 = 32;

/// Why what a session waited for did not come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Interruption {
    /// The statement is to end.
    Cancel,
    /// The session is to end.
    Terminate,
    /// The server is to end.
    Shutdown,
    /// The tenant is gone.
    Dropped,
    /// Its transaction waits, and keeps the log over its limit.
    KeepsLog,
    /// Its transaction writes nothing, and keeps a log whose volume is full.
    FillsLog,
    /// The deadline of the wait passed.
    Deadline,
    /// The statement's wait for a lock took as long as it may.
    LockTimeout,
    /// The statement took as long as it may.
    StatementTimeout(TimeLimit),
    /// A rule ends it.
    Runaway(Box<RunawayVerdict>),
}

impl Interruption {
    /// The error that ends the statement, where the session goes on.
    pub(crate) fn canceled(&self) -> SqlError {
        let (state, why, detail) = match self {
            Interruption::StatementTimeout(limit) => {
                (SqlState::QUERY_CANCELED, "statement timeout", Some(limit.to_string()))
            }
            Interruption::Runaway(verdict) => return canceled_by(verdict),
            Interruption::LockTimeout => (SqlState::LOCK_NOT_AVAILABLE, "lock timeout", None),
            _ => (SqlState::QUERY_CANCELED, "user request", None),
        };
        let error = SqlError::new(state, format!("canceling statement due to {why}"));
        match detail {
            Some(detail) => error.with_detail(detail),
            None => error,
        }
    }

    /// The error that ends the session, if it must end.
    pub(crate) fn fatal(&self) -> Option<SqlError> {
        match self {
            Interruption::Cancel
            | Interruption::Deadline
            | Interruption::LockTimeout
            | Interruption::StatementTimeout(_)
            | Interruption::Runaway(_) => None,
            Interruption::Terminate | Interruption::Shutdown => Some(SqlError::fatal(
                SqlState::ADMIN_SHUTDOWN,
                "terminating connection due to administrator command",
            )),
            Interruption::KeepsLog => Some(
                SqlError::fatal(
                    SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
                    "terminating connection because its idle transaction keeps the log over its limit",
                )
                .with_hint("End transactions with large changes soon, or have the server started with a larger --log-limit."),
            ),
            Interruption::FillsLog => Some(
                SqlError::fatal(
                    SqlState::DISK_FULL,
                    "terminating connection because its transaction keeps the log, whose volume is full",
                )
                .with_hint("End transactions with large changes soon, and query before or after them."),
            ),
            Interruption::Dropped => Some(SqlError::fatal(
                SqlState::DATABASE_DROPPED,
                "terminating connection because the tenant was dropped",
            )),
        }
    }
}

/// How long a wait may last, which may change while it does.
pub(crate) trait Patience {
    /// When to look whether it has lasted too long; `None` for never. After a look that found nothing, later than that.
    fn next_look(&self) -> Option<Nanos>;
    /// Why the wait is to end, if it is.
    fn look(&self, now: Nanos) -> Option<Interruption>;
}

/// Until an instant.
impl Patience for Option<Nanos> {
    fn next_look(&self) -> Option<Nanos> {
        *self
    }
    fn look(&self, now: Nanos) -> Option<Interruption> {
        self.filter(|deadline| now >= *deadline).map(|_| Interruption::Deadline)
    }
}

impl<P: Patience> Patience for &P {
    fn next_look(&self) -> Option<Nanos> {
        P::next_look(self)
    }
    fn look(&self, now: Nanos) -> Option<Interruption> {
        P::look(self, now)
    }
}

/// What a session does, as its task last said.
#[derive(Default)]
struct Doing {
    row: BackendRow,
    /// The text of its statement, where the row still has that of one before: it is put there when somebody looks, which is seldom.
    text: Option<Arc<StatementText>>,
}

impl Doing {
    fn enter(&mut self, state: &'static str, since: i64) {
        self.row.state = state;
        self.row.state_change = Some(since);
        match state {
            "idle" => self.row.transaction_start = None,
            _ if self.row.transaction_start.is_none() => self.row.transaction_start = Some(since),
            _ => {}
        }
    }

    fn show(&mut self, query: &str) {
        self.text = None;
        self.row.query.clear();
        self.row.query.push_str(&query[..query.floor_char_boundary(QUERY_LEN_MAX)]);
    }
}

/// What a session does, to look at and to change.
pub(crate) struct Activity<'a>(MutexGuard<'a, Doing>);

impl Deref for Activity<'_> {
    type Target = BackendRow;

    fn deref(&self) -> &BackendRow {
        &self.0.row
    }
}

impl DerefMut for Activity<'_> {
    fn deref_mut(&mut self) -> &mut BackendRow {
        &mut self.0.row
    }
}

/// The shared half of a session.
pub(crate) struct Control {
    pub(crate) id: SessionId,
    pub(crate) tenant: TenantId,
    pub(crate) administrator: bool,
    /// How many sessions its tenant may have, or the server for an administrator's, as it was when it began.
    pub(crate) connections_max: u32,
    secret: u32,
    requests: AtomicU8,
    waker: AtomicWaker,
    doing: Mutex<Doing>,
    /// Since when a transaction that has parts in the log waits for others than the server; 0 if none does.
    branch_idle_since: AtomicU64,
    /// Such a transaction waits for a query of its own.
    branch_queries: AtomicBool,
    /// Since when such a transaction, at work, has written nothing; 0 if it writes, or none is.
    branch_silent_since: AtomicU64,
    /// Of its task and its queries.
    pub(crate) background: Background,
}

impl Control {
    /// For statements of the server itself: in no list, reached by nobody. `id`: [`Sessions::new_id`]'s, as what they lock and wait for is told by it.
    pub(crate) fn internal(id: SessionId, tenant: TenantId) -> Arc<Control> {
        Arc::new(Control {
            id,
            tenant,
            administrator: true,
            connections_max: 0,
            secret: 0,
            requests: AtomicU8::new(0),
            waker: AtomicWaker::new(),
            doing: Mutex::default(),
            branch_idle_since: AtomicU64::new(0),
            branch_queries: AtomicBool::new(false),
            branch_silent_since: AtomicU64::new(0),
            background: Background::default(),
        })
    }

    /// The key a client cancels with.
    pub(crate) fn key(&self) -> CancelKey {
        CancelKey { process_id: self.id.0, secret: self.secret }
    }

    fn doing(&self) -> MutexGuard<'_, Doing> {
        self.doing.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn activity(&self) -> Activity<'_> {
        let mut doing = self.doing();
        if let Some(text) = doing.text.take() {
            doing.show(&text);
        }
        Activity(doing)
    }

    /// Shows what the session does since `since`: a statement's text when one begins.
    pub(super) fn report(&self, state: &'static str, query: Option<&str>, since: i64) {
        let mut doing = self.doing();
        doing.enter(state, since);
        if let Some(query) = query {
            doing.row.query_start = Some(since);
            doing.show(query);
        }
    }

    /// As [`Control::report`] of a prepared statement that begins.
    pub(super) fn report_statement(&self, text: &Arc<StatementText>, since: i64) {
        if text.len() > QUERY_LEN_MAX {
            // It may be much longer, and its session let go of it.
            return self.report("active", Some(&text[..]), since);
        }
        let mut doing = self.doing();
        doing.enter("active", since);
        doing.row.query_start = Some(since);
        if doing.text.as_ref().is_none_or(|known| !Arc::ptr_eq(known, text)) {
            doing.text = Some(text.clone());
        }
    }

    /// Shows what the session's application is called now, as much of it as PostgreSQL shows.
    pub(super) fn show_application(&self, name: &str) {
        let shown = &name[..name.floor_char_boundary(IDENTIFIER_LEN_MAX)];
        shown.clone_into(&mut self.activity().application_name);
    }

    fn request(&self, flag: u8) {
        // AcqRel pairs with the loads in `pending`: the session that sees the flag sees what led to it.
        self.requests.fetch_or(flag, Ordering::AcqRel);
        self.waker.wake();
    }

    pub(crate) fn cancel(&self) {
        self.request(CANCEL);
    }

    pub(crate) fn terminate(&self) {
        self.request(TERMINATE);
    }

    /// For a wait for the client, or for other sessions: [`Control::idle_branch`] of a session whose transaction `has_branch`. Of any other nothing is left of a transaction
    /// that wrote nothing before it ended.
    pub(crate) fn idle(self: &Arc<Control>, has_branch: bool) -> Option<IdleBranch> {
        if has_branch {
            return Some(self.idle_branch());
        }
        self.note_silent_branch(false, Nanos(0));
        None
    }

    /// Notes that a transaction which has parts in the log waits for its client, or for other sessions, until what is returned is dropped.
    pub(crate) fn idle_branch(self: &Arc<Control>) -> IdleBranch {
        self.branch_idle_since.store(env::now().0.max(1), Ordering::Relaxed);
        IdleBranch(self.clone())
    }

    /// Notes that a transaction which has parts in the log runs a query, which may take long, until what is returned is dropped.
    pub(crate) fn querying_branch(self: &Arc<Control>) -> QueryingBranch {
        self.branch_queries.store(true, Ordering::Relaxed);
        QueryingBranch(self.clone())
    }

    /// Notes that a transaction which has parts in the log is at work and writes nothing, or that it does or there is none.
    pub(crate) fn note_silent_branch(&self, is_silent: bool, now: Nanos) {
        if !is_silent {
            self.branch_silent_since.store(0, Ordering::Relaxed);
        } else if self.branch_silent_since.load(Ordering::Relaxed) == 0 {
            self.branch_silent_since.store(now.0.max(1), Ordering::Relaxed);
        }
    }

    fn branch_is_silent_since(&self, instant: Nanos) -> bool {
        let since = self.branch_silent_since.load(Ordering::Relaxed);
        since != 0 && since <= instant.0
    }

    fn branch_is_idle_since(&self, instant: Nanos) -> bool {
        let since = self.branch_idle_since.load(Ordering::Relaxed);
        since != 0 && since <= instant.0
    }

    /// Forgets a cancellation that came between statements.
    pub(crate) fn begin_statement(&self) {
        if self.requests.load(Ordering::Relaxed) & CANCEL != 0 {
            self.requests.fetch_and(!CANCEL, Ordering::AcqRel);
        }
    }

    /// Whether anything is asked of the session now.
    pub(crate) fn is_pending(&self) -> bool {
        // Relaxed: who acts on it looks again, with `pending`.
        self.requests.load(Ordering::Relaxed) != 0
    }

    /// What is asked of the session now; a cancellation is taken by asking.
    pub(crate) fn pending(&self) -> Option<Interruption> {
        if self.requests.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.asked_to_end().or_else(|| {
            self.requests.fetch_and(!CANCEL, Ordering::AcqRel);
            Some(Interruption::Cancel)
        })
    }

    /// Why the session is to end, if that is asked of it.
    fn asked_to_end(&self) -> Option<Interruption> {
        let flags = self.requests.load(Ordering::Acquire);
        if flags & !CANCEL == 0 {
            None
        } else if flags & DROPPED != 0 {
            Some(Interruption::Dropped)
        } else if flags & SHUTDOWN != 0 {
            Some(Interruption::Shutdown)
        } else if flags & TERMINATE != 0 {
            Some(Interruption::Terminate)
        } else if flags & KEEPS_LOG != 0 {
            Some(Interruption::KeepsLog)
        } else {
            Some(Interruption::FillsLog)
        }
    }

    /// The error that ends the session, if that is asked of it.
    pub(crate) fn told_to_end(&self) -> Option<SqlError> {
        self.asked_to_end()?.fatal()
    }

    /// Has a wait look anew what it is held to.
    pub(crate) fn look_again(&self) {
        self.waker.wake();
    }

    /// Runs `future` until it ends, something is asked of the session or `patience` does.
    pub(crate) async fn race<F: Future>(
        &self,
        patience: impl Patience,
        future: F,
    ) -> Result<F::Output, Interruption> {
        self.race_asking(Control::pending, patience, future).await
    }

    /// As [`Control::race`], for what is not the statement's alone: a cancellation stays asked for, and ends what looks for it next.
    pub(crate) async fn race_to_end<F: Future>(
        &self,
        patience: impl Patience,
        future: F,
    ) -> Result<F::Output, Interruption> {
        self.race_asking(Control::asked_to_end, patience, future).await
    }

    async fn race_asking<F: Future>(
        &self,
        asked: impl Fn(&Control) -> Option<Interruption>,
        patience: impl Patience,
        future: F,
    ) -> Result<F::Output, Interruption> {
        let mut future = std::pin::pin!(future);
        let mut alarm: Option<(Nanos, env::Sleep)> = None;
        std::future::poll_fn(|cx| {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Ok(output));
            }
            self.waker.register(cx.waker());
            if let Some(interruption) = asked(self) {
                return Poll::Ready(Err(interruption));
            }
            loop {
                let Some(next) = patience.next_look() else {
                    alarm = None;
                    return Poll::Pending;
                };
                let (_, sleep) = match &mut alarm {
                    Some(alarm) if alarm.0 == next => alarm,
                    other => other.insert((next, env::sleep_until(next))),
                };
                if std::pin::Pin::new(sleep).poll(cx).is_pending() {
                    return Poll::Pending;
                }
                alarm = None;
                if let Some(interruption) = patience.look(env::now()) {
                    return Poll::Ready(Err(interruption));
                }
            }
        })
        .await
    }

    /// As [`Control::race`], for an idle session: a cancellation finds nothing to cancel.
    pub(crate) async fn race_idle<F: Future>(
        &self,
        deadline: Option<Nanos>,
        future: F,
    ) -> Result<F::Output, Interruption> {
        let mut future = std::pin::pin!(future);
        loop {
            match self.race(deadline, future.as_mut()).await {
                Err(Interruption::Cancel) => {}
                other => return other,
            }
        }
    }
}

/// A wait of a transaction that has parts in the log.
pub(crate) struct IdleBranch(Arc<Control>);

impl Drop for IdleBranch {
    fn drop(&mut self) {
        self.0.branch_idle_since.store(0, Ordering::Relaxed);
    }
}

/// A query of a transaction that has parts in the log.
pub(crate) struct QueryingBranch(Arc<Control>);

impl Drop for QueryingBranch {
    fn drop(&mut self) {
        self.0.branch_queries.store(false, Ordering::Relaxed);
    }
}

/// All sessions of the server.
pub(crate) struct Sessions {
    env: Env,
    long_inputs: LongInputs,
    /// Of answers, beside those: who is slow to read keeps nobody from sending.
    answers: LongInputs,
    /// And of those for which there is no room there, and which are to be read soon.
    read_soon: LongInputs,
    inner: Mutex<Inner>,
}

/// A tenant's sessions; not there while it has none.
#[derive(Default)]
struct OfTenant {
    count: usize,
    long_input: Came,
    answers: Came,
    read_soon: Came,
}

struct Inner {
    by_id: FxHashMap<u32, Arc<Control>>,
    by_tenant: FxHashMap<TenantId, OfTenant>,
    next_id: u32,
    connections_max: usize,
    connections_reserved: usize,
    tenant_connections_max: usize,
    closing: bool,
}

impl Inner {
    /// The next number that no session has. Clients read it as a positive 32-bit integer.
    fn new_id(&mut self) -> u32 {
        loop {
            let id = self.next_id;
            self.next_id = if id >= i32::MAX as u32 { 1 } else { id + 1 };
            if !self.by_id.contains_key(&id) {
                return id;
            }
        }
    }
}

impl Sessions {
    pub(crate) fn new(env: &Env, config: &crate::ServerConfig) -> Sessions {
        Sessions {
            env: env.clone(),
            long_inputs: LongInputs::new(config.memory),
            answers: LongInputs::new(config.memory),
            read_soon: LongInputs::new(config.memory),
            inner: Mutex::new(Inner {
                by_id: FxHashMap::default(),
                by_tenant: FxHashMap::default(),
                next_id: 1,
                connections_max: config.connections_max,
                connections_reserved: config.connections_reserved,
                tenant_connections_max: config.tenant_connections_max,
                closing: false,
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Takes a place for an authenticated client.
    ///
    /// # Errors
    /// Fatal: 53300 when all places, or the tenant's, are taken; 57P03 when the server ends.
    pub(crate) fn begin(
        &self,
        tenant: TenantId,
        administrator: bool,
        promised_max: Option<u32>,
        activity: BackendRow,
    ) -> Result<Arc<Control>, SqlError> {
        let mut inner = self.lock();
        if inner.closing {
            return Err(SqlError::fatal(
                SqlState::CANNOT_CONNECT_NOW,
                "the database system is shutting down",
            ));
        }
        let open = inner.by_id.len();
        let reserved = if administrator { 0 } else { inner.connections_reserved };
        let places = inner.connections_max.saturating_sub(reserved);
        if open >= places {
            return Err(too_many("sorry, too many clients already"));
        }
        let of_tenant = inner.by_tenant.get(&tenant).map_or(0, |of_tenant| of_tenant.count);
        if open >= places - places / LAST_PLACES_PART && of_tenant >= FEW_SESSIONS && !administrator {
            return Err(too_many("too many connections for this tenant while few are left for others"));
        }
        let of_tenant_max = promised_max
            .map_or(inner.tenant_connections_max, |max| inner.tenant_connections_max.min(max as usize));
        if of_tenant >= of_tenant_max && !administrator {
            return Err(too_many("too many connections for this tenant"));
        }
        let connections_max =
            if administrator { inner.connections_max } else { of_tenant_max.min(inner.connections_max) };
        let id = inner.new_id();
        let control = Arc::new(Control {
            id: SessionId(id),
            tenant,
            administrator,
            connections_max: u32::try_from(connections_max).unwrap_or(u32::MAX),
            secret: (self.env.entropy.u64() >> 32) as u32,
            requests: AtomicU8::new(0),
            waker: AtomicWaker::new(),
            doing: Mutex::new(Doing { row: BackendRow { pid: SessionId(id), ..activity }, text: None }),
            branch_idle_since: AtomicU64::new(0),
            branch_queries: AtomicBool::new(false),
            branch_silent_since: AtomicU64::new(0),
            background: Background::default(),
        });
        inner.by_id.insert(id, control.clone());
        inner.by_tenant.entry(tenant).or_default().count += 1;
        Ok(control)
    }

    /// For a statement of the server itself: nobody else's until two billion more were given out.
    pub(crate) fn new_id(&self) -> SessionId {
        SessionId(self.lock().new_id())
    }

    /// Gives a session's place back.
    pub(crate) fn end(&self, control: &Control) {
        let mut inner = self.lock();
        if inner.by_id.remove(&control.id.0).is_some()
            && let Some(of_tenant) = inner.by_tenant.get_mut(&control.tenant)
        {
            of_tenant.count -= 1;
            if of_tenant.count == 0 {
                inner.by_tenant.remove(&control.tenant);
            }
        }
    }

    /// Cancels what the holder of `key` runs; a wrong key does nothing.
    pub(crate) fn cancel(&self, key: CancelKey) {
        let control = self.get(SessionId(key.process_id));
        if let Some(control) = control.filter(|control| control.secret == key.secret) {
            control.cancel();
        }
    }

    pub(crate) fn get(&self, id: SessionId) -> Option<Arc<Control>> {
        self.lock().by_id.get(&id.0).cloned()
    }

    /// All sessions, or those of one tenant, in order of their numbers.
    pub(crate) fn list(&self, tenant: Option<TenantId>) -> Vec<Arc<Control>> {
        let inner = self.lock();
        let wanted = |(_, c): &(&u32, &Arc<Control>)| tenant.is_none_or(|tenant| c.tenant == tenant);
        let mut list: Vec<_> =
            inner.by_id.iter().filter(wanted).map(|(id, control)| (*id, control.clone())).collect();
        drop(inner);
        list.sort_unstable_by_key(|(id, _)| *id);
        list.into_iter().map(|(_, control)| control).collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.lock().by_id.len()
    }

    pub(crate) fn count_of(&self, tenant: TenantId) -> usize {
        self.lock().by_tenant.get(&tenant).map_or(0, |of_tenant| of_tenant.count)
    }

    /// What a session that has its place may have of its client's messages.
    pub(super) fn long_input(&self, control: &Control) -> Arc<LongInput> {
        let came = self.lock().by_tenant.entry(control.tenant).or_default().long_input.clone();
        Arc::new(self.long_inputs.of_session(&came))
    }

    /// What of its answers may wait for the client of a session that has its place, and what beside that for a short while.
    pub(super) fn answers(&self, control: &Control) -> (LongInput, LongInput) {
        let mut inner = self.lock();
        let OfTenant { answers, read_soon, .. } = inner.by_tenant.entry(control.tenant).or_default();
        (self.answers.of_session(answers), self.read_soon.of_session(read_soon))
    }

    /// Has what a tenant's sessions wait for, or those of all, look anew what it is held to.
    pub(crate) fn look_again(&self, tenant: Option<TenantId>) {
        self.list(tenant).iter().for_each(|control| control.look_again());
    }

    /// Ends the sessions of a tenant of which a transaction with parts in the log has waited for so long; how many there are.
    pub(crate) fn end_idle_branches(&self, tenant: TenantId, idle_min: Nanos) -> usize {
        let Some(instant) = self.env.now().0.checked_sub(idle_min.0) else { return 0 };
        let mut list = self.list(Some(tenant));
        list.retain(|control| control.branch_is_idle_since(Nanos(instant)));
        list.iter().for_each(|control| control.request(KEEPS_LOG));
        list.len()
    }

    /// Ends the sessions of a tenant of which a transaction with parts in the log runs a query, or has been at work for `silent_min` and written nothing, because the
    /// log's volume is full; how many there are. One that writes finds that out by itself.
    pub(crate) fn end_silent_branches(&self, tenant: TenantId, silent_min: Nanos) -> usize {
        let instant = self.env.now() - silent_min;
        let mut list = self.list(Some(tenant));
        list.retain(|control| {
            control.branch_queries.load(Ordering::Relaxed) || control.branch_is_silent_since(instant)
        });
        list.iter().for_each(|control| control.request(FILLS_LOG));
        list.len()
    }

    /// Ends all sessions of a tenant that is dropped.
    pub(crate) fn drop_tenant(&self, tenant: TenantId) {
        self.list(Some(tenant)).iter().for_each(|control| control.request(DROPPED));
    }

    /// Ends all sessions and lets no new ones begin.
    pub(crate) fn shut_down(&self) {
        self.lock().closing = true;
        self.list(None).iter().for_each(|control| control.request(SHUTDOWN));
    }
}

fn too_many(message: &str) -> SqlError {
    SqlError::fatal(SqlState::TOO_MANY_CONNECTIONS, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ServerConfig;

    fn sessions(max: usize, reserved: usize) -> Sessions {
        let config = ServerConfig {
            connections_max: max,
            connections_reserved: reserved,
            tenant_connections_max: 2,
            ..ServerConfig::new("unused")
        };
        Sessions::new(&Env::real(), &config)
    }

    fn begin(sessions: &Sessions, tenant: u64, administrator: bool) -> Result<Arc<Control>, SqlState> {
        sessions.begin(TenantId(tenant), administrator, None, BackendRow::default()).map_err(|e| e.state())
    }

    #[test]
    fn a_statements_text_is_shown_to_who_looks() {
        let control = Control::internal(SessionId(7), TenantId(20));
        let [one, two] = ["SELECT 1", "SELECT 2"].map(StatementText::new);
        control.report_statement(&one, 5);
        control.report_statement(&two, 6);
        assert_eq!((Arc::strong_count(&one), Arc::strong_count(&two)), (1, 2), "nothing is copied yet");
        control.report("idle in transaction", None, 7);
        for _ in 0..2 {
            let row = control.activity().clone();
            assert_eq!((&*row.query, row.state), ("SELECT 2", "idle in transaction"));
            let times = [row.transaction_start, row.query_start, row.state_change];
            assert_eq!(times, [Some(5), Some(6), Some(7)]);
        }
        control.report("active", Some("SELECT 3"), 8);
        assert_eq!(control.activity().query, "SELECT 3");
        let long = StatementText::new(&"x".repeat(QUERY_LEN_MAX + 1));
        control.report_statement(&long, 9);
        assert_eq!((control.activity().query.len(), Arc::strong_count(&long)), (QUERY_LEN_MAX, 1));
    }

    #[test]
    fn the_last_places_are_the_administrators() {
        let sessions = sessions(4, 2);
        let _held: Vec<_> = (20..22).map(|tenant| begin(&sessions, tenant, false).unwrap()).collect();
        assert_eq!(begin(&sessions, 22, false).err(), Some(SqlState::TOO_MANY_CONNECTIONS));
        let admin = begin(&sessions, 1, true).unwrap();
        begin(&sessions, 1, true).unwrap();
        assert_eq!(begin(&sessions, 1, true).err(), Some(SqlState::TOO_MANY_CONNECTIONS));
        sessions.end(&admin);
        sessions.end(&admin);
        assert_eq!(sessions.count(), 3);
    }

    #[test]
    fn a_tenant_has_no_more_than_its_places() {
        let sessions = sessions(100, 2);
        begin(&sessions, 20, false).unwrap();
        begin(&sessions, 20, false).unwrap();
        assert_eq!(begin(&sessions, 20, false).err(), Some(SqlState::TOO_MANY_CONNECTIONS));
        begin(&sessions, 21, false).unwrap();
    }

    #[test]
    fn a_tenant_with_many_sessions_leaves_places_to_those_with_few() {
        let config =
            ServerConfig { connections_max: 208, connections_reserved: 8, ..ServerConfig::new("unused") };
        let sessions = Sessions::new(&Env::real(), &config);
        let take = |tenant: u64| (0..).take_while(|_| begin(&sessions, tenant, false).is_ok()).count();
        assert_eq!((take(20), take(21), take(22)), (175, 16, 9));
        assert_eq!(begin(&sessions, 23, false).err(), Some(SqlState::TOO_MANY_CONNECTIONS));
        begin(&sessions, 20, true).unwrap();
    }

    #[test]
    fn only_the_right_key_cancels() {
        let sessions = sessions(10, 0);
        let control = begin(&sessions, 20, false).unwrap();
        let key = control.key();
        sessions.cancel(CancelKey { secret: !key.secret, ..key });
        assert_eq!(control.pending(), None);
        sessions.cancel(key);
        assert_eq!(control.pending(), Some(Interruption::Cancel));
        assert_eq!(control.pending(), None, "taken by asking");
        control.terminate();
        assert_eq!(control.pending(), Some(Interruption::Terminate));
        assert_eq!(control.pending(), Some(Interruption::Terminate), "an end stays asked for");
    }

    #[test]
    fn who_writes_nothing_with_parts_in_a_log_that_is_full_is_ended() {
        let sessions = sessions(10, 0);
        let control = begin(&sessions, 20, false).unwrap();
        let querying = control.querying_branch();
        assert_eq!((sessions.end_idle_branches(TenantId(20), Nanos(0)), control.pending()), (0, None));
        let (long, any) = (Nanos(u64::MAX), Nanos(0));
        assert_eq!((sessions.end_silent_branches(TenantId(21), any), control.pending()), (0, None));
        assert_eq!(sessions.end_silent_branches(TenantId(20), long), 1, "however short it is");
        assert_eq!(control.told_to_end().map(|error| error.state()), Some(SqlState::DISK_FULL));
        drop(querying);
        assert_eq!(sessions.end_silent_branches(TenantId(20), any), 0);
        // A change that finds nothing to change, or waits for what its tenant may read, since the first of these.
        control.note_silent_branch(true, Nanos(1));
        control.note_silent_branch(true, Nanos(u64::MAX));
        assert_eq!(sessions.end_silent_branches(TenantId(20), long), 0, "not for long enough");
        assert_eq!(sessions.end_silent_branches(TenantId(20), any), 1);
        control.note_silent_branch(false, Nanos(2));
        assert_eq!(sessions.end_silent_branches(TenantId(20), any), 0, "it has written");
        // Its transaction ends without a further wait, and the session waits for its client.
        control.note_silent_branch(true, Nanos(1));
        assert!(control.idle(false).is_none());
        assert_eq!(sessions.end_silent_branches(TenantId(20), any), 0, "there is none any more");
    }

    #[test]
    fn a_wait_ends_by_its_deadline_or_a_request() {
        let env = Env::real();
        let sessions = sessions(10, 0);
        let control = begin(&sessions, 20, false).unwrap();
        env::block_on(&env, async {
            let deadline = Some(env::now() + Nanos::from_millis(5));
            let never = std::future::pending::<()>();
            assert_eq!(control.race(deadline, never).await, Err(Interruption::Deadline));
            control.cancel();
            assert_eq!(
                control.race(None::<Nanos>, std::future::pending::<()>()).await,
                Err(Interruption::Cancel)
            );
            control.cancel();
            assert_eq!(control.race_idle(None, env::sleep(Nanos::from_millis(1))).await, Ok(()));
            assert_eq!(control.pending(), None, "there was nothing to cancel");
            control.cancel();
            assert_eq!(control.race_to_end(None, env::sleep(Nanos::from_millis(1))).await, Ok(()));
            assert_eq!(control.pending(), Some(Interruption::Cancel), "of whoever looks for it");
            control.terminate();
            let never = std::future::pending::<()>();
            assert_eq!(control.race_to_end(None, never).await, Err(Interruption::Terminate));
        });
    }
}
