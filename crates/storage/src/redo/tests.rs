//! Logs on the simulated disk: what comes back after power cuts at every point, and what is refused.
//!
//! The model: a tenant's commits are bytes made from its id and the commit number. After any crash the logs must hold,
//! for each tenant, a dense run of commits behind its root that ends no earlier than the last one known durable.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};

use base::{ByteCount, CommitNo, Lsn, Nanos, TenantId, VolumeNo};
use env::sim::{DiskFault, DiskOp, PowerCut, World};
use env::{Env, IoAccount, OpenMode, block_on};

use super::format::{BLOCK_LEN, SEGMENT_HEADER_LEN};
use super::{
    Flushed, LogDir, LogFlusher, LogOptions, LogWriter, RecordBatch, RecordParts, RedoError, RedoIndex,
    Refused, recover,
};

mod failing;
mod life;

const SMALL: LogOptions = LogOptions { segment_len: ByteCount::from_mib(1), spare_segments_max: 1 };

fn dir() -> PathBuf {
    PathBuf::from("/data/log")
}

fn open(env: &Env) -> Result<(LogDir, RedoIndex), RedoError> {
    LogDir::open(env, &dir(), SMALL)
}

/// The bytes of a commit: of a length that depends on both numbers, now and then longer than a group.
fn record(tenant: TenantId, commit: CommitNo) -> Vec<u8> {
    let mix = ((tenant.0 << 32) | commit.0).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let len = match mix >> 56 {
        0..4 => 300_000 + (mix as usize >> 8) % 400_000,
        4..30 => (mix as usize >> 8) % 60_000,
        _ => (mix as usize >> 8) % 600,
    };
    (0..len).map(|i| (mix >> (i % 7 * 8)) as u8 ^ i as u8).collect()
}

fn flush_all(env: &Env, flusher: &mut LogFlusher) {
    block_on(env, async { while flusher.flush_once().await.expect("the disk works") != Flushed::Nothing {} });
}

/// Parts of a long record of tenant 1, each flushed, in three segments at least.
fn parts_of_three_segments(env: &Env, log: &LogWriter, flusher: &mut LogFlusher) -> RecordParts {
    let mut parts = log.begin_parts(TenantId(1));
    for _ in 0..25 {
        parts.push(&[7; 100_000]);
        flush_all(env, flusher);
    }
    parts
}

/// All records of a tenant, read in batches that cut some of them.
fn records_after(index: &RedoIndex, tenant: TenantId, after: CommitNo) -> Vec<(CommitNo, Vec<u8>)> {
    let mut records = index.records_after(tenant, after).expect("no gap");
    let (mut batch, mut found) = (RecordBatch::default(), Vec::new());
    loop {
        let more = records.read_into(&mut batch, 100_000).expect("readable");
        let mut start = 0;
        for (commit, end) in batch.ends() {
            found.push((*commit, batch.bytes()[start..*end].to_vec()));
            start = *end;
        }
        batch.consume(start);
        if !more {
            assert!(batch.bytes().is_empty(), "the last record ends");
            return found;
        }
    }
}

fn assert_holds(index: &RedoIndex, tenant: TenantId, after: CommitNo, last: CommitNo) {
    let mut expected = after;
    for (commit, bytes) in records_after(index, tenant, after) {
        expected = expected.next();
        assert_eq!(commit, expected);
        assert!(bytes == record(tenant, commit), "bytes of commit {commit} of tenant {tenant}");
    }
    assert_eq!(expected, last, "last commit of tenant {tenant}");
}

/// Appends commits `first..=last` of each tenant in turn, and makes them durable.
fn fill(env: &Env, log: &LogWriter, flusher: &mut LogFlusher, tenants: u64, first: u64, last: u64) {
    for commit in first..=last {
        for tenant in 1..=tenants {
            let (tenant, commit) = (TenantId(tenant), CommitNo(commit));
            log.append(tenant, commit, &record(tenant, commit));
        }
        if commit % 8 == 0 {
            flush_all(env, flusher);
        }
    }
    flush_all(env, flusher);
}

/// Appends a tenant's first commit.
fn fill_one(log: &LogWriter, tenant: TenantId) {
    log.append(tenant, CommitNo(1), &record(tenant, CommitNo(1)));
}

