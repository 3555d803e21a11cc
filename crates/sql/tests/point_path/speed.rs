//! What a prepared statement costs beyond the tenant's own work. Run by hand: prints, asserts nothing.

use std::cell::{Cell, RefCell};
use std::time::Instant;

use base::{SessionId, SqlResult};
use sql::exec::{self, ExecEnv, ExecLimits, Flow, RowSink};
use tenant::Isolation;
use types::Datum;

use crate::database::Database;
use crate::session::{Log, TestSession};

struct Ignore;

impl RowSink for Ignore {
    fn row(&mut self, _row: &[Datum]) -> SqlResult<Flow> {
        Ok(Flow::More)
    }
}

#[test]
#[ignore = "a measurement"]
fn a_prepared_statement_costs_little() {
    let mut database = Database::new();
    for sql in [
        "CREATE TABLE accounts (aid int PRIMARY KEY, bid int, abalance int, filler char(84))",
        "CREATE TABLE history (tid int, bid int, aid int, delta int, mtime timestamp)",
        "INSERT INTO accounts SELECT g, 1, 0, 'x' FROM generate_series(1, 4000) g",
    ] {
        database.execute(sql).expect(sql);
    }
    let format = database.format();
    let rounds = 200_000;
    for (name, sql, params) in [
        ("select", "SELECT abalance FROM accounts WHERE aid = $1", vec![Datum::Int4(77)]),
        (
            "update",
            "UPDATE accounts SET abalance = abalance + $1 WHERE aid = $2",
            vec![Datum::Int4(5), Datum::Int4(77)],
        ),
        (
            "insert",
            "INSERT INTO history (tid, bid, aid, delta, mtime) VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP)",
            vec![Datum::Int4(1), Datum::Int4(1), Datum::Int4(1), Datum::Int4(1)],
        ),
    ] {
        let plan = database.bind(sql, &[]).expect(sql);
        let point = plan.point().expect("a point plan");
        let mut log = Log::default();
        for run in [false, true] {
            let start = Instant::now();
            for _ in 0..rounds {
                let mut txn = database.tenant.begin(SessionId(1), Isolation::ReadCommitted, false, true);
                {
                    let view = RefCell::new(database.tenant.view(&mut txn, &mut log));
                    let last = Cell::new(None);
                    let session = TestSession { view: &view, last: &last };
                    let env = ExecEnv { format: &format, statement_start: 0, session: &session };
                    if run {
                        exec::run(point, &params, &env, &view, None, &mut Ignore, ExecLimits::default())
                            .unwrap();
                    } else if name == "select" {
                        let table = &database_table(&view);
                        let key = tenant::row::keys::primary_key(table, &[Datum::Int4(77)]);
                        let mut view = view.borrow_mut();
                        let row = view.get(table, &key).unwrap().unwrap();
                        std::hint::black_box(row.column(2).unwrap());
                    }
                }
                database.tenant.abort(txn);
            }
            let each = start.elapsed().as_nanos() as usize / rounds;
            println!("{name} {}: {each} ns", if run { "planned" } else { "tenant alone" });
        }
    }
}

fn database_table(view: &RefCell<tenant::View<'_>>) -> std::sync::Arc<tenant::catalog::Table> {
    let view = view.borrow();
    view.catalog().tables().find(|t| t.name == "accounts").expect("made above").clone()
}
