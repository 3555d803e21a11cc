//! What a home does at the beginning and the end of a checkpoint, and what comes of one that fails.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::task::{Poll, Waker};

use base::{ByteCount, Nanos, SqlError, SqlResult, SqlState};
use futures::FutureExt;
use governor::AwaitedFor;
use storage::Hurry;

use super::Home;
use crate::tenants::checkpoints::{Begun, Pace};

/// From one reopening of a tenant to the next, if no checkpoint succeeds in between: each ends its sessions, and has up to all of the log replayed. Twice as long each
/// time.
const REOPENED_PAUSE: Nanos = Nanos::from_secs(2);
const REOPENED_PAUSE_MAX: Nanos = Nanos::from_secs(60);

/// How often a tenant was closed because its data file was in doubt, to be opened anew, since a checkpoint of it succeeded.
#[derive(Default)]
pub(super) struct Reopenings {
    in_a_row: u32,
    /// There is to be none before.
    next_at: Nanos,
}

impl Reopenings {
    pub(super) fn may_be(&self, now: Nanos) -> bool {
        now >= self.next_at
    }

    /// Notes one more.
    pub(super) fn add(&mut self, now: Nanos) {
        let pause = Nanos(REOPENED_PAUSE.0 << self.in_a_row.min(5)).min(REOPENED_PAUSE_MAX);
        self.next_at = now + pause;
        self.in_a_row = self.in_a_row.saturating_add(1);
    }

    /// Whether the next checkpoint had better succeed before the tenant takes writes again: it would fill the log that it shares, some more after each.
    pub(super) fn are_many(&self) -> bool {
        self.in_a_row > 1
    }
}

/// A checkpoint that is about to begin. Dropped, it has begun, or does not.
pub(in crate::tenants) struct Beginning<'a>(&'a Home);

impl Beginning<'_> {
    /// It has begun. How soon it is wanted by now.
    pub(in crate::tenants) fn end(self) -> Pace {
        self.0.cell.with(|state| state.beginning).unwrap_or(Pace::Now)
    }
}

impl Drop for Beginning<'_> {
    fn drop(&mut self) {
        // Else it ends with its worker.
        if self.0.cell.is_home() {
            self.0.cell.with(|state| {
                state.beginning = None;
                state.waiters.drain(..).for_each(Waker::wake);
            });
        }
    }
}

impl Home {
    /// What came of the last checkpoint: after a failure commits are refused, and reading goes on, until one succeeds. So a
    /// tenant whose file cannot be written does not fill the log that it shares.
    pub(in crate::tenants) fn note_checkpoint(&self, failure: Option<SqlError>) {
        self.cell.with(|state| match (failure, &state.refusal) {
            (Some(failure), None) => {
                tracing::error!(
                    tenant = self.id.0,
                    error = failure.message(),
                    "a checkpoint failed: the tenant takes no writes until one succeeds"
                );
                state.refusal =
                    Some(failure.with_hint("What is read may be read on; writing goes on by itself."));
            }
            (Some(failure), Some(_)) => {
                tracing::debug!(tenant = self.id.0, error = failure.message(), "a checkpoint failed again");
            }
            (None, Some(_)) => {
                tracing::info!(tenant = self.id.0, "the data file can be written again");
                state.refusal = None;
            }
            (None, None) => {}
        });
    }

    /// Gives out what was set aside on its data file's volume; true if there was any.
    pub(in crate::tenants) fn release_reserve(&self) -> bool {
        self.reserves[0].release(env::now())
    }

    /// Whether commits are refused because a checkpoint failed.
    pub(in crate::tenants) fn is_refusing(&self) -> bool {
        self.cell.with(|state| state.refusal.is_some())
    }

    /// Whether what branches replaced waits to be let go of. At home only.
    pub(in crate::tenants) fn has_to_settle(&self) -> bool {
        self.cell.with(|state| {
            !state.checkpointing && state.tenant.as_ref().is_some_and(|tenant| tenant.has_replaced())
        })
    }

    /// Lets go of what branches replaced, unless a checkpoint is under way, which does so too. At home only, as a task of its own.
    pub(in crate::tenants) async fn settle(&self) {
        let begun = self.cell.with(|state| {
            let tenant = state.tenant.as_mut().filter(|_| !state.checkpointing)?;
            let settling = tenant.begin_settling()?;
            (state.checkpointing, state.settling) = (true, true);
            Some((settling, state.incarnation))
        });
        let Some((mut settling, incarnation)) = begun else { return };
        let run = AssertUnwindSafe(settling.run()).catch_unwind().await;
        self.cell.with(|state| {
            (state.checkpointing, state.settling) = (false, false);
            state.waiters.drain(..).for_each(Waker::wake);
            if let Some(tenant) = state.tenant.as_mut().filter(|_| state.incarnation == incarnation) {
                tenant.finish_settling(settling);
            }
        });
        // The next checkpoint finds that it has to open the file anew.
        if let Err(panic) = run {
            resume_unwind(panic)
        }
    }

    /// Waits until a checkpoint may begin for all that [`Home::settle`] has borrowed. At home only.
    pub(in crate::tenants) async fn settled(&self) {
        if self.cell.with(|state| state.settling) {
            self.checkpoint_ended().await;
        }
    }

