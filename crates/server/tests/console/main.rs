//! The console's interface, over HTTP. One program: some of its tests wait for half a minute, and others run meanwhile.

mod changes;
mod live;
mod login;
mod reads;
#[path = "../support/mod.rs"]
mod support;
