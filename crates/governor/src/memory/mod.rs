//! Which pages leave memory, at what price those of a tenant with a promise do, whose loads get room ([`RoomLine`]), and how many pages
//! the statements of each tenant may hold ([`HoldPool`]).
//!
//! Nobody notes the moment of each access: that would cost the resident fast path a store. Whoever sweeps over the pages
//! finds out at each visit whether a page was used since the visit before, and keeps the times of the last two such visits
//! ([`UseTimes`]). [`VictimChoice`] says of each page that was not used whether it leaves: LRU-2 over what sweeps saw, for all
//! tenants alike but for their prices ([`MemoryPrice`]), which [`MemoryPricing`] sets anew every epoch by what
//! [`crate::MemoryTally`] says of the promise. The meter of the promise, `meter::memory`, knows nothing of what is here.
//!
//! Pure: no clock, no pages, no locks; nothing is allocated when a page is looked at.

mod ages;
mod choice;
mod holds;
mod price;
mod room_line;
mod share;
mod uses;

pub use ages::OwnAges;
pub use choice::VictimChoice;
pub use holds::{HoldPool, TenantHolds};
pub use price::{MemoryPrice, MemoryPricing};
pub use room_line::{OLDEST_EVERY, RoomLine, RoomStanding};
pub use share::MemoryShare;
pub use uses::{EvictionTime, UseTimes};
