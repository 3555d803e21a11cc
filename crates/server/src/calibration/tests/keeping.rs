//! The file, what makes a calibration stale, and what a server finds at its start.

use std::path::Path;

use base::ByteCount;
use env::sim::{DiskFault, DiskOp, PowerCut, World};
use env::{Env, OpenMode};

use super::*;
use crate::ServerConfig;

const DIR: &str = "/data";

fn world() -> (World, Env) {
    let world = World::new(1);
    let env = world.env();
    env.disk.create_dir_all(DIR.as_ref()).unwrap();
    (world, env)
}

fn found(env: &Env) -> Result<Calibration, NotCalibrated> {
    load(&*env.disk, DIR.as_ref())
}

fn write_text(env: &Env, text: &[u8]) {
    env.disk.write_small_atomic(&Path::new(DIR).join(CALIBRATION_FILE), text, 0o600).unwrap();
}

#[test]
fn what_is_kept_is_found_after_a_power_cut() {
    let (world, env) = world();
    assert_eq!(found(&env), Err(NotCalibrated::Missing));
    store(&*env.disk, DIR.as_ref(), &calibration()).unwrap();
    world.power_cut(PowerCut::DropUnsynced);
    assert_eq!(found(&env), Ok(calibration()));
    let slower = Calibration { iops_read: 1, ..calibration() };
    store(&*env.disk, DIR.as_ref(), &slower).unwrap();
    assert_eq!(found(&env), Ok(slower));
}

#[test]
fn a_calibration_that_cannot_be_written_leaves_the_one_before() {
    for op in [DiskOp::Write, DiskOp::Sync, DiskOp::Name] {
        let (world, env) = world();
        store(&*env.disk, DIR.as_ref(), &calibration()).unwrap();
        world.inject(DiskFault::eio(op, CALIBRATION_FILE));
        let other = Calibration { depth: 3, ..calibration() };
        store(&*env.disk, DIR.as_ref(), &other).unwrap_err();
        assert_eq!(found(&env), Ok(calibration()), "{op:?}");
    }
}

#[test]
fn no_damaged_file_passes_for_a_calibration() {
    let (world, env) = world();
    store(&*env.disk, DIR.as_ref(), &calibration()).unwrap();
    let path = Path::new(DIR).join(CALIBRATION_FILE);
    let whole = env.disk.read_small(&path).unwrap();
    for offset in 0..whole.len() as u64 {
        for bit in 0..8 {
            world.flip_bit(&path, offset, bit);
            match found(&env) {
                Err(NotCalibrated::Damaged(_) | NotCalibrated::OtherVersion { .. }) => {}
                // A hexadecimal digit may be a small or a capital letter.
                Ok(same) if bit == 5 && offset < 40 => assert_eq!(same, calibration()),
                other => panic!("bit {bit} of byte {offset}: {other:?}"),
            }
            world.flip_bit(&path, offset, bit);
        }
    }
    for len in 0..whole.len() {
        write_text(&env, &whole[..len]);
        assert!(
            matches!(found(&env), Err(NotCalibrated::Damaged(_))),
            "cut to {len} bytes: {:?}",
            found(&env)
        );
    }
    write_text(&env, &vec![b' '; 1 << 20]);
    assert_eq!(found(&env), Err(NotCalibrated::Damaged("it is too long")));
}

/// A file with a checksum that fits.
fn sealed(version: u32, body: &str) -> Vec<u8> {
    format!("rowhouse calibration {version} {:08x}\n{body}", crc32c::crc32c(body.as_bytes())).into_bytes()
}

#[test]
fn another_version_and_absurd_numbers_are_told() {
    let (_world, env) = world();
    write_text(&env, &sealed(2, "{}"));
    assert_eq!(found(&env), Err(NotCalibrated::OtherVersion { found: 2 }));
    write_text(&env, &sealed(1, "{}"));
    assert_eq!(found(&env), Err(NotCalibrated::Damaged("it lacks what a calibration has")));
    let absurd = [
        (Calibration { depth: 0, ..calibration() }, "its depth is zero"),
        (Calibration { iops_read: 0, ..calibration() }, "its rate is zero"),
        (Calibration { iops_write: 0, ..calibration() }, "its rate is zero"),
    ];
    for (absurd, why) in absurd {
        write_text(&env, &sealed(1, &serde_json::to_string(&absurd).unwrap()));
        assert_eq!(found(&env), Err(NotCalibrated::Damaged(why)));
    }
}

