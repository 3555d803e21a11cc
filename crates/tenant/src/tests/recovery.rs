//! Recovery over a simulated disk: power cuts at any moment leave the committed prefix that was durable, or more.

use std::path::Path;

use env::sim::{DiskFault, DiskOp, PowerCut, World};
use env::{Env, block_on};
use storage::redo::{LogDir, LogFlusher, LogOptions, LogWriter, RedoIndex};

use super::*;
use crate::verify::verify;
use crate::{RecordSorter, Replayed};

pub(super) const DATA: &str = "/data/tenant-77";

fn options() -> LogOptions {
    LogOptions { segment_len: base::ByteCount::from_mib(1), ..LogOptions::default() }
}

pub(super) struct Server {
    pub(super) tenant: Tenant,
    pub(super) log: LogWriter,
    pub(super) flusher: LogFlusher,
}

/// Opens the tenant as a server's start does: root, then the log after it.
pub(super) async fn open(env: &Env) -> Server {
    let (dir, index) = LogDir::open(env, Path::new("/log"), options()).unwrap();
    let mut tenant = Tenant::open(env, Path::new(DATA), TENANT).await.unwrap();
    tenant.replay(&index).await.unwrap();
    let (log, flusher) = dir.writer();
    Server { tenant, log, flusher }
}

