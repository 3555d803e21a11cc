//! Who pays for what is read and written.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::limits::IO_UNIT;
use base::{ByteCount, TenantId, VolumeNo};

use crate::Env;

/// One tenant's I/O on one volume. All files opened through [`Env::charging`] with it are charged to it: by the gate of the
/// thread's reactor, if it has one ([`crate::IoGate`]); what other threads do is counted here until somebody fetches it.
#[derive(Debug)]
pub struct IoAccount {
    tenant: TenantId,
    volume: VolumeNo,
    /// Done on threads without a gate, in I/Os and bytes.
    done: AtomicU64,
    done_bytes: AtomicU64,
}

impl IoAccount {
    /// Of a tenant on a volume.
    pub fn new(tenant: TenantId, volume: VolumeNo) -> Arc<IoAccount> {
        Arc::new(IoAccount { tenant, volume, done: AtomicU64::new(0), done_bytes: AtomicU64::new(0) })
    }

    /// Who pays.
    pub fn tenant(&self) -> TenantId {
        self.tenant
    }

    /// What is used.
    pub fn volume(&self) -> VolumeNo {
        self.volume
    }

    /// What an operation counts as: one I/O for each started [`IO_UNIT`], one for a sync.
    pub fn ios_of(len: ByteCount) -> u64 {
        len.0.div_ceil(IO_UNIT.0).max(1)
    }

    /// Counts an operation done on a thread without a gate, and its [`IoAccount::ios_of`].
    pub fn note_done(&self, len: ByteCount) {
        self.done.fetch_add(IoAccount::ios_of(len), Ordering::Relaxed);
        self.done_bytes.fetch_add(len.0, Ordering::Relaxed);
    }

    /// Takes out what was done on threads without a gate since the last call: I/Os and bytes. The two may differ by an
    /// operation that is being counted; the next call has it.
    pub fn take_done(&self) -> (u64, ByteCount) {
        let bytes = self.done_bytes.swap(0, Ordering::Relaxed);
        (self.done.swap(0, Ordering::Relaxed), ByteCount(bytes))
    }
}

impl Env {
    /// The same machine, on which every file opened from now on is charged to `account`.
    #[must_use]
    pub fn charging(&self, account: &Arc<IoAccount>) -> Env {
        let account = account.clone();
        // Names are free of charge.
        self.opening(move |disk, path, mode, direct| Ok(disk.open(path, mode, direct)?.charged_to(&account)))
    }
}