#[test]
fn an_unreadable_file_is_told_apart_from_none() {
    let (world, env) = world();
    store(&*env.disk, DIR.as_ref(), &calibration()).unwrap();
    world.inject(DiskFault::eio(DiskOp::Read, CALIBRATION_FILE));
    assert!(matches!(found(&env), Err(NotCalibrated::Unreadable(_))));
    assert_eq!(found(&env), Ok(calibration()));
}

#[test]
fn a_calibration_is_stale_on_another_device_by_another_backend_and_after_ninety_days() {
    const DAY: i64 = 86_400_000_000;
    let stale =
        |days: i64, device: &Device| calibration().staleness(NEW_YEAR + days * DAY, device, "io_uring");
    let same = device();
    assert_eq!(stale(0, &same), None);
    assert_eq!(stale(90, &same), None);
    assert_eq!(stale(91, &same), Some(Staleness::Age { days: 91 }));
    assert_eq!(stale(-400, &same), None, "a clock that was set back");
    let is_other = |device: Device| matches!(stale(0, &device), Some(Staleness::Device { .. }));
    assert!(!is_other(Device { number: "254:16".into(), ..same.clone() }), "numbers change at a restart");
    assert!(is_other(Device { file_system_id: 7, ..same.clone() }));
    assert!(is_other(Device { file_system: "xfs".into(), ..same.clone() }));
    assert!(!is_other(Device { len: ByteCount(109 << 30), ..same.clone() }));
    assert!(is_other(Device { len: ByteCount(111 << 30), ..same.clone() }));
    assert!(is_other(Device { len: ByteCount(89 << 30), ..same.clone() }));
    assert!(!is_other(Device { file_system_id: 0, ..same.clone() }), "told by its number where it has no id");
    assert!(is_other(Device { file_system_id: 0, number: "8:0".into(), ..same.clone() }));
    let by_epoll = calibration().staleness(NEW_YEAR, &same, "epoll");
    assert!(matches!(by_epoll, Some(Staleness::Backend { .. })));
    assert_eq!(calibration().bytes_per_second(), 1_500_000_000);
}

#[test]
fn a_server_finds_the_calibrations_of_all_its_volumes() {
    let (_world, env) = world();
    let fast = Path::new("/fast");
    let logs = Path::new("/logs");
    for dir in [fast, logs] {
        env.disk.create_dir_all(dir).unwrap();
    }
    let here = env.disk.device_of(fast).unwrap();
    let io_backend = env.io_backend().to_owned();
    let fresh = Calibration { device: (&here).into(), io_backend, ..calibration() };
    store(&*env.disk, fast, &fresh).unwrap();
    store(&*env.disk, logs, &calibration()).unwrap();
    let mut config = ServerConfig::new(DIR);
    config.volumes = vec![("fast".to_owned(), fast.to_owned())];
    let looked = |config: &ServerConfig| VolumeCalibration::look_at_all(&env, config);
    let names = |all: &[VolumeCalibration]| all.iter().map(|one| one.volume.clone()).collect::<Vec<_>>();
    let all = looked(&config);
    assert_eq!(names(&all), ["default", "fast", "log"]);
    assert_eq!(all[2].found, Err(NotCalibrated::Missing));
    config.log_dir = Some(logs.to_owned());
    let all = looked(&config);
    assert_eq!(names(&all), ["default", "fast", "log"]);
    let now = env.clock.unix_micros();
    assert_eq!((all[0].found.clone(), all[0].staleness(now)), (Err(NotCalibrated::Missing), None));
    assert_eq!((all[1].found.clone(), all[1].staleness(now)), (Ok(fresh), None));
    assert!(matches!(all[2].staleness(now), Some(Staleness::Device { .. })));
    assert_eq!(all[2].found, Ok(calibration()), "a stale one is used all the same");
    let damaged = env.disk.open(&fast.join(CALIBRATION_FILE), OpenMode::ReadWrite, false).unwrap();
    damaged.write_at(b"?", 60).unwrap();
    assert!(matches!(looked(&config)[1].found, Err(NotCalibrated::Damaged(_))));
}
