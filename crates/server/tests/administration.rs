//! The server's policy and its volumes altered live, and statements of administrators that make no sense or that nobody may make.

mod support;

use base::SqlState;
use governor::PromiseKey;
use support::{Client, TestServer};

/// Everything an administrator can set, as it is shown.
fn settings(admin: &mut Client) -> Vec<Vec<String>> {
    let tenants = admin.shown("SHOW TENANTS");
    let keys = PromiseKey::ALL.iter().map(|key| key.as_str()).chain(["id", "volume", "size"]);
    let of = |tenant: &str| {
        let values = keys.clone().map(|key| tenants.value(tenant, key).unwrap_or("NULL").to_owned());
        std::iter::once(tenant.to_owned()).chain(values).collect()
    };
    let mut all: Vec<Vec<String>> = tenants.names().into_iter().map(of).collect();
    for statement in ["SHOW SIZES", "SHOW SERVER", "SHOW VOLUMES"] {
        let rows = admin.ok(statement).into_iter();
        all.extend(rows.map(|row| row.into_iter().map(|value| value.unwrap_or("NULL".to_owned())).collect()));
    }
    all
}

#[test]
fn the_policy_is_shown_switched_and_remembered() {
    let server = TestServer::start();
    let mut admin = server.admin("rowhouse");
    let policy = |admin: &mut Client| {
        let shown = admin.shown("SHOW SERVER");
        let name = shown.names()[0].to_owned();
        let value = |column| shown.value(&name, column).expect("not null").to_owned();
        [name.clone(), value("overbooking"), value("workers"), value("cpu_reserved")]
    };
    assert_eq!(policy(&mut admin), ["reservations", "spread", "2", "0.4"]);
    admin.ok("ALTER SERVER SET (policy = 'max_only', overbooking = 0.25)");
    assert_eq!(policy(&mut admin), ["max_only", "0.25", "2", "0.4"]);
    let server = server.restart();
    let mut admin = server.admin("rowhouse");
    assert_eq!(policy(&mut admin), ["max_only", "0.25", "2", "0.4"]);
    admin.ok("ALTER SERVER RESET (policy)");
    admin.ok("ALTER SERVER SET (overbooking = least_penalty)");
    admin.ok("CREATE TENANT acme WITH (cpu = 0.125)");
    assert_eq!(policy(&mut admin), ["reservations", "least_penalty", "2", "0.525"]);
}

/// Takes a tenth of a second of processor time or more, with a pause after each slice.
const WORK: &str = "INSERT INTO t SELECT g FROM generate_series(1, 10000) g";

/// Two tenants whose homes are different workers, and which may use next to nothing, with work under way.
fn hindered(server: &TestServer) -> [Client; 2] {
    ["a", "b"].map(|tenant| {
        server.create_tenant(tenant);
        let mut client = server.connect(tenant, tenant, "pw").expect("its owner");
        client.ok("CREATE TABLE t (n int PRIMARY KEY)");
        let mut admin = server.admin("rowhouse");
        admin.ok(&format!("ALTER TENANT {tenant} SET (cpu_max = 0.001)"));
        client.start_query(WORK);
        client
    })
}

#[test]
fn a_limit_that_is_lifted_lets_work_under_way_go_on() {
    let server = TestServer::start();
    let clients = hindered(&server);
    let mut admin = server.admin("rowhouse");
    admin.ok("ALTER TENANT a RESET (cpu_max)");
    admin.ok("CREATE SIZE free AS (cpu_weight = 100)");
    admin.ok("ALTER TENANT b SET (size = free, cpu_max = none)");
    for mut client in clients {
        // At a thousandth of a core it would take minutes, and the client waits 20 s.
        assert_eq!(client.answer().error, None);
    }
}

#[test]
fn a_policy_without_limits_reaches_every_worker_at_once() {
    let server = TestServer::start();
    let clients = hindered(&server);
    server.admin("rowhouse").ok("ALTER SERVER SET (policy = best_effort)");
    for mut client in clients {
        assert_eq!(client.answer().error, None);
    }
}

