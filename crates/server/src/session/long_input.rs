//! Long messages that have come in part, of which a client may leave the rest out for as long as it likes.
//!
//! What has come of them is bounded for each tenant, by a part of the memory for pages that it is held beside, and for all together. Who would go over
//! either is refused with 53200, and its session ends: of a message that is not read to its end the next one is not found. A message that no other
//! is beside comes whatever its length, so that the memory for pages bounds no statement; and a tenant that has little of its messages here is not refused
//! for what others have.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::{ByteCount, SqlError, SqlState};

/// What a session may have of a message without being counted.
const UNCOUNTED_LEN_MAX: usize = 64 << 10;
/// The part of the memory for pages that a tenant's sessions may have besides, and what they may have in any case, whatever others have.
const TENANT_PART: u64 = 8;
const TENANT_MAX_MIN: u64 = 4 << 20;
/// That all sessions may.
const PART: u64 = 2;

/// How much has come of a tenant's long messages, or of all.
pub(super) type Came = Arc<AtomicU64>;

/// The bounds, and what has come of all.
#[derive(Clone)]
pub(super) struct LongInputs {
    tenant_max: u64,
    max: u64,
    came: Came,
}

impl LongInputs {
    pub(super) fn new(memory: ByteCount) -> LongInputs {
        let tenant_max = (memory.0 / TENANT_PART).max(TENANT_MAX_MIN);
        LongInputs { tenant_max, max: tenant_max.max(memory.0 / PART), came: Came::default() }
    }

    /// For a session of the tenant of which `of_tenant` has come.
    pub(super) fn of_session(&self, of_tenant: &Came) -> LongInput {
        LongInput { all: self.clone(), of_tenant: of_tenant.clone(), held: 0 }
    }
}

/// One session's part. Dropping it gives it back.
pub(super) struct LongInput {
    all: LongInputs,
    of_tenant: Came,
    held: u64,
}

impl LongInput {
    /// The session has so much of a message now.
    ///
    /// # Errors
    /// 53200, fatal.
    pub(super) fn hold(&mut self, len: usize) -> Result<(), SqlError> {
        let wanted = if len > UNCOUNTED_LEN_MAX { len as u64 } else { 0 };
        if wanted <= self.held {
            self.give_back(self.held - wanted);
            return Ok(());
        }
        let more = wanted - self.held;
        // Relaxed: the sums alone matter, and nothing is read by them.
        let of_tenant = self.of_tenant.fetch_add(more, Ordering::Relaxed) + more;
        let of_all = self.all.came.fetch_add(more, Ordering::Relaxed) + more;
        self.held = wanted;
        let tenant_is_over = of_tenant > self.all.tenant_max && of_tenant > wanted;
        let all_are_over = of_all > self.all.max && of_all > wanted && of_tenant > TENANT_MAX_MIN;
        if !tenant_is_over && !all_are_over {
            return Ok(());
        }
        self.give_back(more);
        let (whose, max) = if tenant_is_over {
            ("this tenant's sessions", self.all.tenant_max)
        } else {
            ("all sessions", self.all.max)
        };
        Err(SqlError::fatal(SqlState::OUT_OF_MEMORY, "out of memory for messages that have come in part")
            .with_detail(format!("Those of {whose} may have {} together.", ByteCount(max))))
    }

    fn give_back(&mut self, len: u64) {
        if len > 0 {
            self.of_tenant.fetch_sub(len, Ordering::Relaxed);
            self.all.came.fetch_sub(len, Ordering::Relaxed);
            self.held -= len;
        }
    }
}

impl Drop for LongInput {
    fn drop(&mut self) {
        self.give_back(self.held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thousandth of what a tenant may have.
    const PART_LEN: usize = 8 << 10;

    #[test]
    fn what_has_come_is_bounded_for_a_tenant_and_for_all_and_given_back() {
        let inputs = LongInputs::new(ByteCount::from_kib(8 * 8 * 1000));
        let tenants: Vec<Came> = (0..6).map(|_| Came::default()).collect();
        let mut one = inputs.of_session(&tenants[0]);
        let mut two = inputs.of_session(&tenants[0]);
        one.hold(600 * PART_LEN).unwrap();
        two.hold(UNCOUNTED_LEN_MAX).unwrap();
        two.hold(400 * PART_LEN).unwrap();
        assert_eq!(two.hold(401 * PART_LEN).unwrap_err().state(), SqlState::OUT_OF_MEMORY);
        one.hold(100 * PART_LEN).unwrap();
        two.hold(900 * PART_LEN).unwrap();
        let mut others: Vec<LongInput> =
            tenants[1..4].iter().map(|tenant| inputs.of_session(tenant)).collect();
        others.iter_mut().for_each(|other| other.hold(1000 * PART_LEN).unwrap());
        let mut last = inputs.of_session(&tenants[5]);
        // It has little; then it has not.
        last.hold(100 * PART_LEN).unwrap();
        assert!(
            last.hold(600 * PART_LEN).unwrap_err().detail().is_some_and(|told| told.contains("all sessions"))
        );
        drop((one, two));
        last.hold(1000 * PART_LEN).unwrap();
        drop(others);
        // Nobody else's is there.
        last.hold(9000 * PART_LEN).unwrap();
        drop(last);
        assert_eq!(inputs.came.load(Ordering::Relaxed), 0);
        assert!(tenants.iter().all(|came| came.load(Ordering::Relaxed) == 0));
    }
}
