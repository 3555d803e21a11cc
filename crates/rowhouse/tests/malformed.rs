//! Start-up packets and messages that are cut, too long or wrong inside: each has its SQLSTATE, the one that PostgreSQL 15 gives
//! the same bytes, and no other session notices. Where PostgreSQL differs, the case says how: it only logs lengths that
//! cannot be and closes without a word.

mod common;

use common::Server;
use common::bystander::Bystander;
use common::postgres::Postgres;
use common::raw::{RawClient, Said};
use pgproto::client;

/// What somebody sends, and what comes back here and from PostgreSQL.
struct Case {
    what: &'static str,
    bytes: Vec<u8>,
    ours: Vec<Said>,
    theirs: Vec<Said>,
}

fn error(state: &str) -> Said {
    Said::Error(state.to_owned())
}

/// An error that ends the connection.
fn fatal(state: &str) -> Vec<Said> {
    vec![error(state), Said::Closed]
}

/// An error after which the session is ready.
fn refused(state: &str) -> Vec<Said> {
    vec![error(state), Said::Message(b'Z')]
}

fn same(what: &'static str, bytes: Vec<u8>, said: Vec<Said>) -> Case {
    Case { what, bytes, theirs: said.clone(), ours: said }
}

/// PostgreSQL says nothing.
fn silent(what: &'static str, bytes: Vec<u8>, ours: Vec<Said>) -> Case {
    Case { what, bytes, ours, theirs: vec![Said::Closed] }
}

/// A start-up packet with that body.
fn opening(body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(4 + body.len()).expect("small");
    [&len.to_be_bytes(), body].concat()
}

/// A start-up packet of protocol 3.0 with that in place of its parameters.
fn start_up(parameters: &[u8]) -> Vec<u8> {
    opening(&[&[0, 3, 0, 0], parameters].concat())
}

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    [&[tag], &opening(body)[..]].concat()
}

fn openings() -> Vec<Case> {
    let unencoded = "a user's name that is not UTF-8; there it may be any bytes, and nobody has that name";
    vec![
        silent("2 GB length word", b"\x7f\xff\xff\xff\0\x03\0\0".to_vec(), fatal("08P01")),
        silent("negative length word", b"\xff\xff\xff\xff\0\x03\0\0".to_vec(), fatal("08P01")),
        silent("length below the header", b"\0\0\0\x04".to_vec(), fatal("08P01")),
        silent("length above the most", b"\0\0\x27\x15\0\x03\0\0".to_vec(), fatal("08P01")),
        same("nothing after the version", start_up(b""), fatal("08P01")),
        same("protocol of the future", opening(b"\0\x09\0\0\0"), fatal("0A000")),
        // Its error is in the form of that protocol, which is no message of ours.
        silent("protocol of the past", opening(b"\0\x02\0\0\0"), fatal("0A000")),
        same("a name without an end", start_up(b"user"), fatal("08P01")),
        same("a value without an end", start_up(b"user\0acme"), fatal("08P01")),
        same("parameters without an end", start_up(b"user\0acme\0"), fatal("08P01")),
        same("a name without a value", start_up(b"user\0acme\0database\0"), fatal("08P01")),
        same("bytes after the end", start_up(b"user\0acme\0\0x"), fatal("08P01")),
        same("a NUL after the end", start_up(b"user\0acme\0\0\0"), fatal("08P01")),
        same("no parameters", start_up(b"\0"), fatal("28000")),
        same("no user", start_up(b"database\0acme\0\0"), fatal("28000")),
        same("an empty user", start_up(b"user\0\0\0"), fatal("28000")),
        silent("HTTP", b"GET / HTTP/1.1\r\nHost: here\r\n\r\n".to_vec(), fatal("08P01")),
        silent("TLS without asking", b"\x16\x03\x01\0\xc8\x01\0\0\xc4\x03\x03".to_vec(), fatal("08P01")),
        silent("a cancel request cut short", opening(b"\x04\xd2\x16\x2eabcd"), fatal("08P01")),
        silent("a cancel request too long", opening(b"\x04\xd2\x16\x2eabcdabcdx"), fatal("08P01")),
        Case {
            what: unencoded,
            bytes: start_up(b"user\0\xff\xfe\0\0"),
            ours: fatal("22021"),
            theirs: vec![Said::Message(b'R'), error("28000"), Said::Closed],
        },
    ]
}

/// Messages after which the stream cannot be followed.
fn streams() -> Vec<Case> {
    let random =
        (0..4096_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8 | 0x80).collect::<Vec<u8>>();
    vec![
        silent("2 GB length word", b"Q\x7f\xff\xff\xff".to_vec(), fatal("08P01")),
        silent("negative length word", b"P\xff\xff\xff\xff".to_vec(), fatal("08P01")),
        silent("length below the header", b"Q\0\0\0\x03".to_vec(), fatal("08P01")),
        silent("a Sync of 20,000 bytes", b"S\0\0\x4e\x20".to_vec(), fatal("08P01")),
        same("unknown message type", message(b'~', b""), fatal("08P01")),
        same("zero bytes", vec![0; 64], fatal("08P01")),
        same("random bytes", random, fatal("08P01")),
    ]
}

