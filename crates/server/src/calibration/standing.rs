//! What a server knows of its volumes' calibrations: looked at once, when it starts.

use std::path::{Path, PathBuf};

use env::{Device, Env};

use super::{Calibration, NotCalibrated, Staleness, load};
use crate::ServerConfig;

/// One volume of a server and its calibration, as it was found at the start.
#[derive(Clone, Debug)]
pub struct VolumeCalibration {
    /// [`crate::DEFAULT_VOLUME`], a name given by the operator, or [`crate::LOG_VOLUME`].
    pub volume: String,
    pub dir: PathBuf,
    pub found: Result<Calibration, NotCalibrated>,
    /// What is behind the directory now; `None` if the system does not say.
    pub device: Option<Device>,
    io_backend: &'static str,
}

impl VolumeCalibration {
    /// Looks at one volume. Blocks for a small read.
    fn look(env: &Env, volume: &str, dir: &Path) -> VolumeCalibration {
        VolumeCalibration {
            volume: volume.to_owned(),
            dir: dir.to_owned(),
            found: load(&*env.disk, dir),
            device: env.disk.device_of(dir).ok(),
            io_backend: env.io_backend(),
        }
    }

    /// Looks at all volumes of a server, in the order of their numbers, and warns of those without a calibration to rely on.
    /// Blocks.
    pub(crate) fn look_at_all(env: &Env, config: &ServerConfig) -> Vec<VolumeCalibration> {
        let log_dir = config.log_dir();
        let named = config.volumes.iter().map(|(_, dir)| dir);
        let dirs = std::iter::once(&config.data_dir).chain(named).chain(std::iter::once(&log_dir));
        let volumes = config.volume_names().zip(dirs);
        let all: Vec<_> = volumes.map(|(name, dir)| VolumeCalibration::look(env, name, dir)).collect();
        all.iter().for_each(|volume| volume.warn(env.clock.unix_micros()));
        all
    }

    /// Why the calibration that was found should not be relied on at `now` (microseconds since 1970-01-01 00:00 UTC). `None` if
    /// nothing speaks against it, or there is none.
    pub fn staleness(&self, now: i64) -> Option<Staleness> {
        let (calibration, device) = (self.found.as_ref().ok()?, self.device.as_ref()?);
        calibration.staleness(now, device, self.io_backend)
    }

    fn warn(&self, now: i64) {
        let (volume, dir) = (&self.volume, self.dir.display());
        match (&self.found, self.staleness(now)) {
            (Ok(_), None) => {}
            (Ok(_), Some(stale)) => tracing::warn!(
                %volume, %dir, "the volume's calibration is stale: {stale}; run `rowhouse calibrate` again"
            ),
            (Err(reason), _) => tracing::warn!(
                %volume, %dir,
                "the volume is not calibrated, so what is in flight to it has no bound: {reason}; run `rowhouse calibrate` \
                 while the server is down"
            ),
        }
    }
}
