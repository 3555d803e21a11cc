//! Who gets in, who does not, and what each is told.

mod support;

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use base::{Nanos, SqlState, TenantId};
use env::{Env, Listener, Network, Socket};
use pgproto::client;
use pgproto::scram::{ClientExchange, MECHANISM};
use server::{Server, StartError};
use support::{ADMIN_PASSWORD, TestServer, tcp};

#[test]
fn the_administrator_enters_and_is_answered() {
    let server = TestServer::start();
    let mut admin = server.admin("rowhouse");
    assert!(admin.is_alive());
}

/// The machine's network, of which is noted whether the tenants' catalogue was there when it was listened on.
struct NotedDoors {
    net: Arc<dyn Network>,
    catalogue: OnceLock<PathBuf>,
    was_there: Mutex<Vec<bool>>,
}

impl Network for NotedDoors {
    fn listen(&self, addr: SocketAddr) -> io::Result<Listener> {
        let catalogue = self.catalogue.get().expect("the test says where");
        self.was_there.lock().unwrap().push(catalogue.exists());
        self.net.listen(addr)
    }
    fn listen_local(&self, path: &Path) -> io::Result<Listener> {
        self.net.listen_local(path)
    }
    fn connect(&self, addr: SocketAddr) -> io::Result<Socket> {
        self.net.connect(addr)
    }
}

/// Who comes before is refused, and may try another server.
#[test]
fn the_doors_open_when_the_tenants_are_known() {
    let mut env = Env::real();
    let doors = NotedDoors { net: env.net.clone(), catalogue: OnceLock::new(), was_there: Mutex::default() };
    let doors = Arc::new(doors);
    env.net = doors.clone();
    let server = TestServer::in_env(&env, |config| {
        doors.catalogue.set(server::tenant_file(&config.data_dir, TenantId::SYSTEM)).expect("set once");
    });
    assert_eq!(doors.was_there.lock().unwrap().last(), Some(&true));
    assert!(server.admin("rowhouse").is_alive());
}

/// Else a supervisor that tries again would have clients served, and cut off, each time.
#[test]
fn a_console_that_cannot_listen_is_told_before_anything_is_done() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let config = server::ServerConfig {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        admin_listen: Some(taken.local_addr().unwrap()),
        workers: Some(1),
        ..server::ServerConfig::new(dir.path())
    };
    let refused = Server::start(&Env::real(), config).err().expect("refused");
    assert!(matches!(refused, StartError::Listen { .. }), "{refused}");
    assert!(!server::tenant_file(dir.path(), TenantId::SYSTEM).exists());
}

#[test]
fn strangers_are_told_why() {
    let server = TestServer::start();
    let state = |database: &str, user: &str, password: &str| {
        let refused = server.connect(database, user, password).err().expect("refused");
        assert_eq!(refused.severity, "FATAL");
        refused.state
    };
    assert_eq!(state("rowhouse", "admin", "wrong"), SqlState::INVALID_PASSWORD);
    assert_eq!(state("rowhouse", "nobody", "wrong"), SqlState::INVALID_PASSWORD);
    assert_eq!(state("nowhere", "admin", ADMIN_PASSWORD), SqlState::INVALID_CATALOG_NAME);
}

/// The salt that whoever says to be a user is shown.
fn salt_of(server: &TestServer, database: &str, user: &str) -> String {
    let (mut stream, mut input, mut out) = (tcp(server.address()), Vec::new(), Vec::new());
    client::startup(&mut out, &[("user", user), ("database", database)]);
    let first = ClientExchange::new("a guess", *b"eighteen bytes now").first();
    client::sasl_initial_response(&mut out, MECHANISM, &first);
    stream.write_all(&out).unwrap();
    // The mechanisms, then the challenge.
    let mut challenge = Vec::new();
    for _ in 0..2 {
        challenge = loop {
            if let Some(frame) = client::next(&input).unwrap() {
                let (body, len) = (frame.body.to_vec(), frame.wire_len());
                input.drain(..len);
                break body;
            }
            let mut piece = [0; 1024];
            let n = stream.read(&mut piece).unwrap();
            assert!(n > 0, "the server answers");
            input.extend_from_slice(&piece[..n]);
        };
    }
    let challenge = String::from_utf8(challenge.split_off(4)).unwrap();
    challenge.split(',').find_map(|part| part.strip_prefix("s=")).expect("a salt").to_owned()
}

