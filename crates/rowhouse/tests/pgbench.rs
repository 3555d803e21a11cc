//! pgbench as PostgreSQL 15 ships it: its initialisation and its built-in scripts in the three query modes.

mod common;

use common::{Server, check_output, run, text};

#[test]
fn built_in_scripts_run_in_every_query_mode() {
    let server = Server::with_acme();
    check_output(server.client_tool("pgbench", "acme").args(["-i", "-s", "1", "-q"]));
    for mode in ["simple", "extended", "prepared"] {
        for script in ["tpcb-like", "simple-update", "select-only"] {
            let output = check_output(
                server
                    .client_tool("pgbench", "acme")
                    .args(["-n", "-b", script, "-M", mode, "-c", "4", "-j", "2", "-t", "50"]),
            );
            assert!(
                output.contains("number of transactions actually processed: 200/200"),
                "{mode} {script}:\n{output}"
            );
            assert!(output.contains("number of failed transactions: 0 "), "{mode} {script}:\n{output}");
        }
    }
    // With vacuum before the run, as without -n; and a run by time.
    check_output(server.client_tool("pgbench", "acme").args(["-b", "select-only", "-c", "2", "-T", "1"]));
    run(async {
        let client = server.owner("acme").await;
        assert_eq!(
            text(&client, "SELECT count(*) FROM pgbench_history").await,
            "0",
            "pgbench truncates it before a run"
        );
        assert_eq!(text(&client, "SELECT count(*) FROM pgbench_accounts").await, "100000");
        // simple-update leaves branches and tellers alone, so only these two agree.
        let branches = text(&client, "SELECT sum(bbalance) FROM pgbench_branches").await;
        let tellers = text(&client, "SELECT sum(tbalance) FROM pgbench_tellers").await;
        assert_eq!(branches, tellers);
    });
}

#[test]
fn initialisation_steps_run_server_side_and_with_foreign_keys() {
    let server = Server::with_acme();
    check_output(server.client_tool("pgbench", "acme").args(["-i", "-I", "dtGvpf", "-s", "1", "-q"]));
    check_output(server.client_tool("pgbench", "acme").args(["-n", "-c", "2", "-t", "20"]));
    run(async {
        let client = server.owner("acme").await;
        let account = "SELECT sum(abalance) = (SELECT sum(delta) FROM pgbench_history) FROM pgbench_accounts";
        assert_eq!(text(&client, account).await, "t");
    });
    // Dropping and making them again finds nothing in the way.
    check_output(server.client_tool("pgbench", "acme").args(["-i", "-s", "1", "-q"]));
}