#[test]
fn volumes_are_shown_and_limited() {
    let volume = tempfile::tempdir().unwrap();
    let dir = volume.path().to_owned();
    let server = TestServer::with(|config| config.volumes.push(("fast".to_owned(), dir)));
    let mut admin = server.admin("rowhouse");
    assert_eq!(admin.shown("SHOW VOLUMES").names(), ["default", "fast", "log"]);
    admin.ok("CREATE TENANT a WITH (volume = fast, iops = 100, io_bandwidth = '1MB')");
    admin.ok("CREATE TENANT b WITH (iops = 50)");
    let shown = admin.shown("SHOW VOLUMES");
    let reserved = |volume| [shown.value(volume, "iops_reserved"), shown.value(volume, "bandwidth_reserved")];
    assert_eq!(reserved("fast"), [Some("100"), Some("1MiB")]);
    assert_eq!(reserved("default"), [Some("50"), Some("0B")]);
    assert_eq!(reserved("log"), [Some("150"), Some("1MiB")], "each promise is for the log too");
    assert_eq!(shown.value("fast", "path"), volume.path().to_str());
    assert_eq!(shown.value("fast", "iops_limit"), Some("none"));
    assert!(admin.tells("ALTER VOLUME fast SET (iops_limit = 100)").is_empty());
    let told = admin.tells("ALTER VOLUME log SET (iops_limit = 149)");
    assert_eq!(told, ["WARNING: volume \"log\" is overbooked: 150 of 149 I/Os a second are reserved"]);
    assert!(admin.tells("ALTER VOLUME log SET (iops_limit = 200)").is_empty());
    let told = admin.tells("ALTER TENANT a SET (iops = 101)");
    assert_eq!(told, ["WARNING: volume \"fast\" is overbooked: 101 of 100 I/Os a second are reserved"]);
    let server = server.restart();
    let mut admin = server.admin("rowhouse");
    let shown = admin.shown("SHOW VOLUMES");
    let limits = ["default", "fast", "log"].map(|volume| shown.value(volume, "iops_limit"));
    assert_eq!(limits, [Some("none"), Some("100"), Some("200")]);
    admin.ok("ALTER VOLUME fast RESET (iops_limit)");
    assert_eq!(admin.shown("SHOW VOLUMES").value("fast", "iops_limit"), Some("none"));
}

const UNKNOWN: SqlState = SqlState::UNDEFINED_OBJECT;
const BAD_VALUE: SqlState = SqlState::INVALID_PARAMETER_VALUE;
const SYNTAX: SqlState = SqlState::SYNTAX_ERROR;

/// Option lists that no object with a promise takes.
const BAD_OPTIONS: &[(&str, SqlState)] = &[
    ("cpu = -1", BAD_VALUE),
    ("cpu = -0.5", BAD_VALUE),
    ("cpu = 'NaN'", BAD_VALUE),
    ("cpu = nan", BAD_VALUE),
    ("cpu = 'inf'", BAD_VALUE),
    ("cpu = 1e30", BAD_VALUE),
    ("cpu = ''", BAD_VALUE),
    ("cpu = 4097", BAD_VALUE),
    ("cpu = 0.0001", BAD_VALUE),
    ("cpu = 99999999999999999999999999999999999999", BAD_VALUE),
    ("cpu_max = 0", BAD_VALUE),
    ("cpu_weight = 0", BAD_VALUE),
    ("cpu_weight = 4294967297", BAD_VALUE),
    ("cpu_burst = '-5s'", BAD_VALUE),
    ("cpu_burst = '99999999999999d'", BAD_VALUE),
    ("iops = -1", BAD_VALUE),
    ("iops = 1.5", BAD_VALUE),
    ("iops = 18446744073709551616", BAD_VALUE),
    ("iops_max = 0", BAD_VALUE),
    ("io_bandwidth = '-1MB'", BAD_VALUE),
    ("io_promise = perhaps", BAD_VALUE),
    ("memory = -1", BAD_VALUE),
    ("memory = '1e30'", BAD_VALUE),
    ("memory = '16777216TB'", BAD_VALUE),
    ("memory = 'much'", BAD_VALUE),
    ("connections_max = -1", BAD_VALUE),
    ("statement_timeout = 'soon'", BAD_VALUE),
    ("penalty = -1", BAD_VALUE),
    ("penalty = 'NaN'", BAD_VALUE),
    ("cpu = 1, cpu_max = 0.5", BAD_VALUE),
    ("iops = 100, iops_max = 99", BAD_VALUE),
    ("io_bandwidth = '2MB', io_bandwidth_max = '1MB'", BAD_VALUE),
    ("memory = '2GB', memory_max = '1GB'", BAD_VALUE),
    ("work_memory = '2MB', work_memory_max = '1MB'", BAD_VALUE),
    ("gpu = 1", UNKNOWN),
    ("cpu = 0.1, gpu = 1", UNKNOWN),
    ("\"\" = 1", UNKNOWN),
    ("cpu = 0.1, cpu = 0.2", SYNTAX),
    ("cpu = 0.1, CPU = 0.1", SYNTAX),
    ("cpu", SYNTAX),
    ("cpu =", SYNTAX),
    ("cpu = - - 1", SYNTAX),
    ("cpu = 1 2", SYNTAX),
    ("", SYNTAX),
];

