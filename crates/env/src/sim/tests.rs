//! The simulated machine against models of what it promises.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use base::{ByteCount, Nanos};
use proptest::prelude::*;

use super::*;
use crate::{
    File, IO_ALIGN, IoBuf, JoinHandle, OpenMode, Reactor, Socket, block_on, sleep, sleep_until, timeout_at,
};

fn create(env: &Env, path: &str) -> File {
    let path = Path::new(path);
    env.disk.create_dir_all(path.parent().unwrap()).unwrap();
    let file = env.disk.open(path, OpenMode::Create, false).unwrap();
    env.disk.sync_dir(path.parent().unwrap()).unwrap();
    file
}

fn content(env: &Env, path: &str) -> Vec<u8> {
    env.disk.read_small(Path::new(path)).unwrap()
}

#[test]
fn time_moves_only_while_somebody_waits() {
    let world = World::new(1);
    let env = world.env();
    let woke = block_on(&env, async {
        sleep(Nanos::from_secs(3600)).await;
        crate::now()
    });
    assert_eq!(woke, Nanos::from_secs(3600));
    assert_eq!(world.now(), woke);
}

#[test]
#[should_panic(expected = "nothing is ever going to happen")]
fn waiting_for_nothing_is_found() {
    block_on(&World::new(1).env(), std::future::pending::<()>());
}

#[test]
fn only_synced_bytes_survive_and_names_need_their_own_sync() {
    let world = World::new(2);
    let env = world.env();
    let file = create(&env, "/d/kept");
    file.write_at(&[1; 2000], 0).unwrap();
    file.sync_data_blocking().unwrap();
    file.write_at(&[2; 1000], 500).unwrap();
    let unnamed = env.disk.open(Path::new("/d/unnamed"), OpenMode::CreateNew, false).unwrap();
    unnamed.write_at(b"synced", 0).unwrap();
    unnamed.sync_data_blocking().unwrap();
    world.power_cut(PowerCut::DropUnsynced);
    assert_eq!(content(&env, "/d/kept"), [1; 2000]);
    assert!(!env.disk.exists(Path::new("/d/unnamed")));
    let stale = file.write_at(&[3; 10], 0).unwrap_err();
    assert_eq!(stale.raw_os_error(), Some(libc::EIO), "files of the time before the cut are dead");
}

#[test]
fn durable_write_survives_alone() {
    let world = World::new(3);
    let env = world.env();
    let file = create(&env, "/d/f");
    block_on(&env, async {
        file.write_all_at(IoBuf::copy_of(&[7; 512]), 0).await.0.unwrap();
        file.write_all_at_durable(IoBuf::copy_of(&[8; 512]), 512).await.0.unwrap();
    });
    world.power_cut(PowerCut::DropUnsynced);
    let bytes = content(&env, "/d/f");
    assert_eq!((&bytes[..512], &bytes[512..]), (&[0; 512][..], &[8; 512][..]));
}

#[test]
fn failed_sync_leaves_its_bytes_in_doubt_for_ever() {
    let world = World::new(4);
    let env = world.env();
    let file = create(&env, "/d/f");
    file.write_at(&[1; 512], 0).unwrap();
    world.inject(DiskFault::eio(DiskOp::Sync, "/d/f"));
    assert!(file.sync_data_blocking().is_err());
    file.sync_data_blocking().unwrap();
    world.power_cut(PowerCut::DropUnsynced);
    assert_eq!(content(&env, "/d/f"), [0; 512]);
}

#[test]
fn small_file_is_old_or_new_whatever_fails() {
    let world = World::new(5);
    let env = world.env();
    env.disk.create_dir_all(Path::new("/d")).unwrap();
    let path = Path::new("/d/control");
    env.disk.write_small_atomic(path, b"old", 0o600).unwrap();
    for op in [DiskOp::Write, DiskOp::Sync, DiskOp::Name] {
        world.inject(DiskFault::eio(op, "control"));
        assert!(env.disk.write_small_atomic(path, b"newer", 0o600).is_err());
        assert_eq!(env.disk.read_small(path).unwrap(), b"old");
    }
    env.disk.write_small_atomic(path, b"newer", 0o600).unwrap();
    world.power_cut(PowerCut::DropUnsynced);
    assert_eq!(env.disk.read_small(path).unwrap(), b"newer");
}

