//! A transaction of the scenario: statements that are run again after waits, with a draft of what they change.

use std::cell::RefCell;
use std::rc::Rc;

use base::{CommitNo, SessionId, SqlError};
use tenant::row::keys::{KeyRange, primary_key};
use tenant::{
    Access, CaughtUp, CommitWait, Committed, Direction, Interrupt, Isolation, PageRequest, Savepoint, Step,
    Txn, View,
};
use types::{Datum, Row};

use super::model::{Changes, Id, Kind, Model, State, apply, id_of, table_named};
use crate::server::Reply;
use crate::{Home, Stop, require};

/// Why a transaction did not go on.
pub(super) enum Fate {
    /// The database refused; roll back.
    Refused(SqlError),
    Stop(Stop),
}

impl From<Stop> for Fate {
    fn from(stop: Stop) -> Fate {
        Fate::Stop(stop)
    }
}

/// For a missed page: what to read; nothing if it has come in meanwhile.
type Request = Option<Result<Vec<PageRequest>, SqlError>>;

/// An open transaction.
pub(super) struct Transaction {
    home: Rc<Home>,
    model: Rc<RefCell<Model>>,
    txn: Option<Txn>,
    isolation: Isolation,
    draft: Draft,
}

/// What a transaction has changed and read.
#[derive(Default)]
pub(super) struct Draft {
    changes: Changes,
    /// The model's state that a snapshot transaction reads.
    snapshot: Option<Rc<State>>,
    /// The newest commit that replies so far depend on.
    read: CommitNo,
    /// Values of the sequence that replies so far may tell.
    sequence: Vec<i64>,
    /// A read that was not what it must be.
    wrong: Option<String>,
}

/// What a statement works with in one turn.
pub(super) struct Turn<'a> {
    pub(super) view: View<'a>,
    model: &'a Model,
    draft: &'a mut Draft,
}

