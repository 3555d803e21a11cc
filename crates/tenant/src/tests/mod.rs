//! Tests of the tenant as a whole, through its public interface.

mod basics;
mod beside;
mod branch;
mod branch_ddl;
mod branch_snapshot;
mod change_memory;
mod constraints;
mod ddl;
mod ending;
mod interrupts;
mod isolation;
mod kept;
mod locking;
mod long_rows;
mod misses;
mod model;
mod model_ddl;
mod partial;
mod passing;
mod planted;
mod recovery;
mod repair;
mod room;
mod space;
mod upkeep;

use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use base::{ByteCount, CommitNo, Lsn, Oid, PageNo, SessionId, SqlError, TenantId};
use env::sim::World;
use storage::{MEMORY_MIN, MemoryBudget};
use types::{Datum, PgType, Row, TypeMod};

use crate::catalog::{Column, OWNER_ROLE, PUBLIC_SCHEMA, Sequence, Table, ViewDefinition};
use crate::ddl::{Ddl, NewTable, NewUnique};
use crate::locks::LockWait;
use crate::replay::Replay;
use crate::row::keys::{KeyRange, primary_key};
use crate::{
    Access, CaughtUp, CommitWait, Direction, Interrupt, Isolation, Mark, PageRequest, RedoSink, Tenant, Txn,
    View,
};

/// A view of no columns, to be created.
fn view_named(name: &str) -> ViewDefinition {
    ViewDefinition {
        oid: Oid(0),
        schema: PUBLIC_SCHEMA,
        name: name.into(),
        owner: OWNER_ROLE,
        sql: "SELECT 1".into(),
        columns: Vec::new(),
        depends_on: Vec::new(),
        search_path: Vec::new(),
        acl: None,
    }
}

/// A log that keeps records in memory.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) records: Vec<(CommitNo, Vec<u8>)>,
}

impl RedoSink for Log {
    fn append(&mut self, _: TenantId, commit: CommitNo, record: &[u8]) -> Lsn {
        self.records.push((commit, record.to_vec()));
        Lsn(self.records.len() as u64)
    }
}

/// A tenant and its log.
pub(crate) struct Fixture {
    pub(crate) tenant: Tenant,
    pub(crate) log: Log,
    /// Where its data file is, if it has one.
    pub(crate) world: Option<World>,
}

pub(crate) const TENANT: TenantId = TenantId(77);

impl Fixture {
    pub(crate) fn new() -> Fixture {
        Fixture { tenant: Tenant::in_memory(TENANT, "owner"), log: Log::default(), world: None }
    }

    /// A tenant with a data file in a simulated world and a memory budget.
    pub(crate) fn on_disk(seed: u64) -> Fixture {
        Fixture::on_disk_within(seed, MEMORY_MIN)
    }

    pub(crate) fn on_disk_within(seed: u64, memory: ByteCount) -> Fixture {
        let world = World::new(seed);
        let env = world.env();
        let made = Tenant::create(&env, Path::new("/tenant"), TENANT, "owner", None);
        let mut tenant = env::block_on(&env, made).expect("the disk works");
        tenant.charge_to(&MemoryBudget::new(memory, 8, 1));
        Fixture { tenant, log: Log::default(), world: Some(world) }
    }

    /// Opens the tenant at its file's root and replays the log after it.
    pub(crate) fn reopen(&mut self) {
        let env = self.world.as_ref().expect("only a tenant with a file is opened again").env();
        env::block_on(&env, async {
            self.tenant = Tenant::open(&env, Path::new("/tenant"), TENANT).await.expect("one root is whole");
            self.tenant.charge_to(&MemoryBudget::new(MEMORY_MIN, 8, 1));
            let root = self.tenant.committed();
            let mut replay = Replay::default();
            for (commit, record) in self.log.records.iter().filter(|(commit, _)| *commit > root) {
                replay.batch.push(*commit, record, true);
            }
            self.tenant.replay_batch(&mut replay).await.expect("the log is whole");
        });
    }

    /// Reads a page that a statement missed.
    pub(crate) fn read_page(&mut self, txn: &Txn, page: PageNo) {
        for request in self.tenant.page_requests(txn, &[page]).expect("the page is there") {
            self.read(request);
        }
    }

    /// Reads pages, and makes the room that a server's evictors would: a read waits for it, and here nobody else is there to make any.
    fn read(&mut self, request: PageRequest) {
        if let Some(budget) = self.tenant.pages.budget().cloned()
            && !budget.has_room()
        {
            self.tenant.shed();
            if !budget.has_room() {
                budget.overdraw_next();
            }
        }
        let env = self.world.as_ref().expect("only a tenant with a file misses pages").env();
        let loaded = env::block_on(&env, request.read()).expect("the disk works");
        self.tenant.page_loaded(loaded);
    }