    /// Notes that a checkpoint is about to begin. `None` if one is already, which is wanted as soon as this one then: what a beginning reads may take long,
    /// and meanwhile the tenant is told again and again to have one. At home only.
    pub(in crate::tenants) fn about_to_begin(&self, pace: Pace) -> Option<Beginning<'_>> {
        let is_first = self.cell.with(|state| {
            let is_first = state.beginning.is_none();
            if is_first || pace == Pace::Now {
                state.beginning = Some(pace);
            }
            is_first
        });
        is_first.then(|| Beginning(self))
    }

    pub(in crate::tenants) fn begin_checkpoint(&self) -> SqlResult<Option<Begun>> {
        self.cell.with(|state| {
            let Some(tenant) = state.tenant.as_mut().filter(|_| !state.checkpointing) else {
                return Ok(None);
            };
            let began = env::now();
            // What was given back is in the root still, though no page is changed.
            let is_clean = state.logged == ByteCount(0)
                && tenant.dirty_bytes() == ByteCount(0)
                && tenant.given_back() == 0;
            if is_clean && tenant.is_root_newest() {
                state.checkpointed_at = began;
                state.refusal = None;
                // Records of an earlier start may not know that the root has all commits.
                state.log.writer().release_through(self.id, tenant.committed());
                return Ok(None);
            }
            let (commit, wait_for) = (tenant.committed(), tenant.newest_pending());
            let checkpoint = tenant.begin_checkpoint().map_err(|error| {
                SqlError::new(SqlState::IO_ERROR, format!("a checkpoint cannot begin: {error}"))
            })?;
            if let Some(shared) = self.shared_if_running() {
                shared.snapshot_pauses.record(env::now() - began);
            }
            state.checkpointing = true;
            state.hurry = Some(checkpoint.hurry());
            let logged = std::mem::take(&mut state.logged);
            Ok(Some(Begun { checkpoint, commit, wait_for, logged, began, incarnation: state.incarnation }))
        })
    }

    pub(in crate::tenants) fn finish_checkpoint(&self, begun: Begun) -> bool {
        self.cell.with(|state| {
            state.checkpointing = false;
            state.hurry = None;
            state.waiters.drain(..).for_each(Waker::wake);
            if state.incarnation != begun.incarnation {
                return false;
            }
            let published =
                state.tenant.as_mut().is_some_and(|tenant| tenant.finish_checkpoint(begun.checkpoint));
            state.checkpointed_at = begun.began;
            if published {
                state.reopenings = Reopenings::default();
            } else {
                state.logged += begun.logged;
            }
            published
        })
    }

    /// Has the checkpoint that is under way or about to begin, if one is, write as fast as it can. At home only.
    pub(in crate::tenants) fn hurry_checkpoint(&self) {
        self.cell.with(|state| {
            state.hurry.iter().for_each(Hurry::ask);
            state.beginning = state.beginning.map(|_| Pace::Now);
        });
    }

    /// Says whether others wait for the tenant's upkeep, its checkpoint and the replay before it, for one thing: while they do for anything, no
    /// limit of the tenant's holds that, of I/O or of processor time. The end of a checkpoint takes it back: who still waits says so again. From any thread.
    pub(in crate::tenants) fn set_awaited(&self, awaited_for: AwaitedFor, is_awaited: bool) {
        self.residence.set_awaited(awaited_for, is_awaited);
        if let Some(shared) = self.shared_if_running() {
            shared.volumes.set_awaited(self.data_volume, self.id, awaited_for, is_awaited);
        }
    }

    /// Whether a checkpoint is under way or about to begin. At home only.
    pub(in crate::tenants) fn is_checkpointing(&self) -> bool {
        self.cell.with(|state| state.checkpointing || state.beginning.is_some())
    }

    /// Waits for the end of the checkpoint that is under way or about to begin, if one is. At home only.
    pub(in crate::tenants) async fn checkpoint_ended(&self) {
        std::future::poll_fn(|cx| {
            self.cell.with(|state| {
                if !state.checkpointing && state.beginning.is_none() {
                    return Poll::Ready(());
                }
                state.waiters.push(cx.waker().clone());
                Poll::Pending
            })
        })
        .await;
    }

    /// Whether the opening that began a checkpoint still is the tenant's.
    pub(in crate::tenants) fn is_of_now(&self, begun: &Begun) -> bool {
        self.cell.with(|state| state.incarnation == begun.incarnation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_whose_checkpoints_all_fail_is_reopened_once_a_minute_at_last() {
        let (mut reopenings, mut now, mut pauses) =
            (Reopenings::default(), Nanos::from_secs(100), Vec::new());
        for times in 1..=8 {
            assert!(reopenings.may_be(now) && reopenings.are_many() == (times > 2));
            reopenings.add(now);
            let begun = now;
            while !reopenings.may_be(now) {
                now += Nanos::from_secs(1);
            }
            pauses.push((now - begun).0 / 1_000_000_000);
        }
        assert_eq!(pauses, [2, 4, 8, 16, 32, 60, 60, 60]);
    }
}
