//! The buffer in which the record of a commit is put together: one for all tenants of a worker, since no two records are made at once. One of its own
//! each tenant had to fetch from memory again at its next commit, of as many bytes as the record has, where there are many tenants.

use std::cell::Cell;

/// Capacity that is kept: a transaction of some ten rows fills a few KiB.
const KEPT_MAX: usize = 64 << 10;

thread_local! {
    static KEPT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The thread's buffer, with whatever it was left with, or a new one.
pub(crate) fn take() -> Vec<u8> {
    // While a thread ends there is none.
    KEPT.try_with(Cell::take).unwrap_or_default()
}

/// Keeps the buffer for the thread's next record, unless this one was as large as few are.
pub(crate) fn keep(buffer: Vec<u8>) {
    if buffer.capacity() <= KEPT_MAX {
        let _ = KEPT.try_with(|kept| kept.set(buffer));
    }
}

#[cfg(test)]
mod tests {
    use base::{CommitNo, Lsn, SessionId, TenantId, TreeId};

    use super::*;
    use crate::row::keys::Key;
    use crate::{Isolation, RedoSink, Tenant};

    /// Where the records lay that were appended.
    #[derive(Default)]
    struct Places(Vec<*const u8>);

    impl RedoSink for Places {
        fn append(&mut self, _: TenantId, _: CommitNo, record: &[u8]) -> Lsn {
            self.0.push(record.as_ptr());
            Lsn(self.0.len() as u64)
        }
    }

    #[test]
    fn tenants_of_a_thread_make_their_records_in_one_place() {
        keep(Vec::with_capacity(KEPT_MAX));
        let mut places = Places::default();
        for number in 1..=3 {
            let mut tenant = Tenant::in_memory(TenantId(number), "owner");
            let mut txn = tenant.begin(SessionId(1), Isolation::ReadCommitted, false, true);
            txn.overlay.put(TreeId(20), Key::from_slice(b"k"), [1].into());
            tenant.commit(txn, &mut places).unwrap();
        }
        assert!(places.0.windows(2).all(|two| two[0] == two[1]), "{:?}", places.0);
        keep(Vec::with_capacity(KEPT_MAX + 1));
        assert!(take().capacity() <= KEPT_MAX);
    }
}
