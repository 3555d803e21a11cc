//! `rowhouse bench` with each workload, here and on PostgreSQL. What needs no conditions checked by analytical queries runs
//! in builds without them, too.

mod common;

use std::process::Command;

use common::bench::{bench, counts};
use common::postgres::Postgres;
use common::{Server, connect, run, said, text};
use serde_json::Value;
use workloads::cpuio;

/// The series has an interval for each `second` of the run, and adds up to the report's counts.
fn check_series(report: &Value, tenants: usize, intervals: usize) {
    let series = report["series"]["counts"].as_array().expect("the series was asked for");
    assert_eq!(series.len(), tenants);
    for (at, (name, count)) in counts(report).iter().enumerate() {
        let of_kind = |tenant: &Value| -> Vec<u64> {
            let intervals = tenant[at].as_array().expect("each kind has intervals");
            intervals.iter().map(|count| count.as_u64().expect("a count")).collect()
        };
        let all: Vec<Vec<u64>> = series.iter().map(of_kind).collect();
        assert!(all.iter().all(|of_tenant| of_tenant.len() == intervals), "{name}: {all:?}");
        assert_eq!(all.iter().flatten().sum::<u64>(), *count, "{name}: {all:?}");
    }
}

const CPUIO: [&str; 9] =
    ["cpuio", "--rows", "20000", "--row-bytes", "120", "--scan-rows", "500", "--cpu-rounds", "100"];

const DVDSTORE: [&str; 5] = ["dvdstore", "--scale", "0.1", "--clients", "4"];

#[test]
fn cpuio_runs_each_query_on_the_point_path() {
    let server = Server::with_acme();
    let url = server.url("acme", "acme");
    let options = ["--url", &url, "--clients", "3", "--warm-up", "0", "--seconds", "2", "--series", "0.5"];
    let report = bench(&[&CPUIO[..], &options].concat());
    assert!(counts(&report).iter().all(|(_, count)| *count > 0), "{report:#}");
    check_series(&report, 1, 4);
    run(async {
        let client = server.owner("acme").await;
        for (sql, values) in [(cpuio::CPU, "1000"), (cpuio::SCAN, "1, 1000"), (cpuio::LOOKUP, "7")] {
            client.batch_execute(&format!("PREPARE q AS {sql}")).await.expect("it can be prepared");
            let plan = text(&client, &format!("EXPLAIN EXECUTE q({values})")).await;
            assert!(plan.contains("Point path"), "{sql}: {plan}");
            client.batch_execute("DEALLOCATE q").await.expect("it was prepared");
        }
        let spread = "SELECT count(*), count(DISTINCT spread), max(spread) FROM cpuio WHERE id <= 1000";
        assert_ne!(text(&client, spread).await, "0");
    });
    // A kind without a weight does not run; the table is used as it is; a client ends after its transactions.
    let more = ["--url", &url, "--no-load", "--warm-up", "0", "--mix", "lookup=1", "--transactions", "25"];
    let report = bench(&[&CPUIO[..], &more].concat());
    assert_eq!(counts(&report), [("cpu".into(), 0), ("scan".into(), 0), ("lookup".into(), 25)]);
    assert!(report["seconds"].as_f64().expect("seconds") < 30.0, "the transactions end the run: {report:#}");
}

#[test]
fn cpuio_finds_out_that_another_table_was_loaded() {
    let server = Server::with_acme();
    let url = server.url("acme", "acme");
    bench(&[&CPUIO[..], &["--url", &url, "--load-only"]].concat());
    let output = Command::new(env!("CARGO_BIN_EXE_rowhouse"))
        .args(["bench", "cpuio", "--rows", "20000", "--lookup-rows", "11", "--mix", "lookup=1"])
        .args(["--url", &url, "--no-load", "--warm-up", "0", "--seconds", "5"])
        .output()
        .expect("the binary can be run");
    assert!(!output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("a lookup found 10 rows where 11"), "{}", said(&output));
}

#[test]
fn the_dvd_store_runs_every_step_of_a_visit() {
    let server = Server::with_acme();
    let url = server.url("acme", "acme");
    let options = ["--url", &url, "--warm-up", "0", "--seconds", "3", "--no-check", "--series", "1"];
    let report = bench(&[&DVDSTORE[..], &options].concat());
    check_series(&report, 1, 3);
    let counts = counts(&report);
    assert!(counts.iter().all(|(_, count)| *count > 0), "{report:#}");
    let orders = counts.last().expect("purchases are the last kind").1;
    assert!((report["opm"].as_f64().expect("a rate") - orders as f64 * 20.0).abs() < 1.0, "{report:#}");
}