#[test]
fn records_of_several_logs_come_back_in_commit_order() {
    let world = World::new(1);
    let env = world.env();
    let (logs, _) = open(&env).expect("an empty directory");
    let mut workers = [logs.writer(), logs.writer()];
    // Each tenant moves to the other worker after every five commits, its commits being durable.
    for commit in 1..=60u64 {
        for tenant in 1..=5u64 {
            let (log, _) = &workers[((commit / 5 + tenant) % 2) as usize];
            log.append(TenantId(tenant), CommitNo(commit), &record(TenantId(tenant), CommitNo(commit)));
        }
        workers.iter_mut().for_each(|(_, flusher)| flush_all(&env, flusher));
    }
    drop(workers);
    world.power_cut(PowerCut::DropUnsynced);
    let (_, index) = open(&env).expect("sound logs");
    for tenant in 1..=5 {
        assert_holds(&index, TenantId(tenant), CommitNo(0), CommitNo(60));
        assert_holds(&index, TenantId(tenant), CommitNo(41), CommitNo(60));
    }
    assert_eq!(index.tenants().len(), 5);
    assert_holds(&recover(&env, &[dir()]).expect("sound logs"), TenantId(3), CommitNo(7), CommitNo(60));
}

#[test]
fn what_a_start_reads_of_a_log_is_paid_for_once() {
    let world = World::new(1);
    let env = world.env();
    let (logs, _) = open(&env).expect("an empty directory");
    let (log, mut flusher) = logs.writer();
    fill(&env, &log, &mut flusher, 3, 1, 20);
    drop((logs, log, flusher));
    world.power_cut(PowerCut::DropUnsynced);
    let account = IoAccount::new(TenantId::SYSTEM, VolumeNo(0));
    let (_logs, index) = open(&env.charging(&account)).expect("sound logs");
    assert!(account.take_done().1 >= SMALL.segment_len, "a segment is read whole");
    for tenant in 1..=3 {
        assert_holds(&index, TenantId(tenant), CommitNo(0), CommitNo(20));
    }
    assert_eq!(account.take_done(), (0, ByteCount(0)), "the system has it in memory");
}

#[test]
fn what_a_start_believes_is_durable_although_an_earlier_sync_failed() {
    let mut believed = 0;
    for seed in 0..40 {
        let world = World::new(seed);
        let env = world.env();
        let (logs, _) = open(&env).expect("an empty directory");
        let (log, mut flusher) = logs.writer();
        fill(&env, &log, &mut flusher, 1, 1, 3);
        // Fails, and what of it arrived is not durable.
        log.append(TenantId(1), CommitNo(4), b"the last one");
        world.inject(DiskFault::eio(DiskOp::Write, ".redo"));
        block_on(&env, flusher.flush_once()).expect_err("refused");
        drop((log, flusher, logs));
        world.kill();
        world.inject(DiskFault::eio(DiskOp::Sync, ".redo"));
        assert!(open(&env).is_err());
        let (logs, index) = open(&env).expect("the disk works again");
        let last = index.last_commit(TenantId(1));
        believed += u32::from(last == Some(CommitNo(4)));
        drop(logs);
        world.power_cut(PowerCut::DropUnsynced);
        let (_, index) = open(&env).expect("sound");
        assert_eq!(index.last_commit(TenantId(1)), last, "seed {seed}");
    }
    assert!(believed > 5, "{believed}");
}

#[test]
fn a_start_that_was_killed_anywhere_leaves_nothing_that_is_believed_and_lost() {
    for operations in 1..16 {
        let world = World::new(operations);
        let env = world.env();
        world.cut_power_after(operations);
        if let Ok((logs, _)) = open(&env) {
            let (log, mut flusher) = logs.writer();
            log.append(TenantId(1), CommitNo(1), &record(TenantId(1), CommitNo(1)));
            let _ = block_on(&env, flusher.flush_once());
        }
        world.kill();
        let (logs, index) = open(&env).expect("what a killed start leaves can be opened");
        let left = index.last_commit(TenantId(1)).unwrap_or_default();
        let (log, mut flusher) = logs.writer();
        let next = left.next();
        log.append(TenantId(1), next, &record(TenantId(1), next));
        flush_all(&env, &mut flusher);
        drop((log, flusher, logs));
        world.power_cut(PowerCut::DropUnsynced);
        let (_, index) = open(&env).expect("sound logs");
        assert_holds(&index, TenantId(1), CommitNo(0), next);
    }
}

#[test]
fn waiters_wake_when_their_position_is_durable() {
    let world = World::new(2);
    let env = world.env();
    let (logs, _) = open(&env).expect("an empty directory");
    let (log, mut flusher) = logs.writer();
    let end = log.append(TenantId(1), CommitNo(1), b"one");
    assert_eq!((log.durable(), log.appended()), (Lsn(0), end));
    block_on(&env, async {
        let (waited, flushed) = futures_join(log.wait_durable(end), flusher.flush_once()).await;
        waited.expect("durable");
        assert_eq!(flushed.expect("flushed"), Flushed::Group(ByteCount(BLOCK_LEN as u64)));
    });
    assert_eq!(log.durable(), end);
    assert_eq!(log.backlog(), ByteCount(0));
    assert_eq!(block_on(&env, flusher.flush_once()).expect("flushed"), Flushed::Nothing);
}

