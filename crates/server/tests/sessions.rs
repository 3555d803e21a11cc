//! Sessions that are cancelled, ended, slow or hostile, and their neighbours.

mod support;

use std::io::Write as _;
use std::time::Instant;

use base::SqlState;
use env::Env;
use pgproto::client;
use support::{Client, TestServer, tcp};

#[test]
fn a_cancel_request_ends_the_statement_and_not_the_session() {
    let server = TestServer::start();
    let mut client = server.admin("rowhouse");
    let key = client.key;
    let address = server.address();
    let began = Instant::now();
    client.start_query("SELECT pg_sleep(30)");
    let canceller = std::thread::Builder::new()
        .spawn(move || {
            std::thread::park_timeout(std::time::Duration::from_millis(200));
            let mut out = Vec::new();
            client::cancel_request(&mut out, key);
            tcp(address).write_all(&out).unwrap();
        })
        .unwrap();
    let answer = client.answer();
    canceller.join().unwrap();
    assert_eq!(answer.error.expect("cancelled").state, SqlState::QUERY_CANCELED);
    assert!(began.elapsed().as_secs() < 20);
    assert!(client.is_alive());
}

#[test]
fn a_statement_over_its_time_is_cancelled() {
    let server = TestServer::start();
    let mut client = server.admin("rowhouse");
    client.ok("SET statement_timeout = 50");
    let error = client.query("SELECT pg_sleep(30)").error.expect("cancelled");
    assert_eq!(error.state, SqlState::QUERY_CANCELED);
    assert_eq!(error.message, "canceling statement due to statement timeout");
    assert!(client.is_alive());
}

/// Asks the server, over a connection of its own, to cancel what a session does.
fn cancel(server: &TestServer, session: &support::Client) {
    let mut out = Vec::new();
    client::cancel_request(&mut out, session.key);
    tcp(server.address()).write_all(&out).unwrap();
}

#[test]
fn a_send_that_is_cut_off_under_tls_ends_with_its_message() {
    let server = TestServer::start();
    server.create_tenant("acme");
    let mut acme = server.admin("acme");
    acme.ok("CREATE TABLE t AS SELECT x, repeat('x', 1000) AS v FROM generate_series(1, 16000) AS s(x)");
    let mut client = server.under_tls().expect("the certificate is the one in the files");
    client.start_query("BACKUP TENANT acme TO STDOUT");
    assert_eq!(client.message().expect("begins").0, b'H');
    // The rest is more than sockets hold, and is not read: the server is in the middle of a message.
    std::thread::park_timeout(std::time::Duration::from_secs(1));
    cancel(&server, &client);
    std::thread::park_timeout(std::time::Duration::from_millis(300));
    assert_eq!(client.answer().error.expect("cancelled").state, SqlState::QUERY_CANCELED);
    assert!(client.is_alive());
}

/// A statement of the point path that would hold its worker for hours, in one turn and without memory.
const LONG_TURN: &str = "INSERT INTO t SELECT x FROM generate_series(1, 1000000) AS a(x), \
                         generate_series(1, 1000000) AS b(y) WHERE x = -y";

fn with_rows(server: &TestServer) -> support::Client {
    let mut client = server.admin("rowhouse");
    client.ok("CREATE TABLE t (id int, v int DEFAULT 0)");
    client.ok("INSERT INTO t SELECT x FROM generate_series(1, 3000) AS s(x)");
    client
}