#[test]
fn who_asks_for_users_again_and_elsewhere_does_not_learn_which_there_are() {
    let server = TestServer::start();
    server.create_tenant("acme");
    let asked = [("acme", "acme"), ("acme", "nobody"), ("rowhouse", "nobody")];
    let salts = |server: &TestServer| asked.map(|(database, user)| salt_of(server, database, user));
    let before = salts(&server);
    assert_ne!(before[1], before[2], "they would be two roles");
    let server = server.restart();
    assert_eq!(salts(&server), before);
}

#[test]
fn a_tenants_role_reaches_its_tenant_and_no_other() {
    let server = TestServer::start();
    server.create_tenant("acme");
    server.create_tenant("umbrella");
    assert!(server.connect("acme", "acme", "pw").expect("its own").is_alive());
    for elsewhere in ["umbrella", "rowhouse"] {
        let refused = server.connect(elsewhere, "acme", "pw").err().expect("refused");
        assert_eq!(refused.state, SqlState::INVALID_PASSWORD, "{elsewhere}");
    }
    assert!(server.admin("acme").is_alive(), "the administrator may enter every tenant");
    let mut owner = server.connect("acme", "acme", "pw").unwrap();
    assert_eq!(owner.fails("CREATE TENANT evil"), SqlState::INSUFFICIENT_PRIVILEGE);
    assert_eq!(owner.fails("DROP TENANT umbrella"), SqlState::INSUFFICIENT_PRIVILEGE);
}

#[test]
fn an_empty_password_is_none() {
    let server = TestServer::start();
    let mut admin = server.admin("rowhouse");
    let told = ["NOTICE: empty string is not a valid password, clearing password"];
    assert_eq!(admin.tells("CREATE TENANT acme OWNER acme PASSWORD ''"), told);
    assert_eq!(admin.tells("CREATE ROLE guest LOGIN PASSWORD ''"), told);
    admin.ok("CREATE ROLE clerk LOGIN PASSWORD 'pw'");
    assert_eq!(admin.tells("ALTER ROLE clerk PASSWORD ''"), told);
    for (database, user) in [("acme", "acme"), ("rowhouse", "guest"), ("rowhouse", "clerk")] {
        let refused = server.connect(database, user, "").err().expect("refused");
        assert_eq!(refused.state, SqlState::INVALID_PASSWORD, "{user}");
    }
}

#[test]
fn tenants_and_passwords_outlive_a_restart() {
    let server = TestServer::start();
    server.create_tenant("acme");
    let server = server.restart();
    assert!(server.connect("acme", "acme", "pw").expect("still there").is_alive());
    assert!(server.admin("rowhouse").is_alive());
}

#[test]
fn a_generated_password_is_in_a_private_file() {
    use std::os::unix::fs::PermissionsExt as _;
    let server = TestServer::with(|config| config.admin_password = None);
    let file = server.running().admin_password_file().expect("a generated password");
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let password = std::fs::read_to_string(file).unwrap();
    assert!(server.connect("rowhouse", "admin", password.trim()).expect("the password fits").is_alive());
}

#[test]
fn a_data_directory_in_use_is_refused() {
    let server = TestServer::start();
    let refused = Server::start(&Env::real(), server.config.clone()).err().expect("refused");
    assert!(matches!(refused, StartError::InUse(_)), "{refused}");
    assert!(server.admin("rowhouse").is_alive(), "the first server does not notice");
}

/// Files of tenants that it has dropped would be the other one's by the time it starts again, which removes them.
#[test]
fn a_data_directory_in_use_is_no_other_servers_volume() {
    let server = TestServer::start();
    let dir = tempfile::tempdir().unwrap();
    let mut config = server.config.clone();
    config.volumes.push(("fast".to_owned(), std::mem::replace(&mut config.data_dir, dir.path().to_owned())));
    let refused = Server::start(&Env::real(), config).err().expect("refused");
    assert!(matches!(refused, StartError::InUse(_)), "{refused}");
    assert!(server.admin("rowhouse").is_alive());
}

