//! A server in a temporary directory, and a client that speaks to it in bytes.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part")]

pub mod browser;
pub mod exposition;
pub mod trusting;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use base::SqlState;
use env::Env;
use pgproto::client;
use pgproto::scram::{ClientExchange, MECHANISM};
use pgproto::startup::CancelKey;
use server::{Server, ServerConfig};

pub const ADMIN_PASSWORD: &str = "for tests only";

/// A running server. Stopped in order when dropped.
pub struct TestServer {
    server: Option<Server>,
    env: Env,
    pub config: ServerConfig,
    _dir: Option<tempfile::TempDir>,
}

impl TestServer {
    pub fn start() -> TestServer {
        TestServer::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut ServerConfig)) -> TestServer {
        TestServer::in_env(&Env::real(), change)
    }

    /// A server with the console.
    pub fn with_console() -> TestServer {
        TestServer::with(|config| config.admin_listen = Some(SocketAddr::from(([127, 0, 0, 1], 0))))
    }

    /// A server on a machine of the test's own.
    pub fn in_env(env: &Env, change: impl FnOnce(&mut ServerConfig)) -> TestServer {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut config = ServerConfig {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            admin_listen: None,
            workers: Some(2),
            admin_password: Some(ADMIN_PASSWORD.to_owned()),
            log_segment_len: base::ByteCount::from_mib(1),
            head_start_min: base::ByteCount(1),
            turn_max: base::Nanos(0),
            ..ServerConfig::new(dir.path())
        };
        change(&mut config);
        let server = Server::start(env, config.clone()).expect("the server starts");
        TestServer { server: Some(server), env: env.clone(), config, _dir: Some(dir) }
    }

    /// Stops the server and starts one on the same directory.
    pub fn restart(self) -> TestServer {
        self.restart_after(|_, _| {})
    }

    /// As [`TestServer::restart`], with a look at the files in between.
    pub fn restart_after(mut self, look: impl FnOnce(&Env, &ServerConfig)) -> TestServer {
        self.server.take().expect("running").stop();
        look(&self.env, &self.config);
        let server = Server::start(&self.env, self.config.clone()).expect("the server starts again");
        let (env, config) = (self.env.clone(), self.config.clone());
        TestServer { server: Some(server), env, config, _dir: self._dir.take() }
    }

    pub fn running(&self) -> &Server {
        self.server.as_ref().expect("running")
    }

    pub fn address(&self) -> SocketAddr {
        self.running().address()
    }

    pub fn connect(&self, database: &str, user: &str, password: &str) -> Result<Client, Refused> {
        Client::connect(self.address(), database, user, password)
    }

    /// All families of /metrics.
    pub fn metrics(&self) -> std::collections::BTreeMap<String, exposition::Family> {
        let mut stream = tcp(self.running().admin_address().expect("listening"));
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("listening");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        exposition::parse(answer.split_once("\r\n\r\n").expect("a body").1)
    }

    pub fn admin(&self, database: &str) -> Client {
        self.connect(database, "admin", ADMIN_PASSWORD).expect("the administrator may enter")
    }

    /// A session of the administrator's under TLS that trusts the certificate which is in the files now; `None` if the server shows
    /// another.
    pub fn under_tls(&self) -> Option<Client> {
        let mut stream = tcp(self.address());
        let mut out = Vec::new();
        client::ssl_request(&mut out);
        stream.write_all(&out).expect("the server listens");
        let mut answer = [0];
        stream.read_exact(&mut answer).expect("the server answers");
        assert_eq!(&answer, b"S");
        let mut stream = trusting::over(&trusting::config(&self.config.data_dir), stream);
        stream.conn.complete_io(&mut stream.sock).ok()?;
        Some(Client::over(stream, "rowhouse", "admin", ADMIN_PASSWORD).expect("enters"))
    }

    /// Makes a tenant owned by a role of its name with the password `pw`.
    pub fn create_tenant(&self, name: &str) {
        self.admin("rowhouse").ok(&format!("CREATE TENANT {name} OWNER {name} PASSWORD 'pw'"));
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop();
        }
    }
}

