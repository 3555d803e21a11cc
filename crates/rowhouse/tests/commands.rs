//! The commands beside `serve`, as they are typed.

mod common;

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use common::{PASSWORD, Server, run, said};

fn rowhouse(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rowhouse")).args(args).output().expect("the binary can be run")
}

fn ends_well(args: &[&str]) -> String {
    let output = rowhouse(args);
    assert!(output.status.success(), "{args:?}:\n{}", said(&output));
    String::from_utf8(output.stdout).expect("output is UTF-8")
}

fn number(json: &str, key: &str) -> f64 {
    let (_, rest) = json.split_once(&format!("\"{key}\": ")).unwrap_or_else(|| panic!("no {key} in {json}"));
    let end = rest.find([',', '\n', '}']).expect("a value ends");
    rest[..end].trim().parse().unwrap_or_else(|_| panic!("{key} is no number in {json}"))
}

#[test]
fn bench_loads_runs_and_checks_each_workload() {
    let mut server = Server::start();
    let url = format!("postgres://admin:{PASSWORD}@127.0.0.1:{}/rowhouse", server.port());
    let common = ["--url", &url, "--tenants", "2", "--seconds", "2", "--warm-up", "0.5", "--json"];
    let bench =
        |workload: &str, more: &[&str]| ends_well(&[&["bench", workload], &common[..], more].concat());
    let tpcc = bench("tpcc", &["--scale", "0.01"]);
    assert!(number(&tpcc, "tpmc") > 0.0 && number(&tpcc, "tenants") == 2.0, "{tpcc}");
    assert!(
        tpcc.contains("\"violations\": []"),
        "the consistency conditions are checked after each run: {tpcc}"
    );
    let again = bench("tpcc", &["--scale", "0.01", "--no-load", "--rate", "20"]);
    assert!(again.contains("open loop"), "{again}");
    let thinking = bench("tpcc", &["--scale", "0.01", "--no-load", "--think", "10"]);
    assert!(thinking.contains("\"violations\": []"), "{thinking}");
    let store = bench("dvdstore", &["--scale", "0.1", "--clients", "3", "--prefix", "store"]);
    assert!(number(&store, "opm") > 0.0 && store.contains("\"violations\": []"), "{store}");
    let tpcb = bench("pgbench", &["--prefix", "tpcb"]);
    assert!(number(&tpcb, "transactions_per_second") > 0.0, "{tpcb}");
    // A name that has to be quoted, and a run that measures nothing.
    let nothing = ["--tenants", "1", "--prefix", "Load-", "--seconds", "0", "--warm-up", "0", "--json"];
    let nothing = ends_well(&[&["bench", "tpcc", "--scale", "0.01", "--url", &url][..], &nothing].concat());
    for rate in ["transactions_per_second", "tpmc"] {
        assert_eq!(number(&nothing, rate), 0.0, "{nothing}");
    }
    let select = bench("pgbench-select", &["--prefix", "tpcb", "--no-load"]);
    assert!(number(&select, "transactions_per_second") > 0.0, "{select}");
    assert!(server.terminate().success());
    let data = server.data().display().to_string();
    let report = ends_well(&["verify", "--json", "--data", &data]);
    assert!(report.trim_start().starts_with('{'), "{report}");
}

/// What clients said on each connection.
type Heard = Arc<Mutex<Vec<Vec<u8>>>>;

/// A port behind which is that of the server, and what clients say to it.
fn listen_in(server: u16) -> (u16, Heard) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it has an address").port();
    let heard = Heard::default();
    let all = heard.clone();
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let mut server = TcpStream::connect(("127.0.0.1", server)).expect("the server listens");
            let mut answers = server.try_clone().expect("a socket can be shared");
            let mut answered = client.try_clone().expect("a socket can be shared");
            std::thread::spawn(move || std::io::copy(&mut answers, &mut answered));
            let all = all.clone();
            let number = {
                let mut all = all.lock().expect("no thread panicked");
                all.push(Vec::new());
                all.len() - 1
            };
            std::thread::spawn(move || {
                let mut said = [0; 8192];
                while let Ok(len @ 1..) = client.read(&mut said) {
                    all.lock().expect("no thread panicked")[number].extend_from_slice(&said[..len]);
                    if server.write_all(&said[..len]).is_err() {
                        break;
                    }
                }
                let _ = server.shutdown(Shutdown::Both);
            });
        }
    });
    (port, heard)
}

