//! Both completion backends against the same facts.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use base::{ByteCount, Nanos};

use super::env_with;
use crate::{Elapsed, Env, IoBuf, OpenMode, Reactor, Socket, block_on, sleep, timeout_at};

fn on_both(test: impl Fn(&Env)) {
    for backend in ["uring", "epoll"] {
        if backend == "uring" && !super::uring::is_available() {
            eprintln!("no io_uring here: only epoll is tested");
            continue;
        }
        test(&env_with(backend));
    }
}

async fn pair(env: &Env) -> (Socket, Socket) {
    let listener = env.net.listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let near = env.net.connect(listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept().await.unwrap();
    (near, far)
}

async fn recv_exactly(socket: &Socket, len: usize) -> Vec<u8> {
    let mut buf = Vec::new();
    while buf.len() < len {
        let (result, received) = socket.recv(buf).await;
        buf = received;
        assert!(result.unwrap() > 0, "stream ended after {} bytes", buf.len());
    }
    buf
}

#[test]
fn bytes_arrive_in_order_and_the_end_is_seen() {
    on_both(|env| {
        block_on(env, async {
            let (near, far) = pair(env).await;
            let sent: Vec<u8> = (0..3_000_000u32).map(|i| ((i * 31) >> 3) as u8).collect();
            let (sending, received) = futures::join!(near.send(sent.clone()), recv_exactly(&far, sent.len()));
            sending.0.unwrap();
            assert!(sending.1.is_empty() && sending.1.capacity() >= sent.len());
            assert!(received == sent);
            drop(near);
            assert_eq!(far.recv(Vec::new()).await.0.unwrap(), 0);
        });
    });
}

#[test]
fn a_silent_connection_that_was_accepted_is_tried() {
    let option = |socket: &Socket, level, option| {
        let (mut value, mut len) = (0 as libc::c_int, size_of::<libc::c_int>() as libc::socklen_t);
        let fd = socket.ops.raw_fd().expect("a system's socket");
        // SAFETY: pointers to a live integer and to its length.
        let result = unsafe { libc::getsockopt(fd, level, option, (&raw mut value).cast(), &raw mut len) };
        assert_eq!(result, 0);
        value
    };
    on_both(|env| {
        let (_near, far) = block_on(env, pair(env));
        assert_eq!(option(&far, libc::SOL_SOCKET, libc::SO_KEEPALIVE), 1);
        let of_tcp = [libc::TCP_KEEPIDLE, libc::TCP_KEEPINTVL, libc::TCP_KEEPCNT];
        assert_eq!(of_tcp.map(|name| option(&far, libc::IPPROTO_TCP, name)), [120, 15, 5]);
    });
    // A local socket has no such options, and is accepted all the same.
    let env = Env::real();
    let dir = tempfile::tempdir().unwrap();
    let listener = env.net.listen_local(&dir.path().join("socket")).unwrap();
    let _near = std::os::unix::net::UnixStream::connect(dir.path().join("socket")).unwrap();
    block_on(&env, async { listener.accept().await.unwrap() });
}

#[test]
fn idle_receives_share_the_rings_buffers_and_survive_their_exhaustion() {
    on_both(|env| {
        block_on(env, async {
            let mut pairs = Vec::new();
            for _ in 0..300 {
                pairs.push(pair(env).await);
            }
            for round in 0..3u8 {
                let receives = pairs.iter().enumerate().map(|(i, (_, far))| async move {
                    let got = recv_exactly(far, 20_000).await;
                    assert!(got == vec![i as u8 ^ round; 20_000]);
                });
                let sends = pairs.iter().enumerate().map(|(i, (near, _))| async move {
                    near.send(vec![i as u8 ^ round; 20_000]).await.0.unwrap();
                });
                futures::join!(futures::future::join_all(receives), futures::future::join_all(sends));
            }
        });
    });
}

#[test]
fn a_ring_receives_all_that_has_come_whatever_room_there_is() {
    on_both(|env| {
        block_on(env, async {
            let (near, far) = pair(env).await;
            for kept in [0, 3] {
                near.send(vec![7; 5000]).await.0.unwrap();
                sleep(Nanos::from_millis(1)).await;
                let mut buf = Vec::with_capacity(100);
                buf.resize(kept, 1);
                let (result, received) = far.recv(buf).await;
                let len = result.unwrap();
                assert!(received[..kept] == vec![1; kept] && received[kept..] == vec![7; len]);
                if env.io_backend() == "io_uring" {
                    assert_eq!(len, 5000);
                }
                recv_exactly(&far, 5000 - len).await;
            }
        });
    });
}

#[test]
fn what_a_receive_left_in_its_socket_is_received_within_a_turn() {
    on_both(|env| {
        let (_near, far) = block_on(env, async {
            let (near, far) = pair(env).await;
            near.send(vec![7; 20_000]).await.0.unwrap();
            sleep(Nanos::from_millis(1)).await;
            assert!(far.recv(Vec::new()).await.0.unwrap() < 20_000);
            (near, far)
        });
        let reactor = Reactor::new(env).unwrap();
        reactor.enter(|| {
            let mut cx = Context::from_waker(Waker::noop());
            let mut receive = pin!(far.recv(Vec::new()));
            let mut received = receive.as_mut().poll(&mut cx);
            if received.is_pending() {
                reactor.turn(Some(Nanos(0))).unwrap();
                received = receive.as_mut().poll(&mut cx);
            }
            assert!(matches!(received, Poll::Ready((Ok(1..), _))));
        });
    });
}

#[test]
fn what_is_sent_unwatched_leaves_little_memory_behind() {
    on_both(|env| {
        block_on(env, async {
            let (near, far) = pair(env).await;
            for (len, kept_max) in [(6000, 0), (600, 1024)] {
                assert!(near.send_soon(&mut vec![5; len]).unwrap());
                near.sent().await;
                assert_eq!(recv_exactly(&far, len).await, vec![5; len]);
                let mut next = vec![6];
                assert!(near.send_soon(&mut next).unwrap());
                assert!(next.is_empty() && next.capacity() <= kept_max, "{}", next.capacity());
                near.sent().await;
                assert_eq!(recv_exactly(&far, 1).await, [6]);
            }
        });
    });
}

#[test]
fn a_send_that_nobody_waits_for_ends_no_wait_and_goes_on_where_the_socket_was_full() {
    on_both(|env| {
        let (near, far) = block_on(env, pair(env));
        let reactor = Reactor::new(env).unwrap();
        reactor.enter(|| {
            let (began, limit, mut sent) = (env.now(), Nanos::from_millis(20), 100);
            assert!(near.send_soon(&mut vec![1; sent]).unwrap());
            reactor.turn(Some(limit)).unwrap();
            if env.io_backend() == "io_uring" && super::uring::can_be_silent() {
                assert!(env.now() - began >= limit, "it came back after {:?}", env.now() - began);
            }
            // Until the socket takes no more of what the other end does not read.
            for _ in 0..2000 {
                let mut more = vec![1; 32 << 10];
                if near.send_soon(&mut more).unwrap() {
                    sent += 32 << 10;
                }
                reactor.turn(Some(Nanos(0))).unwrap();
            }
            let mut cx = Context::from_waker(Waker::noop());
            assert!(pin!(near.sent()).poll(&mut cx).is_pending(), "something is left");
            let (began, mut got) = (env.now(), 0);
            while got < sent {
                let mut receive = pin!(far.recv(Vec::new()));
                loop {
                    if let Poll::Ready((len, _)) = receive.as_mut().poll(&mut cx) {
                        let len = len.unwrap();
                        assert!(len > 0, "it ended");
                        got += len;
                        break;
                    }
                    reactor.turn(Some(Nanos::from_millis(100))).unwrap();
                    assert!(env.now() - began < Nanos::from_secs(60), "{got} of {sent} bytes");
                }
            }
            assert_eq!(got, sent);
        });
    });
}

#[test]
fn a_send_that_has_gone_is_known_to_have_where_the_rest_of_another_one_is_submitted_again() {
    on_both(|env| {
        let ((near, _far), (full, _unread)) = block_on(env, async { (pair(env).await, pair(env).await) });
        let reactor = Reactor::new(env).unwrap();
        reactor.enter(|| {
            for _ in 0..2000 {
                assert!(near.send_soon(&mut vec![1; 100]).unwrap(), "the one before has gone");
                if !full.send_soon(&mut vec![1; 32 << 10]).unwrap() {
                    // It took a part, and the turn before this one submitted the rest.
                    return;
                }
                reactor.turn(Some(Nanos(0))).unwrap();
            }
            panic!("the socket takes whatever it is given");
        });
    });
}

#[test]
fn dropped_receive_loses_no_byte() {
    on_both(|env| {
        block_on(env, async {
            let (near, far) = pair(env).await;
            for round in 0..50u8 {
                let waited =
                    timeout_at(Some(env.now() + Nanos::from_micros(300)), far.recv(Vec::new())).await;
                assert_eq!(waited.err(), Some(Elapsed));
                near.send(vec![round; 5]).await.0.unwrap();
                if round % 3 == 0 {
                    sleep(Nanos::from_micros(200)).await;
                }
                if round % 2 == 0 {
                    far.quiesce().await;
                }
                assert_eq!(recv_exactly(&far, 5).await, [round; 5]);
            }
        });
    });
}

#[test]
fn quiesced_socket_moves_to_another_thread() {
    on_both(|env| {
        let far = block_on(env, async {
            let (near, far) = pair(env).await;
            let waited = timeout_at(Some(env.now() + Nanos::from_millis(1)), far.recv(Vec::new())).await;
            assert!(waited.is_err());
            far.quiesce().await;
            near.send(b"kept".to_vec()).await.0.unwrap();
            far
        });
        let env = env.clone();
        std::thread::spawn(move || {
            block_on(&env, async { assert_eq!(recv_exactly(&far, 4).await, b"kept") })
        })
        .join()
        .unwrap();
    });
}

#[test]
fn dropped_socket_with_a_receive_in_flight_is_closed() {
    on_both(|env| {
        block_on(env, async {
            let (near, far) = pair(env).await;
            assert!(timeout_at(Some(env.now() + Nanos::from_millis(1)), far.recv(Vec::new())).await.is_err());
            drop(far);
            assert_eq!(near.recv(Vec::new()).await.0.unwrap(), 0);
        });
    });
}

#[test]
fn files_are_written_read_and_synced() {
    on_both(|env| {
        let dir = tempfile::tempdir_in(".").unwrap();
        let path = dir.path().join("data");
        block_on(env, async {
            for direct in [false, true] {
                let file = env.disk.open(&path, OpenMode::Create, direct).unwrap();
                file.allocate(0, 1 << 20).unwrap();
                let mut block = IoBuf::zeroed(16_384);
                block.iter_mut().enumerate().for_each(|(i, byte)| *byte = (i / 7) as u8);
                let (result, block) = file.write_all_at_durable(block, 8192).await;
                result.unwrap();
                let (result, _) = file.write_all_at(block.clone(), 65_536).await;
                result.unwrap();
                file.sync_data().await.unwrap();
                let (result, again) = file.read_exact_at(IoBuf::zeroed(16_384), 65_536).await;
                result.unwrap();
                assert!(*again == *block);
                let (result, _) = file.read_exact_at(IoBuf::zeroed(16_384), 1 << 20).await;
                assert_eq!(result.unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
            }
        });
    });
}

#[test]
fn operation_dropped_in_flight_still_ends_and_is_sound() {
    on_both(|env| {
        let dir = tempfile::tempdir_in(".").unwrap();
        let file = env.disk.open(&dir.path().join("data"), OpenMode::CreateNew, false).unwrap();
        let reactor = Reactor::new(env).unwrap();
        reactor.enter(|| {
            let mut cx = Context::from_waker(Waker::noop());
            for i in 0..100u8 {
                let write = file.write_all_at(IoBuf::copy_of(&[i; 512]), u64::from(i) * 512);
                assert!(pin!(write).poll(&mut cx).is_pending());
            }
        });
        drop(reactor);
        block_on(env, file.sync_data()).unwrap();
        // The ring ends what it can cancel and finishes the rest; nothing else is promised about dropped writes.
        assert!(file.len().unwrap() <= 100 * 512);
    });
}

#[test]
fn timers_do_not_fire_early() {
    on_both(|env| {
        block_on(env, async {
            let start = env.now();
            let after = |ms: u64| async move {
                sleep(Nanos::from_millis(ms)).await;
                assert!(env.now() - start >= Nanos::from_millis(ms));
            };
            futures::join!(after(9), after(3), after(6));
        });
    });
}

#[test]
fn forgotten_timers_do_not_pile_up() {
    on_both(|env| {
        let reactor = Reactor::new(env).unwrap();
        reactor.enter(|| {
            let mut cx = Context::from_waker(Waker::noop());
            for _ in 0..10_000 {
                assert!(
                    pin!(crate::sleep_until(env.now() + Nanos::from_secs(60))).poll(&mut cx).is_pending()
                );
            }
        });
        assert_eq!(reactor.next_deadline(), None);
    });
}

#[test]
fn remote_wake_ends_a_wait_and_is_never_lost() {
    on_both(|env| {
        let reactor = Reactor::new(env).unwrap();
        let waker = reactor.remote_waker();
        let count = Arc::new(AtomicU32::new(0));
        let counted = count.clone();
        let thread = std::thread::spawn(move || {
            for i in 0..2000 {
                counted.fetch_add(1, Ordering::SeqCst);
                waker.wake();
                if i % 64 == 0 {
                    std::thread::sleep(Duration::from_micros(100));
                }
                while counted.load(Ordering::SeqCst) != 0 {
                    std::thread::yield_now();
                }
            }
        });
        let mut seen = 0;
        while seen < 2000 {
            let gather = Nanos::from_micros(if seen % 2 == 0 { 0 } else { 20 });
            reactor.turn_gathering(Some(Nanos::from_secs(10)), gather).unwrap();
            seen += count.swap(0, Ordering::SeqCst);
        }
        thread.join().unwrap();
    });
}

#[test]
fn a_wait_that_gathers_for_next_to_nothing_ends_with_what_comes() {
    on_both(|env| {
        let reactor = Reactor::new(env).unwrap();
        for gather in [1, 999, 1_000] {
            let waker = reactor.remote_waker();
            let thread = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(20));
                waker.wake();
            });
            let began = env.now();
            reactor.turn_gathering(Some(Nanos::from_secs(10)), Nanos(gather)).unwrap();
            let waited = env.now() - began;
            assert!(waited < Nanos::from_secs(5), "{waited:?}, gathering for {gather} ns");
            thread.join().unwrap();
        }
    });
}

