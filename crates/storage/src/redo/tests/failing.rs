//! Disks that fail and disks that are full.

use std::pin::pin;
use std::sync::Barrier;
use std::task::{Context, Poll, Waker};

use super::*;
use crate::redo::{LogFailed, Want};

#[test]
fn failed_write_closes_the_log_and_tells_everyone() {
    let world = World::new(3);
    let env = world.env();
    let (logs, _) = open(&env).expect("an empty directory");
    let (log, mut flusher) = logs.writer();
    fill(&env, &log, &mut flusher, 1, 1, 3);
    let durable = log.durable();
    world.inject(DiskFault::eio(DiskOp::Write, ".redo"));
    let end = log.append(TenantId(1), CommitNo(4), b"lost");
    block_on(&env, async {
        let (waited, flushed) = futures_join(log.wait_durable(end), flusher.flush_once()).await;
        assert!(waited.is_err() && flushed.is_err());
    });
    let later = log.append(TenantId(1), CommitNo(5), b"nowhere");
    assert!(block_on(&env, log.wait_durable(later)).is_err());
    assert!(block_on(&env, flusher.flush_once()).is_err());
    assert!(block_on(&env, log.wait_durable(durable)).is_ok(), "what was durable before still is");
    assert!(log.failure().is_some());
    assert!(matches!(log.admit(1), Err(Refused::Failed(_))), "a commit can know before it changes anything");
}

#[test]
fn a_lost_position_is_not_told_to_be_durable_while_its_log_goes_on() {
    let world = World::new(1);
    let (logs, _) = open(&world.env()).expect("an empty directory");
    for _ in 0..1000 {
        let (log, _flusher) = logs.writer();
        let lost = log.append(TenantId(1), CommitNo(1), b"lost");
        log.latch(LogFailed::new(&dir(), "testing", std::io::Error::other("failed")));
        let look = || pin!(log.wait_durable(lost)).poll(&mut Context::from_waker(Waker::noop()));
        let begin = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                begin.wait();
                // Some of these before the log goes on, some after, and perhaps one in between.
                assert!((0..300).all(|_| matches!(look(), Poll::Ready(Err(_)))));
            });
            begin.wait();
            log.resume();
        });
    }
}

#[test]
fn a_log_that_is_far_behind_says_what_to_wait_for() {
    let world = World::new(40);
    let env = world.env();
    let (logs, _) = open(&env).expect("an empty directory");
    let (log, mut flusher) = logs.writer();
    let append = |commit| log.append(TenantId(1), CommitNo(commit), &[7; 500_000]);
    (1..=2).for_each(|commit| _ = append(commit));
    assert_eq!(log.far_behind(), None);
    let end = append(3);
    assert_eq!(log.far_behind(), Some(end));
    block_on(&env, flusher.flush_once()).expect("the disk works");
    assert_eq!(log.far_behind(), Some(end));
    flush_all(&env, &mut flusher);
    assert_eq!(log.far_behind(), None);
    (10..=20).for_each(|commit| _ = append(commit));
    world.inject(DiskFault::eio(DiskOp::Write, ".redo"));
    block_on(&env, flusher.flush_once()).expect_err("the disk fails");
    assert_eq!(log.far_behind(), None, "nothing of it is waited for");
    block_on(&env, flusher.seal()).expect("the disk works again");
    flusher.resume();
    assert_eq!(log.far_behind(), None);
}

/// Linux's number of the error.
const ENOSPC: i32 = 28;