#[test]
fn a_statement_of_one_turn_is_cancelled_when_its_time_is_up() {
    let server = TestServer::start();
    let mut client = with_rows(&server);
    let count = "SELECT count(*) || ' ' || sum(v) FROM t";
    for statement in [
        LONG_TURN,
        "UPDATE t SET v = (SELECT count(*) FROM t AS a, t AS b WHERE a.id + b.id < 0)",
        "UPDATE t SET v = 1 WHERE id NOT IN (SELECT -x FROM generate_series(1, 1000000) AS s(x))",
        "DELETE FROM t USING t AS a, t AS b WHERE t.id + a.id = -b.id",
        "EXPLAIN ANALYZE DELETE FROM t USING t AS a, t AS b WHERE t.id + a.id = -b.id",
    ] {
        client.ok("SET statement_timeout = 50");
        let began = Instant::now();
        let error = client.query(statement).error.unwrap_or_else(|| panic!("{statement} ended"));
        assert_eq!(error.state, SqlState::QUERY_CANCELED, "{statement}: {}", error.message);
        assert_eq!(error.message, "canceling statement due to statement timeout");
        assert!(began.elapsed().as_secs() < 10, "{statement} took {:?}", began.elapsed());
        client.ok("RESET statement_timeout");
        assert_eq!(client.ok(count), [[Some("3000 0".to_owned())]], "{statement} left something");
    }
}

#[test]
fn a_cancel_request_reaches_a_statement_of_one_turn() {
    let server = TestServer::start();
    let mut client = with_rows(&server);
    client.start_query(LONG_TURN);
    // It may come before the statement begins, and is forgotten then.
    let (key, address) = (client.key, server.address());
    let (ended, end) = std::sync::mpsc::channel::<()>();
    let canceller = std::thread::Builder::new()
        .spawn(move || {
            while let Err(std::sync::mpsc::RecvTimeoutError::Timeout) =
                end.recv_timeout(std::time::Duration::from_millis(100))
            {
                let mut out = Vec::new();
                client::cancel_request(&mut out, key);
                tcp(address).write_all(&out).unwrap();
            }
        })
        .unwrap();
    let error = client.answer().error.expect("cancelled");
    drop(ended);
    canceller.join().unwrap();
    assert_eq!(error.state, SqlState::QUERY_CANCELED);
    assert_eq!(error.message, "canceling statement due to user request");
    assert!(client.is_alive());
}

/// The error of what a session sends, cancelled once, a while after it has begun.
fn error_of_cancelled(server: &TestServer, session: &mut support::Client, out: &[u8]) -> support::Refused {
    let (key, address) = (session.key, server.address());
    let canceller = std::thread::Builder::new()
        .spawn(move || {
            std::thread::park_timeout(std::time::Duration::from_millis(300));
            let mut out = Vec::new();
            client::cancel_request(&mut out, key);
            tcp(address).write_all(&out).unwrap();
        })
        .unwrap();
    session.send(out);
    let error = session.answer().error.expect("cancelled");
    canceller.join().unwrap();
    error
}

#[test]
fn one_cancel_request_reaches_a_statement_whose_message_has_answered_already() {
    let server = TestServer::start();
    let mut session = with_rows(&server);
    let mut out = Vec::new();
    client::query(&mut out, &format!("SELECT repeat('x', 3000); {LONG_TURN}"));
    let error = error_of_cancelled(&server, &mut session, &out);
    assert_eq!(error.message, "canceling statement due to user request");
    assert!(session.is_alive());
}

#[test]
fn one_cancel_request_reaches_a_batch_of_short_statements() {
    let server = TestServer::start();
    let mut session = server.admin("rowhouse");
    session.ok("CREATE TABLE empty (id int)");
    let mut out = Vec::new();
    client::parse(&mut out, "", "DELETE FROM empty", &[]);
    for _ in 0..100_000 {
        client::bind(&mut out, "", "", &[], &[], &[]);
        client::execute(&mut out, "", 0);
    }
    client::sync(&mut out);
    let error = error_of_cancelled(&server, &mut session, &out);
    assert_eq!(error.state, SqlState::QUERY_CANCELED);
    assert!(session.is_alive());
}

#[test]
fn the_servers_end_reaches_a_statement_of_one_turn() {
    let server = TestServer::start();
    let mut client = with_rows(&server);
    client.start_query(LONG_TURN);
    std::thread::park_timeout(std::time::Duration::from_millis(100));
    let began = Instant::now();
    drop(server);
    assert!(began.elapsed().as_secs() < 10, "the end took {:?}", began.elapsed());
    assert_eq!(client.answer().error.expect("told").state, SqlState::ADMIN_SHUTDOWN);
}

