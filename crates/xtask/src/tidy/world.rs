//! Clocks, randomness, files, sockets, threads and processes come from `env`: which crates and files may reach for the real ones
//! themselves, and why.
//!
//! What counts is naming a path of [`WORLD`] in code that is no test, be it in a `use` of any form or where it is used
//! (`super::paths`). Methods are not seen.

use super::paths;

/// What stands for the world outside, and what is used instead.
const WORLD: &[(&str, &str)] = &[
    ("std::time::Instant", "env::Clock::now"),
    ("std::time::SystemTime", "env::Clock::unix_micros"),
    ("std::time::UNIX_EPOCH", "env::Clock::unix_micros"),
    ("std::thread::spawn", "env::Threads::spawn"),
    ("std::thread::scope", "env::Threads::spawn"),
    ("std::thread::Builder", "env::Threads::spawn"),
    ("std::thread::available_parallelism", "env::Threads::cores"),
    ("std::thread::sleep", "env::sleep_until"),
    ("std::thread::sleep_until", "env::sleep_until"),
    ("std::thread::park", "env::park"),
    ("std::thread::park_timeout", "env::park"),
    ("std::sync::Condvar", "env::Condition"),
    ("std::fs", "env::Disk"),
    ("std::net::TcpListener", "env::Network"),
    ("std::net::TcpStream", "env::Network"),
    ("std::net::UdpSocket", "env::Network"),
    ("std::net::ToSocketAddrs", "env::Network"),
    ("std::os::unix::net", "env::Network"),
    ("std::os::unix::fs", "env::Disk"),
    ("std::os::linux", "env"),
    ("std::process::Command", "nothing: servers start no processes"),
    ("std::hash::RandomState", "rustc_hash"),
    ("std::collections::hash_map::RandomState", "rustc_hash"),
    ("rand::rng", "env::Entropy"),
    ("rand::random", "env::Entropy"),
    ("rand::thread_rng", "env::Entropy"),
    ("rand::rngs::OsRng", "env::Entropy"),
    ("rand::rngs::ThreadRng", "env::Entropy"),
    ("ring::rand", "env::Entropy"),
    ("jiff::Timestamp::now", "env::Clock::unix_micros"),
    ("jiff::Zoned::now", "env::Clock::unix_micros"),
    ("tokio::fs", "env::Disk"),
    ("tokio::net", "env::Network"),
    ("tokio::process", "nothing: servers start no processes"),
    ("tokio::runtime", "server::executor"),
    ("tokio::signal", "env::Threads::shutdown_signal"),
    ("tokio::task::spawn_blocking", "env::Threads::spawn"),
    ("tokio::time", "env::sleep_until"),
];

/// Who may reach for what of it all the same, by the start of the file's name and of the path, and why.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("crates/env/", "", "it is what wraps the world"),
    ("crates/workloads/", "", "clients measure a server from without"),
    ("crates/lab/", "", "experiments measure servers from without"),
    ("crates/scenarios/", "tokio", "the demo's load comes over sockets, from threads of its own"),
    ("crates/rowhouse/", "", "the command line: files of its user, clients of a server"),
    ("crates/xtask/", "", "it reads the source"),
    ("crates/server/src/admin/", "tokio", "administration is served by tokio on a thread of its own"),
    (
        "crates/server/src/console/",
        "tokio::time",
        "the console is served by tokio on administration's thread",
    ),
    (
        "crates/analytic/src/run.rs",
        "tokio::runtime",
        "DataFusion wants one to run in; it has neither clock nor sockets",
    ),
    (
        "crates/storage/src/frame_stock.rs",
        "std::thread::park",
        "the keeper of the stock is a thread of the program's, which no simulation has",
    ),
];

/// The breaches of one file that is no test, and which of [`EXCEPTIONS`] it makes use of.
pub(super) fn check(file: &str, text: &str) -> (Vec<String>, Vec<usize>) {
    let (mut findings, mut used) = (Vec::new(), Vec::new());
    let named = paths::named(text);
    for (world, instead) in WORLD {
        if !named.iter().any(|path| reaches(path, world)) {
            continue;
        }
        let mut exceptions = EXCEPTIONS.iter().enumerate();
        match exceptions.find(|(_, (of, what, _))| file.starts_with(of) && world.starts_with(what)) {
            Some((number, _)) => used.push(number),
            None => findings.push(format!("uses `{world}`; use {instead}")),
        }
    }
    (findings, used)
}

/// What stands among the exceptions and nobody needs any more; `used` are those that files make use of.
pub(super) fn unused(used: &[usize]) -> Vec<String> {
    let exceptions = EXCEPTIONS.iter().enumerate().filter(|(number, _)| !used.contains(number));
    exceptions
        .map(|(_, (of, what, _))| format!("{of}: may use `{what}` and does not; take the exception away"))
        .collect()
}