impl Turn<'_> {
    /// The rows the statement must see.
    fn state(&self) -> State {
        let mut state = match &self.draft.snapshot {
            Some(snapshot) => (**snapshot).clone(),
            None => self.model.head.clone(),
        };
        apply(&mut state, &self.draft.changes);
        state
    }

    fn saw(&mut self, commit: CommitNo) {
        if self.draft.snapshot.is_none() {
            self.draft.read = self.draft.read.max(commit);
        }
    }

    fn compare<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, found: &T, expected: &T) {
        if found != expected && self.draft.wrong.is_none() {
            self.draft.wrong = Some(format!("{what} read {found:?} instead of {expected:?}"));
        }
    }

    fn table(&self, kind: Kind) -> Step<std::sync::Arc<tenant::catalog::Table>> {
        let found = table_named(self.view.catalog(), &kind.name()).cloned();
        Ok(found.unwrap_or_else(|| panic!("table {} is gone", kind.name())))
    }

    /// Reads a row by its primary key and compares it.
    pub(super) fn get(&mut self, kind: Kind, id: i64) -> Step<Option<Row>> {
        let table = self.table(kind)?;
        let key = primary_key(&table, &[Datum::Int8(id)]);
        let row = self.view.get(&table, &key)?.map(|row| row.to_row()).transpose()?;
        let expected = self.state().remove(&(kind, id));
        self.compare("get", &row, &expected);
        self.saw(self.model.version_of([(kind, id)]));
        Ok(row)
    }

    /// Reads a whole table, by an index if there is one and `by_index`, and compares it.
    pub(super) fn all(&mut self, kind: Kind, by_index: bool) -> Step<Vec<Row>> {
        let table = self.table(kind)?;
        let index = table.secondary_indexes().next().filter(|_| by_index);
        let access = index.map_or(Access::Table, Access::Index);
        let mut scan = self.view.scan(&table, access, KeyRange::all(), Direction::Forward);
        let mut rows = Vec::new();
        while let Some(row) = self.view.next(&mut scan)? {
            rows.push(row.to_row()?);
        }
        let expected: State = self.state().into_iter().filter(|((of, _), _)| *of == kind).collect();
        let found: State = rows.iter().map(|row| (id_of(kind, row), row.clone())).collect();
        self.compare("scan", &found, &expected);
        self.saw(self.model.version_of_table(kind));
        Ok(rows)
    }

    /// Inserts a row.
    pub(super) fn insert(&mut self, kind: Kind, row: Row) -> Step<()> {
        let table = self.table(kind)?;
        self.view.insert(&table, &row)?;
        self.draft.changes.push((id_of(kind, &row), Some(row)));
        Ok(())
    }

    /// Puts `row` in the place of the one with its id; false if there is none.
    pub(super) fn update(&mut self, kind: Kind, row: Row) -> Step<bool> {
        let table = self.table(kind)?;
        let key = primary_key(&table, &row[..1]);
        if self.view.update(&table, &key, &row)? == tenant::Updated::Gone {
            return Ok(false);
        }
        self.draft.changes.push((id_of(kind, &row), Some(row)));
        Ok(true)
    }

    /// Locks the row for update; what it then is.
    pub(super) fn lock(&mut self, kind: Kind, id: i64) -> Step<Option<Row>> {
        let table = self.table(kind)?;
        let key = primary_key(&table, &[Datum::Int8(id)]);
        let mode = tenant::locks::RowLock::Update;
        self.view.lock_row(&table, &key, mode, tenant::locks::WaitPolicy::Wait)?;
        self.get(kind, id)
    }

    pub(super) fn delete(&mut self, kind: Kind, id: i64) -> Step<bool> {
        let table = self.table(kind)?;
        let key = primary_key(&table, &[Datum::Int8(id)]);
        let deleted = self.view.delete(&table, &key)?;
        if deleted {
            self.draft.changes.push(((kind, id), None));
        }
        Ok(deleted)
    }

    pub(super) fn nextval(&mut self, name: &str) -> Step<i64> {
        let sequence = self.view.catalog().relation_in(tenant::catalog::PUBLIC_SCHEMA, name).map(|r| r.oid());
        let value = self.view.nextval(sequence.expect("the sequence is there"))?;
        if self.model.sequence_told.contains(&value) {
            self.draft.wrong = Some(format!("nextval gave {value}, which a client was told before"));
        }
        self.draft.sequence.push(value);
        Ok(value)
    }

    /// Notes a change made by DDL.
    pub(super) fn changed(&mut self, id: Id, row: Option<Row>) {
        self.draft.changes.push((id, row));
    }

    /// Whether the newest state, with this transaction's changes, has such a row.
    pub(super) fn has(&self, id: Id) -> bool {
        self.state().contains_key(&id)
    }

    pub(super) fn ids(&self, kind: Kind) -> Vec<i64> {
        self.state().keys().filter(|(of, _)| *of == kind).map(|(_, id)| *id).collect()
    }
}

impl Transaction {
    pub(super) fn begin(
        home: &Rc<Home>,
        model: &Rc<RefCell<Model>>,
        session: u32,
        isolation: Isolation,
    ) -> Transaction {
        let txn = home.turn(|home| home.tenant.begin(SessionId(session), isolation, false, false));
        let (home, model) = (home.clone(), model.clone());
        Transaction { home, model, txn: Some(txn), isolation, draft: Draft::default() }
    }