#[test]
fn each_statement_of_a_script_has_its_own_time() {
    let server = TestServer::start();
    let mut client = server.admin("rowhouse");
    client.ok("SET statement_timeout = 600");
    let pause = "SELECT pg_sleep(0.25);";
    client.ok(&pause.repeat(4));
    assert_eq!(client.fails(&format!("{pause} SELECT pg_sleep(5)")), SqlState::QUERY_CANCELED);
    // Neither does the time of one statement run on into the next message.
    std::thread::park_timeout(std::time::Duration::from_millis(700));
    client.ok(pause);
}

#[test]
fn a_copy_that_waits_for_its_client_is_cancelled_when_its_time_is_up() {
    let server = TestServer::start();
    let mut client = with_rows(&server);
    client.ok("SET statement_timeout = 100");
    client.start_query("COPY t FROM STDIN");
    let mut row = Vec::new();
    client::copy_data(&mut row, b"1\t2\n");
    client.send(&row);
    let error = client.answer().error.expect("cancelled");
    assert_eq!(error.state, SqlState::QUERY_CANCELED);
    assert_eq!(error.message, "canceling statement due to statement timeout");
    assert!(client.is_alive());
}

#[test]
fn an_idle_transaction_over_its_time_ends_the_session() {
    let server = TestServer::start();
    let mut client = server.admin("rowhouse");
    client.ok("SET idle_in_transaction_session_timeout = 50");
    assert_eq!(client.query("BEGIN").status, b'T');
    let error = client.answer().error.expect("told");
    assert_eq!(error.state, SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT);
    assert_eq!(error.severity, "FATAL");
    assert_eq!(client.message(), None);
}

#[test]
fn a_message_that_comes_byte_by_byte_does_not_keep_an_idle_transaction() {
    let server = TestServer::start();
    let mut client = server.admin("rowhouse");
    client.ok("SET idle_in_transaction_session_timeout = 1000");
    client.ok("BEGIN");
    let mut message = Vec::new();
    client::query(&mut message, "SELECT 'more than is sent in three seconds'");
    for byte in message[..30].chunks(1) {
        client.send(byte);
        std::thread::park_timeout(std::time::Duration::from_millis(100));
    }
    client.send(&message[30..]);
    let error = client.answer().error.expect("told");
    assert_eq!(error.state, SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT);
}

#[test]
fn a_terminated_session_is_told_and_ends() {
    let server = TestServer::start();
    let mut victim = server.admin("rowhouse");
    let mut admin = server.admin("rowhouse");
    let sql = format!("SELECT pg_terminate_backend({})", victim.key.process_id);
    assert_eq!(admin.ok(&sql), [[Some("t".to_owned())]]);
    let error = victim.answer().error.expect("told");
    assert_eq!(error.state, SqlState::ADMIN_SHUTDOWN);
    assert_eq!(victim.message(), None);
    assert!(admin.is_alive());
}

#[test]
fn a_broken_stream_ends_its_session_alone() {
    let server = TestServer::start();
    let mut neighbour = server.admin("rowhouse");
    for bytes in [&b"Q\x7f\xff\xff\xff"[..], b"Q\0\0\0\x01", b"!\0\0\0\x04", b"S\0\x0f\0\0"] {
        let mut client = server.admin("rowhouse");
        client.send(bytes);
        let error = client.answer().error.expect("told");
        assert_eq!((error.state, error.severity.as_str()), (SqlState::PROTOCOL_VIOLATION, "FATAL"));
        assert_eq!(client.message(), None);
    }
    assert!(neighbour.is_alive());
}

#[test]
fn text_that_is_not_utf8_fails_its_statement_alone() {
    let server = TestServer::start();
    let mut client = server.admin("rowhouse");
    client.send(b"Q\0\0\0\x0fselect '\xff'\0");
    let answer = client.answer();
    assert_eq!(answer.error.expect("told").state, SqlState::CHARACTER_NOT_IN_REPERTOIRE);
    assert!(client.is_alive());
}

