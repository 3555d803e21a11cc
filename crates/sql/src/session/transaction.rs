//! The session's transaction: implicit around lone statements, or a block between BEGIN and COMMIT.

use std::sync::Arc;

use base::{Nanos, SqlError, SqlResult, SqlState};
use tenant::{CommitWait, Isolation, Savepoint, Txn, WriterWait, too_late_to_import};

use super::analytic::AnalyticState;
use super::context::Sleeps;
use super::prepared::ROOM_MIN;
use super::run::Run;
use super::setting::{Id, on_or_off};
use super::utility::not_in_block;
use super::{Home, Pause, Reply, Session};
use crate::parse::{IsolationLevel, TransactionModes, TransactionStatement};

/// How long what waits for its tenant's limit of log writes does so before it looks again.
pub(super) const LIMIT_LOOK: Nanos = Nanos::from_secs(1);

/// What a transaction has changed that ends within a fraction of a millisecond.
const ENDS_SOON_BYTES_MAX: usize = 32 << 10;

/// Where the session stands.
pub(super) enum Transaction {
    Idle,
    /// Begun by a statement outside a block; ends at Sync or at the script's end.
    Implicit(Box<Open>),
    Block(Box<Open>),
    /// A block in which a statement failed: only its end or a ROLLBACK TO is taken. What it did and locked behind its last savepoint is
    /// given back already, and its transaction is a new one where it has none.
    Failed(Box<Open>),
}

/// An open transaction with what the session needs to go back to its savepoints.
pub(super) struct Open {
    pub(super) txn: Txn,
    savepoints: Vec<SessionSavepoint>,
    /// What they take in memory.
    savepoints_size: usize,
    /// The session's portals when it began.
    portals: u64,
    /// Whether a statement has run that is not about settings: the isolation can be chosen only before.
    pub(super) used: bool,
    /// Whether its COMMIT waits: where that fails, no block is left.
    ending: bool,
    /// Whether its commit has waited for a log that was far behind.
    has_waited_for_log: bool,
    /// Whether its tenant was below its limit of log writes once it had something to log: it is not asked again.
    may_log: bool,
}

struct SessionSavepoint {
    name: String,
    savepoint: Savepoint,
    settings: usize,
    portals: u64,
    read_only: bool,
}

impl SessionSavepoint {
    fn size_of(name: &str) -> usize {
        size_of::<SessionSavepoint>() + name.len()
    }
}

/// The tenant's isolation for a level as written.
fn isolation(level: IsolationLevel) -> Isolation {
    match level {
        IsolationLevel::ReadUncommitted | IsolationLevel::ReadCommitted => Isolation::ReadCommitted,
        IsolationLevel::RepeatableRead => Isolation::RepeatableRead,
        IsolationLevel::Serializable => Isolation::Serializable,
    }
}

/// What a transaction is, as a BEGIN would say it.
fn modes_of(txn: &Txn) -> TransactionModes {
    let level = match txn.isolation() {
        Isolation::ReadCommitted => IsolationLevel::ReadCommitted,
        Isolation::RepeatableRead => IsolationLevel::RepeatableRead,
        Isolation::Serializable => IsolationLevel::Serializable,
    };
    TransactionModes { isolation: Some(level), read_only: Some(txn.is_read_only()), deferrable: None }
}

impl Transaction {
    pub(super) fn open(&mut self) -> Option<&mut Open> {
        match self {
            Transaction::Idle => None,
            Transaction::Implicit(open) | Transaction::Block(open) | Transaction::Failed(open) => Some(open),
        }
    }

    /// As [`Transaction::open`], to look at.
    #[inline]
    pub(super) fn peek(&self) -> Option<&Open> {
        match self {
            Transaction::Idle => None,
            Transaction::Implicit(open) | Transaction::Block(open) | Transaction::Failed(open) => Some(open),
        }
    }

    pub(super) fn is_block(&self) -> bool {
        matches!(self, Transaction::Block(_) | Transaction::Failed(_))
    }
}

impl Open {
    /// Whether there is a savepoint to go back to.
    pub(super) fn has_savepoints(&self) -> bool {
        !self.savepoints.is_empty()
    }

