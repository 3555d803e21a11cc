//! Measurements of simulated devices whose parallelism is known, and what is left of those that fail.

use std::num::NonZeroUsize;
use std::path::Path;

use base::{ByteCount, Nanos};
use env::sim::{DiskFault, DiskOp, Latency, PowerCut, Speeds, World};
use env::{Env, ShutdownSignal};

use super::super::plan::{LARGEST, PAGE};
use super::super::scratch::SCRATCH_FILE;
use super::*;

const DIR: &str = "/data";
const PAGE_DEPTHS: [u32; 12] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64];

/// What a device of these tests completes a second when it is busy: small enough to be simulated.
const IOPS: u64 = 10_000;

/// A device that works on `parallel` requests at a time, each of which takes 95 to 105 % of what makes [`IOPS`] together.
fn world(parallel: Option<usize>) -> (World, Env) {
    let world = World::new(3);
    let env = world.env();
    env.disk.create_dir_all(DIR.as_ref()).unwrap();
    let mean = parallel.unwrap_or(64) as u64 * 1_000_000_000 / IOPS;
    let latency = Latency { min: Nanos(mean / 100 * 95), max: Nanos(mean / 100 * 105) };
    let disk_parallel = parallel.and_then(NonZeroUsize::new);
    let network = Speeds::default().network;
    world.set_speeds(Speeds {
        read: latency,
        write: latency,
        sync: latency,
        network,
        disk_parallel,
        ..Speeds::default()
    });
    (world, env)
}

fn options(workers: u32) -> MeasureOptions {
    MeasureOptions {
        plan: Plan::of(Nanos::from_secs(3), &PAGE_DEPTHS, &[PAGE, LARGEST], &[1, 4]),
        scratch_len: ByteCount::from_mib(1),
        workers,
    }
}

/// A measurement of which only matters that it ends.
fn in_short(env: &Env) -> Result<Measurement, MeasureError> {
    let plan = Plan::of(Nanos::from_millis(300), &[1, 4], &[PAGE, LARGEST], &[2]);
    let options = MeasureOptions { plan, ..options(2) };
    measure(env, DIR.as_ref(), &options, &ShutdownSignal::default(), &mut |_| {})
}

fn measured(env: &Env, workers: u32) -> Result<Measurement, MeasureError> {
    measure(env, DIR.as_ref(), &options(workers), &ShutdownSignal::default(), &mut |_| {})
}

/// Within a tenth: the last writes of a stretch have the device to themselves.
fn is_about(found: u64, modelled: u64) -> bool {
    found.abs_diff(modelled) <= modelled / 10
}

#[test]
fn the_depth_that_is_found_is_the_one_that_was_modelled() {
    for (parallel, workers) in [(1, 2), (6, 3), (32, 1)] {
        let (_world, env) = world(Some(parallel));
        let found = measured(&env, workers).unwrap().calibration;
        assert_eq!((found.depth as usize, found.saturated), (parallel, true), "{found:?}");
        assert!(is_about(found.iops_read, IOPS) && is_about(found.iops_write, IOPS), "{found:?}");
        let bandwidth = LARGEST.0 * IOPS * (parallel as u64).min(4) / parallel as u64;
        assert!(is_about(found.bytes_per_second_read, bandwidth), "{found:?}");
        assert!(is_about(found.bytes_per_second_write, bandwidth), "{found:?}");
        let alone = IOPS / parallel as u64;
        assert!(is_about(found.durable_writes_per_second, alone), "{found:?}");
        assert!(is_about(found.durable_write_us_p50, 1_000_000 / alone), "{found:?}");
        assert!(found.durable_write_us_p99 >= found.durable_write_us_p50, "{found:?}");
        assert_eq!((found.workers, found.io_backend.as_str()), (workers, "simulated"));
        let device = env.disk.device_of(DIR.as_ref()).unwrap();
        assert_eq!(found.staleness(env.clock.unix_micros(), &device, env.io_backend()), None);
    }
}

#[test]
fn a_device_without_a_bound_is_said_to_have_none_in_reach() {
    let (_world, env) = world(None);
    let found = measured(&env, 2).unwrap().calibration;
    assert_eq!((found.depth, found.saturated), (64, false), "{found:?}");
}

#[test]
fn latency_only_grows_past_the_depth() {
    let (_world, env) = world(Some(8));
    let measurement = measured(&env, 2).unwrap();
    let reads = &measurement.series[0].points;
    let p50 = |depth: u32| reads.iter().find(|point| point.depth == depth).unwrap().latency_us_p50;
    assert!(is_about(p50(8), p50(1)), "{reads:?}");
    assert!(is_about(p50(64) / 8, p50(8)), "{reads:?}");
}

#[test]
fn all_that_was_planned_is_measured_and_progress_ends_at_its_end() {
    let (_world, env) = world(Some(4));
    let options = options(1);
    let (mut filled, mut last) = (ByteCount(0), Nanos(0));
    let measurement =
        measure(&env, DIR.as_ref(), &options, &ShutdownSignal::default(), &mut |progress| match progress {
            Progress::Filling { done, of } => {
                assert!(done > filled && of == ByteCount::from_mib(1));
                filled = done;
            }
            Progress::Measuring { done, of } => {
                assert!(done > last && done <= of);
                last = done;
            }
        });
    assert_eq!(filled, ByteCount::from_mib(1));
    assert!(last.0 > options.plan.length.0 / 100 * 99, "{last:?}");
    let measurement = measurement.unwrap();
    let planned = options.plan.series.iter().map(|series| series.depths.clone());
    let found = measurement.series.iter().map(|s| s.points.iter().map(|point| point.depth).collect());
    assert!(planned.eq(found.collect::<Vec<Vec<u32>>>()));
    let all = measurement.series.iter().flat_map(|series| &series.points);
    assert!(all.clone().all(|point| point.per_second > 0.0 && point.latency_us_p50 > 0), "{measurement:?}");
}