#[test]
fn after_an_extended_error_messages_are_skipped_until_sync() {
    let server = TestServer::start();
    let mut session = server.admin("rowhouse");
    let mut out = Vec::new();
    client::parse(&mut out, "", "SELECT * FROM nothing_of_this_name", &[]);
    client::bind(&mut out, "", "", &[], &[], &[]);
    client::execute(&mut out, "", 0);
    client::query(&mut out, "SELECT 1");
    client::sync(&mut out);
    client::parse(&mut out, "", "SELECT 1", &[]);
    client::bind(&mut out, "", "", &[], &[], &[]);
    client::execute(&mut out, "", 0);
    client::sync(&mut out);
    session.send(&out);
    let first = session.answer();
    assert_eq!(first.error.expect("told").state, SqlState::UNDEFINED_TABLE);
    assert!(first.rows.is_empty());
    assert_eq!(session.answer().rows, [[Some("1".to_owned())]]);
}

/// A statement by the messages of the extended protocol, up to a Sync.
fn extended(session: &mut support::Client, sql: &str) -> support::Answer {
    let mut out = Vec::new();
    client::parse(&mut out, "", sql, &[]);
    client::bind(&mut out, "", "", &[], &[], &[]);
    client::execute(&mut out, "", 0);
    client::sync(&mut out);
    session.send(&out);
    session.answer()
}

#[test]
fn each_answer_ends_with_whether_a_block_is_open_or_has_failed() {
    let server = TestServer::start();
    let mut session = server.admin("rowhouse");
    session.ok("CREATE TABLE t (id int PRIMARY KEY)");
    let simple = |session: &mut support::Client, sql: &str| session.query(sql);
    for (protocol, run) in [
        ("simple", simple as fn(&mut support::Client, &str) -> support::Answer),
        ("extended", extended as fn(&mut support::Client, &str) -> support::Answer),
    ] {
        let mut run = |sql: &str| {
            let answer = run(&mut session, sql);
            (answer.error.map(|error| error.state), answer.tags, answer.status)
        };
        // The statement fails while it runs, when it is bound to the catalog, and when it is parsed.
        for fault in ["INSERT INTO t VALUES (1), (1)", "SELECT id FROM nowhere", "SELEC 1"] {
            assert_eq!(run("BEGIN"), (None, vec!["BEGIN".to_owned()], b'T'), "{protocol}");
            assert_eq!(run("INSERT INTO t VALUES (2)").2, b'T', "{protocol}");
            let (error, tags, status) = run(fault);
            assert!(error.is_some() && tags.is_empty(), "{protocol}: {fault}: {error:?} {tags:?}");
            assert_eq!(status, b'E', "{protocol}: {fault}");
            let refused = (Some(SqlState::IN_FAILED_SQL_TRANSACTION), vec![], b'E');
            assert_eq!(run("SELECT 1"), refused, "{protocol}: {fault}");
            assert_eq!(run("COMMIT"), (None, vec!["ROLLBACK".to_owned()], b'I'), "{protocol}: {fault}");

            // A savepoint mends it.
            assert_eq!(
                (run("BEGIN").2, run("SAVEPOINT a").2, run(fault).2),
                (b'T', b'T', b'E'),
                "{protocol}"
            );
            assert_eq!((run("ROLLBACK TO a").2, run("SELECT 1").2), (b'T', b'T'), "{protocol}: {fault}");
            assert_eq!(run("COMMIT"), (None, vec!["COMMIT".to_owned()], b'I'), "{protocol}: {fault}");

            // Without a block there is none to fail.
            let (error, _, status) = run(fault);
            assert_eq!((error.is_some(), status), (true, b'I'), "{protocol}: {fault}");
        }
        assert_eq!(run("SELECT id FROM t").1, ["SELECT 0"], "{protocol}: nothing was committed");
    }
}