#[test]
fn workloads_run_on_postgresql_too() {
    let postgres = Postgres::start();
    let url = postgres.url();
    let common = ["--url", &url, "--tenants", "2", "--warm-up", "0.2", "--seconds", "2", "--series", "1"];
    for (workload, scale) in [
        (&["tpcc", "--scale", "0.01"][..], "1 warehouse(s) at scale 0.01: 1000 items, "),
        (&["pgbench"], "scale 1; "),
        (&DVDSTORE, "small at scale 0.1: 2000 customers, "),
        (&CPUIO, "20000 rows of 120 bytes; "),
    ] {
        let report = bench(&[workload, &common].concat());
        let setting = report["setting"].as_str().expect("a report has its setting");
        assert!(setting.starts_with(scale), "{setting}");
        assert!(report["transactions"].as_u64() > Some(0), "{report:#}");
        assert_eq!(report["violations"], Value::Array(Vec::new()), "{report:#}");
        check_series(&report, 2, 2);
    }
    run(async {
        // Every value of the second index has its ten rows, on pages far from each other.
        let client = connect(&url.replace("/postgres", "/bench1")).await.expect("the database is there");
        let wrong =
            "SELECT count(*) FROM (SELECT spread FROM cpuio GROUP BY spread HAVING count(*) <> 10) AS x";
        assert_eq!(text(&client, wrong).await, "0");
        let pages = "SELECT count(*) FROM (SELECT spread FROM cpuio GROUP BY spread
                     HAVING count(DISTINCT (ctid::text::point)[0]) <> 10) AS x";
        assert_eq!(text(&client, pages).await, "0", "two rows of one value are on one page");
    });
}

/// What breaks one TPC-C condition and no other, which one and how often, and what undoes it. The scale is
/// [`TPCC_SCALE`]: 30 orders a district, of which those from 22 on are undelivered.
const TPCC_FAULTS: [(u32, u32, &str, &str); 9] = [
    (
        2,
        1,
        "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = 1 AND d_id = 2",
        "UPDATE district SET d_next_o_id = d_next_o_id - 1 WHERE d_w_id = 1 AND d_id = 2",
    ),
    (
        4,
        1,
        "INSERT INTO order_line (ol_w_id, ol_d_id, ol_o_id, ol_number) VALUES (1, 3, 99, 1)",
        "DELETE FROM order_line WHERE ol_w_id = 1 AND ol_d_id = 3 AND ol_o_id = 99",
    ),
    // One line more in the first order, one less in the second.
    (
        6,
        2,
        "UPDATE orders SET o_ol_cnt = o_ol_cnt + 3 - 2 * o_id WHERE o_w_id = 1 AND o_d_id = 4 AND o_id IN (1, 2)",
        "UPDATE orders SET o_ol_cnt = o_ol_cnt - 3 + 2 * o_id WHERE o_w_id = 1 AND o_d_id = 4 AND o_id IN (1, 2)",
    ),
    // What is delivered at the load costs nothing, so no balance is wrong.
    (
        7,
        1,
        "UPDATE order_line SET ol_delivery_d = NULL
         WHERE ol_w_id = 1 AND ol_d_id = 5 AND ol_o_id = 1 AND ol_number = 1",
        "UPDATE order_line SET ol_delivery_d = '2026-01-01'
         WHERE ol_w_id = 1 AND ol_d_id = 5 AND ol_o_id = 1 AND ol_number = 1",
    ),
    (
        8,
        1,
        "INSERT INTO history (h_w_id, h_d_id, h_amount) VALUES (1, 99, 5)",
        "DELETE FROM history WHERE h_d_id = 99",
    ),
    // 1 more in the seventh district, 1 less in the eighth.
    (
        9,
        2,
        "UPDATE district SET d_ytd = d_ytd + 15 - 2 * d_id WHERE d_w_id = 1 AND d_id IN (7, 8)",
        "UPDATE district SET d_ytd = d_ytd - 15 + 2 * d_id WHERE d_w_id = 1 AND d_id IN (7, 8)",
    ),
    (
        10,
        1,
        "UPDATE customer SET c_balance = c_balance + 1, c_ytd_payment = c_ytd_payment - 1
         WHERE c_w_id = 1 AND c_d_id = 1 AND c_id = 1",
        "UPDATE customer SET c_balance = c_balance - 1, c_ytd_payment = c_ytd_payment + 1
         WHERE c_w_id = 1 AND c_d_id = 1 AND c_id = 1",
    ),
    (
        11,
        1,
        "UPDATE customer SET c_delivery_cnt = c_delivery_cnt + 1 WHERE c_w_id = 1 AND c_d_id = 2 AND c_id = 1",
        "UPDATE customer SET c_delivery_cnt = c_delivery_cnt - 1 WHERE c_w_id = 1 AND c_d_id = 2 AND c_id = 1",
    ),
    (
        12,
        1,
        "UPDATE customer SET c_ytd_payment = c_ytd_payment + 1 WHERE c_w_id = 1 AND c_d_id = 3 AND c_id = 1",
        "UPDATE customer SET c_ytd_payment = c_ytd_payment - 1 WHERE c_w_id = 1 AND c_d_id = 3 AND c_id = 1",
    ),
];