    /// Whether what it changed may go to a branch: what is poured is taken back with the branch only, to a savepoint from before it.
    pub(super) fn may_pour(&self) -> bool {
        self.txn.can_branch()
            && self.savepoints.iter().all(|kept| !kept.savepoint.is_behind_branch())
            && (self.savepoints.is_empty() || !self.txn.has_filled_trees())
    }

    /// What it keeps of what its client said.
    pub(super) fn kept(&self) -> usize {
        self.savepoints_size
    }

    /// Gives back the room of many savepoints that are gone.
    pub(super) fn trim(&mut self) {
        if self.savepoints.capacity() > ROOM_MIN.max(4 * self.savepoints.len()) {
            self.savepoints.shrink_to_fit();
        }
    }

    /// Forgets the savepoints from number `at` on.
    fn forget_savepoints(&mut self, at: usize) {
        let sizes = self.savepoints.drain(at..).map(|savepoint| SessionSavepoint::size_of(&savepoint.name));
        self.savepoints_size -= sizes.sum::<usize>();
    }
}

impl Session {
    /// Opens the implicit transaction of a statement unless one is open.
    pub(super) fn begin_implicit(&mut self, home: &mut Home<'_>) {
        // What there is and what not a statement tells without reading a row: by an error, or by IF EXISTS.
        self.observe(home.tenant.definitions_pending());
        if matches!(self.transaction, Transaction::Idle) {
            let open = self.open_transaction(home, TransactionModes::default(), true);
            self.transaction = Transaction::Implicit(open);
        }
    }

    /// Whether the statement under way is no part of a block, and nothing was changed before it in its transaction.
    pub(crate) fn begins_its_transaction(&self) -> bool {
        matches!(&self.transaction, Transaction::Implicit(open) if !open.txn.has_changes())
    }

    /// Whether to end its transaction may take long: there are checks that were put off until then, much that it changed, or a branch, which may lack much that others did.
    pub fn ends_at_length(&self) -> bool {
        let takes_long =
            |txn: &Txn| txn.has_branch() || txn.has_checks_due() || txn.changed_bytes() > ENDS_SOON_BYTES_MAX;
        self.transaction.peek().is_some_and(|open| takes_long(&open.txn))
    }

    /// Whether a transaction of single messages waits for the next one. Before others have their turns then,
    /// [`Session::pass_turn`] is to be called.
    pub fn is_between_messages(&self) -> bool {
        matches!(self.transaction, Transaction::Implicit(_))
    }

    /// Others have their turns before the transaction goes on: what it locked is locked for them. To be called in the turn of
    /// the message before.
    pub fn pass_turn(&mut self, home: &mut Home<'_>) {
        if let Transaction::Implicit(open) = &mut self.transaction {
            home.tenant.keep_locks(&mut open.txn);
        }
    }

    fn open_transaction(
        &mut self,
        home: &mut Home<'_>,
        modes: TransactionModes,
        implicit: bool,
    ) -> Box<Open> {
        let mut settings = self.settings.borrow_mut();
        let level = modes.isolation.unwrap_or(settings.digest().isolation);
        let read_only = modes.read_only.unwrap_or(settings.digest().read_only);
        let deferrable = modes.deferrable.unwrap_or(settings.digest().deferrable);
        settings.set_by_server(Id::transaction_isolation, level.as_str());
        settings.set_by_server(Id::transaction_read_only, on_or_off(read_only));
        settings.set_by_server(Id::transaction_deferrable, on_or_off(deferrable));
        drop(settings);
        self.transaction_start = self.statement_start;
        Arc::make_mut(&mut self.format).now = self.transaction_start;
        let txn = home.tenant.begin(self.start.id, isolation(level), read_only, implicit);
        let portals = self.portals.mark();
        Box::new(Open {
            txn,
            savepoints: Vec::new(),
            savepoints_size: 0,
            portals,
            used: false,
            ending: false,
            has_waited_for_log: false,
            may_log: false,
        })
    }