#[test]
fn a_function_call_message_is_refused() {
    let server = TestServer::start();
    let mut session = server.admin("rowhouse");
    session.send(b"F\0\0\0\x0e\0\0\0\x01\0\0\0\0\0\0");
    assert_eq!(session.answer().error.expect("told").state, SqlState::FEATURE_NOT_SUPPORTED);
    assert!(session.is_alive());
}

#[test]
fn a_statement_of_ten_megabytes_is_read_whole() {
    let server = TestServer::start();
    let mut session = server.admin("rowhouse");
    let padding = " ".repeat(10 << 20);
    assert_eq!(
        session.ok(&format!("/*{padding}*/SELECT length('{padding}')")),
        [[Some("10485760".to_owned())]]
    );
    // Ten million tokens are too many, be they blanks; the session goes on.
    assert_eq!(session.fails(&format!("{padding}SELECT 1")).to_string(), "54001");
    assert_eq!(session.ok("SELECT 1"), [[Some("1".to_owned())]]);
}

#[test]
fn messages_that_have_come_in_part_are_bounded_for_a_tenant() {
    // An eighth of it is a tenant's.
    let server = TestServer::with(|config| config.memory = base::ByteCount::from_mib(64));
    let enter = |tenant: &str| server.connect(tenant, tenant, "pw").unwrap();
    server.create_tenant("acme");
    server.create_tenant("other");
    let (mut one, mut two, mut neighbour) = (enter("acme"), enter("acme"), enter("other"));
    let mut message = Vec::new();
    client::query(&mut message, &format!("SELECT length('{}')", "x".repeat(6 << 20)));
    let (first, rest) = message.split_at(5 << 20);
    one.send(first);
    std::thread::park_timeout(std::time::Duration::from_millis(500));
    two.send(first);
    let error = two.answer().error.expect("told");
    assert_eq!((error.state, error.severity.as_str()), (SqlState::OUT_OF_MEMORY, "FATAL"));
    assert_eq!(error.detail, "Those of this tenant's sessions may have 8MiB together.");
    neighbour.send(&message);
    let whole = [[Some((6 << 20).to_string())]];
    assert_eq!(neighbour.answer().rows, whole);
    one.send(rest);
    assert_eq!(one.answer().rows, whole);
    let mut three = enter("acme");
    three.send(&message);
    assert_eq!(three.answer().rows, whole);
}

#[test]
fn answers_that_are_not_read_are_bounded_for_a_tenant() {
    // Local sockets hold some 200 KB. One of TCP holds 4 MB and takes a whole answer where the kernel has seen its connections to be fast.
    let sockets = tempfile::tempdir().expect("a temporary directory");
    let server = TestServer::with(|config| {
        // An eighth of it is a tenant's.
        config.memory = base::ByteCount::from_mib(64);
        config.socket_dir = Some(sockets.path().to_owned());
    });
    server.create_tenant("acme");
    let pause = |ms| std::thread::park_timeout(std::time::Duration::from_millis(ms));
    // More than sockets hold, of which two fit.
    let socket = sockets.path().join(format!(".s.PGSQL.{}", server.address().port()));
    let enter = |_| {
        let stream = std::os::unix::net::UnixStream::connect(&socket).expect("the server listens");
        stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).expect("a timeout can be set");
        Client::over(stream, "acme", "acme", "pw").unwrap()
    };
    let mut sessions: Vec<_> = (0..5).map(enter).collect();
    let mut fifth = sessions.pop().unwrap();
    let started = sessions.iter_mut().map(|session| {
        session.start_query("SELECT repeat('x', 4000000)");
        pause(200);
        Instant::now()
    });
    let third = started.collect::<Vec<_>>()[2];
    // Two more may be read soon; and so much for that.
    let began = Instant::now();
    fifth.start_query("SELECT repeat('x', 4000000)");
    let error = fifth.answer().error.expect("told");
    assert_eq!((error.state, error.severity.as_str()), (SqlState::OUT_OF_MEMORY, "FATAL"));
    assert!(began.elapsed().as_secs() < 3);
    pause(5300 - u64::try_from(third.elapsed().as_millis()).unwrap());
    for (number, session) in sessions[..3].iter_mut().enumerate() {
        assert_eq!(session.answer().rows.len(), 1, "what was sent stays sent");
        if number < 2 {
            assert!(session.is_alive());
        } else {
            let error = session.answer().error.expect("told");
            assert_eq!((error.state, error.severity.as_str()), (SqlState::OUT_OF_MEMORY, "FATAL"));
        }
    }
    pause(3000);
    assert!(sessions[3].answer().tags.is_empty(), "nobody waits for it any more");
    assert!(server.connect("acme", "acme", "pw").unwrap().is_alive());
}