/// An ErrorResponse or a NoticeResponse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub state: SqlState,
    pub message: String,
    pub detail: String,
    pub severity: String,
}

/// What a Query was answered with.
#[derive(Debug, Default)]
pub struct Answer {
    pub rows: Vec<Vec<Option<String>>>,
    pub tags: Vec<String>,
    pub error: Option<Refused>,
    /// What was told beside the result, warnings and notices.
    pub notices: Vec<Refused>,
    /// Names of the columns of the last result.
    pub columns: Vec<String>,
    pub status: u8,
}

/// Rows with named columns.
pub struct Shown {
    columns: Vec<String>,
    rows: Vec<Vec<Option<String>>>,
}

impl Shown {
    /// A value of the row whose first column is `row`; `None` for NULL.
    ///
    /// # Panics
    /// There is no such row or column.
    pub fn value(&self, row: &str, column: &str) -> Option<&str> {
        let at = self.columns.iter().position(|one| one == column).unwrap_or_else(|| panic!("no {column}"));
        let found = self.rows.iter().find(|one| one[0].as_deref() == Some(row));
        found.unwrap_or_else(|| panic!("no {row} in {:?}", self.rows))[at].as_deref()
    }

    /// The first column.
    pub fn names(&self) -> Vec<&str> {
        self.rows.iter().filter_map(|row| row[0].as_deref()).collect()
    }
}

trait Bytes: Read + Write + Send {}
impl<T: Read + Write + Send> Bytes for T {}

/// A blocking client.
pub struct Client {
    stream: Box<dyn Bytes>,
    input: Vec<u8>,
    pub key: CancelKey,
}

pub fn tcp(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the server listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout can be set");
    stream.set_nodelay(true).expect("an option can be set");
    stream
}

impl Client {
    pub fn connect(
        address: SocketAddr,
        database: &str,
        user: &str,
        password: &str,
    ) -> Result<Client, Refused> {
        Client::over(tcp(address), database, user, password)
    }

    /// Speaks over a stream that is connected, and under TLS perhaps.
    pub fn over(
        stream: impl Read + Write + Send + 'static,
        database: &str,
        user: &str,
        password: &str,
    ) -> Result<Client, Refused> {
        Client::with_settings(stream, database, user, password, &[("application_name", "test")])
    }

    /// The same with settings that the session is to begin with.
    pub fn with_settings(
        stream: impl Read + Write + Send + 'static,
        database: &str,
        user: &str,
        password: &str,
        settings: &[(&str, &str)],
    ) -> Result<Client, Refused> {
        let key = CancelKey { process_id: 0, secret: 0 };
        let mut client = Client { stream: Box::new(stream), input: Vec::new(), key };
        let mut out = Vec::new();
        let parameters = [&[("user", user), ("database", database)][..], settings].concat();
        client::startup(&mut out, &parameters);
        client.send(&out);
        client.authenticate(password)?;
        Ok(client)
    }

    fn authenticate(&mut self, password: &str) -> Result<(), Refused> {
        let mut exchange = ClientExchange::new(password, *b"eighteen bytes now");
        loop {
            let (tag, body) = self.message().expect("the server answers");
            let mut out = Vec::new();
            match (tag, body.get(..4)) {
                (b'E', _) => return Err(refused(&body)),
                (b'R', Some([0, 0, 0, 10])) => {
                    client::sasl_initial_response(&mut out, MECHANISM, &exchange.first());
                }
                (b'R', Some([0, 0, 0, 11])) => {
                    let last = exchange.server_first(&body[4..]).expect("a good challenge");
                    client::sasl_response(&mut out, &last);
                }
                (b'R', Some([0, 0, 0, 12])) => exchange.server_final(&body[4..]).expect("the server knows"),
                (b'K', _) => self.key = client::backend_key_data(&body).expect("a key"),
                (b'Z', _) => return Ok(()),
                _ => {}
            }
            self.send(&out);
        }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        // A server that hung up already has said why.
        let _ = self.stream.write_all(bytes);
    }

