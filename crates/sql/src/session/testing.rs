//! A tenant in memory and sessions on it, for tests: statements in, rows, tags, notices and errors out.

use std::sync::Arc;

use base::{ByteCount, CommitNo, Lsn, Nanos, SessionId, SqlError, SqlResult, TenantId};
use env::sim::World;
use storage::MemoryBudget;
use tenant::{RedoSink, Tenant};

use super::stand_in::{Answer, LoneHost};
use super::{
    BackendRow, BackendSignals, Executed, Home, Pause, Reach, Session, SessionHost, SessionStart,
    SharedPlans, Underway,
};

/// A log that forgets its records.
#[derive(Default)]
struct Log {
    appended: u64,
    is_far_behind: bool,
    is_over_limit: bool,
}

impl RedoSink for Log {
    fn opens_at(&self) -> Option<Nanos> {
        self.is_over_limit.then_some(Nanos(u64::MAX))
    }

    fn far_behind(&self) -> Option<Lsn> {
        self.is_far_behind.then_some(Lsn(self.appended))
    }

    fn append(&mut self, _: TenantId, _: CommitNo, _: &[u8]) -> Lsn {
        self.appended += 1;
        Lsn(self.appended)
    }
}

/// A server that answers as [`LoneHost`] does, but for what a test has it answer itself.
pub(crate) trait OwnAnswers: Send + Sync {
    fn lone(&self) -> &LoneHost;
    fn wall_clock(&self) -> i64 {
        self.lone().wall_clock()
    }
    fn now(&self) -> Nanos {
        self.lone().now()
    }
    fn backends(&self) -> Vec<BackendRow> {
        Vec::new()
    }
    fn is_to_end(&self, statement: &Underway) -> bool {
        self.lone().is_to_end(statement)
    }
    fn keep(&self, _bytes: u64) -> SqlResult<()> {
        Ok(())
    }
    fn keeps_much(&self) -> bool {
        false
    }
    fn shared_plans(&self) -> Option<&SharedPlans> {
        None
    }
    fn signals(&self) -> Arc<dyn BackendSignals> {
        Arc::new(())
    }
}

impl<T: OwnAnswers> SessionHost for T {
    fn wall_clock(&self) -> i64 {
        OwnAnswers::wall_clock(self)
    }
    fn now(&self) -> Nanos {
        OwnAnswers::now(self)
    }
    fn random(&self, bytes: &mut [u8]) {
        self.lone().random(bytes);
    }
    fn backends(&self, _: Reach, _: &Underway) -> Vec<BackendRow> {
        OwnAnswers::backends(self)
    }
    fn report_activity(&self, _: &'static str, _: Option<&str>, _: i64) {}
    fn is_to_end(&self, statement: &Underway) -> bool {
        OwnAnswers::is_to_end(self, statement)
    }
    fn keep(&self, bytes: u64) -> SqlResult<()> {
        OwnAnswers::keep(self, bytes)
    }
    fn keeps_much(&self) -> bool {
        OwnAnswers::keeps_much(self)
    }
    fn shared_plans(&self) -> Option<&SharedPlans> {
        OwnAnswers::shared_plans(self)
    }
    fn signals(&self, _: Reach) -> Arc<dyn BackendSignals> {
        OwnAnswers::signals(self)
    }
    fn password_verifier(&self, password: &str) -> SqlResult<String> {
        self.lone().password_verifier(password)
    }
    fn databases(&self, reach: Reach) -> Vec<String> {
        self.lone().databases(reach)
    }
}

/// The tenant of a test.
pub(crate) struct Bench {
    tenant: Tenant,
    log: Log,
    next: u32,
}

impl Bench {
    /// A tenant with its owner alone.
    pub(crate) fn new() -> Bench {
        Bench::of(TenantId(77))
    }

    pub(crate) fn of(id: TenantId) -> Bench {
        Bench { tenant: Tenant::in_memory(id, "owner"), log: Log::default(), next: 1 }
    }

    /// The same with so much memory for its pages, of which none ever leave it.
    pub(crate) fn within(memory: ByteCount) -> Bench {
        Bench::charged_to(&MemoryBudget::new(memory, 0, 1))
    }

    /// The same in memory that it may share with others.
    pub(crate) fn charged_to(budget: &Arc<MemoryBudget>) -> Bench {
        let mut bench = Bench::new();
        bench.tenant.charge_to(budget);
        bench
    }

    /// Whether the log has much to write yet.
    pub(crate) fn set_far_behind(&mut self, is_far_behind: bool) {
        self.log.is_far_behind = is_far_behind;
    }

    /// Whether the tenant is over its limit of log writes, for as long as it takes.
    pub(crate) fn set_over_limit(&mut self, is_over_limit: bool) {
        self.log.is_over_limit = is_over_limit;
    }

    /// A session of the owner.
    pub(crate) fn session(&mut self) -> Session {
        self.session_of("owner")
    }

    pub(crate) fn session_of(&mut self, user: &str) -> Session {
        self.enter(user, false)
    }

    /// A session of the server's administrator.
    pub(crate) fn administrator(&mut self) -> Session {
        self.enter("admin", true)
    }

    fn enter(&mut self, user: &str, administrator: bool) -> Session {
        self.try_enter(user, administrator, &[]).expect("the role exists")
    }