#[test]
fn power_goes_off_at_the_counted_change() {
    let world = World::new(6);
    let env = world.env();
    let file = create(&env, "/d/f");
    file.write_at(&[1; 512], 0).unwrap();
    file.sync_data_blocking().unwrap();
    world.cut_power_after(3);
    file.write_at(&[2; 512], 0).unwrap();
    file.sync_data_blocking().unwrap();
    assert!(file.write_at(&[3; 512], 0).is_err());
    assert!(world.is_powered_off());
    assert!(file.sync_data_blocking().is_err());
    assert!(env.disk.open(Path::new("/d/f"), OpenMode::Read, false).is_err());
    world.power_cut(PowerCut::DropUnsynced);
    assert_eq!(content(&env, "/d/f"), [2; 512]);
}

#[test]
fn write_at_which_the_power_goes_off_may_arrive_in_part() {
    let mut torn = 0;
    for seed in 0..100 {
        let world = World::new(seed);
        let env = world.env();
        let file = create(&env, "/d/f");
        file.write_at(&[1; 1024], 0).unwrap();
        file.sync_data_blocking().unwrap();
        world.cut_power_after(1);
        block_on(&env, async {
            assert!(file.write_all_at_durable(IoBuf::copy_of(&[2; 1024]), 0).await.0.is_err());
        });
        world.power_cut(PowerCut::Random);
        let bytes = content(&env, "/d/f");
        assert!(bytes.chunks(512).all(|sector| sector == [1; 512] || sector == [2; 512]), "seed {seed}");
        torn += u32::from(bytes[0] != bytes[512]);
    }
    assert!(torn > 20);
}

#[test]
fn most_writes_arrive_whole_or_not_at_all_in_any_order() {
    let (mut later_alone, mut torn) = (0, 0);
    for seed in 0..300 {
        let world = World::new(seed);
        let env = world.env();
        let file = create(&env, "/d/f");
        file.write_at(&[1; 16_384], 0).unwrap();
        file.sync_data_blocking().unwrap();
        file.write_at(&[2; 8192], 0).unwrap();
        file.write_at(&[3; 8192], 8192).unwrap();
        world.power_cut(PowerCut::Writes);
        let bytes = content(&env, "/d/f");
        let (first, second) = bytes.split_at(8192);
        for (part, written) in [(first, 2), (second, 3)] {
            let is_legal = |sector: &[u8]| sector == [1; 512] || sector == [written; 512];
            assert!(part.chunks(512).all(is_legal), "seed {seed}");
        }
        let is_whole = |part: &[u8]| part.iter().all(|byte| *byte == part[0]);
        torn += u32::from(!is_whole(first) || !is_whole(second));
        later_alone += u32::from(first == [1; 8192] && second == [3; 8192]);
    }
    assert!(later_alone > 10 && torn > 40, "{later_alone} without the one before, {torn} torn");
}

#[test]
fn a_sector_that_was_written_often_is_left_with_what_one_of_its_writes_made_it() {
    let mut kept = BTreeSet::new();
    for seed in 0..300 {
        let world = World::new(seed);
        let env = world.env();
        let file = create(&env, "/d/f");
        file.write_at(&[0; 512], 0).unwrap();
        file.sync_data_blocking().unwrap();
        for byte in 1..=8 {
            file.write_at(&[byte; 512], 0).unwrap();
        }
        world.power_cut(PowerCut::Writes);
        let bytes = content(&env, "/d/f");
        assert!(bytes.iter().all(|byte| *byte == bytes[0]), "seed {seed}");
        kept.insert(bytes[0]);
    }
    // The durable one, the present one, and of those between the last few.
    assert!(kept.contains(&0) && kept.contains(&8) && kept.len() > 3, "{kept:?}");
}