/// The next segment finds no space.
#[test]
fn a_failed_log_goes_on_without_what_it_lost() {
    for seed in 0..60 {
        let world = World::new(seed);
        let env = world.env();
        let (logs, _) = open(&env).expect("an empty directory");
        let (log, mut flusher) = logs.writer();
        let tenant = TenantId(1);
        let append = |commit: u64| log.append(tenant, CommitNo(commit), &record(tenant, CommitNo(commit)));
        for commit in 1..=20 {
            append(commit);
        }
        flush_all(&env, &mut flusher);
        let kept = log.durable();
        let op = if seed % 2 == 0 { DiskOp::Write } else { DiskOp::Sync };
        world.inject(DiskFault { after: world.random() % 3, ..DiskFault::eio(op, "log") });
        let mut lost = Vec::new();
        let mut commit = 20;
        let failed = loop {
            commit += 1;
            lost.push(append(commit));
            match block_on(&env, flusher.flush_once()) {
                Ok(_) => {}
                Err(failed) => break failed,
            }
        };
        let durable = log.durable();
        lost.retain(|lsn| *lsn > durable);
        lost.push(append(commit + 1));
        assert!(log.admit(10).is_err(), "nothing is taken before it is resumed");
        let last = recovered_through(&env, tenant);
        world.inject(DiskFault::eio(DiskOp::Write, "log"));
        if block_on(&env, flusher.seal()).is_ok() {
            // Nothing had to be written over, so the fault is still to come.
            let other = env.disk.open(&dir().join("other"), OpenMode::Create, false).expect("a file");
            other.write_at(&[0], 0).expect_err("it comes");
        }
        assert!(log.failure().is_some(), "it has not been resumed");
        block_on(&env, flusher.seal()).expect("the disk works again");
        let last_sealed = recovered_through(&env, tenant);
        assert!(last_sealed.0 <= last.0 && last_sealed.0 >= 20, "{last_sealed} of {last}");
        flusher.resume();
        block_on(&env, log.wait_durable(log.appended())).expect("nothing was appended since");
        // Commit numbers are given again to others, which take the lost ones' place.
        let next: Vec<Lsn> = (last_sealed.0 + 1..=last_sealed.0 + 30).map(append).collect();
        for lsn in &lost {
            assert_eq!(
                block_on(&env, log.wait_durable(*lsn)).expect_err("lost").to_string(),
                failed.to_string()
            );
        }
        flush_all(&env, &mut flusher);
        block_on(&env, log.wait_durable(*next.last().expect("some"))).expect("durable");
        block_on(&env, log.wait_durable(kept)).expect("what was durable still is");
        for lsn in &lost {
            assert!(
                block_on(&env, log.wait_durable(*lsn)).is_err(),
                "lost for ever, whatever was appended since"
            );
        }
        drop((log, flusher, logs));
        world.power_cut(if seed % 4 < 2 { PowerCut::DropUnsynced } else { PowerCut::Random });
        let (_, index) = open(&world.env()).expect("sound logs");
        assert_holds(&index, tenant, CommitNo(0), CommitNo(last_sealed.0 + 30));
    }
}

#[test]
fn what_a_failed_log_kept_is_let_go() {
    // In a write to a segment, and while the next one is made.
    for fault in [DiskFault::eio(DiskOp::Write, ".redo"), DiskFault::eio(DiskOp::Resize, ".redo")] {
        let world = World::new(35);
        let env = world.env();
        let (logs, _) = open(&env).expect("an empty directory");
        let (log, mut flusher) = logs.writer();
        log.append(TenantId(2), CommitNo(1), b"short");
        let mut parts = parts_of_three_segments(&env, &log, &mut flusher);
        assert!(logs.usage().live_segments >= 3);
        world.inject(fault);
        let mut flush_more = || {
            parts.push(&[7; 100_000]);
            block_on(&env, flusher.flush_once())
        };
        while flush_more().is_ok() {}
        drop(parts);
        block_on(&env, flusher.seal()).expect("the disk works again");
        flusher.resume();
        logs.release_through(TenantId(2), CommitNo(1));
        block_on(&env, logs.prepare_ahead()).expect("the disk works");
        assert_eq!(logs.usage().live_segments, 0, "nobody needs any");
    }
}

fn recovered_through(env: &Env, tenant: TenantId) -> CommitNo {
    recover(env, &[dir()]).expect("sound logs").last_commit(tenant).unwrap_or_default()
}

fn full_disk() -> DiskFault {
    DiskFault { errno: Some(ENOSPC), ..DiskFault::eio(DiskOp::Resize, ".redo") }
}

#[test]
fn what_was_appended_waits_for_space_and_becomes_durable() {
    let world = World::new(31);
    let env = world.env();
    let (logs, _) = open(&env).expect("an empty directory");
    let (log, mut flusher) = logs.writer();
    let end = log.append(TenantId(1), CommitNo(1), b"one");
    for _ in 0..3 {
        world.inject(full_disk());
    }
    block_on(&env, async {
        let (waited, flushed) = futures_join(log.wait_durable(end), flusher.flush_once()).await;
        assert!(waited.is_ok() && flushed.is_ok());
    });
    assert!(!logs.is_full(), "a segment was made at last");
    // At the end of the server nobody frees space any more.
    logs.stop_waiting_for_space();
    let (log, mut flusher) = logs.writer();
    log.append(TenantId(2), CommitNo(1), b"two");
    world.inject(full_disk());
    assert!(block_on(&env, flusher.flush_once()).is_err());
}