/// Whole messages that are wrong inside. There is the statement `s` with a parameter of type int4, the unnamed one with none,
/// and no portal. A Sync follows those of the extended protocol.
fn messages() -> Vec<Case> {
    let then_sync = |message: Vec<u8>| {
        let mut bytes = message;
        client::sync(&mut bytes);
        bytes
    };
    let simple = |what, tag, body: &[u8], state| same(what, message(tag, body), refused(state));
    let extended = |what, tag, body: &[u8], state| same(what, then_sync(message(tag, body)), refused(state));
    let bound = |what, bind: &[u8], then: Vec<u8>, state| {
        let bytes = then_sync([message(b'B', bind), then].concat());
        same(what, bytes, [vec![Said::Message(b'2')], refused(state)].concat())
    };
    vec![
        simple("query without an end", b'Q', b"ab", "08P01"),
        simple("query with bytes after its end", b'Q', b"SELECT 1\0b\0", "08P01"),
        simple("query of nothing", b'Q', b"", "08P01"),
        simple("query that is not UTF-8", b'Q', b"SELECT '\xff'\0", "22021"),
        extended("parse cut short", b'P', b"t\0", "08P01"),
        extended("parse of a query without an end", b'P', b"t\0SELECT 1", "08P01"),
        extended("parse without a count of types", b'P', b"t\0SELECT 1\0", "08P01"),
        extended("parse with fewer types than it counts", b'P', b"t\0SELECT 1\0\0\x02\0\0\0\x17", "08P01"),
        extended("parse with 65,535 types, of which it has none", b'P', b"t\0SELECT 1\0\xff\xff", "08P01"),
        extended("parse with bytes after its end", b'P', b"t\0SELECT 1\0\0\0x", "08P01"),
        extended("parse of two queries", b'P', b"t\0SELECT 1; SELECT 2\0\0\0", "42601"),
        extended("parse of a name that is taken", b'P', b"s\0SELECT 1\0\0\0", "42P05"),
        extended("parse of a name that is not UTF-8", b'P', b"\xff\0SELECT 1\0\0\0", "22021"),
        extended("bind cut short", b'B', b"\0", "08P01"),
        extended("bind to a statement that is not there", b'B', b"\0no\0\0\0\0\0\0\0", "26000"),
        extended("bind with more values than bytes", b'B', b"\0s\0\0\0\x7f\xff\0\0", "08P01"),
        extended("bind with too few values", b'B', b"\0s\0\0\0\0\0\0\0", "08P01"),
        extended(
            "bind with too many values",
            b'B',
            b"\0s\0\0\0\0\x02\xff\xff\xff\xff\xff\xff\xff\xff\0\0",
            "08P01",
        ),
        extended(
            "bind with two formats for one value",
            b'B',
            b"\0s\0\0\x02\0\0\0\0\0\x01\xff\xff\xff\xff\0\0",
            "08P01",
        ),
        extended("bind with format 2", b'B', b"\0s\0\0\x01\0\x02\0\x01\0\0\0\x011\0\0", "22023"),
        extended(
            "bind with three formats for one column",
            b'B',
            b"\0s\0\0\0\0\x01\xff\xff\xff\xff\0\x03\0\0\0\0\0\0",
            "08P01",
        ),
        extended("bind of a value of 2 GB", b'B', b"\0s\0\0\0\0\x01\x7f\xff\xff\xffx\0\0", "08P01"),
        extended("bind of a value of -2 bytes", b'B', b"\0s\0\0\0\0\x01\xff\xff\xff\xfe\0\0", "08P01"),
        extended("bind of an int4 of 3 bytes", b'B', b"\0s\0\0\x01\0\x01\0\x01\0\0\0\x03abc\0\0", "08P01"),
        extended("bind of an int4 of 5 bytes", b'B', b"\0s\0\0\x01\0\x01\0\x01\0\0\0\x05abcde\0\0", "22P03"),
        extended("bind of an int4 that is none", b'B', b"\0s\0\0\0\0\x01\0\0\0\x03abc\0\0", "22P02"),
        extended("bind with bytes after its end", b'B', b"\0\0\0\0\0\0\0\0x", "08P01"),
        bound(
            "bind of a portal that is there",
            b"p\0\0\0\0\0\0\0\0",
            message(b'B', b"p\0\0\0\0\0\0\0\0"),
            "42P03",
        ),
        extended("describe of nothing", b'D', b"", "08P01"),
        extended("describe of neither", b'D', b"?\0", "08P01"),
        extended("describe of a statement that is not there", b'D', b"Sno\0", "26000"),
        extended("describe of a portal that is not there", b'D', b"Pno\0", "34000"),
        extended("describe of the unnamed portal, which is not there", b'D', b"P\0", "34000"),
        extended("close of neither", b'C', b"?\0", "08P01"),
        extended("execute cut short", b'E', b"no\0\0\0\0", "08P01"),
        extended("execute with bytes after its end", b'E', b"no\0\0\0\0\0x", "08P01"),
        extended("execute of a portal that is not there", b'E', b"no\0\0\0\0\0", "34000"),
        extended("execute of the unnamed portal, which is not there", b'E', b"\0\0\0\0\0", "34000"),
        extended("flush with a body", b'H', b"x", "08P01"),
        // The session is told to be ready once, or the query afterwards would have no answer.
        simple("sync with a body", b'S', b"x", "08P01"),
        // Nothing to complain of.
        same(
            "close of a statement that is not there",
            then_sync(message(b'C', b"Sno\0")),
            vec![Said::Message(b'3'), Said::Message(b'Z')],
        ),
        same(
            "the rest of a COPY that has failed",
            then_sync([message(b'd', b"x"), message(b'c', b""), message(b'f', b"x\0")].concat()),
            vec![Said::Message(b'Z')],
        ),
        // PostgreSQL ends the session.
        Case {
            what: "a password in the midst of it",
            bytes: message(b'p', b"secret\0"),
            ours: refused("08P01"),
            theirs: fatal("08P01"),
        },
        // PostgreSQL has such calls, and no such function.
        Case {
            what: "a function call",
            bytes: message(b'F', b"\x7f\xff\xff\xff\0\0\0\0\0\0"),
            ours: refused("0A000"),
            theirs: refused("42883"),
        },
    ]
}

