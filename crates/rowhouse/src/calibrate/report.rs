//! What `rowhouse calibrate` tells: a table for people, JSON for programs.

use std::io::Write as _;
use std::path::PathBuf;

use env::Env;
use serde::Serialize;
use server::calibration::{Access, MeasureOptions, MeasuredDevice, MeasuredSeries, Measurement, Operation};

use super::Group;

#[derive(Serialize)]
struct Volume {
    volume: String,
    dir: PathBuf,
}

/// One group of directories and what was measured for it.
#[derive(Serialize)]
pub(super) struct Found {
    volumes: Vec<Volume>,
    #[serde(flatten)]
    measurement: Measurement,
}

pub(super) fn of(group: &Group, measurement: Measurement) -> Found {
    let volumes = group.dirs.iter().map(|(volume, dir)| Volume { volume: volume.clone(), dir: dir.clone() });
    Found { volumes: volumes.collect(), measurement }
}

/// Says what is measured, before it is.
pub(super) fn announce(group: &Group, env: &Env, options: &MeasureOptions) {
    let mut out = std::io::stdout();
    for (name, dir) in &group.dirs {
        let _ = writeln!(out, "volume {name}: {}", dir.display());
    }
    let _ = writeln!(
        out,
        "  {}; {} rings ({}), scratch file of {}",
        MeasuredDevice::from(&group.device),
        options.workers,
        env.io_backend(),
        options.scratch_len
    );
    // Read by whoever waits for the measurement to begin.
    let _ = out.flush();
}

/// Requests a second, or bytes, with as many digits as one can make use of.
fn short(amount: f64) -> String {
    match amount {
        amount if amount >= 1e6 => format!("{:.2}M", amount / 1e6),
        amount if amount >= 1e4 => format!("{:.1}k", amount / 1e3),
        amount => format!("{amount:.0}"),
    }
}

fn mib(bytes_per_second: f64) -> f64 {
    bytes_per_second / f64::from(1 << 20)
}

pub(super) fn print(measurement: &Measurement) {
    let found = &measurement.calibration;
    print_curves(&measurement.series);
    print_best(&measurement.series);
    print_durable(&measurement.series);
    println!();
    let more = if found.saturated { "" } else { ", the most that was tried: the device may take more" };
    println!("  depth                  {}{more}", found.depth);
    println!("  random reads, 8 KiB    {}/s at that depth", short(found.iops_read as f64));
    println!("  random writes, 8 KiB   {}/s at that depth, synced", short(found.iops_write as f64));
    println!(
        "  bandwidth              {:.0} MiB/s read, {:.0} MiB/s written",
        mib(found.bytes_per_second_read as f64),
        mib(found.bytes_per_second_write as f64)
    );
    println!(
        "  durable writes, 8 KiB  {}/s one by one, {} us (p50), {} us (p99)\n",
        short(found.durable_writes_per_second as f64),
        found.durable_write_us_p50,
        found.durable_write_us_p99
    );
}

/// The two series that depth and rates come from, side by side.
fn print_curves(series: &[MeasuredSeries]) {
    let [reads, writes, ..] = series else { return };
    println!("\n  pages of 8 KiB at random        read                        write");
    println!("  depth     requests/s   p50 us   p99 us    requests/s   p50 us   p99 us");
    for (read, write) in reads.points.iter().zip(&writes.points) {
        println!(
            "  {:>5} {:>14} {:>8} {:>8} {:>13} {:>8} {:>8}",
            read.depth,
            short(read.per_second),
            read.latency_us_p50,
            read.latency_us_p99,
            short(write.per_second),
            write.latency_us_p50,
            write.latency_us_p99
        );
    }
}

/// The best of each other combination, and the depth it was reached at.
fn print_best(series: &[MeasuredSeries]) {
    println!("\n  best rate                size    requests/s      MiB/s   at depth");
    let is_plain = |s: &&MeasuredSeries| matches!(s.operation, Operation::Read | Operation::Write);
    for one in series.iter().filter(is_plain) {
        let best = one.points.iter().max_by(|a, b| a.per_second.total_cmp(&b.per_second));
        let Some(best) = best else { continue };
        let kind = match one.access {
            Access::Random => format!("random {}", one.operation),
            Access::Sequential => format!("sequential {}", one.operation),
        };
        println!(
            "  {kind:<18} {:>6} KiB {:>13} {:>10.0} {:>10}",
            one.block / 1024,
            short(best.per_second),
            mib(best.per_second * one.block as f64),
            best.depth
        );
    }
}

fn print_durable(series: &[MeasuredSeries]) {
    println!("\n  8 KiB, durable           at once      writes/s   p50 us   p99 us");
    let is_durable =
        |s: &&MeasuredSeries| matches!(s.operation, Operation::DurableWrite | Operation::WriteAndSync);
    for one in series.iter().filter(is_durable) {
        for point in &one.points {
            println!(
                "  {:<18} {:>13} {:>13} {:>8} {:>8}",
                one.operation,
                point.depth,
                short(point.per_second),
                point.latency_us_p50,
                point.latency_us_p99
            );
        }
    }
}