    /// Releases all that was given up.
    pub(crate) fn reclaim(&mut self) {
        loop {
            match self.tenant.reclaim(16) {
                Ok(true) => {}
                Ok(false) => return,
                Err(Interrupt::Miss(page)) => {
                    let request = self.tenant.page_to_reclaim(page).expect("the page is there");
                    request.into_iter().for_each(|request| self.read(request));
                }
                Err(other) => panic!("{other:?}"),
            }
        }
    }

    /// Brings the transaction's branch up to date, if it has one.
    pub(crate) fn catch_up(&mut self, txn: &mut Txn) {
        loop {
            match self.tenant.catch_up(txn).expect("nothing is damaged") {
                CaughtUp::All => return,
                CaughtUp::Part | CaughtUp::Memory(_) => {}
                CaughtUp::Miss(request) => self.read(request),
            }
        }
    }

    pub(crate) fn begin(&mut self, session: u32, isolation: Isolation) -> Txn {
        self.tenant.begin(SessionId(session), isolation, false, false)
    }

    /// Runs a statement in a transaction; an error or wait takes the statement back.
    pub(crate) fn run<T>(
        &mut self,
        txn: &mut Txn,
        statement: impl FnOnce(&mut View<'_>) -> Result<T, Interrupt>,
    ) -> Result<T, Interrupt> {
        self.catch_up(txn);
        let mark = txn.mark();
        let result = {
            let mut view = self.tenant.view(txn, &mut self.log);
            statement(&mut view).and_then(|value| view.finish_statement().map(|()| value))
        };
        self.end_run(txn, &mark, &result);
        result
    }

    /// Ends a run of a statement as a session does: what waits is to be run again, what failed is not.
    pub(crate) fn end_run<T>(&mut self, txn: &mut Txn, mark: &Mark, outcome: &Result<T, Interrupt>) {
        match outcome {
            Ok(_) => self.tenant.settle_session_locks(txn),
            Err(Interrupt::Error(_)) => self.tenant.rollback_statement(txn, mark),
            Err(_) => self.tenant.rewind_statement(txn, mark),
        }
    }

    /// As [`Fixture::run`], again after each miss, whose page is read.
    pub(crate) fn run_reading<T>(
        &mut self,
        txn: &mut Txn,
        mut statement: impl FnMut(&mut View<'_>) -> Result<T, Interrupt>,
    ) -> Result<T, Interrupt> {
        loop {
            match self.run(txn, &mut statement) {
                Err(Interrupt::Miss(page)) => self.read_page(txn, page),
                result => return result,
            }
        }
    }

    /// Commits. Nobody makes room: what waits for it goes on without.
    pub(crate) fn commit(&mut self, mut txn: Txn) -> Result<crate::Committed, SqlError> {
        while let Some(wait) = self.tenant.commit_wait(&mut txn).expect("nothing is damaged") {
            let CommitWait::Pages(requests) = wait else { continue };
            requests.into_iter().for_each(|request| self.read(request));
        }
        self.tenant.commit(txn, &mut self.log)
    }

    /// Runs a statement that commits by itself.
    pub(crate) fn auto<T>(
        &mut self,
        statement: impl FnOnce(&mut View<'_>) -> Result<T, Interrupt>,
    ) -> Result<T, SqlError> {
        let mut txn = self.tenant.begin(SessionId(1_000_000), Isolation::ReadCommitted, false, true);
        let ran = self.run(&mut txn, statement);
        match ran.and_then(|value| self.run(&mut txn, |view| view.check_due()).map(|()| value)) {
            Ok(value) => self.commit(txn).map(|_| value),
            Err(interrupt) => {
                self.tenant.abort(txn);
                Err(interrupt.into_error().expect("nothing to wait for"))
            }
        }
    }

    pub(crate) fn ddl<T>(
        &mut self,
        change: impl FnOnce(&mut Ddl<'_>) -> Result<T, Interrupt>,
    ) -> Result<T, SqlError> {
        self.auto(|view| change(&mut view.ddl()?))
    }

    /// A table with these columns, the first `key` of them its primary key.
    pub(crate) fn create(&mut self, name: &str, columns: &[(&str, PgType)], key: usize) -> Oid {
        self.ddl(|ddl| create(ddl, name, columns, key)).unwrap()
    }

    /// A sequence from 1 to `max`, by ones.
    pub(crate) fn sequence(&mut self, max: i64) -> Oid {
        self.ddl(|ddl| Ok(ddl.create_sequence(sequence_to(max))?)).unwrap()
    }

    pub(crate) fn table(&self, oid: Oid) -> Arc<Table> {
        Arc::clone(self.tenant.catalog().table(oid).expect("the table exists"))
    }

    pub(crate) fn insert(&mut self, table: Oid, row: Row) -> Result<(), SqlError> {
        self.auto(|view| {
            let table = view.table(table)?;
            view.insert(&table, &row).map(drop)
        })
    }

    /// All committed rows.
    pub(crate) fn rows(&mut self, table: Oid) -> Vec<Row> {
        let mut txn = self.begin(1_000_000, Isolation::ReadCommitted);
        let rows = self.run_reading(&mut txn, |view| all_rows(view, table)).unwrap();
        self.commit(txn).unwrap();
        rows
    }

    fn replay_batch(&mut self, replay: &mut Replay) {
        let mut replaying = std::pin::pin!(self.tenant.replay_batch(replay));
        let mut cx = Context::from_waker(Waker::noop());
        // It waits for nothing but its next turn.
        while let Poll::Pending = replaying.as_mut().poll(&mut cx).map(Result::unwrap) {}
    }

    /// A tenant that has replayed this one's log from nothing.
    pub(crate) fn replayed(&self) -> Fixture {
        let (mut copy, mut replay) = (Fixture::new(), Replay::default());
        for (commit, record) in &self.log.records {
            // Batches of several commits, which end in the middle of one.
            let cut = commit.0 as usize * 17 % (record.len() + 1);
            replay.batch.push(*commit, &record[..cut], false);
            if commit.0 % 3 == 0 {
                copy.replay_batch(&mut replay);
            }
            replay.batch.push(*commit, &record[cut..], true);
        }
        copy.replay_batch(&mut replay);
        assert!(replay.batch.bytes().is_empty(), "everything was replayed");
        copy
    }
}

/// A sequence from 1 to `max`, by ones, to be made.
pub(crate) fn sequence_to(max: i64) -> Sequence {
    Sequence {
        oid: Oid(0),
        schema: PUBLIC_SCHEMA,
        name: "s".into(),
        owner: OWNER_ROLE,
        ty: PgType::Int8,
        start: 1,
        increment: 1,
        min: 1,
        max,
        cache: 1,
        cycle: false,
        owned_by: None,
        acl: None,
    }
}

pub(crate) fn create(
    ddl: &mut Ddl<'_>,
    name: &str,
    columns: &[(&str, PgType)],
    key: usize,
) -> Result<Oid, Interrupt> {
    let columns_of = columns.iter().map(|(name, ty)| Column::new(*name, *ty, TypeMod::NONE)).collect();
    let new =
        NewTable { schema: PUBLIC_SCHEMA, name: name.to_owned(), owner: OWNER_ROLE, columns: columns_of };
    let oid = ddl.create_table(new)?;
    if key > 0 {
        let columns = (0..key).collect();
        ddl.add_primary_key(oid, NewUnique { name: None, columns, nulls_not_distinct: false })?;
    }
    Ok(oid)
}

pub(crate) fn all_rows(view: &mut View<'_>, table: Oid) -> Result<Vec<Row>, Interrupt> {
    scan_rows(view, table, None, KeyRange::all(), Direction::Forward)
}

pub(crate) fn scan_rows(
    view: &mut View<'_>,
    table: Oid,
    index: Option<Oid>,
    range: KeyRange,
    direction: Direction,
) -> Result<Vec<Row>, Interrupt> {
    let table = view.table(table)?;
    let index = index.map(|oid| table.index(oid).expect("the index exists"));
    let before = Arc::strong_count(&table);
    let mut scan = view.scan_borrowed(&table, index.map_or(Access::Table, Access::Index), range, direction);
    assert_eq!(Arc::strong_count(&table), before, "no reference is counted");
    let mut rows = Vec::new();
    while let Some(row) = view.next(&mut scan)? {
        rows.push(row.to_row()?);
    }
    Ok(rows)
}

/// Updates the row whose primary key is `key` to `row`; false if there is none.
pub(crate) fn update(view: &mut View<'_>, table: Oid, key: &[Datum], row: Row) -> Result<bool, Interrupt> {
    let table = view.table(table)?;
    let key = primary_key(&table, key);
    Ok(view.update(&table, &key, &row)? != crate::Updated::Gone)
}

pub(crate) fn delete(view: &mut View<'_>, table: Oid, key: &[Datum]) -> Result<bool, Interrupt> {
    let table = view.table(table)?;
    let key = primary_key(&table, key);
    view.delete(&table, &key)
}

pub(crate) fn int(n: i32) -> Datum {
    Datum::Int4(n)
}

pub(crate) fn text(s: &str) -> Datum {
    Datum::Text(s.into())
}

pub(crate) fn error_of<T: std::fmt::Debug>(result: Result<T, Interrupt>) -> SqlError {
    match result {
        Err(Interrupt::Error(error)) => error,
        other => panic!("expected an error, got {other:?}"),
    }
}

pub(crate) fn wait_of<T: std::fmt::Debug>(result: Result<T, Interrupt>) -> LockWait {
    match result {
        Err(Interrupt::Wait(wait)) => wait,
        other => panic!("expected a wait, got {other:?}"),
    }
}
