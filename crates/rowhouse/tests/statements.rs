//! By SQL: what statements took, who waits for whom, and who is told of whose statements.

mod common;

use common::{Server, run, state, text};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

async fn pid(client: &Client) -> String {
    text(client, "SELECT pg_backend_pid()").await
}

/// Asks until that is the answer.
async fn until(client: &Client, query: &str, wanted: &str) {
    let mut last = String::new();
    for _ in 0..1000 {
        last = text(client, query).await;
        if last == wanted {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("{query}: {last:?}, not {wanted:?}");
}

#[test]
fn the_statistics_are_a_table_of_each_tenants_own() {
    let server = Server::with_acme();
    run(async {
        let (admin, owner) = (server.admin().await, server.owner("acme").await);
        server.create_tenant("other").await;
        server.owner("other").await.batch_execute("SELECT 'others'").await.expect("it runs");
        owner.batch_execute("CREATE TABLE t (id int PRIMARY KEY, v text)").await.expect("a table");
        let insert = owner.prepare("INSERT INTO t VALUES ($1, 'secret')").await.expect("it can be prepared");
        for id in 0..20_i32 {
            owner.execute(&insert, &[&id]).await.expect("a row");
        }
        let told = "SELECT calls || ' ' || errors || ' ' || rows || ' ' || (cpu_seconds > 0) || ' ' || \
                    (min_seconds <= mean_seconds AND mean_seconds <= max_seconds AND max_seconds <= total_seconds) || ' ' || \
                    (since <= first_seen AND first_seen <= last_seen AND last_seen <= now()) \
                    FROM rowhouse.statements WHERE query = 'INSERT INTO t VALUES ($1, $2)'";
        assert_eq!(text(&owner, told).await, "20 0 20 true true true");
        assert_eq!(
            text(&owner, "SELECT count(*) FROM rowhouse.statements WHERE tenant <> 'acme'").await,
            "0"
        );
        // A query of the analytical path, which this is; the second time the first is there.
        let secrets = "SELECT count(*) FROM rowhouse.statements WHERE query LIKE '%secret%'";
        for _ in 0..2 {
            assert_eq!(text(&owner, secrets).await, "0", "no literal is shown");
        }
        let tenants = "SELECT string_agg(DISTINCT tenant, ',' ORDER BY tenant) FROM rowhouse.statements";
        assert_eq!(text(&admin, tenants).await, "acme,other,system");
        owner.batch_execute("SELECT rowhouse.reset_statements()").await.expect("it is the owner's");
        assert_eq!(text(&owner, "SELECT count(*) FROM rowhouse.statements WHERE calls >= 20").await, "0");
    });
}

#[test]
fn who_waits_for_whom_is_told() {
    let server = Server::with_acme();
    run(async {
        let clients = [server.owner("acme").await, server.owner("acme").await, server.owner("acme").await];
        let [holder, waiter, third] = &clients;
        let look = server.owner("acme").await;
        let table = "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 0)";
        holder.batch_execute(table).await.expect("a row");
        holder.batch_execute("BEGIN; UPDATE t SET v = 1").await.expect("it changes");
        let (of_holder, of_waiter, of_third) = (pid(holder).await, pid(waiter).await, pid(third).await);
        let blocking = |pid: &str| format!("SELECT pg_blocking_pids({pid})");
        assert_eq!(text(&look, &blocking(&of_waiter)).await, "{}");
        let change = || async { waiter.batch_execute("UPDATE t SET v = 2").await };
        let take = || async { third.batch_execute("BEGIN; LOCK TABLE t; COMMIT").await };
        let watch = async {
            until(&look, &blocking(&of_waiter), &format!("{{{of_holder}}}")).await;
            let waits = |pid: &str| {
                format!(
                    "SELECT wait_event_type || ' ' || wait_event || ' ' || state FROM pg_stat_activity WHERE pid = {pid}"
                )
            };
            until(&look, &waits(&of_waiter), "Lock tuple active").await;
            assert_eq!(text(&look, &waits(&of_holder)).await, "Client ClientRead idle in transaction");
            until(&look, &waits(&of_third), "Lock relation active").await;
            // By the analytical path, too: who holds the table's lock in a mode that conflicts.
            let from_locks = format!(
                "SELECT pg_blocking_pids(pid)::text FROM pg_locks WHERE NOT granted AND pid = {of_third} AND locktype = 'relation'"
            );
            let both = [&of_holder, &of_waiter].map(|pid| pid.parse::<i32>().expect("a number"));
            let sorted = format!("{{{},{}}}", both[0].min(both[1]), both[0].max(both[1]));
            until(&look, &from_locks, &sorted).await;
            assert_eq!(text(&look, &blocking(&of_third)).await, sorted);
            holder.batch_execute("COMMIT").await.expect("it commits");
        };
        let (changed, taken, ()) = tokio::join!(change(), take(), watch);
        changed.expect("its turn came");
        taken.expect("its turn came");
        assert_eq!(text(&look, &blocking(&of_third)).await, "{}");
        assert_eq!(text(&look, "SELECT pg_blocking_pids(-1)").await, "{}");
    });
}

#[test]
fn a_role_neither_sees_nor_ends_what_another_runs() {
    let server = Server::with_acme();
    run(async {
        let owner = server.owner("acme").await;
        owner
            .batch_execute("CREATE ROLE clerk LOGIN PASSWORD 'secret'; CREATE ROLE chief LOGIN PASSWORD 'secret' IN ROLE clerk")
            .await
            .expect("roles");
        let clerk = server.connect_as("clerk", "acme").await.expect("a role may enter");
        let chief = server.connect_as("chief", "acme").await.expect("a role may enter");
        text(&owner, "SELECT 'of the owner'").await;
        text(&clerk, "SELECT 'of the clerk'").await;
        let (of_owner, of_clerk) = (pid(&owner).await, pid(&clerk).await);
        let seen = |pid: &str| format!("SELECT query FROM pg_stat_activity WHERE pid = {pid}");
        assert_eq!(text(&clerk, &seen(&of_owner)).await, "<insufficient privilege>");
        assert_eq!(text(&chief, &seen(&of_owner)).await, "<insufficient privilege>");
        // What a session is told of itself is this query.
        assert!(text(&clerk, &seen(&of_clerk)).await.starts_with("SELECT query"));
        assert!(text(&chief, &seen(&of_clerk)).await.starts_with("SELECT query"));
        assert!(text(&owner, &seen(&of_clerk)).await.starts_with("SELECT query"));
        for function in ["pg_cancel_backend", "pg_terminate_backend"] {
            let refused = clerk.simple_query(&format!("SELECT {function}({of_owner})")).await;
            assert_eq!(state(refused), SqlState::INSUFFICIENT_PRIVILEGE, "{function}");
            assert_eq!(text(&clerk, &format!("SELECT {function}(999999)")).await, "f", "{function}");
        }
        assert_eq!(text(&owner, "SELECT 1").await, "1", "it was not reached");
        assert_eq!(text(&chief, &format!("SELECT pg_terminate_backend({of_clerk})")).await, "t");
    });
}

#[test]
fn a_change_whose_rows_come_from_the_analytical_path_can_be_analyzed() {
    let server = Server::with_acme();
    run(async {
        let owner = server.owner("acme").await;
        owner.batch_execute("CREATE TABLE t (k int PRIMARY KEY, n int)").await.expect("a table");
        // Window functions are not for the point path.
        let counted = |rows: u32| {
            format!(
                "SELECT DISTINCT g % 7 AS k, count(*) OVER (PARTITION BY g % 7) AS n FROM generate_series(1, {rows}) g"
            )
        };
        let insert = format!("INSERT INTO t {}", counted(7_000));
        let update = format!("UPDATE t SET n = s.n FROM ({}) s WHERE s.k = t.k", counted(14_000));
        for (change, n) in [(insert, "1000"), (update, "2000")] {
            let begun = std::time::Instant::now();
            let plan = owner.query(&format!("EXPLAIN ANALYZE {change}"), &[]).await.expect(&change);
            let waited = begun.elapsed().as_secs_f64() * 1e3;
            let lines: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
            assert!(lines[0].starts_with("Point path, its source on the analytical path: "), "{lines:#?}");
            let [planning, execution] = ["Planning Time: ", "Execution Time: "].map(|label| {
                let time = lines.iter().find_map(|line| line.strip_prefix(label)?.strip_suffix(" ms"));
                time.unwrap_or_else(|| panic!("{lines:#?}")).parse::<f64>().expect("milliseconds")
            });
            // The analytical part is the longer one by far.
            assert!(execution > planning && planning + execution <= waited, "{waited} ms: {lines:#?}");
            assert_eq!(text(&owner, "SELECT n FROM t WHERE k = 3").await, n, "it was carried out");
        }
        assert_eq!(text(&owner, "SELECT count(*) FROM t").await, "7", "once");
    });
}
