//! Facts about the scheduler, in virtual time.

mod facts;
mod figure_4;
mod properties;
mod threads;