#[test]
fn a_full_disk_refuses_what_does_not_fit_the_last_segment() {
    let world = World::new(32);
    let env = world.env();
    let (logs, _) = open(&env).expect("an empty directory");
    let (log, mut flusher) = logs.writer();
    fill(&env, &log, &mut flusher, 1, 1, 1);
    assert!(log.admit(4 << 20).is_ok(), "nothing says that there is no space");
    world.inject(full_disk());
    assert!(block_on(&env, logs.prepare_ahead()).is_err());
    assert!(logs.is_full());
    assert!(log.admit(1000).is_ok());
    assert!(matches!(log.admit(4 << 20), Err(Refused::Full { .. })));
    // As much as is admitted fits, whatever is in flight.
    let mut commits = 1;
    while log.admit(10_000).is_ok() {
        commits += 1;
        log.append(TenantId(1), CommitNo(commits), &[7; 10_000]);
        if commits % 3 == 0 {
            flush_all(&env, &mut flusher);
        }
    }
    assert!(commits > 50, "{commits} fit a segment");
    flush_all(&env, &mut flusher);
    assert!(logs.is_full(), "no segment was needed");
    block_on(&env, logs.prepare_ahead()).expect("there is space again");
    assert!(log.admit(4 << 20).is_ok());
}

#[test]
fn a_segment_that_cannot_be_filled_says_so_whatever_becomes_of_its_file() {
    let world = World::new(33);
    let env = world.env();
    let (logs, _) = open(&env).expect("an empty directory");
    let (_log, _flusher) = logs.writer();
    world.inject(DiskFault { errno: Some(ENOSPC), ..DiskFault::eio(DiskOp::Write, ".redo") });
    // The first such operation makes the file, the second one gives it its name, the third one removes it.
    world.inject(DiskFault { after: 2, ..DiskFault::eio(DiskOp::Name, ".redo") });
    let error = block_on(&env, logs.prepare_ahead()).expect_err("the disk is full");
    assert!(matches!(error, RedoError::Io { doing: "filling a segment", .. }), "{error}");
    assert!(logs.is_full());
    block_on(&env, logs.prepare_ahead()).expect("there is space again");
    drop((_log, _flusher, logs));
    open(&env).expect("what was left is removed");
}

#[test]
fn a_file_whose_header_does_not_fit_the_disk_is_no_segment() {
    let world = World::new(34);
    let env = world.env();
    let (logs, _) = open(&env).expect("an empty directory");
    let (log, mut flusher) = logs.writer();
    fill_one(&log, TenantId(1));
    // Behind the four writes that fill it and the first copy of its header.
    world.inject(DiskFault { after: 5, errno: Some(ENOSPC), ..DiskFault::eio(DiskOp::Write, ".redo") });
    flush_all(&env, &mut flusher);
    drop((log, flusher, logs));
    let (logs, index) = open(&env).expect("no two files are the same segment");
    assert_holds(&index, TenantId(1), CommitNo(0), CommitNo(1));
    assert_eq!(logs.usage().live_segments, 1);
}

#[test]
fn a_commit_that_was_lost_keeps_no_segment() {
    let world = World::new(37);
    let env = world.env();
    let (logs, _) = open(&env).expect("an empty directory");
    let (log, mut flusher) = logs.writer();
    let parts = parts_of_three_segments(&env, &log, &mut flusher);
    assert!(logs.usage().live_segments >= 3);
    world.inject(DiskFault::eio(DiskOp::Write, ".redo"));
    log.append_parts(parts, CommitNo(1));
    log.append(TenantId(2), CommitNo(1), b"short");
    block_on(&env, flusher.flush_once()).expect_err("the disk fails");
    block_on(&env, flusher.seal()).expect("the disk works again");
    flusher.resume();
    // Nobody commits anything from here on.
    assert_eq!(recovered_through(&env, TenantId(1)), CommitNo(0));
    block_on(&env, logs.prepare_ahead()).expect("the disk works");
    assert_eq!(logs.usage().live_segments, 0, "nobody needs any");
}