    /// Commits the implicit transaction, if one is open.
    ///
    /// # Errors
    /// What the commit says; the transaction is then rolled back. A pause, as [`Session::before_commit`].
    pub(super) fn commit_implicit(&mut self, home: &mut Home<'_>) -> Result<(), Pause> {
        if !matches!(self.transaction, Transaction::Implicit(_)) {
            return Ok(());
        }
        if let Err(pause) = self.before_commit(home) {
            if matches!(pause, Pause::Error(_)) {
                self.progress.end();
                self.abort_told(home);
            }
            return Err(pause);
        }
        self.progress.end();
        Ok(self.commit(home)?)
    }

    /// Makes ready what a commit in this turn needs, and makes the checks that were put off until it.
    ///
    /// # Errors
    /// 23503. A pause for locks and turns of the checks, for room, for pages that left memory, for the branch to catch up, for the tenant's limit of log writes,
    /// for a log that is far behind, for what is logged ahead. XX001 for a damaged page; 53100 and 58030 when the log takes no more.
    fn before_commit(&mut self, home: &mut Home<'_>) -> Result<(), Pause> {
        self.catch_up(home)?;
        let Some(open) = self.transaction.open() else { return Ok(()) };
        if open.txn.has_checks_due() {
            let checked = self.with_view(home, |view| view.check_due());
            let open = self.transaction.open().expect("as above");
            home.tenant.keep_locks(&mut open.txn);
            checked?;
        }
        let Some(open) = self.transaction.open() else { return Ok(()) };
        if let Some(end) = home.redo.far_behind()
            && open.txn.has_changes()
            && !std::mem::replace(&mut open.has_waited_for_log, true)
        {
            home.tenant.keep_locks(&mut open.txn);
            return Err(Pause::Memory(WriterWait::Log(end)));
        }
        if open.txn.has_changes() {
            self.await_own_cap(home)?;
        }
        let Some(open) = self.transaction.open() else { return Ok(()) };
        if let Some(end) = home.tenant.log_ahead(&mut open.txn, home.redo)? {
            return Err(Pause::Memory(WriterWait::Log(end)));
        }
        // Last: what it says holds for a commit in this turn, and it looks at each change.
        let host = &*self.start.host;
        match home.tenant.commit_wait_giving_way(&mut open.txn, &|| host.give_way())? {
            Some(CommitWait::Memory(wait)) => Err(Pause::Memory(wait)),
            Some(CommitWait::Pages(requests)) => Err(Pause::Pages(requests)),
            None => Ok(()),
        }
    }

    /// Has what a transaction logs first wait for its tenant's limit of log writes, once: what it waits for behind that, pages and memory, would else give its place to what
    /// others of the tenant log meanwhile, time and again. What follows does not wait: from the first part of it on until it ends the log keeps
    /// all segments, whoever's records are in them. It is charged all the same, and whatever the tenant logs next waits the longer.
    ///
    /// # Errors
    /// A pause.
    pub(super) fn await_own_cap(&mut self, home: &mut Home<'_>) -> Result<(), Pause> {
        let Some(open) = self.transaction.open() else { return Ok(()) };
        if open.may_log || home.tenant.has_logged(&open.txn) {
            return Ok(());
        }
        let wait = home.redo.opens_at().map_or(Nanos(0), |at| at - self.start.host.now());
        if wait == Nanos(0) {
            open.may_log = true;
            return Ok(());
        }
        home.tenant.keep_locks(&mut open.txn);
        // The limit may be lifted meanwhile.
        Err(Pause::OwnCap(wait.min(LIMIT_LOOK)))
    }

    /// Commits the open transaction and ends it; on an error it has been rolled back.
    fn commit(&mut self, home: &mut Home<'_>) -> SqlResult<()> {
        let (Transaction::Implicit(open) | Transaction::Block(open) | Transaction::Failed(open)) =
            std::mem::replace(&mut self.transaction, Transaction::Idle)
        else {
            return Ok(());
        };
        let Open { txn, portals, .. } = *open;
        let host = &*self.start.host;
        let outcome = home.tenant.commit_giving_way(txn, home.redo, &|| host.give_way());
        // Before what was SET LOCAL ends: how a transaction commits is its own.
        let is_synchronous = self.settings.borrow().digest().synchronous_commit;
        self.end_of_transaction(outcome.is_ok(), portals);
        let committed = outcome?;
        if committed.commit.is_none() || is_synchronous {
            self.observe(committed.wait_for);
        }
        Ok(())
    }

