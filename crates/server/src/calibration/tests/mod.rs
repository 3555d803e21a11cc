//! Calibrations on the simulated disk: that what is found is what was modelled, and what is kept is what was found.

mod keeping;
mod measuring;

use env::Device;

use super::*;

/// 2026-01-01 00:00 UTC, in microseconds since 1970.
const NEW_YEAR: i64 = 1_767_225_600_000_000;

fn device() -> Device {
    Device {
        number: "254:0".to_owned(),
        file_system: "ext4".to_owned(),
        file_system_id: 0x1234_5678_9abc,
        len: base::ByteCount(100 << 30),
    }
}

fn calibration() -> Calibration {
    Calibration {
        depth: 24,
        saturated: true,
        iops_read: 41_000,
        iops_write: 23_456,
        bytes_per_second_read: 2_000_000_000,
        bytes_per_second_write: 1_500_000_000,
        durable_writes_per_second: 5_400,
        durable_write_us_p50: 160,
        durable_write_us_p99: 900,
        measured_at: NEW_YEAR,
        seconds: 60,
        workers: 2,
        io_backend: "io_uring".to_owned(),
        device: (&device()).into(),
    }
}
