//! A server that does nothing, durably if told to: what pgbench reaches against it is what no server can pass on this machine with this client.
//!
//! `cargo run --release -p env --example canned SOCKET_DIR [threads|poll] [LOG]` listens on `SOCKET_DIR/.s.PGSQL.5432` and answers pgbench's built-in scripts in
//! their prepared form from constants: every SELECT with one row, every change with one row changed. It keeps no data, checks no password and asks nobody. `threads`
//! gives each connection a blocking thread, as PostgreSQL gives it a process; `poll` serves all of them on one, as one worker serves a tenant. With LOG each COMMIT
//! is answered after 4 KiB were written to that file and an `fdatasync`: in `threads` one of its own, in `poll` one for all that came while the last one went on,
//! by a thread that does nothing else.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};

use pgproto::backend::{self, Field, RowWriter, TransactionStatus};
use pgproto::frontend::Format;
use pgproto::startup::CancelKey;

use polling::{Event, Events, PollMode, Poller};

/// OID of `int4`.
const INT4: u32 = 23;

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Begin,
    Commit,
    Select,
    Change(&'static str),
}

impl Kind {
    fn of(statement: &[u8]) -> Kind {
        match statement.trim_ascii_start().first().map_or(b'S', u8::to_ascii_uppercase) {
            b'B' => Kind::Begin,
            b'E' | b'C' => Kind::Commit,
            b'U' => Kind::Change("UPDATE 1"),
            b'I' => Kind::Change("INSERT 0 1"),
            _ => Kind::Select,
        }
    }

    fn tag(self) -> &'static str {
        match self {
            Kind::Begin => "BEGIN",
            Kind::Commit => "COMMIT",
            Kind::Select => "SELECT 1",
            Kind::Change(tag) => tag,
        }
    }
}

fn describe(out: &mut Vec<u8>, columns: &[&str]) {
    let fields = columns.iter().map(|name| Field {
        name,
        table_oid: 0,
        column: 0,
        type_oid: INT4,
        type_len: 4,
        type_mod: -1,
        format: Format::Text,
    });
    backend::row_description(out, fields);
}

fn row(out: &mut Vec<u8>, values: &[Option<&str>]) {
    let mut row = RowWriter::begin(out, values.len());
    for value in values {
        match value {
            Some(text) => row.value(|out| out.extend(text.as_bytes())),
            None => row.null(),
        }
    }
    row.finish();
}

/// One client: what came and was not read yet, and what goes to it.
struct Connection {
    stream: UnixStream,
    input: Vec<u8>,
    out: Vec<u8>,
    started: bool,
    statements: BTreeMap<Vec<u8>, Kind>,
    bound: Kind,
    in_block: bool,
    /// A COMMIT is in `out`.
    commits: bool,
}

/// What is before the next zero byte, and what follows that.
fn cstr(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|byte| *byte == 0).expect("a terminated string");
    (&bytes[..end], &bytes[end + 1..])
}

impl Connection {
    fn new(stream: UnixStream) -> Connection {
        Connection {
            stream,
            input: Vec::new(),
            out: Vec::new(),
            started: false,
            statements: BTreeMap::new(),
            bound: Kind::Select,
            in_block: false,
            commits: false,
        }
    }

    /// Reads once and writes the answers into `out`; false at the end of the connection.
    fn turn(&mut self) -> bool {
        let mut read = [0; 8192];
        let Ok(n @ 1..) = self.stream.read(&mut read) else { return false };
        self.input.extend(&read[..n]);
        loop {
            let at = usize::from(self.started);
            let Some(length) = self.input.get(at..at + 4) else { return true };
            let end = at + u32::from_be_bytes(length.try_into().expect("four bytes")) as usize;
            if self.input.len() < end {
                return true;
            }
            let message: Vec<u8> = self.input.drain(..end).collect();
            if !self.started {
                self.start();
            } else if !self.answer(message[0], &message[5..]) {
                return false;
            }
        }
    }

    fn start(&mut self) {
        self.started = true;
        backend::authentication_ok(&mut self.out);
        for (name, value) in
            [("server_version", "15.0"), ("client_encoding", "UTF8"), ("standard_conforming_strings", "on")]
        {
            backend::parameter_status(&mut self.out, name, value);
        }
        backend::backend_key_data(&mut self.out, CancelKey { process_id: 1, secret: 1 });
        self.ready();
    }

    fn ready(&mut self) {
        let status = if self.in_block { TransactionStatus::InTransaction } else { TransactionStatus::Idle };
        backend::ready_for_query(&mut self.out, status);
    }

