//! The map and its data file together: against a model, across power cuts, and over rotten bytes.

mod cold;
mod concurrency;
mod cost;
mod crash;
mod eviction;
mod faults;
mod files;
mod fixture;
mod image;
mod journal_disk;
mod metering;
mod model;
mod planted;
mod rooms;
mod rot;
mod settling;
mod simulated;
