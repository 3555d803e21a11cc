//! Facts about the scheduler, in virtual time.

mod altered;
mod facts;
mod figure_4;
mod properties;
mod threads;