/// Polls both in turn until both have ended.
async fn futures_join<A: Future, B: Future>(a: A, b: B) -> (A::Output, B::Output) {
    let (mut a, mut b) = (std::pin::pin!(a), std::pin::pin!(b));
    let (mut a_out, mut b_out) = (None, None);
    std::future::poll_fn(move |cx| {
        if a_out.is_none()
            && let std::task::Poll::Ready(out) = a.as_mut().poll(cx)
        {
            a_out = Some(out);
        }
        if b_out.is_none()
            && let std::task::Poll::Ready(out) = b.as_mut().poll(cx)
        {
            b_out = Some(out);
        }
        if a_out.is_some() && b_out.is_some() {
            return std::task::Poll::Ready((a_out.take().expect("some"), b_out.take().expect("some")));
        }
        std::task::Poll::Pending
    })
    .await
}

#[test]
fn dropped_flusher_leaves_no_one_waiting() {
    let world = World::new(4);
    let env = world.env();
    let (logs, _) = open(&env).expect("an empty directory");
    let (log, flusher) = logs.writer();
    let end = log.append(TenantId(1), CommitNo(1), b"one");
    drop(flusher);
    assert!(block_on(&env, log.wait_durable(end)).is_err());
}

#[test]
fn record_in_parts_lets_others_pass_and_is_nothing_without_its_commit() {
    let world = World::new(5);
    let env = world.env();
    let (logs, _) = open(&env).expect("an empty directory");
    let (log, mut flusher) = logs.writer();
    let long: Vec<u8> = (0..900_000u32).map(|i| ((i * 31) >> 3) as u8).collect();
    let mut write = |tenant: u64, passing: u64| {
        block_on(&env, async {
            let mut parts = log.begin_parts(TenantId(tenant));
            let mut commit = passing;
            for part in long.chunks(100_000) {
                parts.push(part);
                commit += 1;
                let end = log.append(TenantId(9), CommitNo(commit), b"short");
                assert!(matches!(flusher.flush_once().await, Ok(Flushed::Group(_))));
                assert!(log.durable() >= end, "a short commit does not wait for the long one");
            }
            assert_eq!(parts.len(), long.len() as u64);
            (parts, commit)
        })
    };
    let (committed, passed) = write(1, 0);
    let (given_up, passed_more) = write(2, passed);
    assert!(passed >= 7);
    log.append_parts(committed, CommitNo(1));
    drop(given_up);
    flush_all(&env, &mut flusher);
    drop(flusher);
    world.power_cut(PowerCut::Random);
    let (logs, index) = open(&env).expect("sound");
    let records = records_after(&index, TenantId(1), CommitNo(0));
    assert_eq!(records.len(), 1);
    assert!(records[0].1 == long);
    assert_eq!(index.last_commit(TenantId(2)), None);
    assert_eq!(index.last_commit(TenantId(9)), Some(CommitNo(passed_more)));
    // Fragments are kept as long as their commit is.
    logs.release_through(TenantId(9), CommitNo(passed_more));
    block_on(&env, logs.prepare_ahead()).expect("the disk works");
    let index = recover(&env, &[dir()]).expect("sound");
    assert_eq!(records_after(&index, TenantId(1), CommitNo(0)).len(), 1);
    logs.release_through(TenantId(1), CommitNo(1));
    block_on(&env, logs.prepare_ahead()).expect("the disk works");
    assert_eq!(logs.usage().live_segments, 0);
}

