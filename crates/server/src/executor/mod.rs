//! The worker's executor: tasks wait in per-tenant queues, the governor names the tenant whose task is polled next, and
//! every poll is charged to it.
//!
//! A [`Worker`] lives on one thread with one reactor. Other threads hold a [`WorkerHandle`]: they spawn tasks, wake
//! them, read what each tenant used and stop the worker. Analytical threads stand in the run queues as [`Proxy`]s.
//! State only the worker touches sits in a [`HomeCell`]. A tenant's [`Residence`] says which worker is its home; its tasks and its cells
//! are there. The flush of the log that they share stands in no queue.
//!
//! A panic of a task ends that task alone; it is logged here, and whoever awaits the task gets `None`.

mod account;
mod background;
mod duty;
mod governing;
mod handle;
mod home_cell;
mod io_gate;
mod io_governing;
mod io_intervals;
mod io_permits;
mod preempt;
mod proxy;
mod residence;
mod run_queues;
mod task_use;
mod worker;

pub use account::{Spent, TenantAccount, Wait};
pub use background::Background;
pub(crate) use governing::system_cpu;
pub use governing::{CpuGoverning, Governing, TURN_MAX, Terms};
pub use handle::{TaskHandle, WorkerHandle};
pub use home_cell::HomeCell;
pub use io_governing::IoGoverning;
pub(crate) use io_permits::{LimitWaits, WorkerPermits};
pub(crate) use preempt::preemptible;
pub(crate) use proxy::Haste;
pub use proxy::{PROXY_QUANTUM, Proxy};
pub(crate) use residence::Held;
pub use residence::Residence;
pub(crate) use task_use::{Noted, TaskUse};
pub use worker::{TurnReport, Worker, current_tenant, current_worker, poll_elapsed, yield_now};
pub(crate) use worker::{blocking_ios, io_opens_at, note_sent, preemption_point, suspensions};

#[cfg(test)]
mod awaited_tests;
#[cfg(test)]
mod move_tests;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests of the real machine use it from outside too")]
mod preempt_tests;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests of the real machine use it from outside too")]
mod proxy_tests;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests of the real machine use it from outside too")]
mod tests;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests of the real machine use it from outside too")]
mod turn_tests;
