//! CPU, I/O and memory policy: whose task runs next, and what each tenant was promised.
//!
//! Level 1. Pure logic: never blocks, performs no I/O, reads no clock (time is an argument), names no SQL, and allocates
//! nothing on the run path. Today: the promises themselves, fair CPU scheduling by weight, and which pages leave memory.
//! Reservations and limits are stored and validated; nothing enforces them yet.

mod cpu;
mod memory;
mod promise;

pub use cpu::CpuScheduler;
pub use memory::{EvictionTime, UseTimes, VictimChoice};
pub use promise::{
    CpuPromise, IoPromise, IoPromiseKind, MemoryPromise, MilliCores, Promise, PromiseError, PromiseKey,
};