#[test]
fn who_keeps_the_log_is_who_is_in_the_oldest_segments_that_have_to_go() {
    let env = World::new(13).env();
    let (logs, _) = open(&env).expect("an empty directory");
    let mut of_two = [logs.writer(), logs.writer()];
    let segment = SMALL.segment_len;
    // A tenant a segment: 10 and up in the first log, 20 and up in the second. The last of each is still written to.
    let bytes = vec![7; 250_000];
    let per_segment = segment.0 / bytes.len() as u64;
    for (at, segments) in [(0, 2), (1, 5)] {
        let (log, flusher) = &mut of_two[at];
        for record in 0..segments * per_segment {
            let tenant = TenantId(10 * (at as u64 + 1) + record / per_segment);
            log.append(tenant, CommitNo(1 + record % per_segment), &bytes);
            flush_all(&env, flusher);
        }
    }
    assert_eq!(logs.usage().live, ByteCount(7 * segment.0));
    let kept = |segments: u64| {
        let keepers = logs.kept_beyond(ByteCount(segments * segment.0));
        keepers.records.into_iter().map(|tenant| tenant.0).collect::<Vec<_>>()
    };
    assert_eq!(kept(7), [] as [u64; 0]);
    assert_eq!(kept(6), [20, 21], "the first log has less than its part");
    assert_eq!(kept(4), [20, 21, 22]);
    assert_eq!(kept(2), [10, 20, 21, 22, 23]);
    assert_eq!(kept(0), [10, 20, 21, 22, 23], "what is written to stays");
    // Records that a root covers keep nothing, and segments behind them are still in line.
    logs.release_through(TenantId(20), CommitNo(per_segment));
    assert_eq!(kept(4), [21, 22]);
    block_on(&env, logs.prepare_ahead()).expect("the disk works");
    assert_eq!(kept(4), [21, 22]);
    assert_eq!(kept(6), [] as [u64; 0]);
}

#[test]
fn what_roots_cover_is_forgotten_and_its_segments_give_their_space_back() {
    let world = World::new(16);
    let env = world.env();
    let (logs, _) = open(&env).expect("an empty directory");
    let (log, mut flusher) = logs.writer();
    fill(&env, &log, &mut flusher, 3, 1, 120);
    assert!(logs.usage().live_segments > 3);
    drop((log, flusher, logs));
    world.kill();
    let (logs, index) = open(&env).expect("sound logs");
    let (_log, _flusher) = logs.writer();
    logs.release_through(TenantId(1), CommitNo(119));
    assert_holds(&index, TenantId(1), CommitNo(119), CommitNo(120));
    for tenant in 1..=3 {
        logs.release_through(TenantId(tenant), CommitNo(120));
        assert_eq!(index.tenants().len() as u64, 3 - tenant);
        assert_eq!(records_after(&index, TenantId(tenant), CommitNo(120)), []);
    }
    block_on(&env, logs.prepare_ahead()).expect("the disk works");
    assert_eq!(logs.usage().live_segments, 0);
    let kept = SMALL.spare_segments_max as u64 + 1;
    let used = || world.disk_used().0 / SMALL.segment_len.0;
    let found = used();
    assert!(found > kept + 1, "{found}");
    let after = |wait: u64| {
        block_on(&env, async { env::sleep(Nanos::from_secs(wait)).await });
        block_on(&env, logs.prepare_ahead()).expect("the disk works");
        used()
    };
    assert_eq!((after(10), after(1)), (found - 1, found - 1), "one in ten seconds");
    logs.remove_surplus().expect("the disk works");
    assert_eq!(world.disk_used(), ByteCount(kept * SMALL.segment_len.0), "no file that is gone is open");
}

#[test]
fn segments_are_reused_and_their_old_bytes_never_look_alive() {
    let world = World::new(6);
    let env = world.env();
    let (logs, _) = open(&env).expect("an empty directory");
    let (log, mut flusher) = logs.writer();
    let mut most = 0;
    for round in 0..12u64 {
        fill(&env, &log, &mut flusher, 4, round * 20 + 1, round * 20 + 20);
        for tenant in 1..=4 {
            log.release_through(TenantId(tenant), CommitNo(round * 20 + 20));
        }
        most = most.max(logs.usage().live_segments);
        block_on(&env, logs.prepare_ahead()).expect("the disk works");
        assert_eq!(logs.usage().live_segments, 1, "only the open segment is kept");
    }
    let files = env.disk.list(&dir()).expect("listed").len();
    assert!(files <= most + 3, "{files} files for at most {most} segments in use");
    fill(&env, &log, &mut flusher, 4, 241, 241);
    drop(flusher);
    world.power_cut(PowerCut::Random);
    let (logs, index) = open(&env).expect("sound");
    for tenant in 1..=4 {
        assert_holds(&index, TenantId(tenant), CommitNo(240), CommitNo(241));
        logs.forget(TenantId(tenant));
    }
    block_on(&env, logs.prepare_ahead()).expect("the disk works");
    assert_eq!(logs.usage().live_segments, 0);
    let (log, mut flusher) = logs.writer();
    log.append(TenantId(7), CommitNo(1), &record(TenantId(7), CommitNo(1)));
    flush_all(&env, &mut flusher);
    drop(flusher);
    let (_, index) = open(&env).expect("sound");
    assert_eq!(index.tenants(), [(TenantId(7), CommitNo(1))]);
}