#[test]
fn what_sessions_keep_of_messages_is_bounded_for_a_tenant() {
    // An eighth of it is a tenant's.
    let server = TestServer::with(|config| config.memory = base::ByteCount::from_mib(64));
    let enter = |tenant: &str| server.connect(tenant, tenant, "pw").unwrap();
    server.create_tenant("acme");
    server.create_tenant("other");
    let (mut one, mut two, mut neighbour) = (enter("acme"), enter("acme"), enter("other"));
    one.ok("CREATE TABLE t (v text)");
    neighbour.ok("CREATE TABLE t (v text)");
    let piece = "x".repeat(32 << 10);
    // The beginning of a row, in short messages.
    let copy = |session: &mut support::Client| {
        session.start_query("COPY t FROM STDIN");
        assert_eq!(session.message().expect("an answer").0, b'G');
        let mut out = Vec::new();
        (0..5 << 5).for_each(|_| client::copy_data(&mut out, piece.as_bytes()));
        session.send(&out);
        std::thread::park_timeout(std::time::Duration::from_millis(500));
    };
    let end = |session: &mut support::Client| {
        let mut out = Vec::new();
        client::copy_done(&mut out);
        session.send(&out);
        session.answer()
    };
    copy(&mut one);
    copy(&mut two);
    copy(&mut neighbour);
    let error = two.answer().error.expect("told");
    assert_eq!((error.state, error.severity.as_str()), (SqlState::OUT_OF_MEMORY, "ERROR"));
    assert_eq!(error.detail, "Those of this tenant's sessions may have 8MiB together.");
    assert_eq!(two.ok("SELECT 1"), [[Some("1".to_owned())]]);
    for session in [&mut one, &mut neighbour] {
        assert_eq!(end(session).tags, ["COPY 1"]);
    }
    copy(&mut two);
    assert_eq!(end(&mut two).tags, ["COPY 1"]);
}

#[test]
fn what_is_taken_back_of_settings_is_told_before_the_next_query() {
    let server = TestServer::start();
    let mut session = server.admin("rowhouse");
    for (sql, told) in [
        ("SET application_name = 'one'; SELECT 1/0", &["one", "test"][..]),
        ("BEGIN; SET application_name = 'two'; SELECT 1/0", &["two", "test"]),
        ("ROLLBACK", &[]),
        ("SET application_name = 'three'", &["three"]),
    ] {
        session.start_query(sql);
        let mut names = Vec::new();
        loop {
            match session.message().expect("an answer") {
                (b'S', body) => {
                    let text = String::from_utf8(body).unwrap();
                    names.push(text.split('\0').nth(1).expect("a value").to_owned());
                }
                (b'Z', _) => break,
                _ => {}
            }
        }
        assert_eq!(names, told, "{sql}");
    }
}

#[test]
fn the_end_of_the_server_is_told_to_its_sessions() {
    let server = TestServer::start();
    let mut session = server.admin("rowhouse");
    let mut sleeper = server.admin("rowhouse");
    sleeper.start_query("SELECT pg_sleep(30)");
    drop(server);
    for session in [&mut session, &mut sleeper] {
        assert_eq!(session.answer().error.expect("told").state, SqlState::ADMIN_SHUTDOWN);
        assert_eq!(session.message(), None);
    }
}

