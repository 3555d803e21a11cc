//! `serve --socket-dir`: the same server behind a local socket, as libpq looks for it.

mod common;

use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use common::{PASSWORD, Server, check_output, connect, run, text};

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        Place { dir: tempfile::tempdir().expect("a temporary directory") }
    }

    fn option(&self) -> String {
        format!("--socket-dir={}", self.dir.path().display())
    }

    fn socket(&self, server: &Server) -> PathBuf {
        self.dir.path().join(format!(".s.PGSQL.{}", server.port()))
    }

    fn url(&self, server: &Server) -> String {
        let host = self.dir.path().display();
        format!("host={host} port={} user=acme password={PASSWORD} dbname=acme", server.port())
    }
}

#[test]
fn clients_come_in_by_the_local_socket_too() {
    let place = Place::new();
    let mut server = Server::start_with(&[&place.option()]);
    run(async {
        server.create_tenant("acme").await;
        let client = connect(&place.url(&server)).await.expect("the socket is there");
        assert_eq!(text(&client, "SELECT 'by the socket'").await, "by the socket");
        let own = "SELECT client_addr IS NULL FROM pg_stat_activity WHERE pid = pg_backend_pid()";
        assert_eq!(text(&client, own).await, "t");
        let wrong = place.url(&server).replace(PASSWORD, "wrong");
        assert!(connect(&wrong).await.is_err(), "a local client is not trusted without its password");
    });
    let mut psql = server.client_tool("psql", "acme");
    let said = check_output(psql.env("PGHOST", place.dir.path()).args(["-XAtc", "SELECT 42"]));
    assert_eq!(said.trim(), "42");
    let socket = place.socket(&server);
    assert!(socket.exists());
    assert!(server.terminate().success());
    assert!(!socket.exists(), "nobody is to find a door that leads nowhere");
}

#[test]
fn a_socket_left_by_a_killed_server_is_taken_over_and_one_in_use_is_not() {
    let place = Place::new();
    let mut server = Server::start_with(&[&place.option()]);
    let socket = place.socket(&server);
    let address = format!("--listen=127.0.0.1:{}", server.port());
    server.kill();
    assert!(socket.exists());
    let data = tempfile::tempdir().expect("a temporary directory");
    let taken = UnixListener::bind(place.dir.path().join("probe")).expect("a socket of somebody else");
    std::fs::rename(place.dir.path().join("probe"), &socket).expect("it can be moved there");
    let refused = Server::launch(&data.path().join("data"), &[&place.option(), &address]);
    let said = refused.err().expect("somebody listens there");
    assert!(said.contains(&socket.display().to_string()), "{said}");
    assert!(socket.exists());
    drop(taken);
    let server = Server::on(&data.path().join("data"), &[&place.option(), &address]);
    run(async {
        server.create_tenant("acme").await;
        connect(&place.url(&server)).await.expect("the socket is the new server's");
    });
}
