//! The open tenant in the hands of a caller, at its home.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::{SqlResult, TenantId};
use sql::session;

use super::{Home, Redo, State, crashed};
use crate::executor::{self, TaskUse};
use crate::tenants::sink::CountingSink;

impl Home {
    /// Runs `body` with the open tenant in this turn of the home.
    ///
    /// # Errors
    /// Fatal, 57P02: the tenant is not open (any more).
    pub(crate) fn with<R>(&self, body: impl FnOnce(&mut session::Home<'_>) -> R) -> SqlResult<R> {
        self.cell.with(|state| self.with_state(state, body))
    }

    /// As [`Home::with`] for a session of the opening `incarnation`: what it knows of the tenant is of no other.
    ///
    /// # Errors
    /// As [`Home::with`], also when the tenant was opened again meanwhile.
    pub(crate) fn with_opening<R>(
        &self,
        incarnation: u64,
        body: impl FnOnce(&mut session::Home<'_>) -> R,
    ) -> SqlResult<R> {
        self.cell.with(|state| {
            if state.incarnation == incarnation { self.with_state(state, body) } else { Err(crashed()) }
        })
    }

    /// As [`Home::with_opening`] for a call of a task that `used` counts, which may be long: where it looks whether it is to end others have their turns, and
    /// the future's poll ends.
    ///
    /// # Safety
    /// As for [`executor::preemptible`].
    pub(crate) async unsafe fn with_opening_at_length<R: Send + 'static>(
        &self,
        incarnation: u64,
        used: &Arc<TaskUse>,
        body: impl FnOnce(&mut session::Home<'_>) -> R,
    ) -> SqlResult<R> {
        let call = || self.with_opening(incarnation, body);
        // SAFETY: as the caller has promised.
        unsafe { executor::preemptible(&self.residence, used, call) }.await
    }

    /// Asks for what a turn comes by from memory at once, unless a call of the tenant is suspended, which to look would end.
    pub(crate) fn prefetch(&self) {
        base::prefetch_value(self);
        if !self.is_in_a_call() {
            self.cell.with(|state| state.tenant.iter().for_each(|tenant| tenant.prefetch()));
        }
    }

    /// Whether a call of the tenant is suspended: whoever looks at its state now runs it to its end first. At home only.
    pub(in crate::tenants) fn is_in_a_call(&self) -> bool {
        self.residence.has_suspended()
    }

    /// Ends when the call has ended that is suspended now; the next one may have begun. At home only.
    pub(in crate::tenants) async fn calls_end(&self) {
        if self.is_in_a_call() {
            // A task of the tenant's has its turn behind the call.
            self.spawn(async {}).await;
        }
    }

    fn with_state<R>(
        &self,
        state: &mut State,
        body: impl FnOnce(&mut session::Home<'_>) -> R,
    ) -> SqlResult<R> {
        // Out of the state while `body` runs: if it panics within a commit or rollback, nobody meets the tenant again.
        let mut tenant = state.tenant.take().ok_or_else(crashed)?;
        tenant.set_storage_max(self.storage_max());
        let mut sink = CountingSink {
            tenant: self.id,
            log_volume: self.log_volume,
            log: &state.log,
            refusal: state.refusal.as_ref(),
            reserves: &self.reserves,
            is_system: self.id == TenantId::SYSTEM,
            logged: &mut state.logged,
            commits: 0,
        };
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            body(&mut session::Home { tenant: &mut tenant, redo: &mut sink })
        }));
        let commits = sink.commits;
        if commits > 0 {
            self.commits.fetch_add(commits, Ordering::Relaxed);
        }
        match outcome {
            Ok(value) => {
                state.tenant = Some(tenant);
                Ok(value)
            }
            Err(panic) => {
                if commits == 0 && !tenant.is_cut_short() {
                    state.tenant = Some(tenant);
                } else {
                    tracing::error!(
                        tenant = self.id.0,
                        "the end of a transaction panicked: the tenant is closed and reopened"
                    );
                    self.lose(state, Redo::Newest);
                }
                std::panic::resume_unwind(panic)
            }
        }
    }

    /// As [`Home::with`] for whoever gives things back at the end of a session: does nothing if the tenant is closed or
    /// the caller is not at home, and catches panics.
    pub(crate) fn release(&self, incarnation: u64, body: impl FnOnce(&mut session::Home<'_>)) {
        if !self.cell.is_home() {
            return;
        }
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            self.cell.with(|state| {
                if state.incarnation == incarnation {
                    // Closed already: there is nothing to give back.
                    let _ = self.with_state(state, body);
                }
            });
        }));
        if outcome.is_err() {
            tracing::error!(tenant = self.id.0, "a session's end panicked");
        }
    }
}