/// All of what a command says is encrypted, loading and measuring, or none of it.
#[test]
fn connections_are_encrypted_as_their_urls_say() {
    /// A message of 8 bytes, the code 80877103.
    const SSL_REQUEST: &[u8] = &[0, 0, 0, 8, 4, 210, 22, 47];
    /// The first byte of a TLS record of the handshake.
    const HANDSHAKE: u8 = 22;
    let server = Server::start();
    let (other, own) = (Server::start(), server.data().join("tls/certificate.pem"));
    let others = other.data().join("tls/certificate.pem");
    let run = |host: &str, words: &str| {
        let (port, heard) = listen_in(server.port());
        let url = format!("postgres://admin:{PASSWORD}@{host}:{port}/rowhouse{words}");
        let output = rowhouse(&["bench", "pgbench", "--url", &url, "--tenants", "1", "--seconds", "0.3"]);
        let heard = heard.lock().expect("no thread panicked").clone();
        (output, heard)
    };
    let speaks_of = |said: &Vec<u8>, word: &str| said.windows(word.len()).any(|part| part == word.as_bytes());
    let (output, heard) = run("127.0.0.1", "");
    assert!(output.status.success(), "{}", said(&output));
    assert!(heard.iter().any(|said| speaks_of(said, "pgbench_accounts")), "what is said can be heard");
    for (host, words) in [
        ("127.0.0.1", "?sslmode=require".to_owned()),
        ("127.0.0.1", format!("?sslmode=verify-ca&sslrootcert={}", own.display())),
        ("localhost", format!("?sslmode=verify-full&sslrootcert={}", own.display())),
    ] {
        let (output, heard) = run(host, &words);
        assert!(output.status.success(), "{words}: {}", said(&output));
        assert!(heard.len() > 2, "{words}: {} connections", heard.len());
        for said in heard {
            assert_eq!(&said[..SSL_REQUEST.len()], SSL_REQUEST, "{words}");
            assert_eq!(said[SSL_REQUEST.len()], HANDSHAKE, "{words}");
            assert!(!speaks_of(&said, "pgbench_accounts"), "{words}");
        }
    }
    for (host, words, why) in [
        ("127.0.0.1", format!("?sslmode=verify-full&sslrootcert={}", own.display()), "not valid for name"),
        (
            "localhost",
            format!("?sslmode=verify-full&sslrootcert={}", others.display()),
            "invalid peer certificate",
        ),
        ("localhost", "?sslmode=verify-full".to_owned(), "needs sslrootcert"),
    ] {
        let (output, _) = run(host, &words);
        assert!(!output.status.success(), "{words}");
        assert!(said(&output).contains(why), "{words}: {}", said(&output));
    }
}

