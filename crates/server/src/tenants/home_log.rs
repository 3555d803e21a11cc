//! The log of a tenant's home, with positions that go on when the tenant moves to a worker of another log.
//!
//! A position is kept by whoever read or wrote something that was not durable: the tenant, its transactions, its sessions. When the tenant moves all of
//! that is durable (decision 17), so positions through that of the move are, whatever the other log's own are; what was lost when a log failed stays lost. Those of the other log are raised by as much
//! as it takes to come behind them.

use base::Lsn;
use storage::redo::{LogFailed, LogWriter};

/// Clones are of the same log.
#[derive(Clone)]
pub(super) struct HomeLog {
    writer: LogWriter,
    /// What is added to the log's own positions.
    raised_by: u64,
    /// The position of the move to this log: what was appended before is durable, or lost.
    since: Lsn,
    /// Where the log itself was then.
    arrived_at: Lsn,
    /// The last position of this tenant that is lost, of the logs before this one, and why.
    lost: Option<(Lsn, LogFailed)>,
}

/// A position that no log has: of what was appended after its log had failed.
const NOWHERE: Lsn = Lsn(u64::MAX);

impl HomeLog {
    /// The first log of a tenant of this start.
    pub(super) fn new(writer: LogWriter) -> HomeLog {
        HomeLog { writer, raised_by: 0, since: Lsn(0), arrived_at: Lsn(0), lost: None }
    }

    /// The log that the tenant goes on in, once this one is durable through all of the tenant's records.
    pub(super) fn moved_to(&self, writer: LogWriter) -> HomeLog {
        // Not what the tenant has appended, but at least that: nobody has a position beyond it.
        let since = self.appended();
        let arrived_at = writer.durable();
        let raised_by = since.0.saturating_sub(arrived_at.0);
        let lost = self.newest_loss().or_else(|| self.lost.clone());
        HomeLog { writer, raised_by, since, arrived_at, lost }
    }

    /// What the log lost while the tenant was here: everybody who had a position of the tenant then belongs to an opening that is gone.
    fn newest_loss(&self) -> Option<(Lsn, LogFailed)> {
        let (through, failed) = self.writer.newest_loss()?;
        (through > self.arrived_at).then(|| (self.position(through), failed))
    }

    /// For what has no position: admission, failures, parts of long records, giving records up.
    pub(super) fn writer(&self) -> &LogWriter {
        &self.writer
    }

    /// The tenant's position for one of the log's own.
    pub(super) fn position(&self, of_log: Lsn) -> Lsn {
        if of_log == NOWHERE { NOWHERE } else { Lsn(of_log.0 + self.raised_by) }
    }

    /// The end of what was appended.
    pub(super) fn appended(&self) -> Lsn {
        self.position(self.writer.appended())
    }

    /// The end of what survives power loss.
    pub(super) fn durable(&self) -> Lsn {
        self.position(self.writer.durable())
    }

    /// Waits until everything before `position` survives power loss.
    ///
    /// # Errors
    /// The log failed before.
    pub(super) async fn wait_durable(&self, position: Lsn) -> Result<(), LogFailed> {
        // Nothing to wait for, and nothing that could have been lost.
        if position == Lsn(0) {
            return Ok(());
        }
        let failed = self.lost.as_ref().filter(|(through, _)| position <= *through || position == NOWHERE);
        if let Some((_, failed)) = failed {
            return Err(failed.clone());
        }
        if position <= self.since {
            return Ok(());
        }
        let of_log = if position == NOWHERE { NOWHERE } else { Lsn(position.0 - self.raised_by) };
        self.writer.wait_durable(of_log).await
    }

    /// Whether both are of one stay of the tenant at one home.
    pub(super) fn is_same(&self, other: &HomeLog) -> bool {
        self.writer.is_same(&other.writer) && self.since == other.since
    }
}

#[cfg(test)]
mod tests {
    use base::{CommitNo, TenantId};
    use env::block_on;
    use env::sim::{DiskFault, DiskOp, World};
    use storage::redo::{LogDir, LogFlusher, LogOptions};

    use super::*;

    const A: TenantId = TenantId(16);
    const B: TenantId = TenantId(17);

