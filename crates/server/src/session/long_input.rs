//! What sessions hold for their clients: the beginnings of long ones, of which a client may leave the rest out for as long as it likes, and what is
//! kept of those that came whole, as prepared statements, their parameters, the rest of a script, data of a COPY that is no row yet; and, by themselves,
//! answers that are not read.
//!
//! It is bounded for each tenant, by a part of the memory for pages that it is held beside, and for all together. Who would go over either is refused with
//! 53200: what was to be kept is not, and the session goes on; of a message that is not read to its end the next one is not found, an answer cannot
//! be taken back, and their sessions end. What is beside little else comes whatever its length, so that the memory for pages bounds no statement; and a tenant that has little here is not
//! refused for what others have.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::{ByteCount, SqlError, SqlState};

/// What a session may have of a message that has not come whole, and may keep, without being counted.
const UNCOUNTED_LEN_MAX: u64 = 64 << 10;
const UNCOUNTED_KEPT_MAX: u64 = 256 << 10;
/// What may wait to be sent without being counted.
const UNCOUNTED_UNSENT_MAX: u64 = 256 << 10;
/// The part of the memory for pages that a tenant's sessions may have besides, and what they may have in any case, whatever others have.
const TENANT_PART: u64 = 8;
const TENANT_MAX_MIN: u64 = 4 << 20;
/// That all sessions may.
const PART: u64 = 2;
/// What is beside no more than this part of a bound may go over it.
const BESIDE_PART: u64 = 2;

/// How much a tenant's sessions have, or all.
pub(super) type Came = Arc<AtomicU64>;

/// The bounds, and what all have.
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

    /// For a session of the tenant whose sessions have `of_tenant`.
    pub(super) fn of_session(&self, of_tenant: &Came) -> LongInput {
        let (len, kept, unsent) = Default::default();
        LongInput { all: self.clone(), of_tenant: of_tenant.clone(), len, kept, unsent }
    }
}

/// One session's part, which its task alone changes. Dropping it gives it back.
pub(crate) struct LongInput {
    all: LongInputs,
    of_tenant: Came,
    /// Counted of a message that has not come whole, of what is kept, of what waits to be sent.
    len: AtomicU64,
    kept: AtomicU64,
    unsent: AtomicU64,
}

impl LongInput {
    /// The session has so much of a message now.
    ///
    /// # Errors
    /// 53200, fatal.
    pub(super) fn hold(&self, len: usize) -> Result<(), SqlError> {
        let len = Some(len as u64).filter(|len| *len > UNCOUNTED_LEN_MAX).unwrap_or(0);
        self.set(&self.len, len).map_err(|detail| {
            let message = "out of memory for messages that have come in part";
            SqlError::fatal(SqlState::OUT_OF_MEMORY, message).with_detail(detail)
        })
    }

    /// The session keeps so much now.
    ///
    /// # Errors
    /// 53200; it keeps what it kept before.
    pub(super) fn keep(&self, bytes: u64) -> Result<(), SqlError> {
        let bytes = Some(bytes).filter(|bytes| *bytes > UNCOUNTED_KEPT_MAX).unwrap_or(0);
        self.set(&self.kept, bytes).map_err(|detail| {
            let message = "out of memory for what sessions keep of their clients' messages";
            SqlError::new(SqlState::OUT_OF_MEMORY, message)
                .with_detail(detail)
                .with_hint(
                    "Prepare fewer statements in each session, or use fewer sessions; or have the server started with more memory.",
                )
        })
    }

    /// So much waits for the client to take it.
    ///
    /// # Errors
    /// 53200, fatal: there is no room for it, and it is not counted.
    pub(super) fn wait_to_send(&self, len: usize) -> Result<(), SqlError> {
        let len = Some(len as u64).filter(|len| *len > UNCOUNTED_UNSENT_MAX).unwrap_or(0);
        self.set(&self.unsent, len).map_err(|detail| {
            let message = "out of memory for answers that are not read";
            SqlError::fatal(SqlState::OUT_OF_MEMORY, message).with_detail(detail)
        })
    }