    /// Runs a statement that writes; again from its start after each wait.
    pub(super) async fn statement<T>(
        &mut self,
        body: impl FnMut(&mut Turn<'_>) -> Step<T>,
    ) -> Result<T, Fate> {
        self.run(true, body).await
    }

    /// As [`Transaction::statement`] for what only reads.
    pub(super) async fn query<T>(&mut self, body: impl FnMut(&mut Turn<'_>) -> Step<T>) -> Result<T, Fate> {
        self.run(false, body).await
    }

    async fn run<T>(
        &mut self,
        writes: bool,
        mut body: impl FnMut(&mut Turn<'_>) -> Step<T>,
    ) -> Result<T, Fate> {
        loop {
            if writes {
                self.await_memory().await?;
            }
            self.catch_up().await?;
            let changed = self.draft.changes.len();
            let outcome = self.turn(&mut body);
            if outcome.is_err() {
                self.draft.changes.truncate(changed);
            }
            let wrong = self.draft.wrong.take();
            match outcome {
                Ok(value) => {
                    require_right(wrong)?;
                    return Ok(value);
                }
                Err((Interrupt::Wait(wait), _)) => self.home.lock(wait).await?,
                Err((Interrupt::Miss(_), Some(Ok(requests)))) => {
                    for request in requests {
                        self.home.load_page(request).await?.map_err(Fate::Refused)?;
                    }
                }
                Err((_, Some(Err(error))) | (Interrupt::Error(error), _)) => {
                    return Err(Fate::Refused(error));
                }
                Err((Interrupt::Miss(page), None)) => unreachable!("page {page} was asked for"),
                Err((Interrupt::Asked, _)) => unreachable!("nobody asks for a statement's end"),
            }
        }
    }

    /// Waits until there is memory for more changes.
    async fn await_memory(&mut self) -> Result<(), Fate> {
        loop {
            let txn = self.txn.as_mut().expect("the transaction is open");
            let Some(wait) = self.home.turn(|home| home.tenant.writer_wait(txn)) else { return Ok(()) };
            self.home.await_memory(wait).await?.map_err(Fate::Refused)?;
        }
    }

    /// Moves what was changed so far to the tenant's branch, where the transaction may have it. Not to be called while a savepoint
    /// may be gone back to.
    pub(super) async fn pour(&mut self) -> Result<(), Fate> {
        if !self.txn.as_ref().is_some_and(Txn::can_branch) {
            return Ok(());
        }
        loop {
            let txn = self.txn.as_mut().expect("looked at above");
            match self.home.turn(|home| home.tenant.begin_branch(txn)) {
                Ok(()) => break,
                Err(Interrupt::Wait(wait)) => self.home.lock(wait).await?,
                Err(Interrupt::Error(error)) => return Err(Fate::Refused(error)),
                Err(other) => unreachable!("a branch is begun at once: {other:?}"),
            }
        }
        self.await_memory().await?;
        let txn = self.txn.as_mut().expect("as above");
        self.home.turn(|home| home.tenant.pour(txn, home.redo)).map_err(Fate::Refused)?;
        Ok(())
    }

    /// Brings the transaction's branch up to date, if it has one; no turn comes between that and what follows.
    async fn catch_up(&mut self) -> Result<(), Fate> {
        loop {
            let txn = self.txn.as_mut().expect("the transaction is open");
            match self.home.turn(|home| home.tenant.catch_up(txn)).map_err(Fate::Refused)? {
                CaughtUp::All => return Ok(()),
                CaughtUp::Part => env::sleep(base::Nanos(1)).await,
                CaughtUp::Miss(request) => {
                    self.home.load_page(request).await?.map_err(Fate::Refused)?;
                }
                CaughtUp::Memory(wait) => {
                    self.home.await_memory(wait).await?.map_err(Fate::Refused)?;
                }
            }
        }
    }

    /// Runs a statement in one turn; on an interrupt it is taken back, and what to read is asked for.
    fn turn<T>(&mut self, body: &mut dyn FnMut(&mut Turn<'_>) -> Step<T>) -> Result<T, (Interrupt, Request)> {
        let txn = self.txn.as_mut().expect("the transaction is open");
        let (draft, isolation) = (&mut self.draft, self.isolation);
        let model = self.model.borrow();
        let model = &*model;
        self.home.turn(|home| {
            let mark = txn.mark();
            let committed = home.tenant.committed();
            let outcome = {
                let view = home.tenant.view(txn, home.redo);
                if isolation != Isolation::ReadCommitted && draft.snapshot.is_none() {
                    draft.snapshot = Some(Rc::new(model.head.clone()));
                    draft.read = committed;
                }
                let mut turn = Turn { view, model, draft };
                body(&mut turn).and_then(|value| turn.view.finish_statement().map(|()| value))
            };
            if !matches!(outcome, Err(Interrupt::Miss(_))) {
                home.tenant.release_pages(txn);
            }
            outcome.map_err(|interrupt| {
                match &interrupt {
                    Interrupt::Error(_) => home.tenant.rollback_statement(txn, &mark),
                    _ => home.tenant.rewind_statement(txn, &mark),
                }
                let request = match &interrupt {
                    Interrupt::Miss(page) => Some(home.tenant.page_requests(txn, &[*page])),
                    _ => None,
                };
                (interrupt, request)
            })
        })
    }

    /// Tells the client what was read so far.
    pub(super) async fn reply(&mut self) -> Result<(), Stop> {
        let wait_for = self.txn.as_ref().expect("the transaction is open").observed();
        self.home.before_reply(wait_for, Reply::OfRead).await?;
        self.tell(self.draft.read);
        Ok(())
    }

    fn tell(&self, read: CommitNo) {
        let mut model = self.model.borrow_mut();
        model.journal.told(read, "a read's reply");
        model.sequence_told.extend(&self.draft.sequence);
    }

    pub(super) fn savepoint(&mut self) -> (Savepoint, usize) {
        (self.txn.as_mut().expect("the transaction is open").savepoint(), self.draft.changes.len())
    }

    pub(super) fn roll_back_to(&mut self, savepoint: &(Savepoint, usize)) {
        let txn = self.txn.as_mut().expect("the transaction is open");
        self.home.turn(|home| home.tenant.rollback_to(txn, &savepoint.0));
        self.draft.changes.truncate(savepoint.1);
    }

    pub(super) fn abort(mut self) {
        if let Some(txn) = self.txn.take() {
            self.home.turn(|home| home.tenant.abort(txn));
        }
    }

    /// Commits in one turn, unless there is something to wait for first.
    fn try_commit(&mut self) -> Result<Result<Committed, CommitWait>, SqlError> {
        let home = self.home.clone();
        home.turn(|home| {
            let txn = self.txn.as_mut().expect("the transaction is open");
            if let Some(wait) = home.tenant.commit_wait(txn)? {
                return Ok(Err(wait));
            }
            let txn = self.txn.take().expect("the transaction is open");
            let committed = home.tenant.commit(txn, home.redo)?;
            if let Some(commit) = committed.commit {
                let changes = std::mem::take(&mut self.draft.changes);
                self.model.borrow_mut().commit(commit, changes);
            }
            Ok(Ok(committed))
        })
    }

    /// Commits, and tells the client when that may be told.
    pub(super) async fn commit(mut self) -> Result<(), Fate> {
        let committed = loop {
            match self.try_commit().map_err(Fate::Refused)? {
                Ok(committed) => break committed,
                Err(CommitWait::Memory(wait)) => {
                    self.home.await_memory(wait).await?.map_err(Fate::Refused)?;
                }
                Err(CommitWait::Pages(requests)) => {
                    for request in requests {
                        self.home.load_page(request).await?.map_err(Fate::Refused)?;
                    }
                }
            }
        };
        let reply = if committed.commit.is_some() { Reply::OfCommit } else { Reply::OfRead };
        self.home.before_reply(committed.wait_for, reply).await?;
        if let Some(commit) = committed.commit {
            self.model.borrow_mut().journal.told(commit, "a commit's reply");
        }
        self.tell(self.draft.read);
        self.model.borrow_mut().acknowledged += 1;
        Ok(())
    }
}

fn require_right(wrong: Option<String>) -> Result<(), Stop> {
    require!(wrong.is_none(), "a statement {}", wrong.unwrap_or_default());
    Ok(())
}

/// A session that goes away with the server leaves its transaction open; one that fails takes it back.
impl Drop for Transaction {
    fn drop(&mut self) {
        if let Some(txn) = self.txn.take()
            && !self.home.world().is_powered_off()
        {
            self.home.turn(|home| home.tenant.abort(txn));
        }
    }
}
