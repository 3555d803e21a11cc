//! The scheduler and the meter of processor time together, in virtual time: several workers, tenants with sessions that
//! wake, work and sleep, and checks that recompute everything from the trace.

mod faults;
mod limits;
mod metering;
mod naive;
mod overbooked;
mod promises;
mod world;
