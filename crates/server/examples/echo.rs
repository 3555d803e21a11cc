//! What the road of a small request costs: a worker on one core echoes, a driver on another asks, in closed loop.
//!
//! `cargo run --release -p server --example echo [connections] [seconds] [bytes]` prints requests a second and the
//! server thread's processor time a request. `ROWHOUSE_IO=epoll` measures the fallback.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;

use base::{Nanos, TenantId, WorkerId};
use env::{Env, Socket};
use server::executor::{Governing, Worker, WorkerHandle};

fn argument(index: usize, default: usize) -> usize {
    std::env::args().nth(index).map_or(default, |text| text.parse().expect("a number"))
}

/// A worker thread on a core of its own.
fn start(env: &Env, id: u16, core: usize) -> WorkerHandle {
    let (to, from) = channel();
    let inner = env.clone();
    let body = move || {
        let mut worker =
            Worker::new(&inner, WorkerId(id), &Governing::new(usize::from(id) + 1, 1, inner.now()))
                .expect("a worker");
        if let Err(error) = worker.claim_priority() {
            eprintln!("no worker priority: {error}");
        }
        to.send(worker.handle()).expect("main waits");
        worker.run().expect("the ring turns");
    };
    env.threads.spawn("worker", Some(core), Box::new(body)).expect("a thread");
    from.recv().expect("the worker starts")
}

async fn echo(socket: Socket) {
    let mut buf = Vec::new();
    loop {
        let (received, bytes) = socket.recv(buf).await;
        if !matches!(received, Ok(n) if n > 0) {
            return;
        }
        let (sent, bytes) = socket.send(bytes).await;
        if sent.is_err() {
            return;
        }
        buf = bytes;
    }
}

async fn ask(socket: Socket, len: usize, answered: Arc<AtomicU64>, stop: Arc<AtomicBool>) {
    let mut buf = vec![7; len];
    while !stop.load(Ordering::Relaxed) {
        let (sent, emptied) = socket.send(buf).await;
        sent.expect("the server lives");
        buf = emptied;
        while buf.len() < len {
            let (received, bytes) = socket.recv(buf).await;
            assert!(received.expect("the server lives") > 0);
            buf = bytes;
        }
        answered.fetch_add(1, Ordering::Relaxed);
    }
}

fn main() {
    let (connections, seconds, len) = (argument(1, 16), argument(2, 5), argument(3, 64));
    let env = Env::real();
    let cores = env.threads.cores();
    let server = start(&env, 0, cores[0]);
    let driver = start(&env, 1, cores[cores.len() - 1]);
    let (to, from) = channel::<SocketAddr>();
    let (server_inner, inner) = (server.clone(), env.clone());
    let accepting = server.spawn(TenantId::SYSTEM, async move {
        let listener = inner.net.listen("127.0.0.1:0".parse().expect("an address")).expect("a port");
        to.send(listener.local_addr().expect("an address")).expect("main waits");
        for i in 0.. {
            let (socket, _) = listener.accept().await.expect("a connection");
            server_inner.spawn(TenantId(16 + i % 8), echo(socket)).detach();
        }
    });
    let addr = from.recv().expect("the server listens");
    let answered = Arc::new(AtomicU64::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    for _ in 0..connections {
        let socket = env.net.connect(addr).expect("the server listens");
        driver.spawn(TenantId::SYSTEM, ask(socket, len, answered.clone(), stop.clone())).detach();
    }
    let server_cpu = || server.accounts().iter().map(|account| account.used().0).sum::<u64>();
    let pass = |time: Nanos| env::block_on(&env, env::sleep(time));
    pass(Nanos::from_millis(500));
    let (start, cpu_start, count_start) = (env.now(), server_cpu(), answered.load(Ordering::Relaxed));
    pass(Nanos::from_secs(seconds as u64));
    let (elapsed, cpu) = ((env.now() - start).as_secs_f64(), server_cpu() - cpu_start);
    let count = answered.load(Ordering::Relaxed) - count_start;
    stop.store(true, Ordering::Relaxed);
    println!(
        "{}, {connections} connections, {len} bytes: {:.0} requests/s, {:.0} ns of the server's thread a request, \
         server {:.0} % busy",
        env.io_backend(),
        count as f64 / elapsed,
        cpu as f64 / count as f64,
        cpu as f64 / elapsed / 1e7,
    );
    drop(accepting);
}