#[test]
fn a_segment_that_cannot_be_freed_is_removed_and_keeps_no_other() {
    let world = World::new(36);
    let env = world.env();
    let (logs, _) = open(&env).expect("an empty directory");
    let mut workers = [logs.writer(), logs.writer()];
    for (tenant, (log, flusher)) in (1..).map(TenantId).zip(&mut workers) {
        for commit in (1..=30).map(CommitNo) {
            log.append(tenant, commit, &[7; 150_000]);
            flush_all(&env, flusher);
        }
        logs.release_through(tenant, CommitNo(30));
    }
    assert!(logs.usage().live_segments > 6);
    // One copy of its header says that it is free.
    world.inject(DiskFault { after: 1, ..DiskFault::eio(DiskOp::Write, ".redo") });
    let error = block_on(&env, logs.prepare_ahead()).expect_err("said");
    assert!(matches!(error, RedoError::Io { doing: "freeing a segment", .. }), "{error}");
    assert_eq!(logs.usage().live_segments, 2, "those that are written to");
    drop((workers, logs));
    world.power_cut(PowerCut::DropUnsynced);
    open(&env).expect("none is missing");
}

#[test]
fn a_commit_whose_parts_are_gone_is_not_waited_for() {
    let world = World::new(17);
    let env = world.env();
    let (logs, _) = open(&env).expect("an empty directory");
    let (log, mut flusher) = logs.writer();
    let parts = parts_of_three_segments(&env, &log, &mut flusher);
    log.append_parts(parts, CommitNo(1));
    log.append(TenantId(2), CommitNo(1), b"kept");
    flush_all(&env, &mut flusher);
    logs.release_through(TenantId(1), CommitNo(1));
    block_on(&env, logs.prepare_ahead()).expect("the disk works");
    drop((log, flusher, logs));
    let (_, index) = open(&env).expect("sound logs");
    assert_eq!(index.last_commit(TenantId(1)), Some(CommitNo(1)));
    // As for a data file that is older than what the logs were told.
    let mut records = index.records_so_far(TenantId(1), CommitNo(0));
    assert!(!records.read_into(&mut RecordBatch::default(), 1000).expect("readable"));
    assert!(!block_on(&env, records.wait_for_more()));
    assert!(matches!(index.records_after(TenantId(1), CommitNo(0)), Err(RedoError::Gap { .. })));
}

#[test]
fn missing_commit_is_refused_with_its_place() {
    let world = World::new(7);
    let env = world.env();
    let (logs, _) = open(&env).expect("an empty directory");
    let (log, mut flusher) = logs.writer();
    for commit in [1, 2, 4] {
        log.append(TenantId(1), CommitNo(commit), &record(TenantId(1), CommitNo(commit)));
    }
    flush_all(&env, &mut flusher);
    drop(flusher);
    let (_, index) = open(&env).expect("readable");
    let gap = index.records_after(TenantId(1), CommitNo(0)).err().expect("refused");
    assert!(matches!(gap, RedoError::Gap { missing: CommitNo(3), next: CommitNo(4), .. }), "{gap}");
    assert!(gap.to_string().contains("00000000.redo: offset "), "{gap}");
    assert!(index.records_after(TenantId(1), CommitNo(2)).is_err(), "the root does not cover it");
    assert_eq!(records_after(&index, TenantId(1), CommitNo(3)).len(), 1);
    assert_eq!(records_after(&index, TenantId(1), CommitNo(9)).len(), 0);
}

/// A log of 60 one-block groups of one tenant in one segment.
fn one_segment(world: &World) -> PathBuf {
    let env = world.env();
    let (logs, _) = open(&env).expect("an empty directory");
    let (log, mut flusher) = logs.writer();
    for commit in 1..=60 {
        log.append(TenantId(1), CommitNo(commit), &[commit as u8; 100]);
        flush_all(&env, &mut flusher);
    }
    dir().join("00000000.redo")
}

fn group_at(number: u64) -> u64 {
    SEGMENT_HEADER_LEN + number * BLOCK_LEN as u64
}

#[test]
fn damaged_group_before_a_whole_one_is_refused_with_its_place() {
    for (at, bit) in [(0, 0), (9, 3), (30, 1), (44, 7), (100, 2), (180, 5)] {
        let world = World::new(8);
        let file = one_segment(&world);
        world.flip_bit(&file, group_at(20) + at, bit);
        let error = open(&world.env()).err().expect("refused");
        let RedoError::Corrupt(corrupt) = error else { panic!("{error}") };
        assert_eq!((corrupt.file, corrupt.offset), (Some(file), Some(group_at(20))));
    }
}

