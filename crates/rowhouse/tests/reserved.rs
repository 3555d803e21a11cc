//! What SHOW SERVER and SHOW VOLUMES say is reserved is the sum of what SHOW TENANTS has of each tenant, whatever administrators do, and after crashes in the
//! midst of it. The server keeps the sums as promises change; this adds up anew.

mod common;

use std::collections::BTreeMap;

use base::ByteCount;
use common::{Server, run};
use tokio_postgres::{Client, SimpleQueryMessage};

const CRASHES: usize = 4;
const STATEMENTS: usize = 30;

/// A sequence of numbers that is the same in every run (Steele et al., Fast Splittable Pseudorandom Number Generators, 2014).
struct Draws(u64);

impl Draws {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end as u64) as usize
    }

    fn one_of<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[self.below(of.len())]
    }

    fn options(&mut self) -> String {
        let key = self.one_of(&["cpu", "iops", "memory", "work_memory", "io_bandwidth", "size"]);
        let value = match key {
            "cpu" => self.one_of(&["0", "0.125", "0.5", "2"]),
            "iops" => self.one_of(&["0", "7", "1000"]),
            "size" => self.one_of(&["none", "small", "own"]),
            _ => self.one_of(&["0", "12345", "64MiB"]),
        };
        format!("{key} = '{value}'")
    }

    fn statement(&mut self) -> String {
        let tenant = format!("t{}", self.below(6));
        match self.below(9) {
            0..=2 => {
                let volume = self.one_of(&["default", "fast"]);
                format!("CREATE TENANT IF NOT EXISTS {tenant} WITH (volume = {volume}, {})", self.options())
            }
            3 => format!("DROP TENANT IF EXISTS {tenant}"),
            4 => format!("ALTER TENANT {tenant} RENAME TO t{}", self.below(6)),
            5 => format!("CREATE TENANT t{} FROM TEMPLATE {tenant}", self.below(6)),
            6 => {
                let of_size =
                    self.one_of(&["cpu = 0.25", "iops = 33", "memory = '1MiB'", "io_bandwidth = '3MB'"]);
                format!("ALTER SIZE own SET ({of_size})")
            }
            7 => format!(
                "ALTER TENANT {} SET (cpu = {})",
                self.one_of(&["system", "t0"]),
                self.one_of(&["0.3", "0.75"])
            ),
            _ => format!("ALTER TENANT {tenant} SET ({})", self.options()),
        }
    }
}

/// The rows of a SHOW by the names of its columns.
async fn shown(admin: &Client, statement: &str) -> Vec<BTreeMap<String, String>> {
    let messages = admin.simple_query(statement).await.expect("it is shown");
    let row = |message| match message {
        SimpleQueryMessage::Row(row) => {
            let value = |at: usize| row.get(at).unwrap_or_default().to_owned();
            let columns = row.columns().iter().enumerate();
            Some(columns.map(|(at, column)| (column.name().to_owned(), value(at))).collect())
        }
        _ => None,
    };
    messages.into_iter().filter_map(row).collect()
}

/// Thousandths, of a number with three decimals at the most.
fn thousandths(text: &str) -> u64 {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    format!("{whole}{decimals:0<3}").parse().unwrap_or_else(|_| panic!("{text}"))
}

fn bytes(text: &str) -> u64 {
    text.parse::<ByteCount>().unwrap_or_else(|_| panic!("{text}")).0
}

async fn check(admin: &Client, after: &str) {
    let tenants = shown(admin, "SHOW TENANTS").await;
    let sum = |of: &dyn Fn(&BTreeMap<String, String>) -> u64| tenants.iter().map(of).sum::<u64>();
    let server = shown(admin, "SHOW SERVER").await.remove(0);
    assert_eq!(thousandths(&server["cpu_reserved"]), sum(&|row| thousandths(&row["cpu"])), "{after}");
    assert_eq!(bytes(&server["memory_reserved"]), sum(&|row| bytes(&row["memory"])), "{after}");
    assert_eq!(bytes(&server["work_memory_reserved"]), sum(&|row| bytes(&row["work_memory"])), "{after}");
    for volume in shown(admin, "SHOW VOLUMES").await {
        let name = &volume["name"];
        let is_on = |row: &BTreeMap<String, String>| u64::from(name == "log" || *name == row["volume"]);
        let number = |text: &str| text.parse::<u64>().expect("a number");
        assert_eq!(
            number(&volume["iops_reserved"]),
            sum(&|row| is_on(row) * number(&row["iops"])),
            "{name} {after}"
        );
        let bandwidth = sum(&|row| is_on(row) * bytes(&row["io_bandwidth"]));
        assert_eq!(bytes(&volume["bandwidth_reserved"]), bandwidth, "{name} {after}");
    }
}

#[test]
fn sums_are_those_of_the_tenants_there_are() {
    let fast = tempfile::tempdir().expect("a temporary directory");
    let option = format!("fast={}", fast.path().display());
    let mut server = Server::start_with(&["--workers", "2", "--volume", &option]);
    server.expect_warnings();
    let mut draws = Draws(7);
    run(async { server.admin().await.batch_execute("CREATE SIZE own AS (cpu = 0.5)").await.expect("made") });
    let mut done = 0;
    for crash in 0..=CRASHES {
        run(async {
            let admin = server.admin().await;
            check(&admin, "a start").await;
            for _ in 0..STATEMENTS {
                let statement = draws.statement();
                // Many cannot be done, which changes nothing.
                done += u32::from(admin.batch_execute(&statement).await.is_ok());
                check(&admin, &statement).await;
            }
            // The last ones are under way when the server is killed.
            let under_way: Vec<_> = (0..4).map(|_| draws.statement()).collect();
            let send =
                futures::future::join_all(under_way.iter().map(|statement| admin.batch_execute(statement)));
            let _ =
                futures::future::select(std::pin::pin!(send), std::pin::pin!(admin.simple_query("SELECT 1")))
                    .await;
            if crash < CRASHES {
                server.kill();
            }
        });
        if crash < CRASHES {
            server.restart();
        }
    }
    assert!(done > 60, "{done} of them did something");
    assert!(server.terminate().success());
}