#[test]
fn a_segment_whose_name_is_not_durable_leaves_no_file() {
    let world = World::new(38);
    let env = world.env();
    let (logs, _) = open(&env).expect("an empty directory");
    let (_log, _flusher) = logs.writer();
    for _ in 0..3 {
        // Made, given its name, and then the directory is to be synced.
        world.inject(DiskFault { after: 2, ..DiskFault::eio(DiskOp::Name, "log") });
        let error = block_on(&env, logs.prepare_ahead()).expect_err("the disk fails");
        assert!(matches!(error, RedoError::Io { doing: "syncing the directory", .. }), "{error}");
        assert_eq!(env.disk.list(&dir()).expect("listed"), []);
    }
    block_on(&env, logs.prepare_ahead()).expect("the disk works");
    assert_eq!(env.disk.list(&dir()).expect("listed").len(), 1);
}

#[test]
fn a_full_disk_refuses_what_does_not_fit_the_segments_that_are_made() {
    let world = World::new(39);
    let env = world.env();
    let (logs, _) = open(&env).expect("an empty directory");
    let workers = [logs.writer(), logs.writer()];
    // One of two.
    world.inject(DiskFault { after: 1, ..full_disk() });
    assert!(block_on(&env, logs.prepare_ahead()).is_err());
    assert!(logs.is_full());
    for (log, _) in &workers {
        assert!(log.admit(100_000).is_ok());
        assert!(matches!(log.admit(4 << 20), Err(Refused::Full { .. })), "it would wait for ever");
    }
    block_on(&env, logs.prepare_ahead()).expect("there is space again");
    assert!(workers[0].0.admit(4 << 20).is_ok());
}

#[test]
fn a_segment_whose_freeing_was_cut_off_is_freed_by_the_next_start() {
    let world = World::new(38);
    let env = world.env();
    let (logs, _) = open(&env).expect("an empty directory");
    let (log, mut flusher) = logs.writer();
    fill(&env, &log, &mut flusher, 1, 1, 120);
    let path = dir().join("00000000.redo");
    let copies = || {
        let mut blocks = vec![0; SEGMENT_HEADER_LEN as usize];
        let file = env.disk.open(&path, OpenMode::Read, false).expect("there");
        file.read_at(&mut blocks, 0).expect("readable");
        blocks
    };
    let used = copies();
    logs.release_through(TenantId(1), CommitNo(120));
    block_on(&env, logs.prepare_ahead()).expect("the disk works");
    drop((log, flusher, logs));
    let freed = copies();
    assert!(freed[..BLOCK_LEN] == freed[BLOCK_LEN..] && freed != used);
    // As if the power had gone off before the second copy was written.
    let file = env.disk.open(&path, OpenMode::ReadWrite, false).expect("there");
    file.write_at(&used[BLOCK_LEN..], BLOCK_LEN as u64).expect("written");
    drop(open(&env).expect("sound logs"));
    assert!(copies() == freed, "nothing says any more whose it was");
}

#[test]
fn a_copy_of_a_header_that_the_disk_cannot_read_gives_way_to_the_other() {
    let world = World::new(41);
    let env = world.env();
    let (logs, _) = open(&env).expect("an empty directory");
    let (log, mut flusher) = logs.writer();
    fill(&env, &log, &mut flusher, 1, 1, 120);
    // And one that was never used.
    block_on(&env, logs.prepare_ahead()).expect("the disk works");
    drop((log, flusher, logs));
    let names: Vec<String> =
        env.disk.list(&dir()).expect("listed").into_iter().map(|file| file.name).collect();
    assert!(names.len() > 2);
    for name in &names {
        for copy in 0..2 {
            // The first read is of both.
            world.inject(DiskFault::eio(DiskOp::Read, name));
            world.inject(DiskFault { after: copy, ..DiskFault::eio(DiskOp::Read, name) });
            let (logs, index) = open(&env).expect("the other copy says whose it is");
            assert_eq!(world.faults_struck(), 2, "{name}");
            assert_holds(&index, TenantId(1), CommitNo(0), CommitNo(120));
            assert_eq!(logs.usage().live_segments, names.len() - 1);
            world.mend_disk();
        }
    }
    (0..3).for_each(|_| world.inject(DiskFault::eio(DiskOp::Read, &names[0])));
    assert!(matches!(open(&env), Err(RedoError::Io { doing: "reading a segment's header", .. })));
}

