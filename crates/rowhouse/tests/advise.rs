//! `rowhouse.advise` by wire: what is on record of a tenant becomes a proposal, for those who may ask.

mod common;

use std::time::{Duration, Instant};

use common::{Server, run};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

async fn refused(client: &Client, sql: &str) -> (SqlState, String) {
    let error = client.query(sql, &[]).await.expect_err(sql);
    let error = error.as_db_error().unwrap_or_else(|| panic!("{sql}: {error}"));
    (error.code().clone(), error.message().to_owned())
}

/// Has a tenant work until two metering intervals are over.
async fn work(owner: &Client) {
    let until = Instant::now() + Duration::from_millis(2500);
    while Instant::now() < until {
        owner.query("SELECT sum(n) FROM t", &[]).await.expect("a sum");
    }
}

#[test]
fn what_a_tenant_did_becomes_a_proposal() {
    let mut server = Server::with_acme();
    run(async {
        let (admin, owner) = (server.admin().await, server.owner("acme").await);
        // Of a tenant that did next to nothing, what it is promised is told all the same.
        server.create_tenant("idle").await;
        admin.batch_execute("ALTER TENANT idle SET (cpu = 0.125, memory = '64MiB')").await.expect("altered");
        let sql = "SELECT cpu, memory FROM rowhouse.advise('idle') WHERE candidate = 'present'";
        let rows = admin.query(sql, &[]).await.expect("advice");
        assert_eq!((rows[0].get("cpu"), rows[0].get("memory")), (0.125, "64MiB"));
        owner
            .batch_execute(
                "CREATE TABLE t (n int PRIMARY KEY); INSERT INTO t SELECT g FROM generate_series(1, 5000) g",
            )
            .await
            .expect("rows");
        let sorts =
            "SELECT max(place) FROM (SELECT row_number() OVER (ORDER BY n % 7) AS place FROM t) AS places";
        assert_eq!(owner.query(sorts, &[]).await.expect("a sort")[0].get::<_, i64>(0), 5000);
        // Its interval ends meanwhile.
        work(&owner).await;
    });
    // The minute that is not over is on record once the server ends.
    server.terminate();
    server.restart();
    run(async {
        let (admin, owner) = (server.admin().await, server.owner("acme").await);
        let rows = admin.query("SELECT * FROM rowhouse.advise('acme')", &[]).await.expect("advice");
        let all: Vec<_> = rows.iter().map(|row| row.get::<_, &str>("candidate")).collect();
        assert_eq!(all[..2], ["proposed", "present"]);
        let sizes: Vec<Option<&str>> = rows[2..].iter().map(|row| row.get("size")).collect();
        assert_eq!(sizes, [Some("small"), Some("medium"), Some("large")], "from small to large");
        let (proposed, present) = (&rows[0], &rows[1]);
        // It worked all of the time, in one task.
        let cpu: f64 = proposed.get("cpu");
        assert!(cpu > 0.3 && cpu < 2.5, "{cpu}");
        assert!(proposed.get::<_, bool>("enough"));
        assert_eq!(proposed.get::<_, Option<&str>>("too_little"), None);
        let intervals: i64 = proposed.get("cpu_intervals");
        assert!(intervals >= 2, "{intervals}");
        // Its sort held the numbers at least, for which what everybody has is enough.
        let sorted =
            |row: &tokio_postgres::Row| (row.get::<_, i64>("spills"), row.get::<_, i64>("spills_of"));
        for row in [proposed, present] {
            assert!(sorted(row).0 == 0 && sorted(row).1 >= 1, "{:?}", sorted(row));
        }
        assert_ne!(proposed.get::<_, &str>("work_memory"), "0B");
        // It is promised nothing.
        assert!(!present.get::<_, bool>("enough"));
        assert!(present.get::<_, &str>("too_little").starts_with("cpu"));
        let broken: (i64, i64) = (present.get("cpu_broken_min"), present.get("cpu_broken_max"));
        assert!(0 < broken.0 && broken.0 <= broken.1 && broken.1 <= intervals, "{broken:?}");
        let missed: (f64, f64) = (present.get("cpu_missed_min"), present.get("cpu_missed_max"));
        assert!(0.5 < missed.0 && missed.0 <= missed.1, "{missed:?}");
        for row in &rows[2..] {
            let (name, cpu): (&str, f64) = (row.get("size"), row.get("cpu"));
            let is_enough = row.get::<_, bool>("enough");
            assert_eq!(row.get::<_, Option<&str>>("too_little").is_none(), is_enough, "{name}");
            assert!(cpu > 0.0 && row.get::<_, i64>("iops") > 0);
        }
        assert!(!rows[2].get::<_, bool>("enough"), "a twentieth of a core is too little");
        // The proposal can be promised as it stands.
        let options = format!(
            "ALTER TENANT acme SET (cpu = {cpu}, iops = {}, memory = '{}', work_memory = '{}')",
            proposed.get::<_, i64>("iops"),
            proposed.get::<_, &str>("memory"),
            proposed.get::<_, &str>("work_memory")
        );
        admin.batch_execute(&options).await.expect("promised");
        let sql = "SELECT cpu, enough FROM rowhouse.advise('acme') WHERE candidate = 'present'";
        let present = &admin.query(sql, &[]).await.expect("advice")[0];
        assert_eq!((present.get("cpu"), present.get("enough")), (cpu, true));
        // How long statements took is on record, too, of one minute or two.
        let sql = "SELECT a.note FROM rowhouse.advise(tenant => 'acme', p99_ms => 5) AS a WHERE candidate = 'proposed'";
        let note: String = owner.query(sql, &[]).await.expect("its own")[0].get("note");
        assert!(["1", "2"].iter().any(|n| note.contains(&format!("{n} minutes with statements"))), "{note}");
        // Parameters are arguments like others.
        let sql = "SELECT candidate, size FROM rowhouse.advise($1, p99_ms => $2)";
        let rows = admin.query(sql, &[&"acme", &5.5f64]).await.expect("advice");
        assert_eq!(rows.len(), 5);
        let none: Option<&str> = None;
        assert!(admin.query(sql, &[&none, &5.5f64]).await.expect("no tenant, no advice").is_empty());
        let sql = "SELECT * FROM rowhouse.advise(current_database())";
        assert_eq!(owner.query(sql, &[]).await.expect("its own").len(), 5);
    });
}