/// Two servers that are told the same.
struct Both {
    ours: Server,
    theirs: Postgres,
}

impl Both {
    fn start() -> Both {
        Both { ours: Server::with_acme(), theirs: Postgres::start() }
    }

    fn log_in(&self) -> [RawClient; 2] {
        [
            RawClient::log_in(&self.ours, "acme", "acme"),
            RawClient::enter(self.theirs.port(), "post", "postgres"),
        ]
    }
}

/// All that comes back until the connection ends or the session is ready.
fn answers(client: &mut RawClient, bytes: &[u8]) -> Vec<Said> {
    client.send(bytes);
    client.until_ready()
}

#[test]
fn broken_start_up_packets_have_their_sqlstate() {
    let both = Both::start();
    let bystander = Bystander::of(&both.ours);
    for Case { what, bytes, ours, theirs } in openings() {
        for (who, port, expected) in
            [("ours", both.ours.port(), ours), ("PostgreSQL's", both.theirs.port(), theirs)]
        {
            let said = answers(&mut RawClient::connect_to(port), &bytes);
            assert_eq!(said, expected, "{what}: {who}");
        }
    }
    // A client that goes away in the middle of it.
    for len in 0..20 {
        let mut start = Vec::new();
        client::startup(&mut start, &[("user", "acme"), ("database", "acme")]);
        RawClient::connect(&both.ours).send(&start[..len]);
    }
    bystander.end();
}

#[test]
fn broken_messages_have_their_sqlstate_and_end_their_own_session_at_most() {
    let both = Both::start();
    let bystander = Bystander::of(&both.ours);
    let mut prepare = Vec::new();
    client::parse(&mut prepare, "s", "SELECT $1::int4", &[]);
    client::parse(&mut prepare, "", "SELECT 1", &[]);
    client::sync(&mut prepare);
    for Case { what, bytes, ours, theirs } in streams().into_iter().chain(messages()) {
        for (who, mut client, expected) in
            ["ours", "PostgreSQL's"].into_iter().zip(both.log_in()).zip([ours, theirs]).map(flat)
        {
            let prepared = [b'1', b'1', b'Z'].map(Said::Message);
            assert_eq!(answers(&mut client, &prepare), prepared, "{who}");
            let said = answers(&mut client, &bytes);
            assert_eq!(said, expected, "{what}: {who}");
            if expected.last() != Some(&Said::Closed) {
                let row = [b'T', b'D', b'C', b'Z'].map(Said::Message);
                assert_eq!(client.query("SELECT 1"), row, "{what}: {who}, afterwards");
            }
        }
    }
    // A client that goes away in the middle of a message, of a transaction, of a COPY.
    for sql in ["", "BEGIN; DELETE FROM beside", "BEGIN; COPY beside FROM STDIN"] {
        let mut raw = RawClient::log_in(&both.ours, "acme", "acme");
        let mut out = Vec::new();
        client::query(&mut out, sql);
        out.extend([b'Q', 0, 0, 1, 0, b'S']);
        raw.send(&out);
        drop(raw);
    }
    bystander.end();
}

fn flat<A, B, C>(((a, b), c): ((A, B), C)) -> (A, B, C) {
    (a, b, c)
}