    /// The next message, or `None` at the end of the stream.
    pub fn message(&mut self) -> Option<(u8, Vec<u8>)> {
        loop {
            if let Some(frame) = client::next(&self.input).expect("well-formed") {
                let (tag, body, len) = (frame.tag, frame.body.to_vec(), frame.wire_len());
                self.input.drain(..len);
                return Some((tag, body));
            }
            let mut piece = [0; 16 << 10];
            match self.stream.read(&mut piece) {
                Ok(0) => return None,
                Ok(n) => self.input.extend_from_slice(&piece[..n]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => panic!("the server does not answer: {error}"),
            }
        }
    }

    /// Gathers what comes up to ReadyForQuery or the end of the stream.
    pub fn answer(&mut self) -> Answer {
        let mut answer = Answer::default();
        while let Some((tag, body)) = self.message() {
            match tag {
                b'D' => {
                    let text = |v: Option<&[u8]>| v.map(|v| String::from_utf8_lossy(v).into_owned());
                    answer.rows.push(client::data_row(&body).unwrap().into_iter().map(text).collect());
                }
                b'C' => answer.tags.push(String::from_utf8_lossy(&body[..body.len() - 1]).into_owned()),
                b'E' => answer.error = Some(refused(&body)),
                b'N' => answer.notices.push(refused(&body)),
                b'T' => answer.columns = column_names(&body),
                b'Z' => {
                    answer.status = body[0];
                    break;
                }
                _ => {}
            }
        }
        answer
    }

    pub fn start_query(&mut self, sql: &str) {
        let mut out = Vec::new();
        client::query(&mut out, sql);
        self.send(&out);
    }

    pub fn query(&mut self, sql: &str) -> Answer {
        self.start_query(sql);
        self.answer()
    }

    /// A query that must succeed; its rows.
    pub fn ok(&mut self, sql: &str) -> Vec<Vec<Option<String>>> {
        let answer = self.query(sql);
        assert_eq!(answer.error, None, "{sql}");
        answer.rows
    }

    /// A statement that must succeed with these messages beside its result.
    pub fn tells(&mut self, sql: &str) -> Vec<String> {
        let answer = self.query(sql);
        assert_eq!(answer.error, None, "{sql}");
        answer.notices.into_iter().map(|told| format!("{}: {}", told.severity, told.message)).collect()
    }

    /// What a SHOW of the administrator's answers.
    pub fn shown(&mut self, sql: &str) -> Shown {
        let answer = self.query(sql);
        assert_eq!(answer.error, None, "{sql}");
        Shown { columns: answer.columns, rows: answer.rows }
    }

    /// A query that must fail; with what.
    pub fn fails(&mut self, sql: &str) -> SqlState {
        self.query(sql).error.unwrap_or_else(|| panic!("{sql} should fail")).state
    }

    pub fn is_alive(&mut self) -> bool {
        self.query("SELECT 1").rows == [[Some("1".to_owned())]]
    }
}

/// The names in a RowDescription: each is followed by 18 bytes.
fn column_names(body: &[u8]) -> Vec<String> {
    let mut rest = &body[2..];
    let mut names = Vec::new();
    while let Some(end) = rest.iter().position(|byte| *byte == 0) {
        names.push(String::from_utf8_lossy(&rest[..end]).into_owned());
        rest = &rest[end + 1 + 18..];
    }
    names
}

fn refused(body: &[u8]) -> Refused {
    let fields = client::report_fields(body).expect("a well-formed report");
    let field = |code: u8| {
        let found = fields.iter().find(|(c, _)| *c == code);
        found.map(|(_, text)| (*text).to_owned()).unwrap_or_default()
    };
    Refused {
        state: client::report_state(body).expect("a state"),
        message: field(b'M'),
        detail: field(b'D'),
        severity: field(b'S'),
    }
}

/// Waits until `condition` holds, at most ten seconds.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if condition() {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
    panic!("{what} did not happen");
}
