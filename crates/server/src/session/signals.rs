//! Signals from one session to others.

use std::sync::Arc;

use base::SessionId;
use sql::session::BackendSignals;

use super::control::Control;
use crate::shared::Shared;

/// Those that one session may send; from any thread.
pub(super) struct Signals {
    pub(super) shared: Arc<Shared>,
    pub(super) control: Arc<Control>,
    /// Its session acts as the administrator.
    pub(super) all_tenants: bool,
}

impl Signals {
    /// Another session that this one may act upon.
    fn other(&self, pid: SessionId) -> Option<Arc<Control>> {
        let mine = &self.control;
        self.shared
            .sessions
            .get(pid)
            .filter(|other| self.all_tenants || (other.tenant == mine.tenant && !other.administrator))
    }
}

impl BackendSignals for Signals {
    fn user(&self, pid: SessionId) -> Option<String> {
        self.other(pid).map(|other| other.activity().user.clone())
    }
    fn cancel(&self, pid: SessionId) -> bool {
        self.other(pid).map(|other| other.cancel()).is_some()
    }
    fn terminate(&self, pid: SessionId) -> bool {
        self.other(pid).map(|other| other.terminate()).is_some()
    }
}