#[test]
fn a_copy_takes_rows_and_the_script_goes_on_after_it() {
    let server = TestServer::start();
    server.create_tenant("acme");
    let mut session = server.connect("acme", "acme", "pw").unwrap();
    session.ok("CREATE TABLE t (id int PRIMARY KEY, v text)");
    for (sql, rows, tags) in [
        ("COPY t FROM STDIN", "1\tone\n2\t\\N\n", &["COPY 2"][..]),
        ("COPY t FROM STDIN; SELECT 1", "3\tthree\n", &["COPY 1", "SELECT 1"]),
        (
            &format!("/* {} */ COPY t FROM STDIN; SELECT 1", "x".repeat(10_000)),
            "4\tfour\n",
            &["COPY 1", "SELECT 1"],
        ),
    ] {
        session.start_query(sql);
        let (tag, _) = session.message().expect("an answer");
        assert_eq!(tag, b'G', "{sql}");
        let mut out = Vec::new();
        let (first, second) = rows.split_at(3);
        client::copy_data(&mut out, first.as_bytes());
        client::copy_data(&mut out, second.as_bytes());
        client::copy_done(&mut out);
        session.send(&out);
        let answer = session.answer();
        assert_eq!((answer.error, answer.status), (None, b'I'));
        assert_eq!(answer.tags, tags);
    }
    let mut other = server.connect("acme", "acme", "pw").unwrap();
    let ids = other.ok("SELECT id FROM t ORDER BY id");
    assert_eq!(ids, [1, 2, 3, 4].map(|id| vec![Some(id.to_string())]));
}

/// Begins a block whose changes all stay in memory until its end: it has rewritten a table.
fn begin_without_pours(session: &mut Client) {
    for sql in [
        "BEGIN",
        "CREATE TABLE rewritten (id int)",
        "INSERT INTO rewritten VALUES (1)",
        "ALTER TABLE rewritten ADD PRIMARY KEY (id)",
    ] {
        session.ok(sql);
    }
}

#[test]
fn who_sends_faster_than_it_is_stored_keeps_no_other_tenant_waiting() {
    // What is there is received without a wait.
    let server = TestServer::in_env(&Env::real_on_epoll(), |config| config.workers = Some(1));
    server.create_tenant("acme");
    server.create_tenant("other");
    let mut copying = server.connect("acme", "acme", "pw").unwrap();
    let mut neighbour = server.connect("other", "other", "pw").unwrap();
    copying.ok("CREATE TABLE t (v text)");
    // Nothing of it is stored in between.
    begin_without_pours(&mut copying);
    copying.start_query("COPY t FROM STDIN");
    assert_eq!(copying.message().expect("an answer").0, b'G');
    // Each is received by itself, and has fewer rows than are stored between two looks.
    let mut message = Vec::new();
    let rows = format!("{}\n", "x".repeat(80)).repeat(100) + &"x".repeat(86) + "\n";
    client::copy_data(&mut message, rows.as_bytes());
    assert_eq!(message.len(), env::RECV_SPARE_MIN);
    let (answered, is_answered) = std::sync::mpsc::channel::<()>();
    let began = Instant::now();
    let sender = std::thread::Builder::new()
        .spawn(move || {
            while is_answered.try_recv().is_err() && began.elapsed().as_secs() < 5 {
                copying.send(&message);
            }
        })
        .unwrap();
    std::thread::park_timeout(std::time::Duration::from_millis(500));
    assert!(neighbour.is_alive());
    assert!(began.elapsed().as_secs() < 5, "not before the other one had enough");
    answered.send(()).unwrap();
    sender.join().unwrap();
}

