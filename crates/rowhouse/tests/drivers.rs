//! Drivers against a whole server: psycopg 3, SQLAlchemy, Django, asyncpg and JDBC by script (`tests/clients`), tokio-postgres here.

mod common;

use std::path::PathBuf;
use std::process::Command;

use common::{PASSWORD, Server, check_output, clients_folder, run, state};
use futures::{SinkExt as _, StreamExt as _};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

#[test]
fn psycopg_round_trips_values_transactions_cursors_and_copy() {
    Server::with_acme().run_python("psycopg_client.py", "acme");
}

#[test]
fn sqlalchemy_creates_uses_and_reflects_a_schema() {
    Server::with_acme().run_python("sqlalchemy_client.py", "acme");
}

#[test]
fn django_migrates_there_and_back_and_uses_its_models() {
    Server::with_acme().run_python("django_client.py", "acme");
}

#[test]
fn asyncpg_introspects_prepares_and_copies() {
    Server::with_acme().run_python("asyncpg_client.py", "acme");
}

/// Passed over where there is no Java, or no driver and no Maven to fetch it.
#[test]
fn jdbc_prepares_batches_copies_and_reads_metadata() {
    const DRIVER: &str = "org.postgresql:postgresql:42.7.4";
    if !runs(Command::new("java").arg("-version")) {
        return eprintln!("passed over: there is no java");
    }
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let jar = home.join(".m2/repository/org/postgresql/postgresql/42.7.4/postgresql-42.7.4.jar");
    let get = ["-q", "-B", "dependency:get", "-Dtransitive=false"];
    if !jar.is_file() && !runs(Command::new("mvn").args(get).arg(format!("-Dartifact={DRIVER}"))) {
        return eprintln!("passed over: {DRIVER} is not there and cannot be fetched with mvn");
    }
    let server = Server::with_acme();
    let mut java = Command::new("java");
    java.arg("-cp").arg(&jar).arg(clients_folder().join("JdbcClient.java"));
    java.args([&format!("jdbc:postgresql://127.0.0.1:{}/acme", server.port()), "acme", PASSWORD]);
    let said = check_output(&mut java);
    assert!(said.contains("checks passed"), "{said}");
}