#[test]
fn who_asks_amiss_is_told_so() {
    let server = Server::with_acme();
    run(async {
        let (admin, owner) = (server.admin().await, server.owner("acme").await);
        server.create_tenant("other").await;
        let ask = |arguments: &str| format!("SELECT * FROM rowhouse.advise({arguments})");
        for other in ["'other'", "'nobody'", "'system'", "'rowhouse'"] {
            let (state, message) = refused(&owner, &ask(other)).await;
            assert_eq!(state, SqlState::INSUFFICIENT_PRIVILEGE, "{other}: {message}");
        }
        let (state, message) = refused(&admin, &ask("'nobody'")).await;
        assert_eq!(
            (state, message.as_str()),
            (SqlState::INVALID_CATALOG_NAME, "tenant \"nobody\" does not exist")
        );
        assert!(!admin.query(&ask("'system'"), &[]).await.expect("the server's own").is_empty());
        for (arguments, expected) in [
            ("", "function rowhouse.advise() does not exist"),
            ("'acme', 5, 6", "function rowhouse.advise(unknown, integer, integer) does not exist"),
            ("'acme', p50_ms => 5", "function rowhouse.advise(unknown, p50_ms => integer) does not exist"),
            ("'acme', tenant => 'b'", "function rowhouse.advise(unknown, tenant => unknown) does not exist"),
            ("'acme', p99_ms => true", "function rowhouse.advise(unknown, p99_ms => boolean) does not exist"),
        ] {
            let (state, message) = refused(&owner, &ask(arguments)).await;
            assert_eq!((state, message.as_str()), (SqlState::UNDEFINED_FUNCTION, expected));
        }
        for (arguments, expected) in [
            ("tenant => 'acme', 5", "positional argument cannot follow named argument"),
            ("'acme', p99_ms => 5, p99_ms => 6", "argument name \"p99_ms\" used more than once"),
        ] {
            let (state, message) = refused(&owner, &ask(arguments)).await;
            assert_eq!((state, message.as_str()), (SqlState::SYNTAX_ERROR, expected));
        }
        for goal in ["0", "-1", "'NaN'", "'infinity'", "1e300"] {
            let (state, message) = refused(&owner, &ask(&format!("'acme', {goal}"))).await;
            assert_eq!(state, SqlState::INVALID_PARAMETER_VALUE, "{goal}: {message}");
        }
        let (state, _) = refused(&owner, "SELECT * FROM pg_class c, rowhouse.advise(c.relname)").await;
        assert_eq!(state, SqlState::FEATURE_NOT_SUPPORTED);
        let (state, _) = refused(&owner, "SELECT * FROM rowhouse.advise").await;
        assert_eq!(state, SqlState::UNDEFINED_TABLE);
    });
}