/// Whether naming `path` reaches for `world`: it is that, something in it, or a glob of something that it is in.
fn reaches(path: &str, world: &str) -> bool {
    let is_within = |inner: &str, outer: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    match path.strip_suffix("::*") {
        Some(glob) => is_within(glob, world) || is_within(world, glob),
        None => is_within(path, world),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_world_is_found_in_each_form() {
        for code in [
            "use std::time::Instant;",
            "use std::time::{Duration, Instant};",
            "use std::time::{Duration, Instant as Now};",
            "use std::time::*;",
            "use std::{sync::Arc, time::SystemTime};",
            "use ::std::time::SystemTime;",
            "use std::time; fn f() { time::Instant::now(); }",
            "use std::time as t; fn f() -> t::Instant { todo() }",
            "use std::{self, io}; use std::time::{self, Duration}; const F: fn() -> time::Instant = time::Instant::now;",
            "fn f() { std::time::Instant::now(); }",
            "fn f() { assert!(std :: time :: Instant::now() > g()); }",
            "use std::fs;",
            "use std::fs::File;",
            "use std::{fs, io};",
            "use std::fs as disk;",
            "fn f() { std::fs::read(\"x\"); }",
            "fn f() { use std::fs::OpenOptions; }",
            "use std::thread::{sleep, yield_now};",
            "use std::thread::{current, Builder};",
            "use std::thread; fn f() { thread::spawn(|| ()); }",
            "use std::thread; fn f() { thread::scope(|_| ()); }",
            "fn f() { std::thread::park_timeout(g()); }",
            "use std::thread; fn f() { thread::park(); }",
            "use std::sync::{Arc, Condvar, Mutex};",
            "use std::net::{SocketAddr, TcpListener};",
            "use std::net; fn f(_: net::TcpStream) {}",
            "use std::os::unix::net::UnixStream;",
            "use std::os::unix::{ffi::OsStrExt, net};",
            "use std::os::unix::fs::PermissionsExt as _;",
            "use std::process::{Command, Stdio};",
            "use tokio::net::TcpStream;",
            "use tokio::{io::AsyncReadExt, net, sync};",
            "use tokio::time::{Duration, sleep};",
            "use tokio::time;",
            "use tokio::fs;",
            "fn f() { tokio::select! { () = tokio::time::sleep(g()) => () } }",
            "fn f() { tokio::task::spawn_blocking(g); }",
            "use tokio::task; fn f() { task::spawn_blocking(g); }",
            "use rand::rng;",
            "use rand::{Rng, rngs::OsRng};",
            "use ring::rand::SystemRandom;",
            "fn f() { jiff::Timestamp::now(); }",
            "use jiff::Timestamp; fn f() { Timestamp::now(); }",
            "use std::collections::hash_map::{Entry, RandomState};",
            "#[cfg(not(test))] use std::fs;",
            "#[cfg(test)] mod tests { use std::fs; } use std::fs;",
        ] {
            let (findings, _) = check("crates/storage/src/a.rs", code);
            assert!(!findings.is_empty(), "not found: {code}");
        }
    }

    #[test]
    fn what_only_looks_like_it_is_not_found() {
        for code in [
            "use std::time::Duration;",
            "use std::thread; fn f() { thread::yield_now(); thread::current(); }",
            "use std::thread::{self, Thread};",
            "use std::net::{IpAddr, SocketAddr, Shutdown};",
            "use std::io::*;",
            "use tokio::sync::mpsc;",
            "use tokio::{io, sync, task};",
            "// use std::fs;\n/* std::fs */ fn f() { g(\"std::fs::read\"); }",
            "/// As [`std::time::Instant`].\nfn f() {}",
            "mod fs {} fn f() { fs::read(); crate::fs::read(); my::std_fs::read(); }",
            "use crate::time::Instant; fn f() { Instant::now(); }",
            "#[cfg(test)]\nmod tests { use std::fs; fn f() { std::thread::spawn(g); } }",
            "#[cfg(test)] use std::time::Instant; fn f() {}",
        ] {
            let (findings, _) = check("crates/storage/src/a.rs", code);
            assert!(findings.is_empty(), "{code}: {findings:?}");
        }
    }

    #[test]
    fn an_exception_is_of_its_files_and_paths_only() {
        let (findings, used) = check("crates/server/src/console/live.rs", "use tokio::time::sleep;");
        assert!(findings.is_empty() && used.len() == 1, "{findings:?}");
        assert_eq!(check("crates/server/src/session.rs", "use tokio::time::sleep;").0.len(), 1);
        assert_eq!(check("crates/server/src/console/live.rs", "use tokio::net::TcpStream;").0.len(), 1);
        assert_eq!(check("crates/server/src/admin/mod.rs", "use std::net::TcpStream;").0.len(), 1);
        let all: Vec<usize> = (0..EXCEPTIONS.len()).collect();
        assert!(unused(&all).is_empty());
        assert_eq!(unused(&used).len(), EXCEPTIONS.len() - 1);
    }
}
