//! A connection whose bytes the test decides itself.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use pgproto::client;
use pgproto::scram::{self, ClientExchange};

use super::{PASSWORD, Server};

/// A socket and what was received beyond the messages already taken.
pub struct RawClient {
    socket: TcpStream,
    input: Vec<u8>,
}

/// What a server said: the tag, and of an error its SQLSTATE.
#[derive(Debug, PartialEq, Eq, Clone)]
pub enum Said {
    Message(u8),
    Error(String),
    Closed,
}

impl RawClient {
    /// A connection that has said nothing yet.
    pub fn connect(server: &Server) -> RawClient {
        RawClient::connect_to(server.port())
    }

    /// A connection that has said nothing yet, to whoever listens on that port.
    pub fn connect_to(port: u16) -> RawClient {
        let socket = TcpStream::connect(("127.0.0.1", port)).expect("the server accepts");
        socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout can be set");
        socket.set_nodelay(true).expect("the socket takes options");
        RawClient { socket, input: Vec::new() }
    }

    /// An authenticated session, ready for a query.
    pub fn log_in(server: &Server, user: &str, database: &str) -> RawClient {
        let mut this = RawClient::connect(server);
        this.log_in_with(&[("user", user), ("database", database)]);
        this
    }

    /// A session of a server that asks for no password, ready for a query.
    pub fn enter(port: u16, user: &str, database: &str) -> RawClient {
        let mut this = RawClient::connect_to(port);
        let mut out = Vec::new();
        client::startup(&mut out, &[("user", user), ("database", database)]);
        this.send(&out);
        assert_eq!(this.until_ready().last(), Some(&Said::Message(b'Z')));
        this
    }

    fn log_in_with(&mut self, parameters: &[(&str, &str)]) {
        let mut out = Vec::new();
        client::startup(&mut out, parameters);
        self.send(&out);
        assert_eq!(self.message().expect("the server answers").0, b'R');
        let mut exchange = ClientExchange::new(PASSWORD, [7; scram::NONCE_LEN]);
        let mut out = Vec::new();
        client::sasl_initial_response(&mut out, scram::MECHANISM, &exchange.first());
        self.send(&out);
        let (_, body) = self.message().expect("the server answers");
        let answer = exchange.server_first(&body[4..]).expect("the server's part of the exchange");
        let mut out = Vec::new();
        client::sasl_response(&mut out, &answer);
        self.send(&out);
        assert_eq!(self.until_ready().last(), Some(&Said::Message(b'Z')));
    }

    /// Sends bytes as they are; a server that has closed already is no failure.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.socket.write_all(bytes);
    }

    /// The next message, or `None` once the server has closed.
    pub fn message(&mut self) -> Option<(u8, Vec<u8>)> {
        loop {
            if let Some(frame) = client::next(&self.input).expect("the server's messages can be cut") {
                let (tag, body, len) = (frame.tag, frame.body.to_vec(), frame.wire_len());
                self.input.drain(..len);
                return Some((tag, body));
            }
            let mut part = [0; 64 * 1024];
            match self.socket.read(&mut part) {
                Ok(0) => return None,
                Ok(n) => self.input.extend(&part[..n]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("the server neither answered nor closed: {error}"),
            }
        }
    }

    fn said(&mut self) -> Said {
        match self.message() {
            None => Said::Closed,
            Some((b'E', body)) => {
                // The text of PostgreSQL's errors has what was sent, UTF-8 or not.
                let mut fields = body.split(|byte| *byte == 0);
                let code = fields.find_map(|field| field.strip_prefix(b"C")).expect("an error has a code");
                Said::Error(String::from_utf8_lossy(code).into_owned())
            }
            Some((tag, _)) => Said::Message(tag),
        }
    }

    /// Everything up to ReadyForQuery, the wish for COPY's data or the end of the connection.
    pub fn until_ready(&mut self) -> Vec<Said> {
        let mut all = Vec::new();
        loop {
            let said = self.said();
            all.push(said.clone());
            if matches!(said, Said::Closed | Said::Message(b'Z' | b'G')) {
                return all;
            }
        }
    }

    /// Sends a query and gives all that comes back.
    pub fn query(&mut self, sql: &str) -> Vec<Said> {
        let mut out = Vec::new();
        client::query(&mut out, sql);
        self.send(&out);
        self.until_ready()
    }
}
