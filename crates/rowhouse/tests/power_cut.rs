//! The power goes off under the real program: a server puts down what it writes and flushes (`--record-io`), and the recording is replayed up to
//! moments of the work, with what had been flushed by then and any part of what had not. What was acknowledged is there whenever that was.
//! `bench/power_cut.py` does many of it under TPC-C.

mod common;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use common::ledger::{self, CLIENTS};
use common::{Server, check_output, run, verify};
use env::sim::{PowerCut, Replay};

const TENANTS: [&str; 2] = ["acme", "other"];
const OPTIONS: &[&str] = &["--workers", "2", "--memory", "8MiB"];

/// Moments among which one is looked for when something had been written and not flushed.
const FINE_CUTS: u64 = 400;
/// How long they work.
const WORK: Duration = Duration::from_millis(1500);

/// Cuts of a run; `ROWHOUSE_POWER_CUTS` asks for more.
fn cuts() -> usize {
    std::env::var("ROWHOUSE_POWER_CUTS").ok().and_then(|text| text.parse().ok()).unwrap_or(6)
}

/// The commits that one client was told of, each with the length that the recording had then: a cut there or later must keep it.
type Told = Vec<(u64, i64)>;

fn recorded(recording: &Path) -> u64 {
    std::fs::metadata(recording).expect("there is a recording").len()
}

/// A directory with tenants and their empty ledgers, whose server has ended in order.
fn make(data: &Path) {
    let mut server = Server::on(data, OPTIONS);
    run(async {
        for tenant in TENANTS {
            server.create_tenant(tenant).await;
            ledger::make(&server.owner(tenant).await, CLIENTS).await;
        }
    });
    assert!(server.terminate().success());
}

/// Has pages written and dropped until the server is gone.
async fn evict(url: String) {
    let Ok(admin) = common::connect(&url).await else { return };
    for tenant in TENANTS.iter().cycle() {
        // It may be refused beside what works.
        let _ = admin.batch_execute(&format!("SELECT rowhouse.evict('{tenant}')")).await;
        if admin.is_closed() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Works on the directory until the server is killed, all of it recorded. Gives the length of the recording when the server had started, and what the
/// clients of each tenant were told.
fn work(data: &Path, recording: &Path) -> (u64, Vec<Vec<Told>>) {
    let option = recording.display().to_string();
    let mut server = Server::on(data, &[OPTIONS, &["--record-io", option.as_str()]].concat());
    server.expect_warnings();
    let started = recorded(recording);
    let post = |tenant: &str, client: i32| {
        let (url, recording) = (server.url(tenant, tenant), recording.to_owned());
        std::thread::spawn(move || {
            let mut told = Told::new();
            run(ledger::post(url, client, 1, |number| told.push((recorded(&recording), number))));
            told
        })
    };
    let clients = TENANTS.map(|tenant| (0..CLIENTS).map(|client| post(tenant, client)).collect::<Vec<_>>());
    let url = server.url("admin", "rowhouse");
    let evictor = std::thread::spawn(move || run(evict(url)));
    std::thread::sleep(WORK);
    server.kill();
    evictor.join().expect("the administrator ends");
    let told = clients.map(|clients| {
        clients.into_iter().map(|client| client.join().expect("a client ends")).collect::<Vec<_>>()
    });
    (started, told.into())
}

/// By the end of so many bytes of the recording, the last number that each client of each tenant had been told of.
fn by(at: u64, told: &[Vec<Told>]) -> Vec<Vec<i64>> {
    let last =
        |told: &Told| told.iter().take_while(|(len, _)| *len <= at).last().map_or(0, |(_, number)| *number);
    told.iter().map(|clients| clients.iter().map(last).collect()).collect()
}

/// Moments of a recording of `end` bytes, in their order: one amid the start of the server, and of the others every second one when a client had just been
/// told of a commit.
fn moments(started: u64, end: u64, told: &[Vec<Told>]) -> Vec<u64> {
    let clients: Vec<&Told> = told.iter().flatten().collect();
    let count = cuts();
    let at = |n: usize| {
        let of = clients[n % clients.len()];
        if n % 2 == 0 && !of.is_empty() {
            of[of.len() * n / count].0
        } else {
            end * (n as u64 + 1) / count as u64
        }
    };
    let mut moments: Vec<u64> = (0..count).map(at).chain([started / 2]).collect();
    moments.sort_unstable();
    moments
}

/// Whether a power cut has left all that was acknowledged; what is wrong otherwise.
fn check(left: &Path, acknowledged: &[Vec<i64>]) -> Result<(), String> {
    let (ended_well, said) = verify(&["--data", &left.display().to_string()]);
    if !ended_well {
        return Err(said);
    }
    let mut server = Server::launch(left, OPTIONS)?;
    server.expect_warnings();
    run(audit(&server, acknowledged))
}

async fn audit(server: &Server, acknowledged: &[Vec<i64>]) -> Result<(), String> {
    for (tenant, acknowledged) in TENANTS.iter().zip(acknowledged) {
        ledger::audit(server, tenant, acknowledged).await?;
    }
    Ok(())
}

#[test]
fn acknowledged_commits_survive_power_cuts_and_a_disk_that_lies_is_found_out() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let [data, base, recording] = ["data", "base", "recording"].map(|name| dir.path().join(name));
    make(&data);
    check_output(Command::new("cp").args(["-r", "--sparse=always"]).args([&data, &base]));
    let (started, told) = work(&data, &recording);
    let end = recorded(&recording);
    let count: usize = told.iter().flatten().map(Vec::len).sum();
    assert!(count > 50, "only {count} commits");

    let open = || Replay::open(&recording, &data, Some(&base)).expect("the recording can be read");
    let (mut replay, mut undecided) = (open(), 0);
    for (number, at) in moments(started, end, &told).into_iter().enumerate() {
        let policy = [PowerCut::Writes, PowerCut::Random, PowerCut::DropUnsynced][number % 3];
        let image = replay.cut(at, policy, number as u64).expect("the recording fits its base");
        undecided += image.undecided();
        let left = dir.path().join(format!("cut-{number}"));
        image.write_to(&left).expect("the image can be written");
        if let Err(wrong) = check(&left, &by(at, &told)) {
            let kept = dir.keep();
            panic!("cut {number}, at {at} of {end}, {policy:?}: {wrong}\nall is kept in {}", kept.display());
        }
        std::fs::remove_dir_all(&left).expect("the image can be removed");
    }
    // Where all that was written happened to be flushed at each of them, a moment at which it was not is looked for.
    if undecided == 0 {
        let mut replay = open();
        let mut steps = (1..=FINE_CUTS).map(|step| started + (end - started) * step / FINE_CUTS);
        let cut = |at| (at, replay.cut(at, PowerCut::Writes, at).expect("the recording fits its base"));
        let found = steps.by_ref().map(cut).find(|(_, image)| image.undecided() > 0);
        let (at, image) = found.expect("all that was written had been flushed at whatever moment");
        let left = dir.path().join("undecided");
        image.write_to(&left).expect("the image can be written");
        check(&left, &by(at, &told)).expect("what was acknowledged is there");
    }

    let image =
        open().ignoring_flushes().cut(end, PowerCut::DropUnsynced, 0).expect("the recording fits its base");
    let left = dir.path().join("lied-to");
    image.write_to(&left).expect("the image can be written");
    let wrong = check(&left, &by(end, &told)).expect_err("no flush was done, and nothing is missing");
    println!("a disk that lies: {wrong}");
}
