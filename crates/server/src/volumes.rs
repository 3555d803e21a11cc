//! The volumes as the administrator sees them: where they are, and what they may do.
//!
//! Truth of their options is the table `rowhouse.volumes`. What is set here is in force at once: the schedule of each volume holds
//! the limit, the meter judges by it.

use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use base::{Nanos, TenantId, VolumeNo};
use governor::{AwaitedFor, IoCapacity, Policy, VolumeOptions};

use crate::ServerConfig;
use crate::calibration::VolumeCalibration;
use crate::executor::IoGoverning;

/// One volume: a directory of data files, or the logs'.
pub(crate) struct Volume {
    pub(crate) number: VolumeNo,
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// As it was found at the start.
    pub(crate) calibration: VolumeCalibration,
    options: Mutex<VolumeOptions>,
    is_missing: AtomicBool,
}

impl Volume {
    pub(crate) fn options(&self) -> VolumeOptions {
        *self.options.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the start found tenants of it and none of their files: what is to be mounted there may not be.
    pub(crate) fn is_missing(&self) -> bool {
        self.is_missing.load(Ordering::Relaxed)
    }

    /// Nobody is made on it from now on: what is made in a mount point is hidden once the device is back. This start has no lock on what comes there later.
    pub(crate) fn note_missing(&self) {
        self.is_missing.store(true, Ordering::Relaxed);
    }

    /// I/Os a second that can be given out, if anybody knows: what it was measured to do, and what it may.
    pub(crate) fn capacity(&self) -> Option<u64> {
        self.measured()
            .map(|(_, iops)| iops)
            .into_iter()
            .chain(self.options().iops_limit.map(NonZeroU64::get))
            .min()
    }

    /// Requests in flight past which latency only grows, and I/Os a second then: of reads or writes, whichever are fewer.
    fn measured(&self) -> Option<(NonZeroU32, u64)> {
        let found = self.calibration.found.as_ref().ok()?;
        Some((NonZeroU32::new(found.depth)?, found.iops_read.min(found.iops_write)))
    }

    fn io_capacity(&self, options: &VolumeOptions) -> IoCapacity {
        let (depth, iops) = self.measured().map_or((0, 0), |(depth, iops)| (depth.get(), iops));
        IoCapacity { iops, depth, iops_limit: options.iops_limit.map(NonZeroU64::get) }
    }
}

/// All volumes, by number: the data directory's, the configured ones, the logs'.
pub(crate) struct Volumes {
    list: Vec<Volume>,
    io: IoGoverning,
}

impl Volumes {
    /// Has the volumes' I/O metered by this interval from a moment after `now` on.
    pub(crate) fn set_metering_interval(&self, interval: Nanos, now: Nanos) {
        self.io.set_interval(interval, now);
    }

    /// With what was found of each volume's calibration, by number: so many requests are in flight at most.
    pub(crate) fn new(
        config: &ServerConfig,
        calibrations: Vec<VolumeCalibration>,
        io: IoGoverning,
    ) -> Volumes {
        let dirs = config.volumes.iter().map(|(_, dir)| dir.clone());
        let dirs = std::iter::once(config.data_dir.clone()).chain(dirs).chain([config.log_dir()]);
        let volume =
            |(number, ((name, path), calibration)): (usize, ((&str, PathBuf), VolumeCalibration))| Volume {
                number: VolumeNo(u32::try_from(number).expect("fewer than 2^32 volumes")),
                name: name.to_owned(),
                path,
                calibration,
                options: Mutex::default(),
                is_missing: AtomicBool::new(false),
            };
        let list: Vec<_> =
            config.volume_names().zip(dirs).zip(calibrations).enumerate().map(volume).collect();
        assert_eq!(list.len(), io.volumes().len(), "each volume is governed");
        assert_eq!(list.last().map(|volume| volume.number), Some(config.log_volume()));
        for (volume, governed) in list.iter().zip(io.volumes()) {
            governed.schedule.set_depth(volume.measured().map(|(depth, _)| depth));
            governed.meter.set_capacity(volume.io_capacity(&VolumeOptions::default()));
        }
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
        governed.schedule.set_iops_limit(options.iops_limit, env::now());
        governed.meter.set_capacity(volume.io_capacity(&options));
        self.io.wake_all();
    }

    /// Says whether others wait for a tenant's upkeep on a volume: see [`governor::IoVolume::set_awaited`].
    pub(crate) fn set_awaited(
        &self,
        volume: VolumeNo,
        tenant: TenantId,
        for_what: AwaitedFor,
        is_awaited: bool,
    ) {
        let governed = &self.io.volumes()[volume.0 as usize];
        governed.meter.set_awaited(tenant, for_what, is_awaited);
        if governed.schedule.set_awaited(tenant, for_what, is_awaited) {
            self.io.wake_all();
        }
    }

    /// Puts a policy in force on all of them.
    pub(crate) fn set_policy(&self, policy: Policy, now: Nanos) {
        for volume in self.io.volumes() {
            volume.schedule.set_policy(policy, now);
            volume.meter.set_limits_held(policy.limits());
        }
        self.io.wake_all();
    }
}
