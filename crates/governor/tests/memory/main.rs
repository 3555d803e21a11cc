//! Buffer memory in virtual time: tenants that use pages in one memory, evicted as `storage` does, metered and priced.

mod curve;
mod faults;
mod promises;
mod world;