    /// Rolls the open transaction back and ends it, if there is one.
    pub(super) fn abort(&mut self, home: &mut Home<'_>) {
        match std::mem::replace(&mut self.transaction, Transaction::Idle) {
            Transaction::Idle => {}
            Transaction::Implicit(open) | Transaction::Block(open) | Transaction::Failed(open) => {
                let Open { txn, portals, .. } = *open;
                let host = &*self.start.host;
                home.tenant.abort_giving_way(txn, &|| host.give_way());
                self.end_of_transaction(false, portals);
            }
        }
    }

    /// As [`Session::abort`] where the client is told of what the end of the transaction has read: the error waits for that.
    fn abort_told(&mut self, home: &mut Home<'_>) {
        if let Some(open) = self.transaction.peek() {
            let observed = open.txn.observed();
            self.observe(observed);
        }
        self.abort(home);
    }

    /// Settings, portals and session state at the end of a transaction that began with so many portals.
    fn end_of_transaction(&mut self, committed: bool, portals: u64) {
        let mut settings = self.settings.borrow_mut();
        if committed {
            settings.commit();
        } else {
            settings.roll_back_to(0);
        }
        drop(settings);
        self.portals.retain(|portal| portal.hold && (committed || portal.number <= portals));
    }

    /// A statement failed: a block waits for its end, an implicit transaction is gone. Others wait no longer for what is lost, whenever the client
    /// ends the block.
    pub(super) fn fail_transaction(&mut self, home: &mut Home<'_>) {
        self.progress.end();
        self.analytic = AnalyticState::Idle;
        self.sleeps = Sleeps::default();
        self.slicing = None;
        self.filling = None;
        self.giving = None;
        self.loaded_rows = None;
        self.analysis = None;
        match std::mem::replace(&mut self.transaction, Transaction::Idle) {
            Transaction::Block(mut open) if !open.ending => {
                self.give_back(home, &mut open);
                self.transaction = Transaction::Failed(open);
            }
            other => {
                self.transaction = other;
                if !matches!(self.transaction, Transaction::Failed(_)) {
                    self.abort(home);
                }
            }
        }
    }

    /// Takes a block back to its last savepoint, or as a whole, where it keeps nothing but what it is: its level, and that it only reads. Portals,
    /// which nobody else waits for, go when it ends.
    fn give_back(&mut self, home: &mut Home<'_>, open: &mut Open) {
        let Open { txn, savepoints, .. } = open;
        home.tenant.end_statement(txn);
        self.settings.borrow_mut().roll_back_to(savepoints.last().map_or(0, |last| last.settings));
        if let Some(last) = savepoints.last() {
            let host = &*self.start.host;
            home.tenant.rollback_to_giving_way(txn, &last.savepoint, &|| host.give_way());
            return;
        }
        self.observe(txn.observed());
        let fresh = home.tenant.begin(txn.session(), txn.isolation(), txn.is_read_only(), false);
        let host = &*self.start.host;
        home.tenant.abort_giving_way(std::mem::replace(txn, fresh), &|| host.give_way());
    }

