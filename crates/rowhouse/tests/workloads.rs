//! The connection that workloads measure over, against a whole server. `commands.rs` has `rowhouse bench`.

mod common;

use common::{Server, run, text};
use workloads::connection::{Connection, Prepared, ServerError};
use workloads::target::Target;

async fn open(server: &Server) -> Connection {
    let target = Target::new(&server.url("acme", "acme"), None).expect("a URL");
    target.open(0).await.expect("the owner can connect")
}

async fn prepare(connection: &mut Connection, sql: &str) -> Prepared {
    connection.prepare(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

#[test]
fn a_batch_answers_in_order() {
    let server = Server::with_acme();
    run(async {
        server
            .owner("acme")
            .await
            .batch_execute("CREATE TABLE t (a int PRIMARY KEY, b text)")
            .await
            .expect("DDL");
        let mut c = open(&server).await;
        let insert = prepare(&mut c, "INSERT INTO t VALUES ($1, $2)").await;
        let all = prepare(&mut c, "SELECT b, a FROM t ORDER BY a").await;
        c.add(&insert, &[&1i32, &"one"]).expect("values fit");
        c.add(&insert, &[&2i32, &None::<&str>]).expect("values fit");
        c.add(&all, &[]).expect("values fit");
        let replies = c.exchange().await.expect("all succeed");
        assert_eq!(replies.iter().map(|reply| reply.affected).collect::<Vec<_>>(), [1, 1, 2]);
        let rows = &replies[2].rows;
        assert_eq!(rows[0].get::<&str>(0).expect("text"), "one");
        assert_eq!(rows[1].get::<Option<&str>>(0).expect("text or NULL"), None);
        assert_eq!(rows[1].get::<i32>(1).expect("an int"), 2);
        assert!(rows[0].get::<i32>(2).is_err(), "there is no third column");
        assert!(replies[2].row().is_err(), "there are two rows");
        assert!(c.add(&insert, &[&1i32]).is_err(), "a parameter is missing");
    });
}

#[test]
fn a_batch_ends_at_its_first_error_and_the_connection_goes_on() {
    let server = Server::with_acme();
    run(async {
        let owner = server.owner("acme").await;
        owner.batch_execute("CREATE TABLE t (a int PRIMARY KEY)").await.expect("DDL");
        let mut c = open(&server).await;
        let insert = prepare(&mut c, "INSERT INTO t VALUES ($1)").await;
        let (begin, commit) = (prepare(&mut c, "BEGIN").await, prepare(&mut c, "COMMIT").await);
        let rollback = prepare(&mut c, "ROLLBACK").await;
        c.add(&begin, &[]).expect("no values");
        for value in [&1i32, &1, &2] {
            c.add(&insert, &[value]).expect("a value fits");
        }
        c.add(&commit, &[]).expect("no values");
        let error = c.exchange().await.expect_err("1 is there twice");
        let said = error.downcast_ref::<ServerError>().expect("the server said it");
        assert_eq!(said.code, "23505");
        assert_eq!(c.answered(), 2, "BEGIN and the first row");
        c.add(&rollback, &[]).expect("no values");
        c.exchange().await.expect("a failed transaction can be rolled back");
        assert_eq!(text(&owner, "SELECT count(*) FROM t").await, "0", "COMMIT was skipped");

        // What was added and cleared is not sent.
        c.add(&insert, &[&7i32]).expect("a value fits");
        c.clear();
        c.add(&insert, &[&8i32]).expect("a value fits");
        c.exchange().await.expect("the connection goes on");
        assert_eq!(text(&owner, "SELECT min(a) || ' ' || count(*) FROM t").await, "8 1");
        let error = c.prepare("SELECT 1 +").await.expect_err("no SQL");
        assert_eq!(error.downcast_ref::<ServerError>().expect("the server said it").code, "42601");
        c.exchange().await.expect("an empty batch is answered");

        // A transaction may end in the middle of a batch, and another begin there.
        let all = prepare(&mut c, "SELECT a FROM t").await;
        for statement in [&begin, &all, &commit, &begin, &all] {
            c.add(statement, &[]).expect("no values");
        }
        c.add(&insert, &[&8i32]).expect("a value fits");
        c.exchange().await.expect_err("8 is there");
        assert_eq!(c.answered(), 5, "all but the row");
        c.add(&rollback, &[]).expect("no values");
        c.add(&begin, &[]).expect("no values");
        c.add(&insert, &[&9i32]).expect("a value fits");
        c.add(&commit, &[]).expect("no values");
        c.add(&begin, &[]).expect("no values");
        c.add(&insert, &[&9i32]).expect("a value fits");
        c.exchange().await.expect_err("9 is there");
        assert_eq!(c.answered(), 5, "9 is committed");
        assert_eq!(text(&owner, "SELECT count(*) FROM t").await, "2");
    });
}