#[test]
fn what_others_do_on_the_device_does_not_change_the_depth() {
    let (world, env) = world(Some(8));
    let (usual, mut moment) = (world.speeds(), 0);
    let slower = |latency: Latency| Latency { min: Nanos(latency.min.0 * 5), max: Nanos(latency.max.0 * 9) };
    // Six stretches in ten are disturbed, which ones changes from round to round: a median would follow them.
    let mut disturb = |_| {
        moment += 1;
        let disturbed = Speeds { read: slower(usual.read), write: slower(usual.write), ..usual };
        world.set_speeds(if moment % 10 < 6 { disturbed } else { usual });
    };
    let options = options(2);
    assert!(!options.plan.stretches().count().is_multiple_of(10));
    let found = measure(&env, DIR.as_ref(), &options, &ShutdownSignal::default(), &mut disturb).unwrap();
    assert_eq!((found.calibration.depth, found.calibration.saturated), (8, true), "{found:?}");
    assert!(is_about(found.calibration.iops_read, IOPS), "{found:?}");
}

/// Nothing of a measurement is on the disk, and nothing comes back when the power goes off.
fn nothing_is_left(world: &World, env: &Env) {
    assert_eq!(env.disk.list(DIR.as_ref()).unwrap(), []);
    assert_eq!(world.disk_used(), ByteCount(0));
    world.power_cut(PowerCut::Random);
    assert!(!env.disk.exists(&Path::new(DIR).join(SCRATCH_FILE)));
}

#[test]
fn the_scratch_file_is_gone_afterwards() {
    let (world, env) = world(Some(4));
    in_short(&env).unwrap();
    nothing_is_left(&world, &env);
}

#[test]
fn the_scratch_file_is_gone_after_a_failure_wherever_it_was() {
    for op in [DiskOp::Name, DiskOp::Resize, DiskOp::Write, DiskOp::Sync, DiskOp::Read] {
        for after in [0, 1, 30] {
            let (world, env) = world(Some(4));
            world.inject(DiskFault { op, path_contains: SCRATCH_FILE.to_owned(), after, errno: Some(5) });
            let outcome = in_short(&env);
            // Of names and lengths there are fewer changes.
            let struck = world.faults_struck() > 0;
            assert!(struck || after > 0, "{op:?} after {after}");
            match outcome {
                Err(MeasureError::Io { error, .. }) => assert_eq!(error.raw_os_error(), Some(5)),
                Ok(_) => assert!(!struck, "{op:?} after {after}"),
                Err(other) => panic!("{op:?} after {after}: {other}"),
            }
            if op == DiskOp::Name && struck {
                // The name itself could not be taken away: an empty file, which the next measurement takes.
                let left = env.disk.list(DIR.as_ref()).unwrap();
                assert!(left.iter().all(|entry| entry.name == SCRATCH_FILE && entry.len == ByteCount(0)));
                in_short(&env).unwrap();
            }
            nothing_is_left(&world, &env);
        }
    }
}

#[test]
fn a_volume_short_of_space_is_left_alone() {
    let (world, env) = world(Some(4));
    world.set_disk_capacity(ByteCount::from_mib(2));
    in_short(&env).unwrap();
    world.set_disk_capacity(ByteCount((2 << 20) - 1));
    let changes = world.disk_changes();
    let error = in_short(&env).unwrap_err();
    assert!(matches!(error, MeasureError::NoSpace { .. }), "{error}");
    assert!(error.to_string().contains("2MiB are needed"), "{error}");
    assert_eq!(world.disk_changes(), changes);
}

#[test]
fn a_file_system_without_direct_io_is_told_and_not_measured() {
    let (world, env) = world(Some(4));
    world.refuse_direct();
    let error = in_short(&env).unwrap_err();
    assert!(matches!(error, MeasureError::NotDirect { .. }), "{error}");
    assert!(error.to_string().contains("O_DIRECT") && error.to_string().contains("simulated"), "{error}");
    nothing_is_left(&world, &env);
}

#[test]
fn an_interrupted_measurement_leaves_nothing() {
    // While the file is filled, and while it is measured.
    for moment in [0, 6] {
        let (world, env) = world(Some(4));
        let stop = ShutdownSignal::default();
        let mut seen = 0;
        let outcome = measure(&env, DIR.as_ref(), &options(2), &stop, &mut |_| {
            if seen == moment {
                stop.request();
            }
            seen += 1;
        });
        assert!(matches!(outcome, Err(MeasureError::Interrupted)));
        assert_eq!(seen, moment + 1, "it ends at the next occasion");
        nothing_is_left(&world, &env);
    }
}

#[test]
fn two_measurements_of_one_seed_agree() {
    let one = || {
        let (_world, env) = world(Some(6));
        measured(&env, 2).unwrap().calibration
    };
    assert_eq!(one(), one());
}