#[test]
fn a_segment_that_could_not_be_written_is_not_written_again() {
    let world = World::new(42);
    let env = world.env();
    let (logs, _) = open(&env).expect("an empty directory");
    let (log, mut flusher) = logs.writer();
    fill(&env, &log, &mut flusher, 1, 1, 3);
    let has = |name: &str| env.disk.list(&dir()).expect("listed").iter().any(|file| file.name == name);
    assert!(has("00000000.redo"));
    world.inject(DiskFault::eio(DiskOp::Write, ".redo"));
    log.append(TenantId(1), CommitNo(4), b"lost");
    block_on(&env, flusher.flush_once()).expect_err("the disk fails");
    block_on(&env, flusher.seal()).expect("the disk works again");
    flusher.resume();
    block_on(&env, logs.prepare_ahead()).expect("the disk works");
    assert!(has("00000000.redo") && logs.usage().live_segments == 1, "a root needs it");
    assert_eq!(recovered_through(&env, TenantId(1)), CommitNo(3));
    logs.release_through(TenantId(1), CommitNo(3));
    block_on(&env, logs.prepare_ahead()).expect("the disk works");
    assert!(!has("00000000.redo"), "the next log would fail there too");
    fill(&env, &log, &mut flusher, 1, 4, 9);
    assert_eq!(recovered_through(&env, TenantId(1)), CommitNo(9));
}

#[test]
fn what_little_a_full_disk_has_left_serves_until_there_is_space() {
    let world = World::new(43);
    let env = world.env();
    let options = LogOptions { segment_len: ByteCount::from_mib(4), spare_segments_max: 1 };
    let (logs, _) = LogDir::open(&env, &dir(), options).expect("an empty directory");
    let (log, mut flusher) = logs.writer();
    world.set_disk_capacity(world.disk_used() + ByteCount(5 << 19));
    let lens = || -> Vec<u64> {
        env.disk.list(&dir()).expect("listed").into_iter().map(|file| file.len.0).collect()
    };
    block_on(&env, logs.prepare_ahead()).expect_err("the disk is full");
    assert!(matches!(log.admit(1000), Err(Refused::Full { .. })));
    let mut commits = 0;
    for segments in 1..=2 {
        // The second time there is nothing to do.
        (0..2).for_each(|_| block_on(&env, logs.prepare_little()).expect("a megabyte fits"));
        logs.remove_surplus().expect("the disk works");
        assert_eq!(lens(), vec![1 << 20; segments]);
        let before = commits;
        while log.admit(10_000).is_ok() {
            commits += 1;
            log.append(TenantId(1), CommitNo(commits), &[7; 10_000]);
            flush_all(&env, &mut flusher);
        }
        assert!(commits > before + 50 && logs.is_full(), "{before} and then {commits}");
    }
    block_on(&env, logs.prepare_little()).expect_err("less than a megabyte is left");
    assert_eq!(recovered_through(&env, TenantId(1)), CommitNo(commits));
    world.lift_capacity();
    block_on(&env, logs.prepare_ahead()).expect("there is space again");
    assert!(!logs.is_full() && log.admit(4 << 20).is_ok());
    log.append(TenantId(1), CommitNo(commits + 1), &[7; 100_000]);
    flush_all(&env, &mut flusher);
    logs.release_through(TenantId(1), CommitNo(commits));
    block_on(&env, logs.prepare_ahead()).expect("the disk works");
    assert_eq!(lens(), [4 << 20; 2], "short ones are gone");
}

#[test]
fn a_log_that_finds_no_file_descriptor_waits_for_one() {
    const EMFILE: i32 = 24;
    let world = World::new(44);
    let env = world.env();
    let (logs, _) = open(&env).expect("an empty directory");
    let (log, mut flusher) = logs.writer();
    let none_left =
        || world.inject(DiskFault { errno: Some(EMFILE), ..DiskFault::eio(DiskOp::Name, ".redo") });
    none_left();
    block_on(&env, logs.prepare_ahead()).expect_err("no file can be opened");
    let refused = log.admit(1000).expect_err("it would wait for ever");
    assert!(matches!(refused, Refused::Full { want: Want::Descriptors, .. }), "{refused}");
    // What was appended before waits.
    let end = log.append(TenantId(1), CommitNo(1), b"one");
    (0..2).for_each(|_| none_left());
    block_on(&env, async {
        let (waited, flushed) = futures_join(log.wait_durable(end), flusher.flush_once()).await;
        assert!(waited.is_ok() && flushed.is_ok());
    });
    assert!(!logs.is_full() && log.admit(1000).is_ok() && log.failure().is_none());
}