/// Statements that are refused as a whole, on a server with the tenant `acme` of the size `gold`.
const BAD_STATEMENTS: &[(&str, SqlState)] = &[
    ("CREATE TENANT x WITH (size = platinum)", UNKNOWN),
    ("CREATE TENANT x WITH (size = '')", UNKNOWN),
    ("CREATE TENANT x WITH (volume = moon)", UNKNOWN),
    ("CREATE TENANT x WITH (size = gold, cpu_max = 0.1)", BAD_VALUE),
    ("CREATE TENANT x FROM TEMPLATE acme WITH (cpu = 9000)", BAD_VALUE),
    ("CREATE TENANT x FROM TEMPLATE nobody", SqlState::INVALID_CATALOG_NAME),
    ("CREATE TENANT acme", SqlState::DUPLICATE_DATABASE),
    ("CREATE TENANT \"\"", SqlState::INVALID_NAME),
    ("CREATE TENANT x OWNER \"public\"", SqlState::RESERVED_NAME),
    ("CREATE TENANT x OWNER current_user", SqlState::RESERVED_NAME),
    ("CREATE TENANT none", SqlState::RESERVED_NAME),
    ("CREATE TENANT pg_x PASSWORD 'pw'", SqlState::RESERVED_NAME),
    ("ALTER TENANT nobody SET (cpu = 1)", SqlState::INVALID_CATALOG_NAME),
    ("ALTER TENANT acme SET (size = platinum)", UNKNOWN),
    ("ALTER TENANT acme SET (cpu_max = 0.1)", BAD_VALUE),
    ("ALTER TENANT acme SET (volume = default)", SqlState::FEATURE_NOT_SUPPORTED),
    ("ALTER TENANT acme RESET (gpu)", UNKNOWN),
    ("ALTER TENANT acme RESET (volume)", SqlState::FEATURE_NOT_SUPPORTED),
    ("ALTER TENANT acme RENAME TO rowhouse", SqlState::DUPLICATE_DATABASE),
    ("ALTER TENANT acme RENAME TO system", SqlState::RESERVED_NAME),
    ("CREATE SIZE gold AS (cpu = 1)", SqlState::DUPLICATE_OBJECT),
    ("CREATE SIZE \"\" AS (cpu = 1)", SqlState::INVALID_NAME),
    ("CREATE SIZE x AS (size = gold)", UNKNOWN),
    ("CREATE SIZE x AS (volume = default)", UNKNOWN),
    ("ALTER SIZE platinum SET (cpu = 1)", UNKNOWN),
    ("ALTER SIZE gold SET (cpu = 3)", BAD_VALUE),
    ("ALTER SIZE gold RESET (gpu)", UNKNOWN),
    ("DROP SIZE gold", SqlState::DEPENDENT_OBJECTS_STILL_EXIST),
    ("DROP SIZE platinum", UNKNOWN),
    ("ALTER SERVER SET (policy = communism)", BAD_VALUE),
    ("ALTER SERVER SET (policy = '')", BAD_VALUE),
    ("ALTER SERVER SET (policy = max_only, overbooking = 1.5)", BAD_VALUE),
    ("ALTER SERVER SET (policy = max_only, overbooking = -0.1)", BAD_VALUE),
    ("ALTER SERVER SET (policy = max_only, overbooking = 'NaN')", BAD_VALUE),
    ("ALTER SERVER SET (policy = max_only, cpu = 1)", UNKNOWN),
    ("ALTER SERVER RESET (cpu)", UNKNOWN),
    ("ALTER SYSTEM SET policy = max_only", SqlState::FEATURE_NOT_SUPPORTED),
    ("ALTER VOLUME moon SET (iops_limit = 1)", UNKNOWN),
    ("ALTER VOLUME default SET (iops_limit = 0)", BAD_VALUE),
    ("ALTER VOLUME default SET (iops_limit = -1)", BAD_VALUE),
    ("ALTER VOLUME default SET (iops_limit = 1e30)", BAD_VALUE),
    ("ALTER VOLUME default SET (iops_limit = 'NaN')", BAD_VALUE),
    ("ALTER VOLUME default SET (cpu = 1)", UNKNOWN),
];