impl Server {
    /// Runs a statement that commits by itself, bringing in pages as it asks for them.
    pub(super) async fn auto<T>(
        &mut self,
        mut statement: impl FnMut(&mut View<'_>) -> Result<T, Interrupt>,
    ) -> Result<T, SqlError> {
        let mut txn = self.tenant.begin(SessionId(1), Isolation::ReadCommitted, false, true);
        let mark = txn.mark();
        loop {
            let result = {
                let mut view = self.tenant.view(&mut txn, &mut self.log);
                statement(&mut view).and_then(|value| view.finish_statement().map(|()| value))
            };
            match result {
                Ok(value) => return self.tenant.commit(txn, &mut self.log).map(|_| value),
                Err(Interrupt::Miss(page)) => {
                    self.tenant.rewind_statement(&mut txn, &mark);
                    for request in self.tenant.page_requests(&txn, &[page]).unwrap() {
                        match request.read().await {
                            Ok(loaded) => self.tenant.page_loaded(loaded),
                            Err(error) => {
                                self.tenant.abort(txn);
                                return Err(SqlError::new(
                                    crate::state_of_file_error(&error),
                                    error.to_string(),
                                ));
                            }
                        }
                    }
                }
                Err(Interrupt::Error(error)) => {
                    self.tenant.abort(txn);
                    return Err(error);
                }
                Err(Interrupt::Wait(_)) => panic!("one session waits for nobody"),
                Err(Interrupt::Asked) => panic!("nobody asks for a statement's end"),
            }
        }
    }

    pub(super) async fn checkpoint(&mut self) -> bool {
        while self.flusher.flush_once().await.is_ok_and(|f| f != storage::redo::Flushed::Nothing) {}
        let Ok(mut checkpoint) = self.tenant.begin_checkpoint() else { return false };
        let result = checkpoint.run().await;
        self.tenant.finish_checkpoint(checkpoint) && result.is_ok()
    }
}

pub(super) async fn fill(server: &mut Server) -> Oid {
    server
        .auto(|view| {
            let mut ddl = view.ddl()?;
            let t = create(&mut ddl, "t", &[("id", PgType::Int4), ("v", PgType::Text)], 1)?;
            let columns = vec![crate::catalog::IndexColumn::ascending(1)];
            let index = crate::ddl::NewIndex {
                name: None,
                columns,
                unique: false,
                nulls_not_distinct: false,
                ..crate::ddl::NewIndex::default()
            };
            ddl.create_index(t, index)?;
            Ok(t)
        })
        .await
        .unwrap()
}

pub(super) async fn put(server: &mut Server, t: Oid, id: i32, n: u64) {
    let row = vec![int(id), text(&format!("{}{n}", "x".repeat(50 + (n % 100) as usize)))];
    server
        .auto(|view| {
            if n.is_multiple_of(5) {
                return delete(view, t, &[int(id)]).map(drop);
            }
            if !update(view, t, &[int(id)], row.clone())? {
                let table = view.table(t)?;
                view.insert(&table, &row)?;
            }
            Ok(())
        })
        .await
        .unwrap();
}

#[test]
fn a_reopened_tenant_reads_its_pages_from_disk_and_goes_on() {
    let world = World::new(1);
    let env = world.env();
    env.disk.create_dir_all(Path::new("/data")).unwrap();
    block_on(&env, async {
        Tenant::create(&env, Path::new(DATA), TENANT, "owner", None).await.unwrap();
        let mut server = open(&env).await;
        let t = fill(&mut server).await;
        for n in 0..3000 {
            put(&mut server, t, (n * 7 % 1000) as i32, n).await;
        }
        let rows = server.auto(|view| all_rows(view, t)).await.unwrap();
        assert!(server.checkpoint().await);
        drop(server);
        let mut server = open(&env).await;
        assert_eq!(server.auto(|view| all_rows(view, t)).await.unwrap(), rows);
        drop(server);
        let mut server = open(&env).await;
        for n in 3000..4000 {
            put(&mut server, t, (n * 7 % 1000) as i32, n).await;
        }
        assert_eq!(server.tenant.check().defects, Vec::<String>::new());
        assert!(server.checkpoint().await);
    });
    let (file, report) = verify(&env, Path::new(DATA), TENANT, &mut |_, _| {}).unwrap();
    assert!(file.is_clean(), "{:?}", file.defects);
    assert_eq!(report.defects, Vec::<String>::new());
    assert!(report.rows > 500 && report.rows == report.index_entries && report.orphans == 0, "{report:?}");
}

#[test]
fn a_replay_may_begin_before_the_log_has_been_read() {
    let world = World::new(3);
    let env = world.env();
    env.disk.create_dir_all(Path::new("/data")).unwrap();
    block_on(&env, async {
        Tenant::create(&env, Path::new(DATA), TENANT, "owner", None).await.unwrap();
        // The commits of two starts, whose logs have numbers in any order.
        let mut server = open(&env).await;
        let t = fill(&mut server).await;
        for n in 0..700 {
            if n == 350 {
                while server.flusher.flush_once().await.unwrap() != storage::redo::Flushed::Nothing {}
                drop(server);
                server = open(&env).await;
            }
            put(&mut server, t, (n * 7 % 300) as i32, n).await;
        }
        while server.flusher.flush_once().await.unwrap() != storage::redo::Flushed::Nothing {}
        let rows = server.auto(|view| all_rows(view, t)).await.unwrap();
        let committed = server.tenant.committed();
        drop(server);

        let mut tenant = Tenant::open(&env, Path::new(DATA), TENANT).await.unwrap();
        let index = RedoIndex::default();
        let (logs, replayed) = {
            let mut sorter = RecordSorter::new(&tenant, &index);
            let mut ahead = std::pin::pin!(tenant.replay_so_far(async || sorter.next().await, || true));
            std::future::poll_fn(|cx| {
                assert!(ahead.as_mut().poll(cx).is_pending(), "nothing has been read");
                Poll::Ready(())
            })
            .await;
            let logs = LogDir::open_into(&env, Path::new("/log"), options(), &index).unwrap();
            (logs, ahead.await.unwrap())
        };
        assert_eq!((replayed.commits, tenant.committed()), (committed.0, committed));
        assert_eq!(tenant.replay(&index).await.unwrap(), Replayed::default(), "nothing is left");
        let (log, flusher) = logs.writer();
        let mut server = Server { tenant, log, flusher };
        assert_eq!(server.auto(|view| all_rows(view, t)).await.unwrap(), rows);
        assert_eq!(server.tenant.check().defects, Vec::<String>::new());
    });
}

#[test]
fn a_head_start_ends_where_evictors_would_begin() {
    let world = World::new(16);
    let env = world.env();
    env.disk.create_dir_all(Path::new("/data")).unwrap();
    block_on(&env, async {
        Tenant::create(&env, Path::new(DATA), TENANT, "owner", None).await.unwrap();
        let mut server = open(&env).await;
        let columns = [("id", PgType::Int4), ("v", PgType::Text)];
        let t = server.auto(|view| create(&mut view.ddl()?, "t", &columns, 1)).await.unwrap();
        for id in 0..1500 {
            let row = vec![int(id), text(&"v".repeat(1000))];
            let insert = |view: &mut View<'_>| {
                let table = view.table(t)?;
                view.insert(&table, &row)
            };
            server.auto(insert).await.unwrap();
        }
        while server.flusher.flush_once().await.unwrap() != storage::redo::Flushed::Nothing {}
        drop(server);

        // Others have more than evictors leave in memory, and there is room for a part of the rows.
        let mut others = Fixture::new();
        let large = others.create("large", &columns, 1);
        for id in 0..1500 {
            others.insert(large, vec![int(id), text(&"v".repeat(5000))]).unwrap();
        }
        let budget = MemoryBudget::new(ByteCount(others.tenant.memory().pages.0 / 10 * 11), 0, 1);
        others.tenant.charge_to(&budget);
        let (_logs, index) = LogDir::open(&env, Path::new("/log"), options()).unwrap();
        let mut tenant = Tenant::open(&env, Path::new(DATA), TENANT).await.unwrap();
        tenant.charge_to(&budget);
        let mut sorter = RecordSorter::new(&tenant, &index);
        let replayed = tenant.replay_so_far(async || sorter.next().await, || true).await.unwrap();
        assert!(replayed.commits > 0 && budget.has_room(), "{} of {}", budget.resident(), budget.limit());
    });
}