#[test]
fn what_cannot_be_done_is_told_with_an_exit_code() {
    let nobody = "postgres://admin:x@127.0.0.1:1/rowhouse";
    let long = "a".repeat(64);
    for (args, word) in [
        (&["verify", "--data", "/nonexistent/rowhouse"][..], "/nonexistent/rowhouse"),
        (&["bench", "tpcc", "--url", nobody], "refused"),
        (&["serve", "--data", "/proc/rowhouse", "--listen", "127.0.0.1:0"], "/proc/rowhouse"),
        (&["serve", "--data", "x", "--memory", "much"], "memory"),
        (&["serve", "--data", "x", "--volume", "log=/tmp"], "every server has"),
        (&["serve", "--data", "x", "--volume", "a=/tmp/1", "--volume", "a=/tmp/2"], "\"a\" is given twice"),
        (&["verify", "--data", "x", "--volume", "a=/tmp/1", "--volume", "a=/tmp/2"], "\"a\" is given twice"),
        (&["verify", "--data", "x", "--volume", "=/tmp"], "NAME=DIR"),
        (&["serve", "--data", "x", "--max-connections", "8"], "max-connections"),
        (&["serve", "--data", "x", "--close-tenants-after", "18446744073709551615"], "close-tenants-after"),
        (&["demo", "--workers", "70000"], "workers"),
        (&["bench", "pgbench", "--url", "x", "--transactions", "0"], "transactions"),
        (&["bench", "pgbench", "--url", "x", "--clients", "0"], "clients"),
        (&["bench", "pgbench", "--url", "x", "--tenants", "18446744073709551615"], "tenants"),
        (&["bench", "pgbench", "--url", nobody, "--latency-log", "/nowhere/log"], "/nowhere/log"),
        (&["bench", "pgbench", "--url", nobody, "--tenants", "1", "--prefix", &long], "prefix"),
        (&["bench", "pgbench", "--url", nobody, "--prefix", "many"], "--tenants"),
        (&["bench", "tpch", "--url", nobody, "--digest", "--rate", "1"], "--rate"),
        (&["bench", "tpch", "--url", nobody, "--digest", "--series", "1"], "--series"),
        (&["backup", "--url", nobody, "--tenant", &long, "--to", "x"], "63 bytes"),
        (&["restore", "--url", nobody, "--tenant", &long, "--from", "/dev/null"], "63 bytes"),
        (&["serve"], "--data"),
        (&["demo", "--story", "nothing"], "there is no story"),
        (&["sleep"], "sleep"),
    ] {
        let output = rowhouse(args);
        let said = said(&output);
        assert!(!output.status.success(), "{args:?}: {said}");
        assert!(said.contains(word) && !said.contains("panicked"), "{args:?}: {said}");
    }
    // Who starts servers again leaves it at that: deploy/systemd/rowhouse.service.
    for options in [&["--memory", "much"][..], &["--volume", "a=/tmp/1", "--volume", "a=/tmp/2"]] {
        let output = rowhouse(&[&["serve", "--data", "/proc/rowhouse"], options].concat());
        assert_eq!(output.status.code(), Some(2), "{options:?}: {}", said(&output));
    }
    let mut serve = Command::new(env!("CARGO_BIN_EXE_rowhouse"));
    serve.args(["serve", "--data", "/proc/rowhouse"]).env("ROWHOUSE_IO", "kqueue");
    let output = serve.output().expect("the binary can be run");
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("it may be uring or epoll"), "{}", said(&output));
    let server = Server::start();
    let wrong = format!("postgres://admin:wrong@127.0.0.1:{}/rowhouse", server.port());
    let output = rowhouse(&["bench", "tpcc", "--url", &wrong]);
    assert!(!output.status.success() && said(&output).contains("password"), "{}", said(&output));
    let in_use = rowhouse(&["verify", "--data", &server.data().display().to_string()]);
    assert!(!in_use.status.success() && said(&in_use).contains("use"), "{}", said(&in_use));
    run(async { server.admin().await.batch_execute("SELECT 1").await.expect("it noticed nothing") });
}

/// The help of an option: the lines from its own to the next one's.
fn help_of<'h>(help: &'h str, option: &str) -> &'h str {
    let (_, rest) = help.split_once(&format!(" {option} <")).unwrap_or_else(|| panic!("no {option}: {help}"));
    rest.split_once(" --").map_or(rest, |(own, _)| own)
}

#[test]
fn serve_tells_the_defaults_of_its_options() {
    let output = rowhouse(&["serve", "--help"]);
    let help = said(&output);
    assert!(output.status.success(), "{help}");
    for (option, default) in [
        ("--listen", "127.0.0.1:5433"),
        ("--admin-listen", "127.0.0.1:8433"),
        ("--memory", "4GiB"),
        ("--log-dir", "DIR/log"),
        ("--workers", "one a core"),
    ] {
        let of_option = help_of(&help, option);
        assert!(of_option.contains(&format!("[default: {default}]")), "{option}: {of_option}");
    }
}
