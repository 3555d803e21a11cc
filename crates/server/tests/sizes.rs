//! Named sizes, what tenants are given over them, the server's own tenant, and what overbooking is answered with.

mod support;

use base::{ByteCount, SqlState};
use support::{Client, TestServer};

fn promised(admin: &mut Client, tenant: &str, option: &str) -> String {
    admin.shown("SHOW TENANTS").value(tenant, option).expect("not null").to_owned()
}

#[test]
fn options_by_hand_go_over_a_size_and_stay_when_it_is_altered() {
    let server = TestServer::start();
    let mut admin = server.admin("rowhouse");
    admin.ok("CREATE SIZE gold AS (cpu = 0.5, cpu_max = 1, iops = 200)");
    admin.ok("CREATE TENANT acme WITH (size = 'gold', cpu_max = 2, memory = '1MB')");
    let shown = admin.shown("SHOW TENANTS");
    let promise = |shown: &support::Shown| {
        ["size", "cpu", "cpu_max", "iops", "memory"].map(|one| shown.value("acme", one).unwrap().to_owned())
    };
    assert_eq!(promise(&shown), ["gold", "0.5", "2", "200", "1MiB"]);
    admin.ok("ALTER SIZE gold SET (cpu = 0.6, cpu_max = 1.5, memory = '8MB')");
    let shown = admin.shown("SHOW TENANTS");
    assert_eq!(promise(&shown), ["gold", "0.6", "2", "200", "1MiB"], "by hand stays");
    admin.ok("ALTER TENANT acme RESET (cpu_max)");
    assert_eq!(promised(&mut admin, "acme", "cpu_max"), "1.5", "what the size says comes back");
    // After a restart, and with the size altered by somebody else meanwhile.
    let server = server.restart();
    let mut admin = server.admin("rowhouse");
    assert_eq!(promise(&admin.shown("SHOW TENANTS")), ["gold", "0.6", "1.5", "200", "1MiB"]);
    admin.ok("ALTER SIZE gold RESET (iops)");
    assert_eq!(promised(&mut admin, "acme", "iops"), "0");
    admin.ok("ALTER TENANT acme SET (size = medium)");
    assert_eq!(promise(&admin.shown("SHOW TENANTS")), ["medium", "0.2", "none", "200", "1MiB"]);
    admin.ok("ALTER TENANT acme RESET (size)");
    let shown = admin.shown("SHOW TENANTS");
    assert_eq!(shown.value("acme", "size"), None);
    assert_eq!(shown.value("acme", "cpu"), Some("0"));
    assert_eq!(shown.value("acme", "memory"), Some("1MiB"));
}

#[test]
fn sizes_ship_are_shown_and_stay_dropped() {
    let server = TestServer::start();
    let mut admin = server.admin("rowhouse");
    let shown = admin.shown("SHOW SIZES");
    assert_eq!(shown.names(), ["large", "medium", "small"]);
    assert_eq!(shown.value("large", "cpu"), Some("0.8"));
    assert_eq!(shown.value("large", "cpu_max"), None, "it says nothing of it");
    admin.ok("CREATE TENANT acme WITH (size = small)");
    assert_eq!(admin.shown("SHOW SIZES").value("small", "tenants"), Some("1"));
    let refused = admin.query("DROP SIZE small").error.expect("in use");
    assert_eq!(refused.state, SqlState::DEPENDENT_OBJECTS_STILL_EXIST);
    assert_eq!(refused.detail, "tenant acme has size small");
    admin.ok("DROP SIZE large");
    admin.ok("DROP TENANT acme");
    admin.ok("DROP SIZE small");
    assert_eq!(admin.fails("DROP SIZE small"), SqlState::UNDEFINED_OBJECT);
    assert_eq!(admin.tells("DROP SIZE IF EXISTS small"), ["NOTICE: size \"small\" does not exist, skipping"]);
    let server = server.restart();
    let mut admin = server.admin("rowhouse");
    assert_eq!(admin.shown("SHOW SIZES").names(), ["medium"]);
    assert_eq!(admin.fails("CREATE SIZE medium AS (cpu = 1)"), SqlState::DUPLICATE_OBJECT);
    let told = admin.tells("CREATE SIZE IF NOT EXISTS medium AS (cpu = 1)");
    assert_eq!(told, ["NOTICE: size \"medium\" already exists, skipping"]);
    assert_eq!(admin.shown("SHOW SIZES").value("medium", "cpu"), Some("0.2"));
}