#[test]
fn a_replay_that_is_stopped_is_gone_on_with() {
    let world = World::new(4);
    let env = world.env();
    env.disk.create_dir_all(Path::new("/data")).unwrap();
    block_on(&env, async {
        Tenant::create(&env, Path::new(DATA), TENANT, "owner", None).await.unwrap();
        let mut server = open(&env).await;
        let t = fill(&mut server).await;
        for n in 0..1500 {
            put(&mut server, t, (n * 7 % 100) as i32, n).await;
        }
        while server.flusher.flush_once().await.unwrap() != storage::redo::Flushed::Nothing {}
        let rows = server.auto(|view| all_rows(view, t)).await.unwrap();
        drop(server);
        let (logs, index) = LogDir::open(&env, Path::new("/log"), options()).unwrap();
        let budget = MemoryBudget::new(MEMORY_MIN, 0, 1);
        let mut tenant = Tenant::open(&env, Path::new(DATA), TENANT).await.unwrap();
        tenant.charge_to(&budget);
        let mut sorter = RecordSorter::new(&tenant, &index);
        let before = tenant.replay_so_far(async || sorter.next().await, || false).await.unwrap().commits;
        let after = tenant.replay(&index).await.unwrap().commits;
        assert!(before > 0 && after > 0, "{before} commits and {after}");
        let (log, flusher) = logs.writer();
        let mut server = Server { tenant, log, flusher };
        assert_eq!(server.auto(|view| all_rows(view, t)).await.unwrap(), rows);
        assert_eq!(server.tenant.check().defects, Vec::<String>::new());
    });
}