    /// Errors: which bound it is.
    fn set(&self, part: &AtomicU64, wanted: u64) -> Result<(), String> {
        // Relaxed: the sums alone matter, and nothing is read by them.
        let held = part.swap(wanted, Ordering::Relaxed);
        if wanted <= held {
            self.give_back(held - wanted);
            return Ok(());
        }
        let more = wanted - held;
        let of_tenant = self.of_tenant.fetch_add(more, Ordering::Relaxed) + more;
        let of_all = self.all.came.fetch_add(more, Ordering::Relaxed) + more;
        let own = self.held();
        let is_over = |sum: u64, max: u64| sum > max && sum.saturating_sub(own) > max / BESIDE_PART;
        let (whose, max) = if is_over(of_tenant, self.all.tenant_max) {
            ("this tenant's sessions", self.all.tenant_max)
        } else if is_over(of_all, self.all.max) && of_tenant > TENANT_MAX_MIN {
            ("all sessions", self.all.max)
        } else {
            return Ok(());
        };
        part.store(held, Ordering::Relaxed);
        self.give_back(more);
        Err(format!("Those of {whose} may have {} together.", ByteCount(max)))
    }

    /// Whether the tenant's sessions have more than half of what they may, or all have.
    pub(super) fn is_much(&self) -> bool {
        let of_tenant = self.of_tenant.load(Ordering::Relaxed);
        let of_all = self.all.came.load(Ordering::Relaxed);
        of_tenant > self.all.tenant_max / BESIDE_PART
            || (of_all > self.all.max / BESIDE_PART && of_tenant > TENANT_MAX_MIN)
    }

    fn held(&self) -> u64 {
        [&self.len, &self.kept, &self.unsent].iter().map(|part| part.load(Ordering::Relaxed)).sum()
    }

    fn give_back(&self, len: u64) {
        if len > 0 {
            self.of_tenant.fetch_sub(len, Ordering::Relaxed);
            self.all.came.fetch_sub(len, Ordering::Relaxed);
        }
    }
}

impl Drop for LongInput {
    fn drop(&mut self) {
        self.give_back(self.held());
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
        let one = inputs.of_session(&tenants[0]);
        let two = inputs.of_session(&tenants[0]);
        one.hold(600 * PART_LEN).unwrap();
        two.hold(UNCOUNTED_LEN_MAX as usize).unwrap();
        two.hold(400 * PART_LEN).unwrap();
        assert_eq!(two.hold(401 * PART_LEN).unwrap_err().state(), SqlState::OUT_OF_MEMORY);
        one.hold(100 * PART_LEN).unwrap();
        two.hold(900 * PART_LEN).unwrap();
        let others: Vec<LongInput> = tenants[1..4].iter().map(|tenant| inputs.of_session(tenant)).collect();
        others.iter().for_each(|other| other.hold(1000 * PART_LEN).unwrap());
        let last = inputs.of_session(&tenants[5]);
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
    #[test]
    fn what_is_kept_counts_with_what_has_come_and_a_long_text_is_read_beside_little() {
        let inputs = LongInputs::new(ByteCount::from_mib(64));
        let (tenant, mib) = (Came::default(), 1 << 20);
        let (one, two, three) =
            (inputs.of_session(&tenant), inputs.of_session(&tenant), inputs.of_session(&tenant));
        // Of 8 MiB half is kept.
        one.keep(4 * mib).unwrap();
        two.keep(100 * mib).unwrap();
        for session in [&one, &three] {
            let refused = session.keep(5 * mib).unwrap_err();
            assert_eq!(
                (refused.state(), refused.severity()),
                (SqlState::OUT_OF_MEMORY, base::Severity::Error)
            );
            // What is small is kept whatever others keep.
            three.keep(UNCOUNTED_KEPT_MAX).unwrap();
            one.keep(4 * mib).unwrap();
        }
        assert_eq!(three.hold(1 << 20).unwrap_err().severity(), base::Severity::Fatal);
        assert!(three.is_much());
        two.keep(3 * mib).unwrap();
        three.hold(1 << 20).unwrap();
        assert_eq!(three.wait_to_send(5 << 20).unwrap_err().severity(), base::Severity::Fatal);
        three.wait_to_send(UNCOUNTED_UNSENT_MAX as usize).unwrap();
        assert_eq!(tenant.load(Ordering::Relaxed), 8 * mib);
        one.keep(0).unwrap();
        assert!(!three.is_much());
        drop((one, two, three));
        assert_eq!((tenant.load(Ordering::Relaxed), inputs.came.load(Ordering::Relaxed)), (0, 0));
    }
}
