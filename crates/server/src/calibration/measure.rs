//! The measurement of one volume, from an empty scratch file to a [`Calibration`].

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use base::{ByteCount, Nanos};
use env::{Env, ShutdownSignal};
use governor::DelayHistogram;
use serde::Serialize;

use super::Calibration;
use super::curve::{self, Rate};
use super::load::{Load, Outcome};
use super::plan::{Access, LARGEST, Operation, PAGE, Plan, Series};
use super::scratch::{Scratch, whole_pieces};

/// How a volume is measured.
#[derive(Clone, Debug)]
pub struct MeasureOptions {
    pub plan: Plan,
    /// Bytes that the scratch file takes; rounded up to a multiple of 256 KiB. Should be more than the device caches.
    pub scratch_len: ByteCount,
    /// Threads that put load on, each with a ring of its own, as the server's workers; at least 1.
    pub workers: u32,
}

/// How far a measurement is.
#[derive(Clone, Copy, Debug)]
pub enum Progress {
    /// The scratch file is written.
    Filling { done: ByteCount, of: ByteCount },
    /// Stretches are measured; how much of their time is over.
    Measuring { done: Nanos, of: Nanos },
}

/// Why a volume was not measured. Nothing is left on it.
#[derive(Debug)]
pub enum MeasureError {
    /// The operator asked for the end.
    Interrupted,
    /// There is too little space for the scratch file and as much for others.
    NoSpace { dir: PathBuf, wanted: ByteCount, available: ByteCount },
    /// The file system takes no direct I/O.
    NotDirect { dir: PathBuf, file_system: String },
    /// A request or the scratch file failed.
    Io { what: &'static str, dir: PathBuf, error: io::Error },
    /// Not one request was completed while it counted.
    Stalled { dir: PathBuf },
}

impl fmt::Display for MeasureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MeasureError::Interrupted => f.write_str("interrupted"),
            MeasureError::NoSpace { dir, wanted, available } => write!(
                f,
                "{} has {available} free, and {wanted} are needed: twice the scratch file, since as much is left to others; \
                 free some, or take a smaller --scratch",
                dir.display()
            ),
            MeasureError::NotDirect { dir, file_system } => write!(
                f,
                "the file system of {} ({file_system}) refuses O_DIRECT: what could be measured there is the system's page \
                 cache, not a device, so nothing is; a server there works without a bound on what is in flight",
                dir.display()
            ),
            MeasureError::Io { what, dir, error } => write!(f, "{what} in {}: {error}", dir.display()),
            MeasureError::Stalled { dir } => write!(
                f,
                "the device of {} completed nothing while it was measured: is it all right? Otherwise try with more --seconds",
                dir.display()
            ),
        }
    }
}
impl std::error::Error for MeasureError {}

/// What one kind of request did at one depth.
#[derive(Clone, Debug, Serialize)]
pub struct MeasuredPoint {
    pub depth: u32,
    /// Requests a second, as a quarter of the rounds reached.
    pub per_second: f64,
    pub latency_us_p50: u64,
    pub latency_us_p99: u64,
}

/// What one kind of request did at all depths.
#[derive(Clone, Debug, Serialize)]
pub struct MeasuredSeries {
    pub access: Access,
    pub operation: Operation,
    /// Bytes of one request.
    pub block: u64,
    pub points: Vec<MeasuredPoint>,
}

impl MeasuredSeries {
    fn curve(&self) -> Vec<Rate> {
        let points = self.points.iter();
        points.map(|point| Rate { depth: point.depth, per_second: point.per_second }).collect()
    }
}

/// All that was measured on a volume.
#[derive(Clone, Debug, Serialize)]
pub struct Measurement {
    pub calibration: Calibration,
    pub series: Vec<MeasuredSeries>,
}

/// Measures the volume of `dir`, which exists. Blocks for the plan's time and what the scratch file takes. What others do on the
/// device meanwhile makes it look slower. Nothing is stored, and nothing is left behind.
///
/// # Errors
/// See [`MeasureError`].
pub fn measure(
    env: &Env,
    dir: &Path,
    options: &MeasureOptions,
    stop: &ShutdownSignal,
    progress: &mut dyn FnMut(Progress),
) -> Result<Measurement, MeasureError> {
    let begin = env.now();
    let failed = |what| move |error| MeasureError::Io { what, dir: dir.to_owned(), error };
    let device = env.disk.device_of(dir).map_err(failed("asking for the device"))?;
    let scratch = Scratch::create(env, dir, whole_pieces(options.scratch_len), stop, progress)?;
    let series = run_plan(env, &scratch, options, stop, progress, &failed("measuring"))?;
    let surroundings = Surroundings {
        workers: options.workers,
        measured_at: env.clock.unix_micros(),
        seconds: (env.now() - begin).as_secs_f64().ceil() as u64,
        io_backend: env.io_backend().to_owned(),
        device: (&device).into(),
    };
    let calibration = conclude(&series, surroundings);
    let calibration = calibration.ok_or_else(|| MeasureError::Stalled { dir: dir.to_owned() })?;
    Ok(Measurement { calibration, series })
}