/// Nobody evicts pages of a tenant that is not open yet, and each has less than what a tenant is checkpointed for.
#[test]
fn tenants_that_are_replayed_side_by_side_keep_within_the_memory_together() {
    const LIMIT: base::ByteCount = base::ByteCount::from_mib(1);
    let world = World::new(14);
    let env = world.env();
    env.disk.create_dir_all(Path::new("/data")).unwrap();
    block_on(&env, async {
        let ids: Vec<TenantId> = (100..110).map(TenantId).collect();
        let path = |id: TenantId| format!("/data/tenant-{id}");
        let (logs, _) = LogDir::open(&env, Path::new("/log"), options()).unwrap();
        for id in ids.iter().copied() {
            Tenant::create(&env, Path::new(&path(id)), id, "owner", None).await.unwrap();
            let tenant = Tenant::open(&env, Path::new(&path(id)), id).await.unwrap();
            let (log, flusher) = logs.writer();
            let mut server = Server { tenant, log, flusher };
            let columns = [("id", PgType::Int4), ("v", PgType::Text)];
            let t = server.auto(|view| create(&mut view.ddl()?, "t", &columns, 1)).await.unwrap();
            for n in 0..200 {
                let row = vec![int(n), text(&"x".repeat(1000))];
                let insert = |view: &mut View<'_>| {
                    let table = view.table(t)?;
                    view.insert(&table, &row)
                };
                server.auto(insert).await.unwrap();
            }
            while server.flusher.flush_once().await.unwrap() != storage::redo::Flushed::Nothing {}
        }
        drop(logs);
        let (_logs, index) = LogDir::open(&env, Path::new("/log"), options()).unwrap();
        let budget = MemoryBudget::new(LIMIT, 0, 1);
        let mut replayed = Vec::new();
        for id in ids {
            let mut tenant = Tenant::open(&env, Path::new(&path(id)), id).await.unwrap();
            tenant.charge_to(&budget);
            assert!(tenant.replay(&index).await.unwrap().commits > 200);
            replayed.push(tenant);
        }
        let resident = budget.resident();
        assert!(resident.0 < 2 * LIMIT.0, "{resident} of {LIMIT} in memory");
    });
}

/// What a value's pages are given back for has to see all of them at once, and begins anew after each that is missing.
#[test]
fn a_value_larger_than_the_memory_is_replaced_and_removed_by_a_replay() {
    let world = World::new(10);
    let env = world.env();
    env.disk.create_dir_all(Path::new("/data")).unwrap();
    block_on(&env, async {
        Tenant::create(&env, Path::new(DATA), TENANT, "owner", None).await.unwrap();
        let mut server = open(&env).await;
        let columns = [("id", PgType::Int4), ("v", PgType::Text)];
        let t = server.auto(|view| create(&mut view.ddl()?, "t", &columns, 1)).await.unwrap();
        let value = |letter: &str| text(&letter.repeat(1 << 20));
        for id in 1..=3 {
            let row = vec![int(id), value("a")];
            let insert = |view: &mut View<'_>| {
                let table = view.table(t)?;
                view.insert(&table, &row)
            };
            server.auto(insert).await.unwrap();
        }
        assert!(server.checkpoint().await);
        server.auto(|view| update(view, t, &[int(1)], vec![int(1), value("b")])).await.unwrap();
        server.auto(|view| delete(view, t, &[int(2)])).await.unwrap();
        while server.flusher.flush_once().await.unwrap() != storage::redo::Flushed::Nothing {}
        drop(server);

        let (logs, index) = LogDir::open(&env, Path::new("/log"), options()).unwrap();
        let mut tenant = Tenant::open(&env, Path::new(DATA), TENANT).await.unwrap();
        let memory = base::ByteCount::from_kib(256);
        tenant.charge_to(&MemoryBudget::new(memory, 0, 1));
        {
            let mut replayed = std::pin::pin!(tenant.replay(&index));
            let mut late = std::pin::pin!(env::sleep(base::Nanos::from_secs(60)));
            let replayed = std::future::poll_fn(|cx| {
                let replayed = replayed.as_mut().poll(cx);
                let is_late = replayed.is_pending() && late.as_mut().poll(cx).is_ready();
                assert!(!is_late, "it reads the same pages again and again");
                replayed
            });
            assert_eq!(replayed.await.unwrap().commits, 2);
        }
        let (log, flusher) = logs.writer();
        assert!(Server { tenant, log, flusher }.checkpoint().await);
        drop(logs);
        let mut server = open(&env).await;
        let rows = server.auto(|view| all_rows(view, t)).await.unwrap();
        assert_eq!(rows, [vec![int(1), value("b")], vec![int(3), value("a")]]);
        assert_eq!(server.tenant.check().defects, Vec::<String>::new());
    });
}

