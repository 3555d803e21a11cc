//! A prepared statement that ran before runs again without an allocation for its counts.

#[path = "../../governor/tests/counting/mod.rs"]
mod counting;

use std::sync::Arc;

use base::{CommitNo, Lsn, SessionId, TenantId};
use counting::allocations;
use env::sim::World;
use sql::session::stand_in::{Answer, CountingHost, LoneHost};
use sql::session::{Bind, Executed, Home, Pause, Session, SessionHost, SessionStart};
use tenant::{RedoSink, Tenant};

const SELECT: &str = "SELECT v FROM t WHERE id = $1 AND v <> 1000000";
const UPDATE: &str = "UPDATE t SET v = v + 1 WHERE id = $1";

#[derive(Default)]
struct Log(u64);

impl RedoSink for Log {
    fn append(&mut self, _: TenantId, _: CommitNo, _: &[u8]) -> Lsn {
        self.0 += 1;
        Lsn(self.0)
    }
}

struct Client {
    tenant: Tenant,
    log: Log,
    session: Session,
    host: Arc<dyn SessionHost>,
}

fn done<T>(outcome: Result<T, Pause>) -> T {
    match outcome {
        Ok(value) => value,
        Err(Pause::Error(error)) => panic!("{} {}", error.state(), error.message()),
        Err(pause) => panic!("{pause:?}"),
    }
}

impl Client {
    fn new(host: Arc<dyn SessionHost>) -> Client {
        let tenant = Tenant::in_memory(TenantId(77), "owner");
        let start = SessionStart {
            id: SessionId(1),
            tenant: TenantId(77),
            database: "app".into(),
            user: "owner".into(),
            administrator: false,
            parameters: Vec::new(),
            host: host.clone(),
        };
        let session = Session::new(start, &tenant).expect("the role exists");
        let mut client = Client { tenant, log: Log::default(), session, host };
        let mut home = Home { tenant: &mut client.tenant, redo: &mut client.log };
        let table = "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 1), (2, 2)";
        assert_eq!(done(client.session.query(&mut home, table, &mut Answer::default())), Executed::Complete);
        client.answered();
        for (name, sql) in [("select", SELECT), ("update", UPDATE)] {
            let mut home = Home { tenant: &mut client.tenant, redo: &mut client.log };
            done(client.session.parse(&mut home, name, sql, &[], &mut Answer::default()));
            done(client.session.sync(&mut home, &mut Answer::default()));
        }
        client
    }

    /// As the server does when the answer may be sent.
    fn answered(&mut self) {
        if let Some(lsn) = self.session.observed() {
            self.tenant.durable(lsn);
            self.session.reset_observed();
        }
        if self.session.has_ended_statement() {
            self.session.count_ended(self.host.now());
        }
    }

    fn execute(&mut self, statement: &str) {
        let mut home = Home { tenant: &mut self.tenant, redo: &mut self.log };
        let mut answer = Answer::default();
        let parameters = &[Some(&b"1"[..])];
        let bind = Bind { portal: "", statement, parameter_formats: &[], parameters, result_formats: &[] };
        self.session.received(self.host.now());
        done(self.session.bind(&mut home, bind, &mut answer));
        done(self.session.execute(&mut home, "", None, &mut answer));
        done(self.session.sync(&mut home, &mut answer));
        self.answered();
    }

    /// Allocations of so many rounds, after some.
    fn rounds(&mut self, rounds: u64) -> u64 {
        for _ in 0..10 {
            self.execute("select");
            self.execute("update");
        }
        let before = allocations();
        for _ in 0..rounds {
            self.execute("select");
            self.execute("update");
        }
        allocations() - before
    }
}

#[test]
fn a_statement_that_ran_before_is_counted_without_an_allocation() {
    const ROUNDS: u64 = 100;
    let env = World::new(7).env();
    let host = Arc::new(CountingHost::new(env.clone()));
    let without = Client::new(Arc::new(LoneHost(env))).rounds(ROUNDS);
    assert!(without > 0, "allocations are counted");
    assert_eq!(Client::new(host.clone()).rounds(ROUNDS), without);
    for text in ["SELECT v FROM t WHERE id = $1 AND v <> $2", "UPDATE t SET v = v + $2 WHERE id = $1"] {
        let figures = host.counts(text).figures();
        assert_eq!((figures.calls, figures.rows), (ROUNDS + 10, ROUNDS + 10), "{text}");
    }
}