#[test]
fn a_wake_up_ends_a_wait_that_gathers() {
    on_both(|env| {
        let reactor = Reactor::new(env).unwrap();
        for round in 0..5 {
            let waker = reactor.remote_waker();
            let thread = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(20));
                waker.wake();
            });
            let began = env.now();
            reactor.turn_gathering(Some(Nanos::from_secs(10)), Nanos::from_secs(5)).unwrap();
            let waited = env.now() - began;
            assert!(waited < Nanos::from_secs(2), "round {round}: {waited:?}");
            thread.join().unwrap();
        }
    });
}

#[test]
fn closed_listener_ends_its_accept() {
    on_both(|env| {
        block_on(env, async {
            let listener = env.net.listen("127.0.0.1:0".parse().unwrap()).unwrap();
            let addr = listener.local_addr().unwrap();
            {
                let mut accept = pin!(listener.accept());
                assert!(matches!(futures::poll!(accept.as_mut()), Poll::Pending));
            }
            drop(listener);
            sleep(Nanos::from_millis(5)).await;
            assert!(env.net.connect(addr).is_err());
        });
    });
}

#[test]
fn small_file_is_replaced_whole_and_a_lock_is_exclusive() {
    use std::os::unix::fs::PermissionsExt;
    let env = Env::real();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deep/er/secret");
    env.disk.create_dir_all(path.parent().unwrap()).unwrap();
    env.disk.write_small_atomic(&path, b"one", 0o600).unwrap();
    env.disk.write_small_atomic(&path, b"three", 0o600).unwrap();
    assert_eq!(env.disk.read_small(&path).unwrap(), b"three");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(env.disk.list(path.parent().unwrap()).unwrap().len(), 1);
    let lock = env.disk.lock_exclusive(&dir.path().join("lock")).unwrap();
    let second = env.disk.lock_exclusive(&dir.path().join("lock"));
    assert_eq!(second.err().map(|error| error.kind()), Some(std::io::ErrorKind::WouldBlock));
    drop(lock);
    env.disk.lock_exclusive(&dir.path().join("lock")).unwrap();
}