/// Replays within `budget`, for so many polls at most; whether it ended, and the most bytes that were in memory between two of them.
async fn replay_watched(
    tenant: &mut Tenant,
    index: &RedoIndex,
    budget: &MemoryBudget,
    polls_max: u64,
) -> (bool, base::ByteCount) {
    let (mut polls, mut most) = (0, base::ByteCount(0));
    let mut replaying = std::pin::pin!(tenant.replay(index));
    let ended = std::future::poll_fn(|cx| {
        polls += 1;
        let polled = replaying.as_mut().poll(cx).map(Result::unwrap);
        most = most.max(budget.resident());
        match polled {
            Poll::Ready(_) => Poll::Ready(true),
            Poll::Pending if polls == polls_max => Poll::Ready(false),
            Poll::Pending => Poll::Pending,
        }
    });
    (ended.await, most)
}

/// Nobody evicts its pages before it is open, and it is to have no more then than while it was.
#[test]
fn a_replay_keeps_within_the_tenants_own_limit_of_memory() {
    const MAX: base::ByteCount = base::ByteCount::from_mib(1);
    let world = World::new(17);
    let env = world.env();
    env.disk.create_dir_all(Path::new("/data")).unwrap();
    block_on(&env, async {
        Tenant::create(&env, Path::new(DATA), TENANT, "owner", None).await.unwrap();
        let mut server = open(&env).await;
        let columns = [("id", PgType::Int4), ("v", PgType::Text)];
        let t = server.auto(|view| create(&mut view.ddl()?, "t", &columns, 1)).await.unwrap();
        let row = |id: i32| vec![int(id), text(&"x".repeat(1000))];
        for id in 0..4000 {
            let insert = |view: &mut View<'_>| {
                let table = view.table(t)?;
                view.insert(&table, &row(id))
            };
            server.auto(insert).await.unwrap();
        }
        while server.flusher.flush_once().await.unwrap() != storage::redo::Flushed::Nothing {}
        let committed = server.tenant.committed();
        drop(server);

        let (logs, index) = LogDir::open(&env, Path::new("/log"), options()).unwrap();
        let budget = MemoryBudget::new(base::ByteCount::from_mib(64), 0, 1);
        let mut tenant = Tenant::open(&env, Path::new(DATA), TENANT).await.unwrap();
        tenant.charge_to(&budget);
        let share = std::sync::Arc::<governor::MemoryShare>::default();
        share.set_max(Some(MAX));
        tenant.limit_memory(&share);
        let (ended, most) = replay_watched(&mut tenant, &index, &budget, u64::MAX).await;
        assert!(ended && tenant.committed() == committed);
        assert!(most.0 < 2 * MAX.0, "{most} of {MAX} in memory");
        let (log, flusher) = logs.writer();
        assert!(Server { tenant, log, flusher }.checkpoint().await);
        drop(logs);
        let mut server = open(&env).await;
        let rows = server.auto(|view| all_rows(view, t)).await.unwrap();
        assert_eq!(rows, (0..4000).map(row).collect::<Vec<_>>());
    });
}

