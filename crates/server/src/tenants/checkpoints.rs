//! A tenant's checkpoint: its pages written from a snapshot while commits go on, then its redo records let go.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::{ByteCount, CommitNo, Lsn, Nanos, SqlError, SqlResult, SqlState};
use futures::FutureExt;
use futures::channel::oneshot;
use governor::AwaitedFor;
use storage::Checkpoint;

use super::Home;

/// Pages read before a checkpoint begins; if it needs more, it waits for them within its turn.
const PAGES_READ_MAX: usize = 32;

/// A checkpoint under way.
pub(super) struct Begun {
    pub(super) checkpoint: Checkpoint,
    /// What the new root covers.
    pub(super) commit: CommitNo,
    /// Where the log must be durable before the root may be published.
    pub(super) wait_for: Lsn,
    pub(super) logged: ByteCount,
    pub(super) began: Nanos,
    pub(super) incarnation: u64,
}

/// How soon a checkpoint is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pace {
    /// In the background: its writes leave the disk to others most of the time.
    Spread,
    /// Somebody waits for its end: the log is over its limit, or the server ends.
    Now,
}

/// Bytes a second that a checkpoint in the background writes: 256 KiB, then 4 ms for others. 20 MiB of changed pages take
/// a third of a second.
const SPREAD_RATE: ByteCount = ByteCount::from_mib(64);

impl Home {
    /// Writes what changed since the last checkpoint; nothing if nothing did or one is under way. At home only. Dropped, it goes on all the
    /// same. After `Ok` the redo log up to the beginning is not needed any more.
    ///
    /// # Errors
    /// 58030 or 53100; the old root stands.
    pub(crate) async fn checkpoint(self: &Arc<Home>, pace: Pace) -> SqlResult<()> {
        let (tell, told) = oneshot::channel();
        let home = self.clone();
        // A task of its own, whoever still waits for it: ended half-way it would close the file for further checkpoints.
        let task = async move { drop(tell.send(home.do_checkpoint(pace).await)) };
        self.residence().spawn_upkeep(task).detach();
        told.await.unwrap_or_else(|_| Err(SqlError::internal("a checkpoint did not finish")))
    }

    /// As [`Home::checkpoint`], but if one is under way waits for its end instead, which then is not spread any more.
    pub(super) async fn checkpoint_or_wait(self: &Arc<Home>) -> SqlResult<()> {
        if self.since_checkpoint().is_some() {
            return self.checkpoint(Pace::Now).await;
        }
        self.hurry_checkpoint();
        self.checkpoint_ended().await;
        Ok(())
    }

    /// Begins a checkpoint and leaves it to itself; one that is under way is not spread any more. At home only.
    pub(super) fn start_checkpoint(self: &Arc<Home>) {
        if self.since_checkpoint().is_some() {
            let home = self.clone();
            // Failures are logged where they happen; the next look tries again.
            let task = async move { drop(home.do_checkpoint(Pace::Now).await) };
            self.residence().spawn_upkeep(task).detach();
        } else {
            self.hurry_checkpoint();
        }
    }

    async fn do_checkpoint(self: &Arc<Home>, pace: Pace) -> SqlResult<()> {
        let outcome = match self.try_checkpoint(pace).await {
            Err(error) if error.state() == SqlState::DISK_FULL && self.release_reserve() => {
                self.try_checkpoint(pace).await
            }
            outcome => outcome,
        };
        if !self.is_checkpointing() {
            self.set_awaited(AwaitedFor::Room, false);
            self.set_awaited(AwaitedFor::Log, false);
        }
        outcome
    }

    async fn try_checkpoint(self: &Arc<Home>, pace: Pace) -> SqlResult<()> {
        self.settled().await;
        self.close_if_in_doubt();
        let Some(beginning) = self.about_to_begin(pace) else { return Ok(()) };
        let incarnation = self.incarnation();
        let begun = match self.read_for_checkpoint().await {
            Ok(()) => self.begin_checkpoint(),
            Err(error) => Err(error),
        };
        let mut begun = match begun {
            Ok(Some(begun)) => begun,
            Ok(None) => return Ok(()),
            Err(error) => {
                // Its redo is kept as long as where the file cannot be written.
                if self.incarnation() == incarnation {
                    self.note_checkpoint(Some(error.clone()));
                }
                return Err(error);
            }
        };
        if beginning.end() == Pace::Spread {
            begun.checkpoint.spread(SPREAD_RATE);
        }
        let written = AssertUnwindSafe(self.write_checkpoint(&mut begun)).catch_unwind().await;
        let commit = begun.commit;
        let of_now = self.is_of_now(&begun);
        let published = self.finish_checkpoint(begun);
        let outcome = written.unwrap_or_else(|panic| {
            // As after a failed sync: nothing is known of the file, and the next try opens it anew.
            if of_now {
                self.note_checkpoint(Some(SqlError::internal("a checkpoint panicked")));
            }
            resume_unwind(panic)
        });
        if of_now && self.log().writer().failure().is_none() {
            self.note_checkpoint(outcome.clone().err());
        }
        outcome?;
        if published {
            self.log().writer().release_through(self.id(), commit);
            self.count_checkpoint();
        }
        Ok(())
    }

    /// Reads the pages that beginning a checkpoint changes, so that it need not wait for them within its turn.
    async fn read_for_checkpoint(self: &Arc<Home>) -> SqlResult<()> {
        let mut read = Vec::new();
        for _ in 0..PAGES_READ_MAX {
            let request = self.with_tenant(|tenant| tenant.checkpoint_request()).transpose();
            let request =
                request.map_err(|error| SqlError::new(SqlState::DATA_CORRUPTED, error.to_string()))?;
            let Some(request) = request.flatten() else { break };
            // It left memory again, as what is read does where changed pages alone take more than the tenant's own limit. The beginning has it for its turn.
            if read.contains(&request.key()) {
                break;
            }
            read.push(request.key());
            // By itself: a statement's read of the same page may wait for the room that this checkpoint is to make.
            self.do_load_page(request).await?;
        }
        Ok(())
    }

    async fn write_checkpoint(&self, begun: &mut Begun) -> SqlResult<()> {
        let failed = |error: storage::FileError| {
            SqlError::new(
                tenant::state_of_file_error(&error),
                format!("the tenant's data file cannot be written: {error}"),
            )
        };
        begun.checkpoint.write().await.map_err(failed)?;
        self.wait_durable(begun.wait_for).await?;
        if !self.is_of_now(begun) {
            return Err(SqlError::internal("the tenant was closed during its checkpoint"));
        }
        begun.checkpoint.publish().await.map_err(failed)?;
        Ok(())
    }

    fn count_checkpoint(&self) {
        if let Some(shared) = self.shared_if_running() {
            shared.checkpoints.fetch_add(1, Ordering::Relaxed);
        }
    }
}