#[test]
fn a_local_socket_left_behind_is_replaced_and_its_file_goes_with_the_listener() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    // Its file stays when it is closed, as after a kill.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let env = Env::real();
    let listener = env.net.listen_local(&path).unwrap();
    std::os::unix::net::UnixStream::connect(&path).unwrap();
    drop(listener);
    assert!(!path.exists());
}

#[test]
fn a_local_socket_takes_no_file_of_anybody_else() {
    use std::io::ErrorKind::AddrInUse;
    use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};

    let dir = tempfile::tempdir().unwrap();
    let env = Env::real();
    let refused = |path: &std::path::Path| env.net.listen_local(path).err().map(|error| error.kind());
    let path = dir.path().join("listened");
    let listener = UnixListener::bind(&path).unwrap();
    assert_eq!(refused(&path), Some(AddrInUse));
    UnixStream::connect(&path).unwrap();
    drop(listener);
    let path = dir.path().join("of-another-kind");
    let datagrams = UnixDatagram::bind(&path).unwrap();
    assert_eq!(refused(&path), Some(AddrInUse));
    UnixDatagram::unbound().unwrap().send_to(b"still there", &path).unwrap();
    drop(datagrams);
    let path = dir.path().join("file");
    std::fs::write(&path, "kept").unwrap();
    assert_eq!(refused(&path), Some(AddrInUse));
    assert_eq!(std::fs::read(&path).unwrap(), b"kept");
    // One that was put in the place of ours outlives it.
    let path = dir.path().join("replaced");
    let ours = env.net.listen_local(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let _theirs = UnixListener::bind(&path).unwrap();
    drop(ours);
    UnixStream::connect(&path).unwrap();
}

