//! Which request of which tenant a volume is given next.
//!
//! Rules of mClock (Gulati, Merchant, Varman, OSDI 2010) as `docs/decisions/0011-io-tags-at-issue.md` makes them precise. A volume
//! ([`IoVolume`]) is shared by all workers; each has a queue ([`IoQueue`]) and a ring of its own. A tenant has a due time from
//! what it was promised, an instant from which it is below its limit, and a virtual time by its weight. Of the tenants below their limits with a request queued
//!
//! 1. the one that is due goes first, the longest due of all before the others;
//! 2. if none is due, the least served by weight, without its reservation being touched;
//! 3. if all are at their limits, the worker sleeps until the first is not.
//!
//! Example: 100 and 300 I/Os a second promised on a device of 1,000, both always waiting. All service counts by weight, what was due
//! too: with equal weights each gets 500. With weights of 800 and 200 the first gets 700 and the second 300, its promise.
//!
//! Where reservations do not fit, see [`crate::Overbooking`]: half-way between its two ends half of each reservation is due by the one
//! order, half by the other, and so is half of the service. Example: 240 promised to each of two of 300, penalties of 8 and 1: 150 and
//! 150 by the one, 240 and 60 by the other, 195 and 105 half-way.
//!
//! Pure: time is an argument, nothing blocks, and the run path does not allocate.

mod account;
mod cost;
mod group;
mod heap;
mod lanes;
pub(crate) mod pool;
mod post;
mod queue;
mod tag;
mod volume;

pub(crate) use account::LIMIT_DEBT_MAX;
pub use account::{AwaitedFor, LimitDebt};
pub use cost::IoCost;
pub(crate) use cost::PARTS;
pub use lanes::IoToken;
pub use queue::{IoQueue, Next, Submitted};
pub use volume::{IoPlace, IoVolume};

#[cfg(test)]
mod tests;
