//! Ledgers of numbered commits in tenants whose server is ended without warning: what a client was told of is there afterwards, whole and once, and beside it
//! at most the commit that was under way.

use tokio_postgres::Client;

use super::{Server, connect};

/// Clients of each tenant, numbered from 0.
pub const CLIENTS: i32 = 4;

/// Makes the tables for so many clients.
pub async fn make(owner: &Client, clients: i32) {
    owner
        .batch_execute(
            "CREATE TABLE entry (client int, number bigint, note text, PRIMARY KEY (client, number));
             CREATE INDEX entry_number ON entry (number);
             CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL)",
        )
        .await
        .expect("tables can be made");
    for client in 0..clients {
        let accounts = format!("INSERT INTO account VALUES ({client}, 0), ({}, 0)", client + 100);
        owner.batch_execute(&accounts).await.expect("accounts can be made");
    }
}

/// One client of one tenant: each of its transactions adds a numbered entry and moves that number onto two accounts. `told` hears of each that was
/// acknowledged. Gives the number of the last one, and stops at the first error.
pub async fn post(url: String, client: i32, first: i64, mut told: impl FnMut(i64)) -> i64 {
    let mut acknowledged = first - 1;
    let Ok(mut connection) = connect(&url).await else { return acknowledged };
    loop {
        let number = acknowledged + 1;
        let outcome = async {
            let transaction = connection.transaction().await?;
            transaction
                .execute("INSERT INTO entry VALUES ($1, $2, $3)", &[&client, &number, &"x".repeat(100)])
                .await?;
            transaction
                .execute("UPDATE account SET balance = balance + $1 WHERE id = $2", &[&number, &client])
                .await?;
            transaction
                .execute(
                    "UPDATE account SET balance = balance - $1 WHERE id = $2",
                    &[&number, &(client + 100)],
                )
                .await?;
            transaction.commit().await
        };
        if outcome.await.is_err() {
            return acknowledged;
        }
        acknowledged = number;
        told(number);
    }
}

/// Checks one tenant's ledger against the last number that each client was told of; gives the next number of each client, or what is wrong.
pub async fn audit(server: &Server, tenant: &str, acknowledged: &[i64]) -> Result<Vec<i64>, String> {
    let failed = |error: tokio_postgres::Error| format!("{tenant}: {error:?}");
    let connection = server.connect_as(tenant, tenant).await.map_err(failed)?;
    let mut next = Vec::new();
    for (client, &acknowledged) in (0_i32..).zip(acknowledged) {
        let row = connection
            .query_one("SELECT count(*), coalesce(max(number), 0), coalesce(sum(number), 0)::bigint FROM entry WHERE client = $1", &[&client])
            .await
            .map_err(failed)?;
        let (count, last, sum) = (row.get::<_, i64>(0), row.get::<_, i64>(1), row.get::<_, i64>(2));
        // The commit under way at the end may be there too, though nobody was told.
        if last != acknowledged && last != acknowledged + 1 {
            return Err(format!("{tenant}/{client}: {acknowledged} was acknowledged, {last} is there"));
        }
        if (count, sum) != (last, last * (last + 1) / 2) {
            return Err(format!("{tenant}/{client}: {count} entries up to {last}, of {sum} in all"));
        }
        for (id, balance) in [(client, sum), (client + 100, -sum)] {
            let row = connection
                .query_one("SELECT balance FROM account WHERE id = $1", &[&id])
                .await
                .map_err(failed)?;
            let found = row.get::<_, i64>(0);
            if found != balance {
                return Err(format!(
                    "{tenant}/{client}: account {id} has {found}, its entries make {balance}"
                ));
            }
        }
        next.push(last + 1);
    }
    // The index agrees with the table.
    let mut counts = Vec::new();
    for query in ["SELECT count(*) FROM entry", "SELECT count(*) FROM entry WHERE number >= 0"] {
        counts.push(connection.query_one(query, &[]).await.map_err(failed)?.get::<_, i64>(0));
    }
    if counts[0] == counts[1] {
        Ok(next)
    } else {
        Err(format!("{tenant}: entries and by the index: {counts:?}"))
    }
}