    /// A session of a role that may not be let in.
    pub(crate) fn try_session_of(&mut self, user: &str) -> Result<Session, SqlError> {
        self.try_enter(user, false, &[])
    }

    /// A session whose client asks for settings.
    pub(crate) fn try_session_with(
        &mut self,
        user: &str,
        settings: &[(&str, &str)],
    ) -> Result<Session, SqlError> {
        self.try_enter(user, false, settings)
    }

    fn try_enter(
        &mut self,
        user: &str,
        administrator: bool,
        settings: &[(&str, &str)],
    ) -> Result<Session, SqlError> {
        // A world whose time stands still.
        self.try_enter_from(Arc::new(LoneHost(World::new(7).env())), user, administrator, settings)
    }

    /// A session of the owner on a server of the test's own.
    pub(crate) fn session_from(&mut self, host: Arc<dyn SessionHost>) -> Session {
        self.try_enter_from(host, "owner", false, &[]).expect("the role exists")
    }

    fn try_enter_from(
        &mut self,
        host: Arc<dyn SessionHost>,
        user: &str,
        administrator: bool,
        settings: &[(&str, &str)],
    ) -> Result<Session, SqlError> {
        self.next += 1;
        let start = SessionStart {
            id: SessionId(self.next),
            tenant: TenantId(77),
            database: "app".into(),
            user: user.into(),
            administrator,
            parameters: settings.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            host,
        };
        Session::new(start, &self.tenant)
    }

    /// Makes calls in one turn of the tenant.
    pub(crate) fn turn<T>(&mut self, calls: impl FnOnce(&mut Home<'_>) -> T) -> T {
        calls(&mut Home { tenant: &mut self.tenant, redo: &mut self.log })
    }

    /// Runs a script; the pause it came to, if it did.
    pub(crate) fn try_run(&mut self, session: &mut Session, sql: &str) -> Result<Answer, Pause> {
        let mut answer = Answer::default();
        let executed = self.turn(|home| session.query(home, sql, &mut answer))?;
        assert_eq!(executed, Executed::Complete, "COPY is not for this harness");
        Ok(answer)
    }

    /// Runs a script that must succeed.
    pub(crate) fn run(&mut self, session: &mut Session, sql: &str) -> Answer {
        self.run_in_turns(session, sql).0
    }

    /// The same, and how many turns it took.
    pub(crate) fn run_in_turns(&mut self, session: &mut Session, sql: &str) -> (Answer, u32) {
        self.run_beside(session, sql, |_, _| ())
    }

    /// The same; `beside` runs behind each turn but the last, and is told how many there have been.
    pub(crate) fn run_beside(
        &mut self,
        session: &mut Session,
        sql: &str,
        beside: impl FnMut(&mut Bench, u32),
    ) -> (Answer, u32) {
        match self.take_turns(session, sql, beside) {
            (Ok(answer), turns) => (answer, turns),
            (Err(error), _) => panic!("{sql}\n{} {} {:?}", error.state(), error.message(), error.detail()),
        }
    }

    /// Runs a script that must fail, in however many turns, with `beside` as of [`Bench::run_beside`]; how many turns it took.
    pub(crate) fn fail_beside(
        &mut self,
        session: &mut Session,
        sql: &str,
        beside: impl FnMut(&mut Bench, u32),
    ) -> (SqlError, u32) {
        match self.take_turns(session, sql, beside) {
            (Err(error), turns) => (error, turns),
            (Ok(answer), _) => panic!("{sql}\nended well: {:?}", answer.tags),
        }
    }

    fn take_turns(
        &mut self,
        session: &mut Session,
        sql: &str,
        mut beside: impl FnMut(&mut Bench, u32),
    ) -> (Result<Answer, SqlError>, u32) {
        let mut turns = 1;
        loop {
            match self.try_run(session, sql) {
                Ok(answer) => return (Ok(answer), turns),
                Err(Pause::Error(error)) => return (Err(error), turns),
                Err(Pause::Yield | Pause::Slice(_)) => beside(self, turns),
                Err(pause) => panic!("{sql}\n{pause:?}"),
            }
            turns += 1;
        }
    }

    /// Runs a script that must fail.
    pub(crate) fn fail(&mut self, session: &mut Session, sql: &str) -> SqlError {
        match self.try_run(session, sql) {
            Err(Pause::Error(error)) => error,
            Ok(answer) => panic!("{sql}\nended well: {:?}", answer.tags),
            Err(pause) => panic!("{sql}\n{pause:?}"),
        }
    }

    /// The catalog as committed.
    pub(crate) fn catalog(&self) -> &tenant::catalog::Catalog {
        self.tenant.catalog()
    }

    pub(crate) fn tenant(&self) -> &Tenant {
        &self.tenant
    }
}

/// Table locks as `pg_locks` shows them, granted ones first.
pub(crate) fn locks_of(tenant: &Tenant) -> Vec<String> {
    let mut rows = super::utility::lock_rows(tenant);
    rows.retain(|row| row.lock_type == "relation");
    rows.sort_by_key(|row| !row.granted);
    rows.iter()
        .map(|row| format!("{} {}", row.mode, if row.granted { "granted" } else { "waiting" }))
        .collect()
}
