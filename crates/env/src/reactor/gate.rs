//! What stands between a charged operation and the device: when it may start, and who is told that it did.

use std::sync::Arc;

use base::{ByteCount, IoClass, Nanos, TenantId};

use super::op::Op;
use crate::IoAccount;

/// An operation that waits for its turn. Dropped, it never starts, and its future never completes: for the reactor's end only.
pub struct HeldIo(pub(crate) Arc<Op>);

/// What a gate calls an operation in flight by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IoTicket(pub u32);

/// A charged operation as it comes.
#[derive(Clone, Copy, Debug)]
pub struct IoArrival<'a> {
    pub account: &'a IoAccount,
    pub class: IoClass,
    /// Zero for a sync.
    pub len: ByteCount,
    /// Where several share it: who, with how many bytes of it. What it has beyond them goes along in proportion.
    pub members: Option<&'a [(TenantId, ByteCount)]>,
}

/// What a gate wants next.
pub enum GateStep {
    /// Start this, and ask again.
    Start(HeldIo, IoTicket),
    /// Nothing before this instant; `None`: before anything else happens.
    Wait(Option<Nanos>),
}

/// Decides when charged operations of a thread without a reactor start, which block.
pub trait IoPermits {
    /// Waits until an operation may start. What is returned is dropped when it has ended.
    fn wait(&self, account: &IoAccount, len: ByteCount) -> Option<IoPermit>;
}

/// Leave for one operation, while it lasts.
pub struct IoPermit(Option<Box<dyn FnOnce()>>);

impl IoPermit {
    /// Calls `ended` when it is dropped.
    pub fn new(ended: impl FnOnce() + 'static) -> IoPermit {
        IoPermit(Some(Box::new(ended)))
    }
}

impl Drop for IoPermit {
    fn drop(&mut self) {
        if let Some(ended) = self.0.take() {
            ended();
        }
    }
}

/// Decides when charged operations of a reactor start. Called on the reactor's thread, never from within itself. Operations are
/// charged whether or not anybody still waits for them.
pub trait IoGate {
    /// An operation wants to start. It does so at once if a ticket is returned; else the gate keeps it and gives it out by
    /// [`IoGate::step`].
    fn arrive(&mut self, arrival: IoArrival<'_>, op: HeldIo, now: Nanos) -> Option<IoTicket>;

    /// An operation has ended.
    fn completed(&mut self, ticket: IoTicket, now: Nanos);

    /// Something was done on the thread that could not wait.
    fn done(&mut self, account: &IoAccount, len: ByteCount, now: Nanos);

    /// Asked in each turn before the reactor waits.
    fn step(&mut self, now: Nanos) -> GateStep;
}