#[test]
fn torn_tail_is_closed_for_good() {
    let world = World::new(9);
    let file = one_segment(&world);
    let env = world.env();
    world.flip_bit(&file, group_at(59) + 150, 4);
    assert_eq!(recover(&env, &[dir()]).expect("a tail").last_commit(TenantId(1)), Some(CommitNo(59)));
    let (_, index) = open(&env).expect("a tail");
    assert_eq!(index.last_commit(TenantId(1)), Some(CommitNo(59)));
    // Were the missing bits to arrive late, the group would still stay dead.
    world.flip_bit(&file, group_at(59) + 150, 4);
    assert_eq!(open(&env).expect("closed").1.last_commit(TenantId(1)), Some(CommitNo(59)));
}

#[test]
fn one_copy_of_a_segments_header_is_enough_and_none_is_refused() {
    for copy in 0..2 {
        let world = World::new(10);
        let file = one_segment(&world);
        world.flip_bit(&file, copy * BLOCK_LEN as u64 + 17, 1);
        assert_eq!(open(&world.env()).expect("one copy").1.last_commit(TenantId(1)), Some(CommitNo(60)));
        world.flip_bit(&file, (1 - copy) * BLOCK_LEN as u64 + 17, 1);
        assert!(matches!(open(&world.env()), Err(RedoError::Corrupt(_))));
    }
}

#[test]
fn a_segment_that_was_cut_is_refused_however_little_is_left_of_it() {
    let whole = SMALL.segment_len.0;
    for left in [0, 1, 4096, 5000, 8192, 8193, 12288, group_at(30), group_at(60), whole - 4096, whole - 1] {
        let world = World::new(34);
        let path = one_segment(&world);
        let env = world.env();
        env.disk
            .open(&path, OpenMode::ReadWrite, false)
            .expect("there")
            .set_len(left)
            .expect("it can be cut");
        for read in [recover(&env, &[dir()]).map(drop), open(&env).map(drop)] {
            let Err(RedoError::Corrupt(corrupt)) = read else { panic!("{left} bytes left: {read:?}") };
            assert_eq!((corrupt.file.as_ref(), corrupt.offset), (Some(&path), Some(left)));
        }
    }
}

#[test]
fn a_free_segment_that_was_cut_is_made_anew() {
    let world = World::new(36);
    let env = world.env();
    let (logs, _) = open(&env).expect("an empty directory");
    let (log, mut flusher) = logs.writer();
    fill(&env, &log, &mut flusher, 1, 1, 120);
    logs.release_through(TenantId(1), CommitNo(120));
    drop(flusher);
    block_on(&env, logs.prepare_ahead()).expect("there is space");
    assert!(logs.usage().free > ByteCount(0));
    drop((log, logs));
    let names = env.disk.list(&dir()).expect("there").into_iter().map(|entry| dir().join(entry.name));
    let headed = names.filter(|path| {
        let mut block = vec![0; BLOCK_LEN];
        let file = env.disk.open(path, OpenMode::Read, false).expect("there");
        file.read_at(&mut block, 0).expect("readable");
        block[16..24] == [0; 8] && block[40..48] != [0; 8]
    });
    let cut: Vec<_> = headed.collect();
    for path in &cut {
        env.disk.open(path, OpenMode::ReadWrite, false).expect("there").set_len(100_000).expect("cut");
    }
    assert!(!cut.is_empty(), "none was freed after a use");
    let (logs, _) = open(&env).expect("they hold nothing");
    assert_eq!(logs.usage().free.0 % SMALL.segment_len.0, 0);
    let there = env.disk.list(&dir()).expect("there").into_iter().map(|entry| dir().join(entry.name));
    assert!(there.into_iter().all(|path| !cut.contains(&path)));
}

#[test]
fn a_file_whose_making_was_cut_off_is_removed_and_its_name_is_not_used_again() {
    let world = World::new(35);
    let path = one_segment(&world);
    let env = world.env();
    let unfinished = dir().join("00000007.redo.new");
    drop(env.disk.open(&unfinished, OpenMode::CreateNew, false).expect("made"));
    recover(&env, &[dir()]).expect("it is no segment");
    let (logs, index) = open(&env).expect("it is no segment");
    assert_eq!(index.last_commit(TenantId(1)), Some(CommitNo(60)));
    let (_log, _flusher) = logs.writer();
    block_on(&env, logs.prepare_ahead()).expect("there is space");
    let names = env.disk.list(&dir()).expect("there").into_iter().map(|entry| dir().join(entry.name));
    let names: Vec<_> = names.filter(|name| *name != path).collect();
    assert_eq!(names, [dir().join("00000008.redo")]);
}