#[test]
fn full_disk_short_transfers_and_rot_are_seen() {
    let world = World::new(7);
    let env = world.env();
    let file = create(&env, "/d/f");
    file.write_at(&[1; 4096], 0).unwrap();
    world.set_disk_capacity(ByteCount(8192));
    let error = file.write_at(&[2; 8192], 4096).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
    for op in [DiskOp::Write, DiskOp::Read] {
        world.inject(DiskFault { op, path_contains: String::new(), after: 0, errno: None });
    }
    file.write_at(&[5; 2048], 0).unwrap();
    let mut back = [0; 2048];
    file.read_at(&mut back, 0).unwrap();
    assert_eq!(back, [5; 2048], "short transfers are continued");
    world.flip_bit(Path::new("/d/f"), 100, 3);
    file.read_at(&mut back, 0).unwrap();
    assert_eq!(back[100], 5 ^ 8);
}

#[test]
fn lock_is_exclusive_until_dropped_or_the_power_goes() {
    let world = World::new(8);
    let env = world.env();
    let lock = env.disk.lock_exclusive(Path::new("/lock")).unwrap();
    assert!(env.disk.lock_exclusive(Path::new("/lock")).is_err());
    world.power_cut(PowerCut::DropUnsynced);
    let second = env.disk.lock_exclusive(Path::new("/lock")).unwrap();
    drop(lock);
    assert!(env.disk.lock_exclusive(Path::new("/lock")).is_err(), "a dead lock's drop releases nothing");
    drop(second);
    env.disk.lock_exclusive(Path::new("/lock")).unwrap();
}

async fn echo(socket: Socket) {
    loop {
        let (received, bytes) = socket.recv(Vec::new()).await;
        if !matches!(received, Ok(n) if n > 0) || socket.send(bytes).await.0.is_err() {
            return;
        }
    }
}

fn run_echo(seed: u64) -> (u64, Nanos) {
    let world = World::new(seed);
    let env = world.env();
    block_on(&env, async {
        let listener = env.net.listen("127.0.0.1:5433".parse().unwrap()).unwrap();
        let near = env.net.connect("127.0.0.1:5433".parse().unwrap()).unwrap();
        let (far, _) = listener.accept().await.unwrap();
        let client = async {
            let sent: Vec<u8> = (0..1_000_000u32).map(|i| (i >> 6) as u8).collect();
            let receive = async {
                let mut got = Vec::new();
                while got.len() < sent.len() {
                    let (received, buf) = near.recv(got).await;
                    assert!(received.unwrap() > 0);
                    got = buf;
                }
                got
            };
            let (sending, got) = futures::join!(near.send(sent.clone()), receive);
            sending.0.unwrap();
            assert!(got == sent);
            near.shutdown(std::net::Shutdown::Write).unwrap();
            assert_eq!(near.recv(Vec::new()).await.0.unwrap(), 0);
        };
        futures::join!(client, echo(far));
    });
    (world.fingerprint(), world.now())
}

#[test]
fn echo_is_whole_and_replays_by_its_seed() {
    assert_eq!(run_echo(42), run_echo(42));
    assert_ne!(run_echo(42).0, run_echo(43).0);
}

/// The fingerprint of a world in which `said` was sent, and when it ended.
fn run_said(said: &[u8]) -> (u64, Nanos) {
    let world = World::new(42);
    let env = world.env();
    block_on(&env, async {
        let listener = env.net.listen("127.0.0.1:5433".parse().unwrap()).unwrap();
        let near = env.net.connect("127.0.0.1:5433".parse().unwrap()).unwrap();
        let (far, _) = listener.accept().await.unwrap();
        near.send(said.to_vec()).await.0.unwrap();
        let mut heard = Vec::new();
        while heard.len() < said.len() {
            let (received, bytes) = far.recv(heard).await;
            assert!(received.unwrap() > 0);
            heard = bytes;
        }
        assert_eq!(heard, said);
    });
    (world.fingerprint(), world.now())
}

#[test]
fn bytes_that_are_sent_are_in_the_fingerprint() {
    let (one, other) = (run_said(b"one and two"), run_said(b"one and ten"));
    assert_eq!(one, run_said(b"one and two"));
    assert_eq!(one.1, other.1, "as many bytes take as long");
    assert_ne!(one.0, other.0);
}