/// What a record changes can be no root before it is whole. It is replayed beside the pages of the commit before, and leaves memory with checkpoints of those.
#[test]
fn a_commit_larger_than_the_memory_is_replayed_within_it_and_may_be_cut_off() {
    const LIMIT: base::ByteCount = base::ByteCount::from_mib(1);
    for builds in [false, true] {
        let world = World::new(13);
        let env = world.env();
        env.disk.create_dir_all(Path::new("/data")).unwrap();
        block_on(&env, async {
            Tenant::create(&env, Path::new(DATA), TENANT, "owner", None).await.unwrap();
            let mut server = open(&env).await;
            let columns = [("id", PgType::Int4), ("v", PgType::Text)];
            let t = server.auto(|view| create(&mut view.ddl()?, "t", &columns, 1)).await.unwrap();
            let row = |id: i32| vec![int(id), text(&format!("{:04}{}", id * 7 % 4000, "x".repeat(1000)))];
            let ids = if builds { 0..2000 } else { 0..4000 };
            let fill = |view: &mut View<'_>| {
                let table = view.table(t)?;
                ids.clone().try_for_each(|id| view.insert(&table, &row(id)).map(drop))
            };
            server.auto(fill).await.unwrap();
            if builds {
                assert!(server.checkpoint().await);
                let columns = vec![crate::catalog::IndexColumn::ascending(1)];
                let index = crate::ddl::NewIndex {
                    name: None,
                    columns,
                    unique: false,
                    nulls_not_distinct: false,
                    ..crate::ddl::NewIndex::default()
                };
                server.auto(|view| view.ddl()?.create_index(t, index.clone()).map(drop)).await.unwrap();
            }
            while server.flusher.flush_once().await.unwrap() != storage::redo::Flushed::Nothing {}
            let (rows, committed) =
                (server.auto(|view| all_rows(view, t)).await.unwrap(), server.tenant.committed());
            drop(server);

            let (logs, index) = LogDir::open(&env, Path::new("/log"), options()).unwrap();
            let opened = async || {
                let mut tenant = Tenant::open(&env, Path::new(DATA), TENANT).await.unwrap();
                let budget = MemoryBudget::new(LIMIT, 0, 1);
                tenant.charge_to(&budget);
                (tenant, budget)
            };
            // Some tenths of what all of it takes.
            for polls in if builds { [400, 800, 1200] } else { [48, 96, 144] } {
                let (mut tenant, budget) = opened().await;
                let (ended, _) = replay_watched(&mut tenant, &index, &budget, polls).await;
                assert!(!ended, "after {polls} polls");
                drop(tenant);
                // What was being written then is.
                env::sleep(base::Nanos::from_secs(1)).await;
            }
            let (mut tenant, budget) = opened().await;
            let (ended, most) = replay_watched(&mut tenant, &index, &budget, u64::MAX).await;
            assert!(ended && tenant.committed() == committed);
            // What merges runs needs a page of each.
            assert!(builds || most.0 < 2 * LIMIT.0, "{most} of {LIMIT} in memory");
            let (log, flusher) = logs.writer();
            assert!(Server { tenant, log, flusher }.checkpoint().await);
            drop(logs);
            let mut server = open(&env).await;
            assert_eq!(server.tenant.committed(), committed);
            assert_eq!(server.auto(|view| all_rows(view, t)).await.unwrap(), rows);
            assert_eq!(server.tenant.check().defects, Vec::<String>::new());
        });
    }
}

#[test]
fn a_replay_that_finds_the_disk_full_says_so_and_may_be_tried_again() {
    let world = World::new(12);
    let env = world.env();
    env.disk.create_dir_all(Path::new("/data")).unwrap();
    block_on(&env, async {
        Tenant::create(&env, Path::new(DATA), TENANT, "owner", None).await.unwrap();
        let mut server = open(&env).await;
        let columns = [("id", PgType::Int4), ("v", PgType::Text)];
        let t = server.auto(|view| create(&mut view.ddl()?, "t", &columns, 1)).await.unwrap();
        for id in 1..=6 {
            let row = vec![int(id), text(&"a".repeat(500_000))];
            let insert = |view: &mut View<'_>| {
                let table = view.table(t)?;
                view.insert(&table, &row)
            };
            server.auto(insert).await.unwrap();
        }
        while server.flusher.flush_once().await.unwrap() != storage::redo::Flushed::Nothing {}
        drop(server);
        let (_logs, index) = LogDir::open(&env, Path::new("/log"), options()).unwrap();
        let replayed = async || {
            let mut tenant = Tenant::open(&env, Path::new(DATA), TENANT).await.unwrap();
            tenant.charge_to(&MemoryBudget::new(base::ByteCount::from_kib(256), 0, 1));
            tenant.replay(&index).await
        };
        // It writes what memory has no room for.
        world.set_disk_capacity(world.disk_used());
        let error = replayed().await.unwrap_err();
        assert_eq!(error.state(), base::SqlState::DISK_FULL, "{error}");
        world.lift_capacity();
        assert!(replayed().await.unwrap().commits > 0);
    });
}