/// Whether a program is there and ends well.
fn runs(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

#[test]
fn tokio_postgres_prepares_with_types() {
    let server = Server::with_acme();
    run(async {
        let client = server.owner("acme").await;
        client
            .batch_execute("CREATE TABLE t (id bigint PRIMARY KEY, name text, ok bool, score float8, raw bytea, small int2)")
            .await
            .expect("a table can be made");
        let insert = client
            .prepare("INSERT INTO t VALUES ($1, $2, $3, $4, $5, $6)")
            .await
            .expect("it can be prepared");
        assert_eq!(
            insert.params(),
            [Type::INT8, Type::TEXT, Type::BOOL, Type::FLOAT8, Type::BYTEA, Type::INT2]
        );
        for id in 1..=100_i64 {
            let name = (id % 3 != 0).then(|| format!("name {id}"));
            let raw = vec![id as u8; 3];
            let changed = client
                .execute(&insert, &[&id, &name, &(id % 2 == 0), &(id as f64 / 4.0), &raw, &(id as i16)])
                .await
                .expect("a row can be inserted");
            assert_eq!(changed, 1);
        }
        let select = client.prepare("SELECT * FROM t WHERE id = $1").await.expect("it can be prepared");
        let names: Vec<&str> = select.columns().iter().map(|column| column.name()).collect();
        assert_eq!(names, ["id", "name", "ok", "score", "raw", "small"]);
        let row = client.query_one(&select, &[&8_i64]).await.expect("the row is there");
        assert_eq!(row.get::<_, i64>(0), 8);
        assert_eq!(row.get::<_, Option<String>>(1).as_deref(), Some("name 8"));
        assert!(row.get::<_, bool>(2));
        assert_eq!(row.get::<_, f64>(3), 2.0);
        assert_eq!(row.get::<_, Vec<u8>>(4), [8, 8, 8]);
        assert_eq!(row.get::<_, i16>(5), 8);
        assert_eq!(
            client.query_one(&select, &[&9_i64]).await.expect("the row is there").get::<_, Option<&str>>(1),
            None
        );

        let some = client
            .query("SELECT id FROM t WHERE id = ANY($1) ORDER BY id DESC", &[&vec![3_i64, 5, 500, 4]])
            .await
            .expect("an array can be a parameter");
        assert_eq!(some.iter().map(|row| row.get::<_, i64>(0)).collect::<Vec<_>>(), [5, 4, 3]);
        // The same by the analytical path.
        let sums = client
            .query("SELECT ok, sum(score), count(*) FROM t WHERE id > $1 GROUP BY ok ORDER BY ok", &[&50_i64])
            .await
            .expect("an aggregate runs");
        assert_eq!(sums[1].get::<_, f64>(1), (52..=100).step_by(2).map(|n| n as f64 / 4.0).sum::<f64>());
        assert_eq!(sums[0].get::<_, i64>(2), 25);
        let wrong = client.query("SELECT * FROM t WHERE id = $1 / 0", &[&1_i32]).await;
        assert_eq!(state(wrong), SqlState::DIVISION_BY_ZERO);
    });
}

#[test]
fn tokio_postgres_transactions_portals_and_pipelines() {
    let server = Server::with_acme();
    run(async {
        let mut client = server.owner("acme").await;
        client.batch_execute("CREATE TABLE t (id int PRIMARY KEY)").await.expect("a table can be made");
        let transaction = client.transaction().await.expect("a transaction begins");
        for id in 0..25 {
            transaction.execute("INSERT INTO t VALUES ($1)", &[&id]).await.expect("a row can be inserted");
        }
        let portal =
            transaction.bind("SELECT id FROM t ORDER BY id", &[]).await.expect("a portal can be bound");
        let mut seen = Vec::new();
        loop {
            let rows = transaction.query_portal(&portal, 10).await.expect("a part of the rows comes");
            if rows.is_empty() {
                break;
            }
            assert!(rows.len() <= 10);
            seen.extend(rows.iter().map(|row| row.get::<_, i32>(0)));
        }
        assert_eq!(seen, (0..25).collect::<Vec<_>>());
        transaction.rollback().await.expect("it can be rolled back");
        let count: i64 = client.query_one("SELECT count(*) FROM t", &[]).await.expect("it counts").get(0);
        assert_eq!(count, 0);

        // Requests sent before the first reply is read, one of them failing: the others stand.
        let insert = client.prepare("INSERT INTO t VALUES ($1)").await.expect("it can be prepared");
        let results = futures::future::join_all([1, 2, 2, 3].map(|id: i32| {
            let (client, insert) = (&client, &insert);
            async move { client.execute(insert, &[&id]).await }
        }))
        .await;
        let failed: Vec<bool> = results.iter().map(Result::is_err).collect();
        assert_eq!(failed, [false, false, true, false]);
        let error = results.into_iter().find_map(Result::err).expect("one failed");
        let error = error.as_db_error().expect("the server's error");
        assert_eq!(error.code(), &SqlState::UNIQUE_VIOLATION);
        assert_eq!(error.constraint(), Some("t_pkey"));
        assert_eq!(error.detail(), Some("Key (id)=(2) already exists."));
    });
}

#[test]
fn tokio_postgres_copies_and_reports_a_failed_transaction() {
    let server = Server::with_acme();
    run(async {
        let client = server.owner("acme").await;
        client.batch_execute("CREATE TABLE t (id int, note text)").await.expect("a table can be made");
        let sink = client.copy_in("COPY t FROM STDIN").await.expect("copy begins");
        futures::pin_mut!(sink);
        for id in 0..1000 {
            sink.send(std::io::Cursor::new(format!("{id}\tnote {id}\n"))).await.expect("a line is taken");
        }
        assert_eq!(sink.finish().await.expect("copy ends"), 1000);
        let stream = client.copy_out("COPY t TO STDOUT (FORMAT csv)").await.expect("copy begins");
        let lines: usize = stream
            .map(|chunk| chunk.expect("a chunk comes").iter().filter(|&&byte| byte == b'\n').count())
            .fold(0, async |sum, lines| sum + lines)
            .await;
        assert_eq!(lines, 1000);

        client.batch_execute("BEGIN").await.expect("a transaction begins");
        assert_eq!(state(client.batch_execute("SELECT 1/0").await), SqlState::DIVISION_BY_ZERO);
        assert_eq!(state(client.batch_execute("SELECT 1").await), SqlState::IN_FAILED_SQL_TRANSACTION);
        client.batch_execute("ROLLBACK").await.expect("it can be rolled back");
    });
}
