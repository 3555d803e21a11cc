//! Locks of a transaction in the order in which it got them, and what their keys take.

use crate::locks::LockTag;
use crate::row::keys::heap_len;

/// Locks, each with `M`: the mode it was asked for in, or the modes that were gained.
#[derive(Debug)]
pub(crate) struct LockList<M> {
    locks: Vec<(LockTag, M)>,
    keys_len: usize,
}

impl<M> Default for LockList<M> {
    fn default() -> LockList<M> {
        LockList { locks: Vec::new(), keys_len: 0 }
    }
}

impl<M> LockList<M> {
    pub(crate) fn push(&mut self, lock: (LockTag, M)) {
        self.keys_len += key_len(&lock.0);
        self.locks.push(lock);
    }

    /// Takes out the locks from the `at`th on.
    pub(crate) fn split_off(&mut self, at: usize) -> Vec<(LockTag, M)> {
        let locks = self.locks.split_off(at);
        self.keys_len -= locks.iter().map(|(tag, _)| key_len(tag)).sum::<usize>();
        locks
    }

    /// Takes out these locks, which have no keys.
    pub(crate) fn forget(&mut self, tags: &[LockTag]) {
        self.locks.retain(|(own, _)| !tags.contains(own));
    }

    pub(crate) fn len(&self) -> usize {
        self.locks.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.locks.is_empty()
    }

    /// Bytes of its keys that are too long to be within their tags.
    pub(crate) fn keys_len(&self) -> usize {
        self.keys_len
    }
}

fn key_len(tag: &LockTag) -> usize {
    match tag {
        LockTag::Row(_, key) => heap_len(key),
        _ => 0,
    }
}