/// Pages of a branch that no checkpoint has written are let go of bit by bit once it is in place: by a replay before it goes on, and not by the upkeep behind all of it.
#[test]
fn what_a_long_commit_changes_is_not_kept_while_the_next_ones_are_replayed() {
    let world = World::new(15);
    let env = world.env();
    env.disk.create_dir_all(Path::new("/data")).unwrap();
    block_on(&env, async {
        Tenant::create(&env, Path::new(DATA), TENANT, "owner", None).await.unwrap();
        let mut server = open(&env).await;
        let columns = [("id", PgType::Int4), ("v", PgType::Text)];
        let t = server.auto(|view| create(&mut view.ddl()?, "t", &columns, 1)).await.unwrap();
        // More pages than are let go of at once.
        let row = |id: i32, letter: &str| vec![int(id), text(&letter.repeat(1000))];
        let fill = |view: &mut View<'_>| {
            let table = view.table(t)?;
            (0..9000).try_for_each(|id| view.insert(&table, &row(id, "a")).map(drop))
        };
        server.auto(fill).await.unwrap();
        for letter in ["b", "c"] {
            // Between two of these a batch of records ends.
            for id in 0..1000 {
                let set = |view: &mut View<'_>| update(view, t, &[int(id)], row(id, "x"));
                assert!(server.auto(set).await.unwrap());
            }
            let change = |view: &mut View<'_>| {
                (0..9000).try_for_each(|id| update(view, t, &[int(id)], row(id, letter)).map(drop))
            };
            server.auto(change).await.unwrap();
        }
        while server.flusher.flush_once().await.unwrap() != storage::redo::Flushed::Nothing {}
        drop(server);

        let (logs, index) = LogDir::open(&env, Path::new("/log"), options()).unwrap();
        let mut tenant = Tenant::open(&env, Path::new(DATA), TENANT).await.unwrap();
        tenant.charge_to(&MemoryBudget::new(base::ByteCount::from_mib(64), 0, 1));
        assert!(tenant.replay(&index).await.unwrap().commits > 2000);
        let (pages, retained) = (tenant.pages.page_count(), tenant.pages.retained_pages());
        assert!(pages > 1100 && retained < 100, "{retained} versions beside {pages} pages");
        let (log, flusher) = logs.writer();
        let mut server = Server { tenant, log, flusher };
        let rows = server.auto(|view| all_rows(view, t)).await.unwrap();
        assert_eq!(rows, (0..9000).map(|id| row(id, "c")).collect::<Vec<_>>());
    });
}

#[test]
fn power_cuts_leave_a_durable_prefix_of_commits() {
    for seed in 0..40 {
        let world = World::new(seed);
        let env = world.env();
        env.disk.create_dir_all(Path::new("/data")).unwrap();
        let (t, states, durable) = block_on(&env, async {
            Tenant::create(&env, Path::new(DATA), TENANT, "owner", None).await.unwrap();
            let mut server = open(&env).await;
            let t = fill(&mut server).await;
            server.checkpoint().await;
            world.cut_power_after(20 + world.random() % 200);
            let mut states =
                vec![(server.tenant.committed(), server.auto(|view| all_rows(view, t)).await.unwrap())];
            let mut durable = server.tenant.committed();
            for n in 0..400 {
                put(&mut server, t, (world.random() % 50) as i32, n).await;
                let committed = server.tenant.committed();
                states.push((committed, server.auto(|view| all_rows(view, t)).await.unwrap()));
                if world.random().is_multiple_of(4) {
                    let mut synced = true;
                    loop {
                        match server.flusher.flush_once().await {
                            Ok(storage::redo::Flushed::Nothing) => break,
                            Ok(_) => {}
                            Err(_) => {
                                synced = false;
                                break;
                            }
                        }
                    }
                    if synced {
                        durable = committed;
                    }
                }
                if world.random().is_multiple_of(30) {
                    server.checkpoint().await;
                }
                if world.is_powered_off() {
                    break;
                }
            }
            (t, states, durable)
        });
        world.power_cut(if seed % 2 == 0 { PowerCut::DropUnsynced } else { PowerCut::Random });
        let env = world.env();
        block_on(&env, async {
            let mut server = open(&env).await;
            let committed = server.tenant.committed();
            assert!(committed >= durable, "seed {seed}: {committed:?} of {durable:?} acknowledged");
            let rows = server.auto(|view| all_rows(view, t)).await.unwrap();
            let expected = states.iter().find(|(commit, _)| *commit == committed).expect("a state that was");
            assert_eq!(rows, expected.1, "seed {seed}");
            assert_eq!(server.tenant.check().defects, Vec::<String>::new(), "seed {seed}");
            put(&mut server, t, 1, 1).await;
        });
    }
}

