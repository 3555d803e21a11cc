//! Measurements of checkpoints. Run with `cargo test --release -p storage -- --ignored --nocapture cost_of`.
#![expect(clippy::disallowed_methods, reason = "a measurement of the real machine")]

use std::time::Instant;

use env::{Env, block_on};

use super::fixture::{TENANT, root_of};
use crate::{Checkpoint, DataFile, ReadPages, WritePages, verify_file};

#[test]
#[ignore = "a measurement"]
fn cost_of_checkpoints_on_a_real_disk() {
    const PAGES: usize = 50_000;
    let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory on a disk");
    let path = dir.path().join("16.rowhouse");
    let env = Env::real();
    println!("backend {}", env.io_backend());
    let (mut file, mut map) = block_on(&env, DataFile::create(&env, &path, TENANT)).expect("created");
    let pages: Vec<_> = (0..PAGES).map(|_| map.allocate(None)).collect();
    let mut commit = base::CommitNo(0);
    for (what, step) in
        [("all", 1), ("all again", 1), ("every 10th", 10), ("every 1000th", 1000), ("one", PAGES)]
    {
        for no in pages.iter().skip(step % PAGES).step_by(step) {
            map.page_mut(*no).expect("resident")[17] += 1;
        }
        commit = commit.next();
        let begun = Instant::now();
        let mut checkpoint = Checkpoint::begin(&mut map, &mut file, root_of(commit)).expect("no other runs");
        let begin = begun.elapsed();
        let ran = Instant::now();
        block_on(&env, checkpoint.write()).expect("the disk works");
        let write = ran.elapsed();
        let counts = block_on(&env, checkpoint.publish()).expect("the disk works");
        let run = ran.elapsed();
        let finishing = Instant::now();
        checkpoint.finish(&mut map, &mut file);
        let finish = finishing.elapsed();
        let mib = (counts.pages * 8192) as f64 / f64::from(1 << 20);
        println!(
            "{what}: {} pages, {} nodes: begin {begin:?}, write {write:?}, in all {run:?} ({:.0} MiB/s), finish {finish:?}",
            counts.pages,
            counts.map_nodes,
            mib / run.as_secs_f64(),
        );
    }
    println!("resident {} for {PAGES} pages", map.resident_bytes());
    drop((file, map));
    let opening = Instant::now();
    let (file, mut map, _) = block_on(&env, DataFile::open(&env, &path, TENANT)).expect("opens");
    println!("open: {:?}, resident {}", opening.elapsed(), map.resident_bytes());
    let reading = Instant::now();
    block_on(&env, async {
        for no in pages.iter().step_by(10) {
            let from = map.locate(*no).expect("known").expect("absent");
            let run = map.run_from(from, 0);
            map.load(file.reader().read_run(run, None).await.expect("reads"));
            map.page(*no).expect("resident");
        }
    });
    println!("miss: {:?} each", reading.elapsed() / (PAGES as u32 / 10));
    let verifying = Instant::now();
    let report = verify_file(&env, &path, &mut |_, _| {}, &mut |_, _| {}).expect("can be checked");
    println!(
        "verify: {:?}, {} slots of {}, clean {}",
        verifying.elapsed(),
        report.slots_used,
        report.slots,
        report.is_clean()
    );
}