#[test]
fn what_makes_no_sense_is_refused_and_changes_nothing() {
    let server = TestServer::start();
    let mut admin = server.admin("rowhouse");
    admin.ok("CREATE SIZE gold AS (cpu = 0.5, iops = 200)");
    admin.ok("CREATE TENANT acme WITH (size = gold, cpu_max = 2, memory = '1MB')");
    let before = settings(&mut admin);
    for (options, state) in BAD_OPTIONS {
        for statement in [
            format!("CREATE TENANT x WITH ({options})"),
            format!("ALTER TENANT acme SET ({options})"),
            format!("CREATE SIZE x AS ({options})"),
            format!("ALTER SIZE gold SET ({options})"),
        ] {
            assert_eq!(admin.fails(&statement), *state, "{statement}");
        }
    }
    for (statement, state) in BAD_STATEMENTS {
        assert_eq!(admin.fails(statement), *state, "{statement}");
    }
    for statement in ["ALTER TENANT acme SET (cpu = 1)", "ALTER SIZE gold SET (cpu = 1)"] {
        admin.ok("BEGIN");
        assert_eq!(admin.fails(statement), SqlState::ACTIVE_SQL_TRANSACTION, "{statement}");
        admin.ok("ROLLBACK");
    }
    assert_eq!(settings(&mut admin), before);
    let server = server.restart();
    assert_eq!(settings(&mut server.admin("rowhouse")), before);
}

#[test]
fn nobody_but_the_administrator_in_his_own_database_administers() {
    let server = TestServer::start();
    let mut admin = server.admin("rowhouse");
    admin.ok("CREATE TENANT acme WITH (size = small) OWNER acme PASSWORD 'pw'");
    admin.ok("CREATE ROLE clerk LOGIN PASSWORD 'pw'");
    let before = settings(&mut admin);
    let outsiders = [
        server.connect("acme", "acme", "pw").expect("the tenant's owner"),
        server.connect("rowhouse", "clerk", "pw").expect("a role of the administrator's database"),
        server.admin("acme"),
    ];
    for mut outsider in outsiders {
        for statement in [
            "CREATE TENANT x",
            "ALTER TENANT acme SET (cpu = 1)",
            "ALTER TENANT acme RESET (size)",
            "ALTER TENANT acme RENAME TO x",
            "ALTER TENANT system SET (cpu_weight = 1)",
            "DROP TENANT acme",
            "SHOW TENANTS",
            "CREATE SIZE x AS (cpu = 1)",
            "ALTER SIZE small SET (cpu = 1)",
            "DROP SIZE large",
            "SHOW SIZES",
            "ALTER SERVER SET (policy = best_effort)",
            "ALTER SERVER RESET (policy)",
            "SHOW SERVER",
            "ALTER VOLUME default SET (iops_limit = 1)",
            "SHOW VOLUMES",
            "SELECT rowhouse.evict('acme')",
        ] {
            assert_eq!(outsider.fails(statement), SqlState::INSUFFICIENT_PRIVILEGE, "{statement}");
        }
    }
    assert_eq!(settings(&mut admin), before);
    let server = server.restart();
    assert_eq!(settings(&mut server.admin("rowhouse")), before);
}

/// By that name everybody logs in as the administrator.
#[test]
fn no_tenants_owner_is_called_as_the_administrator_is() {
    let server = TestServer::start();
    let mut admin = server.admin("rowhouse");
    for statement in ["CREATE TENANT acme OWNER admin PASSWORD 'pw'", "CREATE TENANT admin PASSWORD 'pw'"] {
        assert_eq!(admin.fails(statement), SqlState::RESERVED_NAME, "{statement}");
    }
    admin.ok("CREATE TENANT admin OWNER acme PASSWORD 'pw'");
    assert!(server.connect("admin", "acme", "pw").expect("its owner").is_alive());
}