    /// Runs a transaction statement; its command tag.
    pub(super) fn transaction_statement(
        &mut self,
        home: &mut Home<'_>,
        statement: &TransactionStatement,
        run: &Run<'_>,
        out: &mut dyn Reply,
    ) -> Result<&'static str, Pause> {
        match statement {
            TransactionStatement::Begin { modes, start } => {
                self.begin_block(home, *modes, out)?;
                Ok(if *start { "START TRANSACTION" } else { "BEGIN" })
            }
            TransactionStatement::Commit { chain } => self.end_block(home, true, *chain, out),
            TransactionStatement::Rollback { chain } => self.end_block(home, false, *chain, out),
            TransactionStatement::Savepoint(name) => {
                self.need_block("SAVEPOINT")?;
                // Behind it nothing is poured where there is a branch, and who sets one before each statement has none that begins without.
                if self.transaction.peek().is_some_and(|open| open.txn.has_branch()) {
                    self.pour_if_much(home)?;
                }
                let size = SessionSavepoint::size_of(name);
                self.require_room_to_keep(size)?;
                let (settings, portals) = (self.settings.borrow().mark(), self.portals.mark());
                let Transaction::Block(open) = &mut self.transaction else {
                    return Err(failed_block().into());
                };
                let (savepoint, read_only) = (open.txn.savepoint(), open.txn.is_read_only());
                let name = name.clone();
                open.savepoints.push(SessionSavepoint { name, savepoint, settings, portals, read_only });
                open.savepoints_size += size;
                Ok("SAVEPOINT")
            }
            TransactionStatement::Release(name) => {
                self.need_block("RELEASE SAVEPOINT")?;
                let Transaction::Block(open) = &mut self.transaction else {
                    return Err(failed_block().into());
                };
                let at = find(&open.savepoints, name)?;
                let read_only = open.savepoints[at].read_only;
                open.forget_savepoints(at);
                self.restore_read_only(read_only);
                Ok("RELEASE")
            }
            TransactionStatement::RollbackTo(name) => {
                self.need_block("ROLLBACK TO SAVEPOINT")?;
                self.roll_back_to(home, name)?;
                Ok("ROLLBACK")
            }
            TransactionStatement::SetTransaction(modes) => {
                self.warn_outside_block("SET TRANSACTION", run, out);
                self.begin_implicit(home);
                self.set_transaction(*modes)?;
                Ok("SET")
            }
            TransactionStatement::ImportSnapshot(identifier) => {
                self.warn_outside_block("SET TRANSACTION", run, out);
                self.begin_implicit(home);
                self.import_snapshot(home, identifier)?;
                Ok("SET")
            }
            TransactionStatement::PrepareTransaction => self.prepare_transaction(home, out),
            TransactionStatement::FinishPrepared { commit, id } => {
                if self.in_larger_transaction(run) {
                    let what = if *commit { "COMMIT PREPARED" } else { "ROLLBACK PREPARED" };
                    return Err(not_in_block(what).into());
                }
                let message = format!("prepared transaction with identifier \"{id}\" does not exist");
                Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message).into())
            }
        }
    }

    /// PREPARE TRANSACTION, as where `max_prepared_transactions` is 0: the transaction ends and is not prepared.
    fn prepare_transaction(
        &mut self,
        home: &mut Home<'_>,
        out: &mut dyn Reply,
    ) -> Result<&'static str, Pause> {
        if !matches!(self.transaction, Transaction::Block(_)) {
            self.end_block(home, true, false, out)?;
            return Ok("ROLLBACK");
        }
        self.abort(home);
        let state = SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE;
        Err(SqlError::new(state, "prepared transactions are disabled").into())
    }

    fn begin_block(
        &mut self,
        home: &mut Home<'_>,
        modes: TransactionModes,
        out: &mut dyn Reply,
    ) -> Result<(), Pause> {
        match std::mem::replace(&mut self.transaction, Transaction::Idle) {
            Transaction::Idle => {
                let open = self.open_transaction(home, modes, false);
                self.transaction = Transaction::Block(open);
            }
            // A BEGIN within a script takes over what the script did before it, as in PostgreSQL.
            Transaction::Implicit(open) if !open.used => {
                // What was said of it holds on.
                let said = modes_of(&open.txn);
                let modes = TransactionModes {
                    isolation: modes.isolation.or(said.isolation),
                    read_only: modes.read_only.or(said.read_only),
                    ..modes
                };
                home.tenant.abort(open.txn);
                let open = self.open_transaction(home, modes, false);
                self.transaction = Transaction::Block(open);
            }
            Transaction::Implicit(mut open) => {
                // What it locked in this turn nobody has yet seen to be locked.
                home.tenant.keep_locks(&mut open.txn);
                open.txn.make_explicit();
                self.transaction = Transaction::Block(open);
                if let Err(error) = self.set_transaction(modes) {
                    // A BEGIN that fails begins nothing.
                    self.abort(home);
                    return Err(error.into());
                }
            }
            block => {
                self.transaction = block;
                let message = "there is already a transaction in progress";
                self.notice(&warning(SqlState::ACTIVE_SQL_TRANSACTION, message), out);
                // What it says of one holds for that.
                self.set_transaction(modes)?;
            }
        }
        Ok(())
    }

    fn end_block(
        &mut self,
        home: &mut Home<'_>,
        commit: bool,
        chain: bool,
        out: &mut dyn Reply,
    ) -> Result<&'static str, Pause> {
        let chained = match &mut self.transaction {
            Transaction::Idle => None,
            Transaction::Implicit(open) | Transaction::Block(open) | Transaction::Failed(open) => {
                Some(modes_of(&open.txn))
            }
        };
        if !self.transaction.is_block() {
            if chain {
                let word = if commit { "COMMIT" } else { "ROLLBACK" };
                let message = format!("{word} AND CHAIN can only be used in transaction blocks");
                return Err(SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, message).into());
            }
            let message = "there is no transaction in progress";
            self.notice(&warning(SqlState::NO_ACTIVE_SQL_TRANSACTION, message), out);
        }
        let tag = if commit && !matches!(self.transaction, Transaction::Failed(_)) {
            if let Err(pause) = self.before_commit(home) {
                // As any COMMIT that fails, it leaves no block behind, whether it fails now or while it waits.
                match (&pause, self.transaction.open()) {
                    (Pause::Error(_), _) => self.abort_told(home),
                    (_, Some(open)) => open.ending = true,
                    (_, None) => {}
                }
                return Err(pause);
            }
            self.commit(home)?;
            "COMMIT"
        } else {
            // The end of a failed block is a rollback, whatever was asked.
            self.abort(home);
            "ROLLBACK"
        };
        if chain && let Some(modes) = chained {
            let deferrable = self.settings.borrow().flag(Id::transaction_deferrable);
            let modes = TransactionModes { deferrable: Some(deferrable), ..modes };
            let open = self.open_transaction(home, modes, false);
            self.transaction = Transaction::Block(open);
        }
        Ok(tag)
    }

    /// Whether the transaction of a statement that runs goes on behind it: in a block, or for others of its Query.
    pub(super) fn in_larger_transaction(&self, run: &Run<'_>) -> bool {
        run.shared || self.transaction.is_block()
    }

    /// Warns the client where `what`, which lasts for a transaction, has none to last for.
    pub(super) fn warn_outside_block(&self, what: &str, run: &Run<'_>, out: &mut dyn Reply) {
        if !self.in_larger_transaction(run) {
            self.notice(&outside_block(what), out);
        }
    }

    fn need_block(&self, what: &str) -> SqlResult<()> {
        if self.transaction.is_block() {
            return Ok(());
        }
        let message = format!("{what} can only be used in transaction blocks");
        Err(SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, message))
    }

    fn roll_back_to(&mut self, home: &mut Home<'_>, name: &str) -> Result<(), Pause> {
        let (Transaction::Block(open) | Transaction::Failed(open)) = &mut self.transaction else {
            return Err(failed_block().into());
        };
        let at = find(&open.savepoints, name)?;
        let (host, savepoint) = (&*self.start.host, &open.savepoints[at].savepoint);
        home.tenant.rollback_to_giving_way(&mut open.txn, savepoint, &|| host.give_way());
        let SessionSavepoint { settings, portals, read_only, .. } = open.savepoints[at];
        self.settings.borrow_mut().roll_back_to(settings);
        self.portals.roll_back_to(portals);
        // The savepoint itself stays; those made after it are gone.
        open.forget_savepoints(at + 1);
        self.transaction = match std::mem::replace(&mut self.transaction, Transaction::Idle) {
            Transaction::Failed(open) => Transaction::Block(open),
            other => other,
        };
        self.restore_read_only(read_only);
        Ok(())
    }

    /// What SET TRANSACTION said of it behind a savepoint ends with the savepoint, however that ends.
    fn restore_read_only(&mut self, read_only: bool) {
        if let Some(open) = self.transaction.open()
            && open.txn.is_read_only() != read_only
        {
            open.txn.set_read_only(read_only);
            self.settings.borrow_mut().set_by_server(Id::transaction_read_only, on_or_off(read_only));
        }
    }

    /// Has the open transaction read what another one exported.
    ///
    /// # Errors
    /// As [`tenant::Tenant::import_snapshot`].
    fn import_snapshot(&mut self, home: &mut Home<'_>, identifier: &str) -> SqlResult<()> {
        let (Transaction::Block(open) | Transaction::Implicit(open)) = &mut self.transaction else {
            return Err(failed_block());
        };
        if open.used || open.has_savepoints() {
            return Err(too_late_to_import());
        }
        home.tenant.import_snapshot(&mut open.txn, identifier)?;
        // As a query has it, which takes a snapshot: what the transaction is stays.
        open.used = true;
        Ok(())
    }

    /// Chooses what the open transaction is.
    ///
    /// # Errors
    /// 25001 where it is too late for that.
    pub(super) fn set_transaction(&mut self, modes: TransactionModes) -> SqlResult<()> {
        let (Transaction::Block(open) | Transaction::Implicit(open)) = &mut self.transaction else {
            return Err(failed_block());
        };
        let current = open.txn.isolation();
        let wanted = modes.isolation.map_or(current, isolation);
        let read_only = modes.read_only.unwrap_or(open.txn.is_read_only());
        let within = open.has_savepoints();
        let refused = if wanted != current && (open.used || within) {
            Some(if open.used {
                "SET TRANSACTION ISOLATION LEVEL must be called before any query"
            } else {
                "SET TRANSACTION ISOLATION LEVEL must not be called in a subtransaction"
            })
        } else if open.txn.is_read_only() && !read_only && (open.used || within) {
            Some(if within {
                "cannot set transaction read-write mode inside a read-only transaction"
            } else {
                "transaction read-write mode must be set before any query"
            })
        } else {
            None
        };
        if let Some(message) = refused {
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        if modes.deferrable.is_some() && (open.used || open.has_savepoints()) {
            let message = if open.has_savepoints() {
                "SET TRANSACTION [NOT] DEFERRABLE cannot be called within a subtransaction"
            } else {
                "SET TRANSACTION [NOT] DEFERRABLE must be called before any query"
            };
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        open.txn.set_isolation(wanted)?;
        open.txn.set_read_only(read_only);
        let mut settings = self.settings.borrow_mut();
        if let Some(deferrable) = modes.deferrable {
            settings.set_by_server(Id::transaction_deferrable, on_or_off(deferrable));
        }
        if let Some(level) = modes.isolation {
            settings.set_by_server(Id::transaction_isolation, level.as_str());
        }
        settings.set_by_server(Id::transaction_read_only, on_or_off(read_only));
        Ok(())
    }
}

fn find(savepoints: &[SessionSavepoint], name: &str) -> SqlResult<usize> {
    savepoints.iter().rposition(|savepoint| savepoint.name == name).ok_or_else(|| {
        let message = format!("savepoint \"{name}\" does not exist");
        SqlError::new(SqlState::INVALID_SAVEPOINT_SPECIFICATION, message)
    })
}

/// 25P02, for everything but the end of a failed block.
pub(super) fn failed_block() -> SqlError {
    SqlError::new(
        SqlState::IN_FAILED_SQL_TRANSACTION,
        "current transaction is aborted, commands ignored until end of transaction block",
    )
}

/// A WARNING (25P01).
fn outside_block(what: &str) -> SqlError {
    let message = format!("{what} can only be used in transaction blocks");
    warning(SqlState::NO_ACTIVE_SQL_TRANSACTION, &message)
}

/// A WARNING.
pub(super) fn warning(state: SqlState, message: &str) -> SqlError {
    SqlError::new(state, message).with_severity(base::Severity::Warning)
}