    fn answer(&mut self, kind: u8, body: &[u8]) -> bool {
        match kind {
            b'P' => {
                let (name, rest) = cstr(body);
                self.statements.insert(name.to_vec(), Kind::of(rest));
                backend::parse_complete(&mut self.out);
            }
            b'B' => {
                let (name, _) = cstr(cstr(body).1);
                self.bound = self.statements[name];
                backend::bind_complete(&mut self.out);
            }
            b'D' if self.bound == Kind::Select => describe(&mut self.out, &["abalance"]),
            b'D' => backend::no_data(&mut self.out),
            b'E' => self.execute(),
            b'S' => self.ready(),
            b'Q' => {
                // What pgbench asks before it begins: whether the table has partitions, and how many branches there are.
                if body.windows(9).any(|word| word == b"inhparent") {
                    describe(&mut self.out, &["n", "partstrat", "count"]);
                    row(&mut self.out, &[Some("1"), None, Some("0")]);
                } else {
                    describe(&mut self.out, &["count"]);
                    row(&mut self.out, &[Some("20")]);
                }
                backend::command_complete(&mut self.out, "SELECT 1");
                self.ready();
            }
            b'X' => return false,
            other => panic!("pgbench does not send {:?}", char::from(other)),
        }
        true
    }

    fn execute(&mut self) {
        match self.bound {
            Kind::Begin => self.in_block = true,
            Kind::Commit => (self.in_block, self.commits) = (false, true),
            Kind::Select => row(&mut self.out, &[Some("1")]),
            Kind::Change(_) => {}
        }
        backend::command_complete(&mut self.out, self.bound.tag());
    }

    fn send(&mut self) {
        // A client that has gone away is found at the next read.
        let _gone = self.stream.write_all(&self.out);
        self.out.clear();
        self.commits = false;
    }
}

/// Makes what comes durable, all that is there at once, and sends the answers.
fn flush_for(log: &File, from: &Receiver<(UnixStream, Vec<u8>)>) {
    while let Ok(first) = from.recv() {
        let group: Vec<_> = std::iter::once(first).chain(from.try_iter()).collect();
        flush(Some(log));
        for (mut stream, out) in group {
            // A client that has gone away is found at the next read.
            let _gone = stream.write_all(&out);
        }
    }
}

fn flush(log: Option<&File>) {
    if let Some(log) = log {
        log.write_all_at(&[1; 4096], 0).expect("the log takes a block");
        log.sync_data().expect("the log is flushed");
    }
}

fn in_threads(listener: &UnixListener, log: Option<&File>) {
    std::thread::scope(|scope| {
        for stream in listener.incoming() {
            let mut connection = Connection::new(stream.expect("a connection"));
            scope.spawn(move || {
                while connection.turn() {
                    if connection.commits {
                        flush(log);
                    }
                    connection.send();
                }
            });
        }
    });
}

fn in_one_thread(listener: &UnixListener, log: Option<&File>) {
    let (to_log, of_log) = channel();
    std::thread::scope(|scope| {
        if let Some(log) = log {
            scope.spawn(move || flush_for(log, &of_log));
        }
        poll(listener, log.map(|_| &to_log));
    });
}

fn poll(listener: &UnixListener, to_log: Option<&Sender<(UnixStream, Vec<u8>)>>) {
    let poller = Poller::new().expect("a poller");
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut events = Events::new();
    // SAFETY: the listener lives as long as the poller.
    unsafe {
        poller
            .add_with_mode(listener, Event::readable(usize::MAX - 1), PollMode::Level)
            .expect("the listener is watched")
    };
    loop {
        events.clear();
        poller.wait(&mut events, None).expect("the poller waits");
        for event in events.iter() {
            let Some(slot) = connections.get_mut(event.key) else {
                let (stream, _) = listener.accept().expect("a connection");
                // SAFETY: it is deleted from the poller before it is dropped.
                unsafe {
                    poller
                        .add_with_mode(&stream, Event::readable(connections.len()), PollMode::Level)
                        .expect("it is watched")
                };
                connections.push(Some(Connection::new(stream)));
                continue;
            };
            let connection = slot.as_mut().expect("only live ones are watched");
            if !connection.turn() {
                poller.delete(&connection.stream).expect("it was watched");
                *slot = None;
            } else if let Some(to_log) = to_log.filter(|_| connection.commits) {
                let stream = connection.stream.try_clone().expect("a descriptor is free");
                to_log.send((stream, std::mem::take(&mut connection.out))).expect("the log's thread lives");
                connection.commits = false;
            } else {
                connection.send();
            }
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (directory, mode, log) = match &arguments[..] {
        [directory] => (directory, "poll", None),
        [directory, mode] => (directory, mode.as_str(), None),
        [directory, mode, log] => (directory, mode.as_str(), Some(log)),
        _ => panic!("canned SOCKET_DIR [threads|poll] [LOG]"),
    };
    let log = log.map(|path| {
        let file = File::create(path).expect("the log is made");
        file.write_all_at(&[0; 4096], 0).and_then(|()| file.sync_all()).expect("the log has its length");
        file
    });
    let path = Path::new(directory).join(".s.PGSQL.5432");
    let listener = UnixListener::bind(&path).expect("a socket of its own");
    println!("{}", path.display());
    match mode {
        "threads" => in_threads(&listener, log.as_ref()),
        "poll" => in_one_thread(&listener, log.as_ref()),
        other => panic!("threads or poll, not {other}"),
    }
}