/// What `ALTER ROLE admin SET` says is of the administrator's own sessions.
#[test]
fn the_catalogue_is_written_whatever_the_administrators_sessions_begin_with() {
    let server = TestServer::start();
    let mut admin = server.admin("rowhouse");
    for setting in ["default_transaction_read_only = on", "synchronous_commit = off"] {
        admin.ok(&format!("ALTER ROLE admin SET {setting}"));
    }
    assert_eq!(server.admin("rowhouse").ok("SHOW synchronous_commit"), [[Some("off".to_owned())]]);
    admin.ok("CREATE TENANT acme OWNER acme PASSWORD 'pw'");
    admin.ok("CREATE TENANT other");
    admin.ok("ALTER TENANT acme SET (cpu = 0.125)");
    admin.ok("DROP TENANT other");
    let server = server.restart();
    assert!(server.connect("acme", "acme", "pw").expect("its owner").is_alive());
}

/// What the server itself writes waits for who has it locked, however many write.
#[test]
fn statements_wait_for_who_has_locked_the_catalogue() {
    let server = TestServer::start();
    let mut holder = server.admin("rowhouse");
    holder.ok("BEGIN");
    holder.ok("LOCK TABLE rowhouse.tenants IN SHARE MODE");
    let waiting = ["one", "two", "three"].map(|name| {
        let mut admin = server.admin("rowhouse");
        admin.start_query(&format!("CREATE TENANT {name} OWNER {name} PASSWORD 'pw'"));
        admin
    });
    // They wait by then, or the test shows nothing.
    std::thread::park_timeout(std::time::Duration::from_millis(300));
    holder.ok("COMMIT");
    for mut admin in waiting {
        assert_eq!(admin.answer().error, None);
    }
    assert!(server.connect("three", "three", "pw").expect("its owner").is_alive());
}

/// Nobody could end its wait, and its claim would keep others from the name.
#[test]
fn statements_wait_for_a_locked_catalogue_for_a_while() {
    let server = TestServer::start();
    let mut holder = server.admin("rowhouse");
    holder.ok("BEGIN");
    holder.ok("LOCK TABLE rowhouse.tenants IN SHARE MODE");
    let mut admin = server.admin("rowhouse");
    assert_eq!(admin.fails("CREATE TENANT acme OWNER acme PASSWORD 'pw'"), SqlState::LOCK_NOT_AVAILABLE);
    holder.ok("COMMIT");
    admin.ok("CREATE TENANT acme OWNER acme PASSWORD 'pw'");
    assert!(server.connect("acme", "acme", "pw").expect("its owner").is_alive());
}

/// It would wait for itself, and nobody could end it.
#[test]
fn what_changes_the_catalogue_is_refused_behind_statements_that_lock_something() {
    let server = TestServer::start();
    let mut admin = server.admin("rowhouse");
    let lock = "LOCK TABLE rowhouse.tenants IN SHARE MODE";
    for statement in
        ["CREATE TENANT acme", "ALTER TENANT system SET (cpu_weight = 9000)", "CREATE SIZE s AS (cpu = 1)"]
    {
        assert_eq!(admin.fails(&format!("{lock}; {statement}")), SqlState::ACTIVE_SQL_TRANSACTION);
    }
    assert_eq!(
        admin.fails("SELECT id FROM rowhouse.tenants; CREATE TENANT acme"),
        SqlState::ACTIVE_SQL_TRANSACTION
    );
    admin.ok("SELECT 1; CREATE TENANT acme; CREATE TENANT other; SHOW TENANTS");
    admin.ok(&format!("{lock}; SHOW TENANTS"));
}

#[test]
fn a_clerk_cannot_write_to_the_tables_of_promises() {
    let server = TestServer::start();
    let mut admin = server.admin("rowhouse");
    admin.ok("CREATE ROLE clerk LOGIN PASSWORD 'pw'");
    let mut clerk = server.connect("rowhouse", "clerk", "pw").expect("a role");
    for table in ["tenants", "sizes", "server", "volumes"] {
        for statement in [format!("SELECT * FROM rowhouse.{table}"), format!("DELETE FROM rowhouse.{table}")]
        {
            assert_eq!(clerk.fails(&statement), SqlState::INSUFFICIENT_PRIVILEGE, "{statement}");
        }
    }
}