/// The rounds of one point.
#[derive(Default)]
struct Rounds {
    per_second: Vec<f64>,
    latency: DelayHistogram,
}

impl Rounds {
    fn add(&mut self, outcome: &Outcome) {
        self.per_second.push(outcome.per_second);
        self.latency.merge(&outcome.latency);
    }

    fn point(mut self, depth: u32) -> MeasuredPoint {
        // Descending: the upper quartile.
        self.per_second.sort_unstable_by(|a, b| b.total_cmp(a));
        let us = |part| self.latency.percentile(part).0.div_ceil(1_000);
        MeasuredPoint {
            depth,
            per_second: self.per_second[(self.per_second.len() - 1) / 4],
            latency_us_p50: us(0.5),
            latency_us_p99: us(0.99),
        }
    }
}

fn run_plan(
    env: &Env,
    scratch: &Scratch,
    options: &MeasureOptions,
    stop: &ShutdownSignal,
    progress: &mut dyn FnMut(Progress),
    failed: &dyn Fn(io::Error) -> MeasureError,
) -> Result<Vec<MeasuredSeries>, MeasureError> {
    let plan = &options.plan;
    let mut rounds: Vec<Vec<Rounds>> =
        plan.series.iter().map(|series| series.depths.iter().map(|_| Rounds::default()).collect()).collect();
    let cursor = Arc::new(AtomicU64::new(0));
    let mut done = Nanos(0);
    for stretch in plan.stretches() {
        if stop.is_requested() {
            return Err(MeasureError::Interrupted);
        }
        let series = &plan.series[stretch.series];
        let load = Load {
            file: scratch.file.clone(),
            len: scratch.len,
            access: series.access,
            operation: series.operation,
            block: series.block,
            depth: series.depths[stretch.point],
            length: stretch.length,
            cursor: cursor.clone(),
        };
        let outcome = load.run(env, options.workers).map_err(failed)?;
        rounds[stretch.series][stretch.point].add(&outcome);
        done += stretch.length;
        progress(Progress::Measuring { done, of: plan.length });
    }
    Ok(plan.series.iter().zip(rounds).map(|(series, rounds)| measured(series, rounds)).collect())
}

fn measured(series: &Series, rounds: Vec<Rounds>) -> MeasuredSeries {
    let points = series.depths.iter().zip(rounds).map(|(depth, rounds)| rounds.point(*depth));
    MeasuredSeries {
        access: series.access,
        operation: series.operation,
        block: series.block.0,
        points: points.collect(),
    }
}

/// What a calibration says besides numbers that were measured.
struct Surroundings {
    workers: u32,
    measured_at: i64,
    seconds: u64,
    io_backend: String,
    device: super::MeasuredDevice,
}

/// What follows from the curves; `None` if the device completed nothing.
fn conclude(series: &[MeasuredSeries], surroundings: Surroundings) -> Option<Calibration> {
    let find = |access, operation, block: ByteCount| {
        series
            .iter()
            .find(|s| s.access == access && s.operation == operation && s.block == block.0)
            .expect("every plan has it")
    };
    let (read, write) =
        (find(Access::Random, Operation::Read, PAGE), find(Access::Random, Operation::Write, PAGE));
    let (read, write) = (read.curve(), write.curve());
    let (of_reads, of_writes) = (curve::saturation(&read)?, curve::saturation(&write)?);
    let widest = if of_reads.depth >= of_writes.depth { of_reads } else { of_writes };
    let whole = |rate: f64| rate.round() as u64;
    // A few depths only: nothing to smooth.
    let bandwidth = |operation| {
        let rates = find(Access::Sequential, operation, LARGEST).points.iter().map(|point| point.per_second);
        whole(rates.fold(0.0, f64::max) * LARGEST.0 as f64)
    };
    let durable = &find(Access::Sequential, Operation::DurableWrite, PAGE).points[0];
    assert_eq!(durable.depth, 1, "a log writes one after the other");
    Some(Calibration {
        depth: widest.depth,
        saturated: widest.reached,
        iops_read: whole(curve::rate_at(&read, widest.depth)).max(1),
        iops_write: whole(curve::rate_at(&write, widest.depth)).max(1),
        bytes_per_second_read: bandwidth(Operation::Read),
        bytes_per_second_write: bandwidth(Operation::Write),
        durable_writes_per_second: whole(durable.per_second),
        durable_write_us_p50: durable.latency_us_p50,
        durable_write_us_p99: durable.latency_us_p99,
        measured_at: surroundings.measured_at,
        seconds: surroundings.seconds,
        workers: surroundings.workers,
        io_backend: surroundings.io_backend,
        device: surroundings.device,
    })
}