#[test]
fn a_commit_ends_where_less_than_the_way_to_a_row_fits_the_budget() {
    let world = World::new(9);
    let env = world.env();
    let made = Tenant::create(&env, Path::new("/tenant"), TENANT, "owner", None);
    let tenant = env::block_on(&env, made).unwrap();
    let mut fixture = Fixture { tenant, log: Log::default(), world: Some(world) };
    let t = fixture.create("t", &[("id", PgType::Int4), ("s", PgType::Text)], 1);
    let filler = "x".repeat(900);
    for id in 0..2000 {
        fixture.insert(t, vec![int(id), text(&filler)]).unwrap();
    }
    let mut checkpoint = fixture.tenant.begin_checkpoint().unwrap();
    env::block_on(&env, checkpoint.run()).unwrap();
    assert!(fixture.tenant.finish_checkpoint(checkpoint));
    let set = |id: i32| move |view: &mut View<'_>| update(view, t, &[int(id)], vec![int(id), text("y")]);
    (0..400).step_by(10).for_each(|id| assert!(fixture.auto(set(id)).unwrap()));
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    fixture.run(&mut txn, set(1500)).unwrap();
    fixture.tenant.evict_all();
    // Changed pages alone are more than the budget, so that what is read is what can be evicted.
    let budget = MemoryBudget::new(base::ByteCount::from_kib(256), 0, 1);
    assert!(fixture.tenant.memory().pages > budget.limit());
    fixture.tenant.charge_to(&budget);
    fixture.tenant.commit(txn, &mut fixture.log).unwrap();
    let mut txn = fixture.begin(1, Isolation::ReadCommitted);
    let found = fixture.run_reading(&mut txn, |view| {
        let table = view.table(t)?;
        let key = primary_key(&table, &[int(1500)]);
        Ok(view.get(&table, &key)?.unwrap().to_row()?)
    });
    assert_eq!(found.unwrap()[1], text("y"));
    fixture.commit(txn).unwrap();
}

#[test]
fn what_could_not_be_brought_into_the_catalog_is_in_the_next_root() {
    let mut fixture = Fixture::on_disk(90);
    let table = fixture.create("t", &[("id", PgType::Int4)], 1);
    let checkpoint = |fixture: &mut Fixture| {
        let mut checkpoint = fixture.tenant.begin_checkpoint().unwrap();
        block_on(&fixture.world.as_ref().unwrap().env(), checkpoint.run()).unwrap();
        assert!(fixture.tenant.finish_checkpoint(checkpoint));
    };
    checkpoint(&mut fixture);
    // The table's first page.
    fixture.insert(table, vec![int(1)]).unwrap();
    for copies in [true, false] {
        fixture.tenant.evict_all();
        fixture.world.as_ref().unwrap().inject(DiskFault::eio(DiskOp::Read, "tenant"));
        let error = match copies {
            true => fixture.tenant.begin_copy().err(),
            false => fixture.tenant.begin_checkpoint().err(),
        };
        assert_eq!(error.expect("a page cannot be read").state(), base::SqlState::IO_ERROR);
    }
    checkpoint(&mut fixture);
    fixture.reopen();
    assert_eq!(fixture.rows(table), [[int(1)]]);
    assert_eq!(fixture.tenant.check().defects, Vec::<String>::new());
}
