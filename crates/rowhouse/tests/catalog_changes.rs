//! Changes of the catalog beside statements that wait for them.

mod common;

use std::pin::pin;
use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use common::{Server, run, said, state, text};
use futures::SinkExt;
use tokio_postgres::error::SqlState;

#[test]
fn a_statement_that_waited_for_a_change_of_the_catalog_is_planned_anew() {
    let mut server = Server::with_acme();
    run(async {
        let (one, other) = (server.owner("acme").await, server.owner("acme").await);
        one.batch_execute("CREATE TABLE t (id int PRIMARY KEY, n int)").await.expect("a table");
        let waits = async |id: i32, ddl: &str, by: &str| {
            one.batch_execute(&format!("BEGIN; {ddl}")).await.expect("changed");
            let statement = format!("INSERT INTO t (id, n) VALUES ({id}, {id})");
            let insert = async {
                match by {
                    "text" => other.batch_execute(&statement).await,
                    "copy" => {
                        let mut sink = pin!(other.copy_in::<_, Bytes>("COPY t (id, n) FROM STDIN").await?);
                        sink.send(Bytes::from(format!("{id}\t{id}\n"))).await?;
                        sink.as_mut().finish().await.map(|_| ())
                    }
                    _ => other.execute(&statement, &[]).await.map(|_| ()),
                }
            };
            let commit = async {
                tokio::time::sleep(Duration::from_millis(100)).await;
                one.batch_execute("COMMIT").await
            };
            let (inserted, committed) = tokio::join!(insert, commit);
            committed.expect("committed");
            inserted
        };
        for (id, by) in [(1, "text"), (2, "copy"), (3, "prepared")] {
            waits(id, "CREATE INDEX ON t (n)", by).await.expect("inserted");
            one.batch_execute("CREATE TABLE IF NOT EXISTS x (id int)").await.expect("the tenant goes on");
        }
        for (id, by) in [(11, "text"), (12, "copy"), (13, "prepared")] {
            let refused = waits(id, "ALTER TABLE t ADD CHECK (n < 10)", by).await;
            assert_eq!(state(refused), SqlState::CHECK_VIOLATION, "{by}");
        }
        assert_eq!(text(&one, "SELECT count(*) FROM t").await, "3");
        // A COPY that has begun keeps the table as it is.
        let sink = other.copy_in::<_, Bytes>("COPY t (id, n) FROM STDIN").await.expect("begun");
        let mut sink = pin!(sink);
        one.batch_execute("SET lock_timeout = '50ms'").await.expect("set");
        assert_eq!(state(one.batch_execute("CREATE INDEX ON t (id, n)").await), SqlState::LOCK_NOT_AVAILABLE);
        sink.send(Bytes::from("4\t4\n")).await.expect("sent");
        sink.as_mut().finish().await.expect("copied");
    });
    assert!(server.terminate().success());
    let mut verify = Command::new(env!("CARGO_BIN_EXE_rowhouse"));
    let verified = verify.args(["verify", "--data"]).arg(server.data()).output().expect("it runs");
    assert!(verified.status.success(), "{}", said(&verified));
}