#[test]
fn a_size_that_contradicts_a_tenants_own_options_is_not_altered() {
    let server = TestServer::start();
    let mut admin = server.admin("rowhouse");
    admin.ok("CREATE SIZE gold AS (cpu = 0.5)");
    admin.ok("CREATE TENANT acme WITH (size = gold, cpu_max = 1)");
    admin.ok("CREATE TENANT other WITH (size = gold)");
    let refused = admin.query("ALTER SIZE gold SET (cpu = 1.5)").error.expect("acme may have 1 at most");
    assert_eq!(refused.state, SqlState::INVALID_PARAMETER_VALUE);
    assert_eq!(refused.detail, "Tenant \"acme\" has this size.");
    let shown = admin.shown("SHOW TENANTS");
    assert_eq!([shown.value("acme", "cpu"), shown.value("other", "cpu")], [Some("0.5"); 2]);
    assert_eq!(admin.shown("SHOW SIZES").value("gold", "cpu"), Some("0.5"));
}

#[test]
fn copies_have_the_size_of_their_template_and_backups_what_it_says() {
    let server = TestServer::start();
    let mut admin = server.admin("rowhouse");
    admin.ok("CREATE SIZE gold AS (cpu = 0.5, cpu_max = 1)");
    admin.ok("CREATE TENANT acme WITH (size = gold, iops = 7)");
    admin.ok("CREATE TENANT copy FROM TEMPLATE acme WITH (iops = 8)");
    admin.ok("CREATE TENANT plain FROM TEMPLATE acme WITH (size = none)");
    admin.ok("ALTER SIZE gold SET (cpu = 0.6)");
    let shown = admin.shown("SHOW TENANTS");
    let of = |tenant| ["size", "cpu", "iops"].map(|option| shown.value(tenant, option));
    assert_eq!(of("copy"), [Some("gold"), Some("0.6"), Some("8")]);
    assert_eq!(of("plain"), [None, Some("0"), Some("7")]);
}

#[test]
fn overbooking_is_allowed_and_told_with_the_sums() {
    let server = TestServer::with(|config| config.memory = ByteCount::from_mib(256));
    let mut admin = server.admin("rowhouse");
    // Two workers, of which the server's own work has a fifth each.
    assert!(admin.tells("CREATE TENANT a WITH (cpu = 1.6, memory = '224MB')").is_empty());
    let told = admin.query("CREATE TENANT b WITH (cpu = 0.125)");
    assert_eq!(told.notices.len(), 1, "{:?}", told.notices);
    let warning = &told.notices[0];
    assert_eq!((warning.severity.as_str(), warning.state), ("WARNING", SqlState::WARNING));
    assert_eq!(warning.message, "processor time is overbooked: 2.125 of 2 cores are reserved");
    assert_eq!(warning.detail, "0.4 of them are of tenant \"system\".");
    assert!(admin.tells("ALTER TENANT b SET (cpu = 0.1, cpu_max = 1)").is_empty(), "less than before");
    let memory = "WARNING: memory is overbooked: 225MiB of 224MiB are reserved";
    assert_eq!(admin.tells("ALTER TENANT b SET (memory = '1MB')"), [memory]);
    // By way of a size, once for all that have it.
    admin.ok("CREATE SIZE gold AS (cpu = 0.1)");
    admin.ok("ALTER TENANT a SET (size = gold)");
    admin.ok("ALTER TENANT a RESET (cpu)");
    admin.ok("ALTER TENANT b SET (size = gold)");
    admin.ok("ALTER TENANT b RESET (cpu)");
    let told = admin.tells("ALTER SIZE gold SET (cpu = 1)");
    assert_eq!(told, ["WARNING: processor time is overbooked: 2.4 of 2 cores are reserved"]);
    let told = admin.tells("ALTER TENANT system SET (cpu = 0.5)");
    assert_eq!(told, ["WARNING: processor time is overbooked: 2.5 of 2 cores are reserved"]);
}