#[test]
fn a_file_is_on_the_device_of_its_directory() {
    let env = Env::real();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "here").unwrap();
    let device = env.disk.device_of(&file).unwrap();
    assert_eq!(env.disk.device_of(dir.path()).unwrap(), device);
    assert!(
        device.number.split_once(':').is_some_and(|(major, _)| major.parse::<u32>().is_ok()),
        "{device:?}"
    );
    assert!(!device.file_system.is_empty() && device.len > ByteCount(0), "{device:?}");
    assert_ne!(env.disk.device_of("/proc".as_ref()).unwrap(), device);
    let missing = env.disk.device_of(&dir.path().join("missing")).unwrap_err();
    assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn a_name_that_cannot_be_looked_at_is_an_error_and_not_left_out() {
    use std::os::unix::fs::PermissionsExt;

    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("00000007.redo"), [1]).unwrap();
    let disk = Env::real().disk;
    assert_eq!(disk.list(dir.path()).unwrap().len(), 1);
    let allow = |mode| std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(mode)).unwrap();
    // Its names may be read, and nothing behind them.
    allow(0o444);
    let path = dir.path().to_owned();
    let listed = std::thread::spawn(move || {
        // SAFETY: changes who this thread is for files, if it was the superuser; the thread ends behind it.
        unsafe { libc::setfsuid(65_534) };
        disk.list(&path)
    });
    let error = listed.join().unwrap().expect_err("the file is there");
    assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied, "{error}");
    allow(0o700);
}

#[test]
fn an_error_at_a_path_says_whether_descriptors_are_short() {
    let failed = |code| {
        let error = std::io::Error::from_raw_os_error(code);
        std::io::Error::new(error.kind(), crate::disk::AtPath { path: "/d/f".into(), error })
    };
    assert!(failed(libc::EMFILE).to_string().starts_with("/d/f: "));
    for (code, is_short) in [(libc::EMFILE, true), (libc::ENFILE, true), (libc::ENOSPC, false)] {
        assert_eq!(crate::is_short_of_descriptors(&failed(code)), is_short);
        assert_eq!(crate::is_short_of_descriptors(&std::io::Error::from_raw_os_error(code)), is_short);
    }
    assert!(!crate::is_short_of_descriptors(&std::io::Error::other("something else")));
}

#[test]
fn a_lock_needs_no_space() {
    // A device that can be locked, and has none.
    env_with("epoll").disk.lock_exclusive("/dev/full".as_ref()).expect("nobody reads what cannot be written");
}
