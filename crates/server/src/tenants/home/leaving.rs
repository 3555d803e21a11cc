//! What a home does when its tenant goes to another worker.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use base::Lsn;

use super::{CLOSED, Home, OPEN, Terms};
use crate::executor::Held;
use crate::shared::Shared;
use crate::tenants::home_log::HomeLog;

impl Home {
    /// The log of the home, and the position through which it must be durable before the tenant may leave. `None` while the tenant cannot: it is being
    /// opened or closed, it is gone, or a long change has part of its record in the log. At home only.
    pub(in crate::tenants) fn may_leave(&self) -> Option<(HomeLog, Lsn)> {
        let phase = self.phase.load(Ordering::Relaxed);
        self.cell.with(|state| {
            let through = match (phase, &state.tenant) {
                (OPEN, Some(tenant)) if !tenant.has_begun_a_record() => tenant.newest_pending(),
                // What it was closed with, after a panic in a commit, may be on its way.
                (CLOSED, None) => state.log.appended(),
                _ => return None,
            };
            Some((state.log.clone(), through))
        })
    }

    /// Gives the tenant to worker `to`, whose log it goes on in. In the turn that found the log durable through [`Home::may_leave`]'s position while
    /// the tenant's tasks are held.
    pub(in crate::tenants) fn leave(self: &Arc<Home>, shared: &Shared, held: Held, to: usize) {
        let (from, target) = (shared.seat(self.worker().id()), &shared.workers[to]);
        let is_open = self.cell.with(|state| {
            if let Some(tenant) = &mut state.tenant {
                tenant.durable(state.log.durable());
                assert_eq!(tenant.newest_pending(), Lsn(0), "a tenant leaves no record behind");
                assert!(!tenant.has_begun_a_record(), "a record is in one log");
            }
            state.log = state.log.moved_to(target.log.clone());
            state.tenant.is_some()
        });
        // Before it is there, so that it is never nowhere: whoever reads the list passes over who is not at home.
        if is_open {
            target.note_open(self);
        }
        // One lock covers reading the terms and the change of the worker to be told of others: the later ones arrive last.
        let terms = self.terms.lock().unwrap_or_else(PoisonError::into_inner);
        held.move_to(&target.handle, *terms, &shared.move_pauses, env::now());
        drop(terms);
        from.note_left(self.id());
        // Its new evictor has not heard of it.
        shared.memory.press_tenants_of(to);
    }

    /// Tells the workers that have to do with the tenant, and its queries that wait for a thread, what it is promised. The caller holds the lock on its terms.
    pub(super) fn tell_terms(&self, terms: Terms) {
        let home = self.worker();
        home.set_terms(self.id, terms);
        let Some(shared) = self.shared_if_running() else { return };
        for seat in shared.workers.iter().filter(|seat| seat.handle.id() != home.id()) {
            if seat.handle.account_if_known(self.id).is_some() {
                seat.handle.set_terms_of_guest(self.id, terms);
            }
        }
        shared.analytic.set_promised(self.id, terms.promise.reserved.0 > 0);
    }
}