/// Number of the condition that a violation is of, and how often it is broken.
fn condition_of(violation: &str) -> (u32, u32) {
    let numbers = violation
        .strip_prefix("acme: consistency condition ")
        .and_then(|rest| rest.strip_suffix(" time(s)")?.split_once(" is broken "))
        .unwrap_or_else(|| panic!("{violation}"));
    (numbers.0.parse().expect("a number"), numbers.1.parse().expect("a number"))
}

const TPCC_SCALE: [&str; 5] = ["tpcc", "--warehouses", "2", "--scale", "0.001"];

#[test]
fn each_condition_of_tpcc_is_seen_to_be_broken() {
    let server = Server::with_acme();
    let url = server.url("acme", "acme");
    bench(&[&TPCC_SCALE[..], &["--url", &url, "--load-only"]].concat());
    // The conditions broken and how often. No transaction runs, so that what is planted can be taken back.
    let broken = || -> Vec<(u32, u32)> {
        let output = Command::new(env!("CARGO_BIN_EXE_rowhouse"))
            .arg("bench")
            .args(TPCC_SCALE)
            .args(["--url", &url, "--no-load", "--warm-up", "0", "--seconds", "0", "--json"])
            .output()
            .expect("the binary can be run");
        let report: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", said(&output)));
        assert_eq!(report["transactions"], 0, "{report:#}");
        let violations = report["violations"].as_array().expect("a report has violations");
        assert_eq!(output.status.code(), Some(i32::from(!violations.is_empty())), "{}", said(&output));
        assert_eq!(said(&output).contains("the workload's conditions do not hold"), !violations.is_empty());
        violations.iter().map(|violation| condition_of(violation.as_str().expect("a sentence"))).collect()
    };
    let execute = |statements: &[&str]| {
        run(async {
            let owner = server.owner("acme").await;
            for statement in statements {
                let changed = owner.execute(*statement, &[]).await;
                assert!(changed.unwrap_or_else(|error| panic!("{statement}: {error:?}")) > 0, "{statement}");
            }
        });
    };
    const NONE: [(u32, u32); 0] = [];
    assert_eq!(broken(), NONE, "after the load");

    execute(&TPCC_FAULTS.map(|(_, _, plant, _)| plant));
    assert_eq!(broken(), TPCC_FAULTS.map(|(condition, times, _, _)| (condition, times)));
    execute(&TPCC_FAULTS.map(|(_, _, _, undo)| undo));
    // The others cannot be broken alone.
    execute(&[
        "UPDATE warehouse SET w_ytd = w_ytd + 1 WHERE w_id = 2",
        "DELETE FROM new_order WHERE no_w_id = 1 AND no_d_id = 1 AND no_o_id = 25",
    ]);
    assert_eq!(broken(), [(1, 1), (3, 1), (5, 1), (8, 1), (11, 1)]);
    execute(&[
        "UPDATE warehouse SET w_ytd = w_ytd - 1 WHERE w_id = 2",
        "INSERT INTO new_order (no_w_id, no_d_id, no_o_id) VALUES (1, 1, 25)",
    ]);
    assert_eq!(broken(), NONE, "all is as it was");

    // Where all rows of a sum are gone, the sum is wrong: of a warehouse's districts, of one district's orders, of all
    // payments.
    execute(&[
        "DELETE FROM district WHERE d_w_id = 2",
        "DELETE FROM orders WHERE o_w_id = 1 AND o_d_id = 6",
        "DELETE FROM history",
    ]);
    assert_eq!(broken(), [(1, 1), (2, 1), (4, 1), (8, 2), (9, 10), (10, 600), (11, 1)]);
}

/// Rows of each digest line of `bench tpch --digest`, by query; none of them failed.
fn digests(options: &[&str]) -> Vec<(u64, String)> {
    let report = bench(&[&["tpch", "--digest"], options].concat());
    let lines = report.as_array().expect("a line for each query");
    assert_eq!(lines.len(), 22);
    lines
        .iter()
        .map(|line| {
            assert_eq!(line["error"], Value::Null, "{line}");
            let digest = line["digest"].as_str().expect("a digest");
            (line["rows"].as_u64().expect("rows"), digest.to_owned())
        })
        .collect()
}