#[test]
fn broken_connections_are_reset_and_closed_ports_refuse() {
    let world = World::new(9);
    let env = world.env();
    let addr = "127.0.0.1:0".parse().unwrap();
    let listener = env.net.listen(addr).unwrap();
    let addr = listener.local_addr().unwrap();
    block_on(&env, async {
        let near = env.net.connect(addr).unwrap();
        let (far, peer) = listener.accept().await.unwrap();
        assert_eq!(peer, near.local_addr().unwrap());
        let waited = timeout_at(Some(env.now() + Nanos::from_millis(5)), far.recv(Vec::new())).await;
        assert!(waited.is_err());
        far.quiesce().await;
        near.send(b"kept".to_vec()).await.0.unwrap();
        assert_eq!(far.recv(Vec::new()).await.1, b"kept");
        world.disconnect_all();
        assert_eq!(far.recv(Vec::new()).await.0.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
        assert_eq!(near.send(vec![1]).await.0.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    });
    assert!(env.net.listen(addr).is_err(), "the port is in use");
    drop(listener);
    assert!(env.net.connect(addr).is_err());
}

#[test]
fn harness_steps_several_reactors() {
    let world = World::new(10);
    let env = world.env();
    let reactors = [Reactor::new(&env).unwrap(), Reactor::new(&env).unwrap()];
    let mut sleeps = [10, 20].map(|ms| Some(Box::pin(sleep_until(Nanos::from_millis(ms)))));
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let mut finished_at = Vec::new();
    while finished_at.len() < 2 {
        for (reactor, sleep) in reactors.iter().zip(&mut sleeps) {
            reactor.turn(Some(Nanos(0))).unwrap();
            let poll = |sleep: &mut std::pin::Pin<Box<crate::Sleep>>| sleep.as_mut().poll(&mut cx).is_ready();
            if reactor.enter(|| sleep.as_mut().is_some_and(poll)) {
                finished_at.push(world.now());
                *sleep = None;
            }
            reactor.turn(Some(Nanos(0))).unwrap();
        }
        assert!(world.advance_to_next_event() || finished_at.len() == 2);
    }
    assert_eq!(finished_at, [Nanos::from_millis(10), Nanos::from_millis(20)]);
}

#[derive(Clone, Debug)]
enum Change {
    Write { sector: u64, value: u8, sectors: u64, durable: bool },
    SetLen(u64),
    Sync,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        6 => (0..12u64, 1..=255u8, 1..4u64, prop::bool::weighted(0.2))
            .prop_map(|(sector, value, sectors, durable)| Change::Write { sector, value, sectors, durable }),
        1 => (0..12u64).prop_map(Change::SetLen),
        2 => Just(Change::Sync),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// After any changes and a power cut each sector holds its durable value or one written since, whole.
    #[test]
    fn power_cut_leaves_a_legal_image(seed: u64, changes in prop::collection::vec(change(), 1..40), drop_all: bool) {
        let world = World::new(seed);
        let env = world.env();
        let file = create(&env, "/d/f");
        // The model: for each sector the values it may hold, the durable one first and the present one last.
        let mut may_hold: BTreeMap<u64, Vec<u8>> = (0..16).map(|sector| (sector, vec![0])).collect();
        // The lengths it may have, the durable one first, and the present one.
        let (mut lens, mut len_now) = (vec![0u64], 0);
        block_on(&env, async {
            for change in &changes {
                match *change {
                    Change::Write { sector, value, sectors, durable } => {
                        let buf = IoBuf::copy_of(&vec![value; sectors as usize * 512]);
                        let end = (sector + sectors) * 512;
                        if durable {
                            file.write_all_at_durable(buf, sector * 512).await.0.unwrap();
                        } else {
                            file.write_all_at(buf, sector * 512).await.0.unwrap();
                        }
                        for number in sector..sector + sectors {
                            let values = may_hold.get_mut(&number).unwrap();
                            if durable { values.clear(); }
                            values.push(value);
                        }
                        if end > len_now {
                            len_now = end;
                            lens.push(end);
                        }
                        if durable && end > lens[0] {
                            lens.retain(|len| *len > end);
                            lens.insert(0, end);
                        }
                    }
                    Change::SetLen(sectors) => {
                        file.set_len(sectors * 512).unwrap();
                        len_now = sectors * 512;
                        lens.push(len_now);
                        (sectors..16).for_each(|number| may_hold.get_mut(&number).unwrap().push(0));
                    }
                    Change::Sync => {
                        file.sync_data().await.unwrap();
                        may_hold.values_mut().for_each(|values| drop(values.drain(..values.len() - 1)));
                        lens = vec![len_now];
                    }
                }
            }
        });
        let present = content(&env, "/d/f");
        prop_assert_eq!(present.len() as u64, len_now);
        world.power_cut(if drop_all { PowerCut::DropUnsynced } else { PowerCut::Random });
        let after = content(&env, "/d/f");
        let len = after.len() as u64;
        prop_assert!(lens.contains(&len), "length {} of {:?}", len, lens);
        if drop_all {
            prop_assert_eq!(len, lens[0]);
        }
        for (number, sector) in after.chunks(512).enumerate() {
            prop_assert!(sector.iter().all(|byte| *byte == sector[0]), "sector {number} is torn within");
            let values = &may_hold[&(number as u64)];
            prop_assert!(values.contains(&sector[0]), "sector {number} holds {} of {values:?}", sector[0]);
            if drop_all {
                prop_assert_eq!(sector[0], values[0]);
            }
        }
    }

    /// After any changes of names and a power cut each directory is as it was at some point since its last sync.
    #[test]
    fn names_after_a_power_cut_are_those_of_some_moment(
        seed: u64,
        changes in prop::collection::vec((0..4u8, 0..5u8, 0..5u8), 1..30),
        drop_all: bool,
    ) {
        let world = World::new(seed);
        let env = world.env();
        let dir = Path::new("/d");
        env.disk.create_dir_all(dir).unwrap();
        let path = |name: u8| PathBuf::from(format!("/d/{name}"));
        let list = || -> BTreeSet<String> { env.disk.list(dir).unwrap().into_iter().map(|entry| entry.name).collect() };
        let mut moments = vec![list()];
        for (kind, name, other) in changes {
            match kind {
                0 => drop(env.disk.open(&path(name), OpenMode::Create, false).unwrap()),
                1 => drop(env.disk.remove(&path(name))),
                2 => drop(env.disk.rename(&path(name), &path(other))),
                _ => {
                    env.disk.sync_dir(dir).unwrap();
                    moments.clear();
                }
            }
            moments.push(list());
        }
        world.power_cut(if drop_all { PowerCut::DropUnsynced } else { PowerCut::Random });
        prop_assert!(moments.contains(&list()), "{:?} is none of {moments:?}", list());
        if drop_all {
            prop_assert_eq!(list(), moments[0].clone());
        }
    }
}

/// Threads that talk over sockets and sleep, and what they did in what order.
fn chatter(seed: u64) -> (Vec<String>, u64) {
    let world = World::new(seed);
    let env = world.env();
    let address = "127.0.0.1:700".parse().unwrap();
    let listener = env.net.listen(address).unwrap();
    let said: Arc<Mutex<Vec<String>>> = Arc::default();
    let say = |said: &Arc<Mutex<Vec<String>>>, what: String| lock(said).push(what);
    let (of_server, their) = (env.clone(), said.clone());
    let serve = move || {
        block_on(&of_server.clone(), async {
            for n in 0..3 {
                let (socket, _) = listener.accept().await.unwrap();
                let (_, bytes) = socket.recv(Vec::new()).await;
                say(&their, format!("served {n}: {}", bytes[0]));
                sleep(Nanos::from_micros(u64::from(bytes[0]))).await;
                socket.send(bytes).await.0.unwrap();
            }
        });
    };
    let server = env.threads.spawn("server", None, Box::new(serve)).unwrap();
    let clients: Vec<JoinHandle> = (1..=3u8)
        .map(|n| {
            let (env, said) = (env.clone(), said.clone());
            let ask = move || {
                block_on(&env.clone(), async {
                    sleep(Nanos::from_micros(env.entropy.u64() % 100)).await;
                    let socket = env.net.connect(address).unwrap();
                    socket.send(vec![n]).await.0.unwrap();
                    let (_, bytes) = socket.recv(Vec::new()).await;
                    say(&said, format!("answered {}", bytes[0]));
                });
            };
            world.env().threads.spawn("client", None, Box::new(ask)).unwrap()
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    server.join().unwrap();
    let said = lock(&said).clone();
    (said, world.fingerprint())
}

#[test]
fn threads_take_turns_that_a_seed_decides() {
    let runs: Vec<_> = (1..=20).map(chatter).collect();
    assert!(runs.iter().all(|(said, _)| said.len() == 6));
    assert!((1..=20).map(chatter).eq(runs.iter().cloned()), "a seed gives one run");
    let orders: BTreeSet<&Vec<String>> = runs.iter().map(|(said, _)| said).collect();
    assert!(orders.len() > 3, "seeds differ");
}

#[test]
fn a_killed_machine_unwinds_its_threads() {
    struct Told(Arc<AtomicU64>);
    impl Drop for Told {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let world = World::new(1);
    let env = world.env();
    let ended = Arc::new(AtomicU64::new(0));
    let (waiting, told) = (env.clone(), Told(ended.clone()));
    let wait = move || {
        let _told = told;
        block_on(&waiting, std::future::pending::<()>());
    };
    let never = env.threads.spawn("waits", None, Box::new(wait)).unwrap();
    let panics = || panic!("as the test wants it");
    env.threads.spawn("panics", None, Box::new(panics)).unwrap().join().unwrap();
    let told = world.take_panics();
    assert!(told.len() == 1 && told[0].contains("as the test wants it"), "{told:?}");
    assert!(!never.is_finished());
    world.kill();
    assert!(never.is_finished() && ended.load(Ordering::Relaxed) == 1);
    assert!(world.take_panics().is_empty(), "dying with the machine is no panic");
}

#[test]
fn failed_write_may_arrive_in_part_and_a_killed_process_leaves_what_it_wrote() {
    let mut parts = BTreeSet::new();
    for seed in 0..40 {
        let world = World::new(seed);
        let env = world.env();
        let file = create(&env, "/d/f");
        file.write_at(&[1; 2048], 0).unwrap();
        world.inject(DiskFault::eio(DiskOp::Write, "/d/f"));
        file.write_at(&[2; 2048], 0).unwrap_err();
        assert_eq!(world.faults_struck(), 1);
        world.kill();
        let bytes = content(&env, "/d/f");
        parts.insert(bytes.chunks(512).map(|sector| sector[0]).collect::<Vec<u8>>());
        assert!(bytes.chunks(512).all(|sector| sector == [sector[0]; 512]), "never within a sector");
        world.power_cut(PowerCut::DropUnsynced);
        assert!(content(&env, "/d/f").is_empty(), "nothing was synced");
    }
    assert!(parts.len() > 5, "any sectors may arrive: {parts:?}");
}

#[test]
fn a_copied_disk_is_durable_and_its_own() {
    let world = World::new(9);
    let env = world.env();
    create(&env, "/d/f").write_at(&[1; 512], 0).unwrap();
    let copy = world.with_copied_disk(10);
    assert_eq!(copy.disk_hash(), world.disk_hash());
    copy.power_cut(PowerCut::DropUnsynced);
    assert_eq!(content(&copy.env(), "/d/f"), [1; 512]);
    copy.flip_bit(Path::new("/d/f"), 0, 0);
    assert_eq!(content(&env, "/d/f"), [1; 512]);
}

#[test]
fn reserved_space_is_there_when_the_disk_is_full() {
    let world = World::new(11);
    let env = world.env();
    let (reserved, other) = (create(&env, "/d/reserved"), create(&env, "/d/other"));
    reserved.allocate(0, 8192).unwrap();
    world.set_disk_capacity(world.disk_used());
    other.write_at(&[1; 512], 0).unwrap_err();
    reserved.write_at(&[1; 8192], 0).unwrap();
    reserved.write_at(&[2; 8192], 0).unwrap();
    reserved.write_at(&[2; 512], 8192).unwrap_err();
    world.mend_disk();
    other.write_at(&[1; 512], 0).unwrap();
}

#[test]
fn a_removed_file_takes_space_while_it_is_open() {
    let world = World::new(1);
    let env = world.env();
    let file = create(&env, "/data/file");
    file.write_at(&[7; 8192], 0).unwrap();
    world.set_disk_capacity(ByteCount(8192));
    assert!(env.disk.open(Path::new("/data/other"), OpenMode::Create, false).is_ok());
    env.disk.remove(Path::new("/data/file")).unwrap();
    assert_eq!(world.disk_used(), ByteCount(8192), "somebody has it open");
    drop(file);
    assert_eq!(world.disk_used(), ByteCount(0));
    create(&env, "/data/other").write_at(&[8; 8192], 0).unwrap();
    assert_eq!(world.disk_used(), ByteCount(8192));
}

#[test]
fn a_removed_file_comes_back_with_its_bytes_until_its_directory_is_synced() {
    for synced in [false, true] {
        let world = World::new(1);
        let env = world.env();
        let file = create(&env, "/data/file");
        file.write_at(&[7; 4096], 0).unwrap();
        file.sync_data_blocking().unwrap();
        drop(file);
        env.disk.remove(Path::new("/data/file")).unwrap();
        if synced {
            env.disk.sync_dir(Path::new("/data")).unwrap();
        }
        world.power_cut(PowerCut::DropUnsynced);
        let env = world.env();
        assert_eq!(env.disk.exists(Path::new("/data/file")), !synced);
        if !synced {
            assert_eq!(content(&env, "/data/file"), [7; 4096]);
        }
    }
}

/// Virtual time that `operations` reads, all begun at once, take on a disk that works on some at a time.
fn time_of_reads(parallel: Option<usize>, operations: usize) -> Nanos {
    let world = World::new(12);
    let env = world.env();
    let file = create(&env, "/d/read");
    file.write_at(&[7; 4096], 0).unwrap();
    let exactly = Latency { min: Nanos::from_millis(1), max: Nanos::from_millis(1) };
    let disk_parallel = parallel.and_then(NonZeroUsize::new);
    world.set_speeds(Speeds { read: exactly, disk_parallel, ..Speeds::default() });
    let begin = world.now();
    let reads = (0..operations).map(|_| file.read_exact_at(IoBuf::zeroed(4096), 0));
    let outcomes = block_on(&env, futures::future::join_all(reads));
    assert!(outcomes.iter().all(|(result, buf)| result.is_ok() && buf[0] == 7));
    world.now() - begin
}

#[test]
fn a_disk_works_on_so_many_operations_at_a_time_and_no_more() {
    assert_eq!(time_of_reads(None, 64), Nanos::from_millis(1));
    assert_eq!(time_of_reads(Some(64), 64), Nanos::from_millis(1));
    assert_eq!(time_of_reads(Some(4), 64), Nanos::from_millis(16));
    assert_eq!(time_of_reads(Some(4), 65), Nanos::from_millis(17));
    assert_eq!(time_of_reads(Some(1), 3), Nanos::from_millis(3));
}

#[test]
fn a_disk_may_refuse_direct_files() {
    let world = World::new(13);
    let env = world.env();
    create(&env, "/d/file");
    let open = || env.disk.open(Path::new("/d/file"), OpenMode::ReadWrite, true).unwrap();
    assert!(open().is_direct());
    world.refuse_direct();
    assert!(!open().is_direct());
    open().write_at(&[1; 100], 50).unwrap();
}

#[test]
fn direct_io_is_refused_where_a_real_disk_would() {
    let world = World::new(11);
    let env = world.env();
    env.disk.create_dir_all(Path::new("/d")).unwrap();
    let file = env.disk.open(Path::new("/d/f"), OpenMode::Create, true).unwrap();
    let mut buf = IoBuf::zeroed(3 * IO_ALIGN);
    file.write_at(&buf, 0).unwrap();
    let (unit, half) = (IO_ALIGN, IO_ALIGN as u64 / 2);
    file.read_at(&mut buf[unit..2 * unit], 0).unwrap();
    let refused = |done: std::io::Result<()>| {
        assert_eq!(done.unwrap_err().raw_os_error(), Some(libc::EINVAL));
    };
    refused(file.read_at(&mut buf[..unit / 2], 0));
    refused(file.read_at(&mut buf[..unit], half));
    refused(file.read_at(&mut buf[512..512 + unit], 0));
    refused(file.write_at(&buf[512..512 + unit], 0));
}
