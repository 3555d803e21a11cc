//! Promised memory: pages beside a neighbour that scans ([`buffer`]), sorts and hashes beside eight that sort ([`working`]), and pages
//! that were lent while their tenant was idle ([`lent`]).

mod buffer;
mod lent;
mod pages;
mod working;

pub(super) use buffer::part as buffer;
pub(super) use lent::part as lent;
pub(super) use working::part as working;