#[test]
fn newer_format_is_refused() {
    let world = World::new(11);
    let path = one_segment(&world);
    let file = world.env().disk.open(&path, OpenMode::ReadWrite, false).expect("there");
    let mut block = vec![0; BLOCK_LEN];
    file.read_at(&mut block, 0).expect("readable");
    block[8..12].copy_from_slice(&(super::FORMAT_VERSION + 1).to_le_bytes());
    let crc = crc32c::crc32c(&block[..48]);
    block[48..52].copy_from_slice(&crc.to_le_bytes());
    file.write_at(&block, 0).expect("writable");
    let error = open(&world.env()).err().expect("refused");
    assert!(matches!(error, RedoError::NewerFormat { found: 2, supported: 1, .. }), "{error}");
}

#[test]
fn lost_segment_in_the_middle_is_refused() {
    let world = World::new(12);
    let env = world.env();
    let (logs, _) = open(&env).expect("an empty directory");
    let (log, mut flusher) = logs.writer();
    fill(&env, &log, &mut flusher, 4, 1, 120);
    assert!(logs.usage().live_segments > 3);
    drop(flusher);
    env.disk.remove(&dir().join("00000001.redo")).expect("there");
    assert!(matches!(open(&env), Err(RedoError::Corrupt(_))));
}

/// A server's use of the logs, as far as they care: tenants with homes and roots, commits, flushes, releases, restarts.
struct Server {
    world: World,
    env: Env,
    seed: u64,
    logs: Option<(LogDir, Vec<(LogWriter, LogFlusher)>)>,
    tenants: BTreeMap<TenantId, Tenant>,
}

#[derive(Default)]
struct Tenant {
    /// The durable root covers this commit.
    root: CommitNo,
    /// The newest commit known durable.
    durable: CommitNo,
    appended: CommitNo,
    home: usize,
    /// Appended and not known durable.
    pending: VecDeque<(CommitNo, Lsn)>,
}

impl Server {
    fn new(seed: u64) -> Server {
        let world = World::new(seed);
        let tenants = (1..=6).map(|id| (TenantId(id), Tenant::default())).collect();
        Server { env: world.env(), world, seed, logs: None, tenants }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) % below
    }

    /// Opens the logs and checks them against what is known. `Err` when the power went off meanwhile.
    fn start(&mut self) -> Result<(), ()> {
        let opened = open(&self.env);
        let (logs, index) = match opened {
            Ok(opened) => opened,
            Err(RedoError::Io { .. }) if self.world.is_powered_off() => return Err(()),
            Err(error) => panic!("{error}"),
        };
        for (id, tenant) in &mut self.tenants {
            let last = index.last_commit(*id).unwrap_or_default().max(tenant.root);
            assert!(last >= tenant.durable, "tenant {id}: durable commit {} is lost", tenant.durable);
            assert!(last <= tenant.appended, "tenant {id}: commit {last} was never appended");
            assert_holds(&index, *id, tenant.root, last);
            (tenant.durable, tenant.appended) = (last, last);
            tenant.pending.clear();
        }
        // The number of workers changes from start to start.
        let workers = 1 + self.draw(3) as usize;
        self.logs = Some((logs.clone(), (0..workers).map(|_| logs.writer()).collect()));
        for id in 1..=6 {
            self.tenants.get_mut(&TenantId(id)).expect("there").home = id as usize % workers;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), ()> {
        let choice = self.draw(100);
        let id = TenantId(1 + self.draw(6));
        let (logs, workers) = self.logs.as_mut().expect("started");
        let tenant = self.tenants.get_mut(&id).expect("there");
        match choice {
            0..60 => {
                tenant.appended = tenant.appended.next();
                let end = workers[tenant.home].0.append(id, tenant.appended, &record(id, tenant.appended));
                tenant.pending.push_back((tenant.appended, end));
            }
            60..80 => {
                let home = tenant.home;
                block_on(&self.env, workers[home].1.flush_once()).map_err(drop)?;
                let durable = workers[home].0.durable();
                for tenant in self.tenants.values_mut().filter(|tenant| tenant.home == home) {
                    while let Some((commit, _)) = tenant.pending.pop_front_if(|(_, end)| *end <= durable) {
                        tenant.durable = commit;
                    }
                }
            }
            80..88 => {
                // A checkpoint: the root is made of a snapshot whose commits are durable.
                tenant.root = tenant.durable;
                logs.release_through(id, tenant.root);
            }
            88..94 => block_on(&self.env, logs.prepare_ahead()).map_err(drop)?,
            94..98 => {
                if tenant.pending.is_empty() {
                    tenant.home = (tenant.home + 1) % workers.len();
                }
            }
            _ => {
                self.logs = None;
                self.start()?;
            }
        }
        Ok(())
    }

    /// Runs until the power goes off, at the latest after `steps`, and starts again.
    fn run_and_crash(&mut self, changes: u64, steps: usize, policy: PowerCut) {
        self.world.cut_power_after(changes);
        let ended = (self.logs.is_some() || self.start().is_ok()) && (0..steps).all(|_| self.step().is_ok());
        assert!(ended || self.world.is_powered_off(), "an operation failed without cause");
        self.logs = None;
        self.world.power_cut(policy);
        self.start().expect("the power is on");
    }
}

