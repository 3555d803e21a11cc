//! What the tenant's basic operations cost on this machine, in CPU time of the thread: point reads, a payment-sized
//! commit, a scan. `cargo run --release -p tenant --example cost`

use std::time::Duration;

use base::{CommitNo, Lsn, SessionId, TenantId};
use tenant::catalog::{Column, OWNER_ROLE, PUBLIC_SCHEMA};
use tenant::ddl::{NewTable, NewUnique};
use tenant::row::keys::primary_key;
use tenant::{Interrupt, Isolation, RedoSink, Tenant, View};
use types::{Datum, PgType, TypeMod};

const ROWS: i32 = 200_000;
const ROUNDS: i32 = 200_000;

/// A log that only counts.
struct Count(u64);

impl RedoSink for Count {
    fn append(&mut self, _: TenantId, _: CommitNo, record: &[u8]) -> Lsn {
        self.0 += record.len() as u64;
        Lsn(self.0)
    }
}

fn auto<T>(tenant: &mut Tenant, log: &mut Count, f: impl FnOnce(&mut View<'_>) -> Result<T, Interrupt>) -> T {
    let mut txn = tenant.begin(SessionId(1), Isolation::ReadCommitted, false, true);
    let value = f(&mut tenant.view(&mut txn, log)).unwrap_or_else(|e| panic!("{e:?}"));
    let committed = tenant.commit(txn, log).expect("no conflicts");
    tenant.durable(committed.wait_for);
    value
}

fn row(id: i32, n: i32) -> Vec<Datum> {
    let filler = Datum::Text("some text of ordinary length".into());
    let mut row = vec![Datum::Int4(id), Datum::Int4(n), Datum::Numeric(types::Numeric::new(i64::from(n), 2))];
    row.extend(std::iter::repeat_n(filler, 4));
    row
}

fn cpu() -> Duration {
    Duration::from_nanos(env::Env::real().clock.thread_cpu().0)
}

fn main() {
    let mut tenant = Tenant::in_memory(TenantId(16), "owner");
    let mut log = Count(0);
    let table = auto(&mut tenant, &mut log, |view| {
        let mut ddl = view.ddl()?;
        let types = [
            PgType::Int4,
            PgType::Int4,
            PgType::Numeric,
            PgType::Text,
            PgType::Text,
            PgType::Text,
            PgType::Text,
        ];
        let columns = types
            .iter()
            .enumerate()
            .map(|(i, ty)| Column::new(format!("c{i}"), *ty, TypeMod::NONE))
            .collect();
        let new = NewTable { schema: PUBLIC_SCHEMA, name: "t".into(), owner: OWNER_ROLE, columns };
        let oid = ddl.create_table(new)?;
        ddl.add_primary_key(oid, NewUnique { name: None, columns: vec![0], nulls_not_distinct: false })?;
        let table = ddl.view().table(oid)?;
        Ok(table)
    });
    let start = cpu();
    for first in (0..ROWS).step_by(1000) {
        auto(&mut tenant, &mut log, |view| {
            for id in first..first + 1000 {
                view.insert(&table, &row(id, id))?;
            }
            Ok(())
        });
    }
    println!("insert, 1000 a transaction: {:?} a row", (cpu() - start) / ROWS as u32);
    let mut at: u32 = 1;
    let mut next = move || {
        at = at.wrapping_mul(1664525).wrapping_add(1013904223);
        ((at >> 8) % ROWS as u32) as i32
    };
    let start = cpu();
    let mut sum = 0;
    auto(&mut tenant, &mut log, |view| {
        for _ in 0..ROUNDS {
            let key = primary_key(&table, &[Datum::Int4(next())]);
            if let Some(Datum::Int4(n)) = view.get(&table, &key)?.map(|row| row.column(1)).transpose()? {
                sum += i64::from(n);
            }
        }
        Ok(())
    });
    println!("point read of one column: {:?} ({sum})", (cpu() - start) / ROUNDS as u32);
    let mut committing = Duration::ZERO;
    let start = cpu();
    for round in 0..ROUNDS {
        let mut txn = tenant.begin(SessionId(1), Isolation::ReadCommitted, false, false);
        for _ in 0..4 {
            txn.mark();
            let mut view = tenant.view(&mut txn, &mut log);
            let id = next();
            let key = primary_key(&table, &[Datum::Int4(id)]);
            view.update(&table, &key, &row(id, round)).unwrap_or_else(|e| panic!("{e:?}"));
            view.finish_statement().unwrap_or_else(|e| panic!("{e:?}"));
        }
        if round >= ROUNDS / 2 {
            tenant.abort(txn);
            continue;
        }
        let committed = tenant.commit(txn, &mut log).expect("no conflicts");
        if round % 50 == 0 {
            tenant.durable(committed.wait_for);
        }
        if round == ROUNDS / 2 - 1 {
            committing = cpu() - start;
        }
    }
    let aborting = cpu() - start - committing;
    let half = ROUNDS as u32 / 2;
    println!("transaction of four updates: {:?} committed, {:?} aborted", committing / half, aborting / half);
    let start = cpu();
    let rows = auto(&mut tenant, &mut log, |view| {
        let range = tenant::row::keys::KeyRange::all();
        let mut scan = view.scan(&table, tenant::Access::Table, range, tenant::Direction::Forward);
        let mut rows = 0u32;
        while let Some(row) = view.next(&mut scan)? {
            row.column(2)?;
            rows += 1;
        }
        Ok(rows)
    });
    println!(
        "scan: {:?} a row of {rows}; {} in pages, log {} MB",
        (cpu() - start) / rows,
        tenant.memory().pages,
        log.0 >> 20
    );
}