#[test]
fn the_servers_own_tenant_is_shown_and_altered_and_nothing_else() {
    let server = TestServer::start();
    let mut admin = server.admin("rowhouse");
    let of_system = |admin: &mut Client| {
        let shown = admin.shown("SHOW TENANTS");
        ["id", "cpu", "cpu_weight", "penalty"].map(|one| shown.value("system", one).unwrap().to_owned())
    };
    assert_eq!(of_system(&mut admin), ["1", "0.4", "10000", "0"]);
    admin.ok("ALTER TENANT system SET (cpu = 0.3, cpu_weight = 500, penalty = 2)");
    assert_eq!(of_system(&mut admin), ["1", "0.3", "500", "2"]);
    let server = server.restart();
    let mut admin = server.admin("rowhouse");
    assert_eq!(of_system(&mut admin), ["1", "0.3", "500", "2"]);
    for (refused, state) in [
        ("ALTER TENANT system SET (cpu_max = 1)", SqlState::INVALID_PARAMETER_VALUE),
        ("ALTER TENANT system SET (connections_max = 0)", SqlState::INVALID_PARAMETER_VALUE),
        ("ALTER TENANT system SET (cpu = 0.019)", SqlState::INVALID_PARAMETER_VALUE),
        ("ALTER TENANT system SET (size = small)", SqlState::INVALID_PARAMETER_VALUE),
        ("ALTER TENANT system RENAME TO other", SqlState::INSUFFICIENT_PRIVILEGE),
        ("DROP TENANT system", SqlState::INSUFFICIENT_PRIVILEGE),
        ("CREATE TENANT copy FROM TEMPLATE system", SqlState::INSUFFICIENT_PRIVILEGE),
        ("BACKUP TENANT system TO STDOUT", SqlState::INSUFFICIENT_PRIVILEGE),
        ("ALTER TENANT rowhouse SET (cpu = 1)", SqlState::INSUFFICIENT_PRIVILEGE),
        ("CREATE TENANT system", SqlState::RESERVED_NAME),
        ("CREATE SIZE none AS (cpu = 1)", SqlState::RESERVED_NAME),
    ] {
        assert_eq!(admin.fails(refused), state, "{refused}");
    }
    assert_eq!(of_system(&mut admin), ["1", "0.3", "500", "2"]);
    admin.ok("ALTER TENANT system RESET (cpu, cpu_weight, penalty)");
    assert_eq!(of_system(&mut admin), ["1", "0.4", "10000", "0"]);
}

#[test]
fn a_directory_of_a_version_without_sizes_opens() {
    let server = TestServer::start();
    let mut admin = server.admin("rowhouse");
    admin.ok("CREATE TENANT acme WITH (cpu = 0.5, cpu_max = 1) OWNER acme PASSWORD 'pw'");
    // As that version left it.
    admin.ok("DROP TABLE rowhouse.sizes");
    admin.ok("ALTER TABLE rowhouse.tenants DROP COLUMN size");
    drop(admin);
    let server = server.restart();
    let mut admin = server.admin("rowhouse");
    let shown = admin.shown("SHOW TENANTS");
    assert_eq!(
        ["cpu", "cpu_max", "size"].map(|one| shown.value("acme", one)),
        [Some("0.5"), Some("1"), None]
    );
    assert_eq!(admin.shown("SHOW SIZES").names(), ["large", "medium", "small"]);
    admin.ok("ALTER TENANT acme SET (size = large)");
    assert!(server.connect("acme", "acme", "pw").unwrap().is_alive());
    let server = server.restart();
    let shown = server.admin("rowhouse").shown("SHOW TENANTS");
    assert_eq!(
        ["cpu", "iops", "size"].map(|one| shown.value("acme", one)),
        [Some("0.5"), Some("800"), Some("large")]
    );
}