#[test]
fn acknowledged_commits_survive_a_power_cut_at_every_change_of_the_disk() {
    for changes in 1..160 {
        let mut server = Server::new(100);
        let policy = if changes % 2 == 0 { PowerCut::Random } else { PowerCut::DropUnsynced };
        server.run_and_crash(changes, 400, policy);
    }
}

#[test]
fn acknowledged_commits_survive_crash_after_crash() {
    for seed in 0..24 {
        let mut server = Server::new(seed);
        for _ in 0..12 {
            let changes = 1 + server.draw(150);
            let policy = if server.draw(3) == 0 { PowerCut::DropUnsynced } else { PowerCut::Random };
            server.run_and_crash(changes, 300, policy);
        }
    }
}

#[test]
fn group_written_in_part_is_a_tail() {
    let world = World::new(13);
    let env = world.env();
    let (logs, _) = open(&env).expect("an empty directory");
    let (log, mut flusher) = logs.writer();
    log.append(TenantId(1), CommitNo(1), &[1; 100]);
    flush_all(&env, &mut flusher);
    log.append(TenantId(1), CommitNo(2), &[2; 30_000]);
    flush_all(&env, &mut flusher);
    drop((log, flusher, logs));
    // Every subset of the group's sectors that lacks one is a legal image after a crash.
    let path: &Path = &dir().join("00000000.redo");
    let file = env.disk.open(path, OpenMode::ReadWrite, false).expect("there");
    let mut group = vec![0; 8 * BLOCK_LEN];
    file.read_at(&mut group, group_at(1)).expect("readable");
    for sector in 0..(30_000 + 88) / 512 {
        let mut torn = group.clone();
        torn[sector * 512..(sector + 1) * 512].fill(0);
        file.write_at(&torn, group_at(1)).expect("writable");
        assert_eq!(recover(&env, &[dir()]).expect("a tail").last_commit(TenantId(1)), Some(CommitNo(1)));
    }
    file.write_at(&group, group_at(1)).expect("writable");
    assert_eq!(recover(&env, &[dir()]).expect("whole").last_commit(TenantId(1)), Some(CommitNo(2)));
}

#[test]
fn one_write_makes_the_commits_of_all_tenants_of_a_turn_durable() {
    const TENANTS: u64 = 50;
    const TURNS: u64 = 4;
    let world = World::new(14);
    let env = world.env();
    let (logs, _) = open(&env).expect("an empty directory");
    let (log, mut flusher) = logs.writer();
    // The first flush makes a segment, too.
    log.append(TenantId(99), CommitNo(1), b"first");
    flush_all(&env, &mut flusher);
    log.gather_by_turns();
    for commit in 1..=TURNS {
        let before = world.disk_changes();
        let turn = async {
            let append = |tenant: u64| log.append(TenantId(tenant), CommitNo(commit), &[tenant as u8; 100]);
            let ends: Vec<Lsn> = (1..=TENANTS).map(append).collect();
            assert!(ends.iter().all(|end| *end > log.durable()));
            log.end_turn();
            for end in ends {
                log.wait_durable(end).await.expect("durable");
            }
        };
        let flush = async {
            flusher.gathered().await;
            flusher.flush_once().await
        };
        let (flushed, ()) = block_on(&env, futures_join(flush, turn));
        assert!(matches!(flushed.expect("the disk works"), Flushed::Group(_)));
        assert_eq!(world.disk_changes() - before, 1, "one write for {TENANTS} tenants");
        assert_eq!(log.backlog(), ByteCount(0));
    }
    drop((log, flusher, logs));
    world.power_cut(PowerCut::DropUnsynced);
    let (_, index) = open(&env).expect("sound logs");
    for tenant in 1..=TENANTS {
        let commits = records_after(&index, TenantId(tenant), CommitNo(0));
        let expected = (1..=TURNS).map(|commit| (CommitNo(commit), vec![tenant as u8; 100]));
        assert_eq!(commits, expected.collect::<Vec<_>>());
    }
}