#[test]
fn a_client_that_never_starts_is_cut_off() {
    let server = TestServer::with(|config| config.authentication_timeout = Nanos::from_millis(200));
    let mut silent = tcp(server.address());
    let mut slow = tcp(server.address());
    slow.write_all(b"\0\0").unwrap();
    for stream in [&mut silent, &mut slow] {
        // An error of the socket's own timeout would be a server that waits.
        match stream.read(&mut [0; 16]) {
            Ok(0) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            other => panic!("{other:?} instead of the end"),
        }
    }
    assert!(server.admin("rowhouse").is_alive());
}

#[test]
fn hostile_openings_end_alone() {
    let server = TestServer::start();
    let mut neighbour = server.admin("rowhouse");
    for (opening, expected) in [
        (&b"\x7f\xff\xff\xff\0\x03\0\0"[..], SqlState::PROTOCOL_VIOLATION),
        (b"\0\0\0\x04", SqlState::PROTOCOL_VIOLATION),
        (b"\0\0\0\x09\0\x02\0\0\0", SqlState::FEATURE_NOT_SUPPORTED),
        (b"\0\0\0\x09\0\x03\0\0\0", SqlState::INVALID_AUTHORIZATION_SPECIFICATION),
        (b"GET / HTTP/1.1\r\n\r\n", SqlState::PROTOCOL_VIOLATION),
    ] {
        let mut stream = tcp(server.address());
        stream.write_all(opening).unwrap();
        let mut reply = Vec::new();
        let _ = stream.read_to_end(&mut reply);
        let message = client::next(&reply).unwrap().expect("an error is told");
        assert_eq!(message.tag, b'E');
        assert_eq!(client::report_state(message.body).unwrap(), expected, "{opening:?}");
    }
    assert!(neighbour.is_alive());
}

#[test]
fn places_are_limited_and_some_are_the_administrators() {
    let server = TestServer::with(|config| {
        config.connections_max = 4;
        config.connections_reserved = 2;
    });
    server.create_tenant("acme");
    support::eventually("the creator's place is free", || server.connect("acme", "acme", "pw").is_ok());
    let mut held = Vec::new();
    let refused = loop {
        match server.connect("acme", "acme", "pw") {
            Ok(client) => held.push(client),
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused.state, SqlState::TOO_MANY_CONNECTIONS);
    assert!(held.len() <= 2);
    assert!(server.admin("acme").is_alive());
}

#[test]
fn sessions_run_under_tls_with_the_self_signed_certificate() {
    let server = TestServer::start();
    let mut client = server.under_tls().expect("the certificate is the one in the files");
    for _ in 0..3 {
        assert!(client.is_alive());
    }
}

#[test]
fn a_renewed_certificate_is_shown_without_a_restart() {
    let server = TestServer::start();
    let mut before = server.under_tls().expect("the certificate is the one in the files");
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let dir = server.config.data_dir.join("tls");
    std::fs::write(dir.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    std::fs::write(dir.join("certificate.pem"), made.cert.pem()).unwrap();
    let mut after = (0..600)
        .find_map(|_| {
            std::thread::sleep(Duration::from_millis(100));
            server.under_tls()
        })
        .expect("the server looks at the files");
    assert!(after.is_alive() && before.is_alive(), "who was there goes on");
}

/// As many as may be in start-up at once, and none of them says anything.
#[test]
fn silent_clients_keep_nobody_out_for_long() {
    let server = TestServer::with(|config| config.authentication_timeout = Nanos::from_secs(300));
    server.create_tenant("acme");
    // Both ends of a connection are this process's.
    let limit = Env::real().threads.raise_file_limit().expect("the limit can be raised to the hard one");
    let count = 2000.min(limit.saturating_sub(500) / 2);
    if count < 2000 {
        // Past the harness, which keeps what passing tests print to itself.
        let too_few = format!("only {count} silent clients: the hard limit of descriptors is {limit}");
        writeln!(std::io::stderr(), "\nTHE TEST SHOWS LESS: {too_few}").unwrap();
    }
    let connect = |_| TcpStream::connect(server.address()).expect("the server listens");
    let silent: Vec<TcpStream> = (0..count).map(connect).collect();
    let begun = Instant::now();
    let mut acme = server.connect("acme", "acme", "pw").expect("the oldest gives up its place");
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?} beside {}", begun.elapsed(), silent.len());
    acme.ok("SELECT 1");
}