/// Each of these counts what breaks a rule of the specification's clause 4.2.3.
const TPCH_RULES: [(&str, &str); 7] = [
    (
        "an order's total is what its lines come to, but for cents rounded off",
        "SELECT count(*) FROM orders JOIN (
             SELECT l_orderkey, sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS total, count(*) AS lines
             FROM lineitem GROUP BY l_orderkey) AS x ON l_orderkey = o_orderkey
         WHERE total - o_totalprice NOT BETWEEN 0 AND 0.03 * lines OR lines > 7",
    ),
    (
        "an order's state is that of its lines",
        "SELECT count(*) FROM orders JOIN (
             SELECT l_orderkey, min(l_linestatus) AS least, max(l_linestatus) AS most FROM lineitem GROUP BY l_orderkey)
             AS x ON l_orderkey = o_orderkey
         WHERE o_orderstatus <> CASE WHEN least = most THEN least ELSE 'P' END",
    ),
    (
        "a line's state and flag follow from its dates",
        "SELECT count(*) FROM lineitem WHERE (l_linestatus = 'O') <> (l_shipdate > '1995-06-17')
             OR (l_returnflag = 'N') <> (l_receiptdate > '1995-06-17')",
    ),
    (
        "dates follow each other",
        "SELECT count(*) FROM lineitem JOIN orders ON o_orderkey = l_orderkey
         WHERE l_shipdate - o_orderdate NOT BETWEEN 1 AND 121 OR l_commitdate - o_orderdate NOT BETWEEN 30 AND 90
             OR l_receiptdate - l_shipdate NOT BETWEEN 1 AND 30
             OR o_orderdate NOT BETWEEN '1992-01-01' AND '1998-08-02'",
    ),
    (
        "a line's price is its part's",
        "SELECT count(*) FROM lineitem JOIN part ON p_partkey = l_partkey
         WHERE l_extendedprice <> l_quantity * p_retailprice",
    ),
    ("every third customer never ordered", "SELECT count(*) FROM orders WHERE o_custkey % 3 = 0"),
    (
        "a phone number begins with its nation's code",
        "SELECT count(*) FROM customer WHERE substring(c_phone FROM 1 FOR 2)::int <> c_nationkey + 10",
    ),
];

#[test]
fn tpch_on_postgresql_has_the_specified_rows_and_answers() {
    let postgres = Postgres::start();
    let url = postgres.url();
    let scale = ["--url", &url, "--tenants", "1", "--prefix", "tpch", "--scale", "0.01"];
    let answers = digests(&[&scale[..], &["--foreign-keys"]].concat());
    for (query, (rows, _)) in (1..).zip(&answers) {
        // 57 orders in 1.5 million are so large that query 18 shows them.
        assert!(*rows > 0 || query == 18, "query {query} has no rows");
    }
    run(async {
        let client = connect(&url.replace("/postgres", "/tpch1")).await.expect("the database is there");
        for (table, rows) in [
            ("region", 5),
            ("nation", 25),
            ("part", 2_000),
            ("supplier", 100),
            ("partsupp", 8_000),
            ("customer", 1_500),
            ("orders", 15_000),
        ] {
            assert_eq!(
                text(&client, &format!("SELECT count(*) FROM {table}")).await,
                rows.to_string(),
                "{table}"
            );
        }
        // One to seven lines an order, four on average: 60,000, and six standard deviations of that.
        let lines: u32 = text(&client, "SELECT count(*) FROM lineitem").await.parse().expect("a number");
        assert!(lines.abs_diff(60_000) < 1_500, "{lines} lines");
        for (rule, query) in TPCH_RULES {
            assert_eq!(text(&client, query).await, "0", "{rule}");
        }
    });
    // Two streams, each of every query with drawn parameters.
    let run = ["--no-load", "--clients", "2", "--transactions", "22", "--warm-up", "0", "--seconds", "600"];
    let report = bench(&[&["tpch"][..], &scale, &run].concat());
    assert!(counts(&report).iter().all(|(_, count)| *count == 2), "{report:#}");
    let run = ["--no-load", "--queries", "3,6", "--transactions", "4", "--warm-up", "0", "--seconds", "600"];
    let report = bench(&[&["tpch"][..], &scale, &run].concat());
    let ran: Vec<(String, u64)> = counts(&report).into_iter().filter(|(_, count)| *count > 0).collect();
    assert_eq!(ran, [("Q3".to_owned(), 2), ("Q6".to_owned(), 2)]);
}

#[test]
fn tpch_has_the_answers_of_postgresql() {
    let (postgres, server) = (Postgres::start(), Server::with_acme());
    let scale = ["--scale", "0.002"];
    let theirs = digests(&[&scale[..], &["--url", &postgres.url()]].concat());
    let ours = digests(&[&scale[..], &["--url", &server.url("acme", "acme")]].concat());
    for (query, (ours, theirs)) in (1..).zip(ours.iter().zip(&theirs)) {
        assert_eq!(ours, theirs, "query {query}");
    }
}
