//! Clients that go on whatever comes of what they do, and count how it ends: neighbours that are in the way, and hostile ones.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls};

/// From the end of an attempt to the next, so that a refusal is not answered by a storm.
const PAUSE: Duration = Duration::from_millis(10);

/// How attempts ended: statements, or logins.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Ended {
    pub(super) done: u64,
    /// By SQLSTATE, or what else ended them.
    pub(super) refused: BTreeMap<String, u64>,
}

/// Why an attempt ended: a SQLSTATE, or the word for what has none.
pub(super) type Refused = String;

impl Ended {
    pub(super) fn attempts(&self) -> u64 {
        self.done + self.refused.values().sum::<u64>()
    }

    /// Those of another time too.
    pub(super) fn add(&mut self, other: &Ended) {
        self.done += other.done;
        for (why, count) in &other.refused {
            *self.refused.entry(why.clone()).or_default() += count;
        }
    }

    fn refuse(&mut self, why: Refused) {
        *self.refused.entry(why).or_default() += 1;
    }

    /// In words: `12 done, 3 refused (53200: 2, 57014: 1)`.
    pub(super) fn words(&self) -> String {
        if self.refused.is_empty() {
            return format!("{} done", self.done);
        }
        let codes: Vec<String> =
            self.refused.iter().map(|(code, count)| format!("{code}: {count}")).collect();
        format!("{} done, {} refused ({})", self.done, self.attempts() - self.done, codes.join(", "))
    }
}

/// Clients at work until they are dropped: then they hang up, in the middle of whatever they do.
#[derive(Default)]
pub(super) struct Careless {
    ended: Rc<RefCell<Ended>>,
    tasks: JoinSet<()>,
}

impl Careless {
    /// How attempts of all of them ended so far.
    pub(super) fn ended(&self) -> Ended {
        self.ended.borrow().clone()
    }

    /// Adds a client that does the same again and again. It counts what it gets done; an error is counted here.
    pub(super) fn add(&mut self, attempt: impl AsyncFn(&RefCell<Ended>) -> Result<(), Refused> + 'static) {
        let ended = Rc::clone(&self.ended);
        self.tasks.spawn_local(async move {
            loop {
                if let Err(why) = attempt(&ended).await {
                    ended.borrow_mut().refuse(why);
                }
                tokio::time::sleep(PAUSE).await;
            }
        });
    }

    /// Adds a client that runs the text of these statements in turn.
    pub(super) fn add_statements(&mut self, url: &str, statements: &[&str]) {
        let (url, statements) =
            (url.to_owned(), statements.iter().map(ToString::to_string).collect::<Vec<String>>());
        self.add(async move |ended| {
            connected(&url, async |client| {
                for statement in statements.iter().cycle() {
                    match client.batch_execute(statement).await {
                        Ok(()) => ended.borrow_mut().done += 1,
                        Err(error) if client.is_closed() => return Err(code_of(&error)),
                        Err(error) => {
                            ended.borrow_mut().refuse(code_of(&error));
                            tokio::time::sleep(PAUSE).await;
                        }
                    }
                }
                Ok(())
            })
            .await
        });
    }
}

/// Logs in and does something over the connection, until that is lost. Both are one future, so that the socket is closed when it is
/// dropped; a connection on its own would wait for the end of what was sent.
pub(super) async fn connected(
    url: &str,
    work: impl AsyncFnOnce(Client) -> Result<(), Refused>,
) -> Result<(), Refused> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.map_err(|error| code_of(&error))?;
    tokio::select! {
        lost = connection => lost.map_err(|error| code_of(&error)),
        worked = work(client) => worked,
    }
}

pub(super) fn code_of(error: &tokio_postgres::Error) -> Refused {
    error.code().map_or("no connection", |code| code.code()).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(done: u64, refused: &[(&str, u64)]) -> Ended {
        Ended { done, refused: refused.iter().map(|(code, count)| ((*code).to_owned(), *count)).collect() }
    }

    #[test]
    fn ends_are_told_by_their_codes() {
        assert_eq!(ended(12, &[]).words(), "12 done");
        let all = ended(12, &[("53200", 2), ("57014", 1)]);
        assert_eq!((all.attempts(), all.words().as_str()), (15, "12 done, 3 refused (53200: 2, 57014: 1)"));
        let mut both = ended(1, &[("57014", 1)]);
        both.add(&all);
        assert_eq!(both.words(), "13 done, 4 refused (53200: 2, 57014: 2)");
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_server_that_is_not_there_is_counted() {
        let local = tokio::task::LocalSet::new();
        let found = local.run_until(async {
            let mut clients = Careless::default();
            // Port 1 of the loopback listens to nobody.
            (0..2).for_each(|_| clients.add_statements("postgres://a:b@127.0.0.1:1/c", &["select 1"]));
            while clients.ended().attempts() < 4 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            clients.ended()
        });
        let found = found.await;
        assert_eq!((found.done, found.refused.len()), (0, 1));
        assert_eq!(found.refused["no connection"], found.attempts());
    }
}
