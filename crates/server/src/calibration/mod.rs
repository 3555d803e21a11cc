//! What a volume can do: measured once by `rowhouse calibrate`, kept in a file in the volume's directory.
//!
//! A [`Calibration`] is the result, [`load`] and [`store`] its file, [`VolumeCalibration`] what a server knows of one of its
//! volumes. The file is the truth, and a server goes on without it: then nobody bounds what is in flight. A file of an
//! older device or of long ago is still used, and said to be stale.

mod curve;
mod file;
mod load;
mod measure;
mod noise;
mod plan;
mod scratch;
mod standing;
#[cfg(test)]
mod tests;

use std::fmt;

use env::Device;
use serde::{Deserialize, Serialize};

pub use file::{CALIBRATION_FILE, NotCalibrated, load, store};
pub use measure::{
    MeasureError, MeasureOptions, MeasuredPoint, MeasuredSeries, Measurement, Progress, measure,
};
pub use plan::{Access, Operation, Plan};
pub use standing::VolumeCalibration;

/// A calibration older than this is stale.
pub const DAYS_MAX: u64 = 90;

const MICROS_PER_DAY: i64 = 86_400_000_000;

/// What a volume was measured to do, with one page of 8 KiB a request unless said otherwise.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Calibration {
    /// Requests in flight, over all workers, past which latency only grows: the larger of what random reads and random writes
    /// make use of. At least 1.
    pub depth: u32,
    /// Whether more than `depth` was tried and did no more. Else `depth` is merely the most that was tried.
    pub saturated: bool,
    /// Random reads a second at `depth`. At least 1.
    pub iops_read: u64,
    /// Random writes a second at `depth`, their syncs included. At least 1.
    pub iops_write: u64,
    /// Bytes a second of sequential reads of 256 KiB, at the depth that is best for them.
    pub bytes_per_second_read: u64,
    /// The same of writes, their syncs included.
    pub bytes_per_second_write: u64,
    /// Durable writes a second, one after the other, as a log makes them.
    pub durable_writes_per_second: u64,
    /// How long one of them takes in the median, in microseconds.
    pub durable_write_us_p50: u64,
    /// And the longest of 99 in 100.
    pub durable_write_us_p99: u64,
    /// When the measurement ended, in microseconds since 1970-01-01 00:00 UTC.
    pub measured_at: i64,
    /// How long it took, in seconds.
    pub seconds: u64,
    /// Threads that put the load on, each with a completion ring of its own.
    pub workers: u32,
    /// The completion backend; see [`env::Env::io_backend`].
    pub io_backend: String,
    /// What was measured.
    pub device: MeasuredDevice,
}

/// [`Device`] as a calibration remembers it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MeasuredDevice {
    pub number: String,
    pub file_system: String,
    pub file_system_id: u64,
    /// In bytes.
    pub len: u64,
}

impl From<&Device> for MeasuredDevice {
    fn from(device: &Device) -> MeasuredDevice {
        MeasuredDevice {
            number: device.number.clone(),
            file_system: device.file_system.clone(),
            file_system_id: device.file_system_id,
            len: device.len.0,
        }
    }
}

impl MeasuredDevice {
    /// Whether `device` may be the one that was measured. A file system is told by its id, where it has one: numbers are given
    /// out anew when the machine starts, and are the same on many machines. One that grew or shrank by more than a tenth
    /// counts as another: volumes in a cloud get faster with their size.
    fn may_be(&self, device: &Device) -> bool {
        let has_id = self.file_system_id != 0 && device.file_system_id != 0;
        let same =
            if has_id { self.file_system_id == device.file_system_id } else { self.number == device.number };
        let grown = self.len.abs_diff(device.len.0);
        same && self.file_system == device.file_system && grown <= self.len / 10
    }
}

impl fmt::Display for MeasuredDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gib = self.len as f64 / (1u64 << 30) as f64;
        write!(f, "{} on device {}, {gib:.1} GiB", self.file_system, self.number)
    }
}

/// Why a calibration says little about the volume it was found on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Staleness {
    /// It was made on another device, or the file system is another one or of another size.
    Device { measured: MeasuredDevice, found: MeasuredDevice },
    /// It was made through another completion backend, which may reach another depth.
    Backend { measured: String, found: String },
    /// It is older than [`DAYS_MAX`].
    Age { days: u64 },
}

impl fmt::Display for Staleness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Staleness::Device { measured, found } => {
                write!(f, "it was made on another device ({measured}; this is {found})")
            }
            Staleness::Backend { measured, found } => {
                write!(f, "it was made by way of {measured}, and I/O goes by way of {found}")
            }
            Staleness::Age { days } => write!(f, "it is {days} days old, more than {DAYS_MAX}"),
        }
    }
}

impl Calibration {
    /// Bytes a second in whichever direction is slower.
    pub fn bytes_per_second(&self) -> u64 {
        self.bytes_per_second_read.min(self.bytes_per_second_write)
    }

    /// Why it should not be relied on at `now` (microseconds since 1970-01-01 00:00 UTC), for `device`, with I/O by way of
    /// `io_backend`; `None` if nothing speaks against it. What a clock that was set back makes of the future counts as now.
    pub fn staleness(&self, now: i64, device: &Device, io_backend: &str) -> Option<Staleness> {
        if !self.device.may_be(device) {
            return Some(Staleness::Device { measured: self.device.clone(), found: device.into() });
        }
        if self.io_backend != io_backend {
            let (measured, found) = (self.io_backend.clone(), io_backend.to_owned());
            return Some(Staleness::Backend { measured, found });
        }
        let age = now.saturating_sub(self.measured_at).max(0);
        let days = u64::try_from(age / MICROS_PER_DAY).expect("not negative");
        (age > DAYS_MAX as i64 * MICROS_PER_DAY).then_some(Staleness::Age { days })
    }

    /// Why no measurement can have given these numbers.
    fn absurdity(&self) -> Option<&'static str> {
        match self {
            Calibration { depth: 0, .. } => Some("its depth is zero"),
            Calibration { iops_read: 0, .. } | Calibration { iops_write: 0, .. } => Some("its rate is zero"),
            _ => None,
        }
    }
}
