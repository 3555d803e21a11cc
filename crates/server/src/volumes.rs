//! The volumes as the administrator sees them: where they are, and what they may do.
//!
//! Truth of their options is the table `rowhouse.volumes`. What is set here is in force at once: the schedule of each volume holds
//! the limit, the meter judges by it.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use base::{Nanos, VolumeNo};
use governor::{IoCapacity, Policy, VolumeOptions};

use crate::ServerConfig;
use crate::executor::IoGoverning;

/// One volume: a directory of data files, or the logs'.
pub(crate) struct Volume {
    pub(crate) number: VolumeNo,
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    options: Mutex<VolumeOptions>,
}

impl Volume {
    pub(crate) fn options(&self) -> VolumeOptions {
        *self.options.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// I/Os a second that can be given out, if anybody knows.
    pub(crate) fn capacity(&self) -> Option<u64> {
        self.options().iops_limit.map(NonZeroU64::get)
    }
}

/// All volumes, by number: the data directory's, the configured ones, the logs'.
pub(crate) struct Volumes {
    list: Vec<Volume>,
    io: IoGoverning,
}

impl Volumes {
    pub(crate) fn new(config: &ServerConfig, io: IoGoverning) -> Volumes {
        let dirs = config.volumes.iter().map(|(_, dir)| dir.clone());
        let dirs = std::iter::once(config.data_dir.clone()).chain(dirs).chain([config.log_dir()]);
        let volume = |(number, (name, path)): (usize, (&str, PathBuf))| Volume {
            number: VolumeNo(u32::try_from(number).expect("fewer than 2^32 volumes")),
            name: name.to_owned(),
            path,
            options: Mutex::default(),
        };
        let list: Vec<_> = config.volume_names().zip(dirs).enumerate().map(volume).collect();
        assert_eq!(list.len(), io.volumes().len(), "each volume is governed");
        assert_eq!(list.last().map(|volume| volume.number), Some(config.log_volume()));
        Volumes { list, io }
    }

    pub(crate) fn list(&self) -> &[Volume] {
        &self.list
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Volume> {
        self.list.iter().find(|volume| volume.name == name)
    }

    /// Puts options in force, for what is queued too.
    pub(crate) fn set_options(&self, volume: &Volume, options: VolumeOptions) {
        // Told under the lock: of two changes the later one arrives last.
        let mut there = volume.options.lock().unwrap_or_else(PoisonError::into_inner);
        *there = options;
        let governed = &self.io.volumes()[volume.number.0 as usize];
        governed.schedule.set_iops_limit(options.iops_limit);
        let iops_limit = options.iops_limit.map(NonZeroU64::get);
        governed.meter.set_capacity(IoCapacity { iops_limit, ..IoCapacity::default() });
        self.io.wake_all();
    }

    /// Puts a policy in force on all of them.
    pub(crate) fn set_policy(&self, policy: Policy, now: Nanos) {
        self.io.volumes().iter().for_each(|volume| volume.schedule.set_policy(policy, now));
        self.io.wake_all();
    }
}