    struct Logs {
        world: World,
        one: (LogWriter, LogFlusher),
        two: (LogWriter, LogFlusher),
        commit: u64,
    }

    impl Logs {
        fn new(seed: u64) -> Logs {
            let world = World::new(seed);
            let options = LogOptions { segment_len: base::ByteCount::from_mib(1), ..LogOptions::default() };
            let (dir, _) = LogDir::open(&world.env(), "/log".as_ref(), options).unwrap();
            Logs { world, one: dir.writer(), two: dir.writer(), commit: 0 }
        }

        fn append(&mut self, log: &LogWriter, tenant: TenantId) -> Lsn {
            self.commit += 1;
            log.append(tenant, CommitNo(self.commit), &[7; 100])
        }

        fn is_durable(&self, log: &HomeLog, position: Lsn) -> Option<Result<(), LogFailed>> {
            let env = self.world.env();
            let soon = base::Nanos::from_micros(1);
            block_on(&env, async {
                env::timeout_at(Some(env::now() + soon), log.wait_durable(position)).await.ok()
            })
        }
    }

    #[test]
    fn positions_go_on_whichever_log_is_longer() {
        for longer in [0, 1] {
            let mut logs = Logs::new(1 + longer as u64);
            let writers = [logs.one.0.clone(), logs.two.0.clone()];
            for _ in 0..10 {
                logs.append(&writers[longer], B);
            }
            let env = logs.world.env();
            block_on(&env, logs.one.1.flush_once()).unwrap();
            block_on(&env, logs.two.1.flush_once()).unwrap();
            let first = HomeLog::new(writers[0].clone());
            let before = first.position(logs.append(&writers[0], A));
            assert!(logs.is_durable(&first, before).is_none());
            block_on(&env, logs.one.1.flush_once()).unwrap();
            assert!(before <= first.durable());
            let second = first.moved_to(writers[1].clone());
            assert!(logs.is_durable(&second, before).expect("it is durable").is_ok());
            let after = second.position(logs.append(&writers[1], A));
            assert!(after > before && after > first.appended());
            assert!(logs.is_durable(&second, after).is_none() && second.durable() < after);
            block_on(&env, logs.two.1.flush_once()).unwrap();
            assert!(logs.is_durable(&second, after).expect("it is durable").is_ok());
            // Back again, where others have written meanwhile.
            let third = second.moved_to(writers[0].clone());
            assert!(logs.is_durable(&third, after).expect("it is durable").is_ok());
            let last = third.position(logs.append(&writers[0], A));
            assert!(last > after && logs.is_durable(&third, last).is_none());
            assert!(first.is_same(&first.clone()) && !first.is_same(&third));
        }
    }

    #[test]
    fn what_a_log_lost_stays_lost_after_a_move_and_what_it_lost_before_is_nobodys_loss() {
        let mut logs = Logs::new(3);
        let (one, two) = (logs.one.0.clone(), logs.two.0.clone());
        let env = logs.world.env();
        let home = HomeLog::new(one.clone());
        let kept = home.position(logs.append(&one, A));
        block_on(&env, logs.one.1.flush_once()).unwrap();
        let lost = home.position(logs.append(&one, A));
        logs.world.inject(DiskFault::eio(DiskOp::Write, "log"));
        block_on(&env, logs.one.1.flush_once()).expect_err("the disk fails");
        block_on(&env, logs.one.1.seal()).unwrap();
        logs.one.1.resume();
        let moved = home.moved_to(two.clone());
        assert!(logs.is_durable(&moved, lost).expect("nobody waits for it").is_err());
        assert!(logs.is_durable(&moved, NOWHERE).expect("nobody waits for it").is_err());
        assert!(
            logs.is_durable(&moved, Lsn(0)).expect("nothing to wait for").is_ok(),
            "a checkpoint of no record goes on"
        );
        // Who comes here later is not concerned.
        let other = HomeLog::new(two).moved_to(one);
        assert!(logs.is_durable(&other, kept).is_none_or(|durable| durable.is_ok()));
        let next = other.position(logs.append(other.writer(), B));
        block_on(&env, logs.one.1.flush_once()).unwrap();
        assert!(logs.is_durable(&other, next).expect("it is durable").is_ok());
    }
}