#[test]
fn a_copy_that_is_given_up_or_cancelled_leaves_nothing() {
    let server = TestServer::start();
    server.create_tenant("acme");
    let mut session = server.connect("acme", "acme", "pw").unwrap();
    session.ok("CREATE TABLE t (id int PRIMARY KEY)");
    for how in ["fail", "cancel", "query"] {
        session.start_query("COPY t FROM STDIN");
        assert_eq!(session.message().expect("an answer").0, b'G');
        let mut out = Vec::new();
        client::copy_data(&mut out, b"1\n");
        let mut expected = SqlState::QUERY_CANCELED;
        match how {
            "fail" => client::copy_fail(&mut out, "enough"),
            "query" => {
                client::query(&mut out, "SELECT 1");
                expected = SqlState::PROTOCOL_VIOLATION;
            }
            _ => {
                let mut cancel = Vec::new();
                client::cancel_request(&mut cancel, session.key);
                session.send(&out);
                out.clear();
                // The data must be there before the cancellation, which comes another way.
                std::thread::park_timeout(std::time::Duration::from_millis(100));
                tcp(server.address()).write_all(&cancel).unwrap();
            }
        }
        session.send(&out);
        assert_eq!(session.answer().error.expect(how).state, expected, "{how}");
        assert!(session.ok("SELECT id FROM t").is_empty());
    }
}

#[test]
fn what_fails_by_a_message_is_taken_back_while_others_have_their_turns() {
    const ROWS: u32 = 20_000;
    let server = TestServer::with(|config| config.workers = Some(1));
    server.create_tenant("acme");
    server.create_tenant("other");
    let mut session = server.connect("acme", "acme", "pw").unwrap();
    let mut neighbour = server.connect("other", "other", "pw").unwrap();
    let answers = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let answered = || answers.load(std::sync::atomic::Ordering::Relaxed);
    let counted = answers.clone();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let asking = std::thread::Builder::new().spawn(move || {
        while matches!(ended.try_recv(), Err(std::sync::mpsc::TryRecvError::Empty)) {
            neighbour.ok("SELECT 1");
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    });
    session.ok("CREATE TABLE t (id int PRIMARY KEY)");
    let mut rows = Vec::new();
    client::copy_data(&mut rows, (0..ROWS).map(|id| format!("{id}\n")).collect::<String>().as_bytes());
    client::copy_done(&mut rows);
    for how in ["fail", "query", "cancel", "call"] {
        // What is taken back to the savepoint is not in pages yet.
        begin_without_pours(&mut session);
        session.ok("SAVEPOINT s");
        session.start_query("COPY t FROM STDIN");
        assert_eq!(session.message().expect("an answer").0, b'G');
        session.send(&rows);
        assert_eq!(session.answer().error, None);
        if how != "call" {
            session.start_query("COPY t FROM STDIN");
            assert_eq!(session.message().expect("an answer").0, b'G');
        }
        let (before, mut out) = (answered(), Vec::new());
        match how {
            "fail" => client::copy_fail(&mut out, "enough"),
            "query" => client::query(&mut out, "SELECT 1"),
            "call" => out.extend_from_slice(b"F\0\0\0\x0e\0\0\0\x01\0\0\0\0\0\0"),
            _ => cancel(&server, &session),
        }
        session.send(&out);
        assert!(session.answer().error.is_some(), "{how}");
        let between = answered() - before;
        assert!(between > 5, "{how}: {between} answers");
        session.ok("ROLLBACK");
    }
    end.send(()).unwrap();
    asking.unwrap().join().unwrap();
}

#[test]
fn what_messages_before_a_sync_have_locked_keeps_others_waiting() {
    let server = TestServer::start();
    let (mut one, mut other) = (server.admin("rowhouse"), server.admin("rowhouse"));
    one.ok("CREATE TABLE t (id int PRIMARY KEY)");
    let mut out = Vec::new();
    client::parse(&mut out, "", "INSERT INTO t VALUES (1)", &[]);
    client::bind(&mut out, "", "", &[], &[], &[]);
    client::execute(&mut out, "", 0);
    client::flush(&mut out);
    one.send(&out);
    while one.message().expect("the server answers").0 != b'C' {}
    other.ok("SET lock_timeout = 20");
    assert_eq!(other.fails("INSERT INTO t VALUES (1)"), SqlState::LOCK_NOT_AVAILABLE);
    out.clear();
    client::sync(&mut out);
    one.send(&out);
    assert_eq!(one.answer().error, None);
    assert_eq!(other.fails("INSERT INTO t VALUES (1)"), SqlState::UNIQUE_VIOLATION);
}
