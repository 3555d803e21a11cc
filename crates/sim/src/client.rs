//! A client of one session: prepared statements, one round trip a statement, replies that wait for the log.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use base::{CommitNo, Nanos, SessionId, SqlError};
use rustc_hash::FxHashSet;
use sql::session::stand_in::{Answer, LoneHost};
use sql::session::{Bind, Home as Turn, Pause, Session, SessionStart};

use crate::server::Reply;
use crate::{Home, Stop};

/// Values as text; `None` for NULL.
pub(crate) type Values = Vec<Option<String>>;

/// Why a statement gave no rows.
#[derive(Debug)]
pub(crate) enum Fate {
    Refused(SqlError),
    Stop(Stop),
}

impl From<Stop> for Fate {
    fn from(stop: Stop) -> Fate {
        Fate::Stop(stop)
    }
}

/// A client's end of a session, whatever lies between.
pub(crate) trait Connection {
    /// Runs a statement with these parameters; its rows, once they may be known.
    async fn run(&mut self, sql: &'static str, parameters: &[String]) -> Result<Vec<Values>, Fate>;

    /// Goes on after a transaction that was not acknowledged: takes it back if the statement was refused, begins a new
    /// session if this one was cut off. `Err` if that may not be.
    async fn recover(&mut self, fate: Fate) -> Result<(), Stop>;
}

/// Where a scenario notes what its clients did and were told.
pub(crate) trait Book {
    /// What a transaction does when it commits.
    type Effect;
    /// A transaction committed; it is in memory only.
    fn commit(&mut self, commit: CommitNo, effects: Vec<Self::Effect>);
    /// A reply left that tells of `commit`.
    fn told(&mut self, commit: CommitNo, by: &'static str);
    /// A commit was acknowledged.
    fn acknowledged(&mut self);
}

/// What a read depends on, judged in the turn that read; `Err` if it read what is not so.
pub(crate) type Judge<'a, B> = &'a dyn Fn(&B, &[Values]) -> Result<CommitNo, String>;

/// A connection.
pub(crate) struct Client<B: Book> {
    home: Rc<Home>,
    book: Rc<RefCell<B>>,
    session: Session,
    number: u32,
    prepared: FxHashSet<&'static str>,
    /// What the open transaction does when it commits.
    pub(crate) effects: Vec<B::Effect>,
}

impl<B: Book> Client<B> {
    pub(crate) fn connect(home: &Rc<Home>, book: &Rc<RefCell<B>>, number: u32) -> Result<Client<B>, Stop> {
        Ok(Client {
            home: home.clone(),
            book: book.clone(),
            session: begin_session(home, number)?,
            number,
            prepared: FxHashSet::default(),
            effects: Vec::new(),
        })
    }

    /// See [`Connection::recover`].
    pub(crate) async fn recover(&mut self, fate: Fate) -> Result<(), Stop> {
        let world = self.home.world().clone();
        match fate {
            Fate::Stop(Stop::Fault(_)) => self.reconnect(),
            Fate::Stop(stop) => Err(stop),
            Fate::Refused(error) => {
                Stop::unless_expected(&world, &error)?;
                match self.roll_back().await {
                    Err(Stop::Fault(_)) => self.reconnect(),
                    outcome => outcome,
                }
            }
        }
    }

    fn reconnect(&mut self) -> Result<(), Stop> {
        self.home.turn(|turn| self.session.end(turn));
        self.session = begin_session(&self.home, self.number)?;
        self.prepared.clear();
        self.effects.clear();
        Ok(())
    }

    /// Runs a statement with these parameters; its rows, once they may be known.
    pub(crate) async fn run(
        &mut self,
        sql: &'static str,
        parameters: &[String],
    ) -> Result<Vec<Values>, Fate> {
        self.judged(sql, parameters, &|_, _| Ok(CommitNo(0))).await
    }

    /// As [`Client::run`], for what only reads.
    pub(crate) async fn judged(
        &mut self,
        sql: &'static str,
        parameters: &[String],
        judge: Judge<'_, B>,
    ) -> Result<Vec<Values>, Fate> {
        let mut out = Answer::default();
        if !self.prepared.contains(sql) {
            self.call(&mut |session, turn| session.parse(turn, sql, sql, &[], &mut out)).await?;
            self.prepared.insert(sql);
        }
        let values: Vec<Option<&[u8]>> = parameters.iter().map(|value| Some(value.as_bytes())).collect();
        let bind = Bind {
            portal: "",
            statement: sql,
            parameter_formats: &[],
            parameters: &values,
            result_formats: &[],
        };
        self.call(&mut |session, turn| session.bind(turn, bind, &mut out)).await?;
        let book = self.book.clone();
        let mut read = Ok(CommitNo(0));
        let of_block = self
            .call(&mut |session, turn| {
                session.execute(turn, "", None, &mut out)?;
                read = judge(&book.borrow(), &out.rows);
                Ok(())
            })
            .await?;
        // A turn of its own: it may have to be made again.
        let implicit = self.call(&mut |session, turn| session.sync(turn, &mut out)).await?;
        let committed = of_block.or(implicit);
        if let Some(wait_for) = self.session.observed() {
            let reply = if committed.is_some() { Reply::OfCommit } else { Reply::OfRead };
            self.home.before_reply(wait_for, reply).await?;
            self.session.reset_observed();
        }
        let read = read.map_err(|what| Stop::violation(format!("{sql}: {what}")))?;
        let mut book = self.book.borrow_mut();
        book.told(read, "a read's reply");
        if let Some(commit) = committed {
            book.told(commit, "a commit's reply");
            book.acknowledged();
        }
        Ok(out.rows)
    }

    /// Makes a call again and again until it ends, as the server does; the commit it made, if any.
    async fn call(
        &mut self,
        body: &mut dyn FnMut(&mut Session, &mut Turn<'_>) -> Result<(), Pause>,
    ) -> Result<Option<CommitNo>, Fate> {
        loop {
            let (session, book, effects) = (&mut self.session, &self.book, &mut self.effects);
            let outcome = self.home.turn(|turn| {
                let before = turn.tenant.committed();
                let outcome = body(session, turn);
                let committed = Some(turn.tenant.committed()).filter(|commit| *commit > before);
                if let Some(commit) = committed {
                    book.borrow_mut().commit(commit, std::mem::take(effects));
                }
                outcome.map(|()| committed)
            });
            match outcome {
                Ok(committed) => return Ok(committed),
                Err(Pause::Error(error)) => return Err(Fate::Refused(error)),
                Err(Pause::Lock(wait)) => self.home.lock(wait).await?,
                Err(Pause::Pages(requests)) => {
                    for request in requests {
                        if let Err(error) = self.home.load_page(request).await? {
                            self.home.turn(|turn| self.session.fail(turn, &error));
                            return Err(Fate::Refused(error));
                        }
                    }
                }
                Err(Pause::Memory(wait)) => {
                    if let Err(error) = self.home.await_memory(wait).await? {
                        self.home.turn(|turn| self.session.fail(turn, &error));
                        return Err(Fate::Refused(error));
                    }
                }
                // Queries that miss more pages than they may hold go to analytical threads, of which there are none here.
                Err(Pause::Analytic(_)) if self.home.memory.is_some() => {
                    return Err(Stop::Fault("a query went elsewhere".to_owned()).into());
                }
                Err(Pause::Yield | Pause::Slice(_)) => env::sleep(Nanos(1)).await,
                Err(pause) => return Err(Stop::violation(format!("a statement paused for {pause:?}")).into()),
            }
        }
    }

    /// Takes the transaction back after a refusal.
    pub(crate) async fn roll_back(&mut self) -> Result<(), Stop> {
        self.effects.clear();
        match self.run("rollback", &[]).await {
            Ok(_) => Ok(()),
            Err(Fate::Stop(stop)) => Err(stop),
            Err(Fate::Refused(error)) => Err(Stop::failed(self.home.world(), "rollback", error)),
        }
    }
}

impl<B: Book> Connection for Client<B> {
    async fn run(&mut self, sql: &'static str, parameters: &[String]) -> Result<Vec<Values>, Fate> {
        Client::run(self, sql, parameters).await
    }

    async fn recover(&mut self, fate: Fate) -> Result<(), Stop> {
        Client::recover(self, fate).await
    }
}

fn begin_session(home: &Home, number: u32) -> Result<Session, Stop> {
    let start = SessionStart {
        id: SessionId(number),
        tenant: home.id,
        database: home.id.to_string(),
        user: "owner".into(),
        administrator: false,
        parameters: Vec::new(),
        host: Arc::new(LoneHost(home.world().env())),
    };
    let session = home.turn(|turn| Session::new(start, turn.tenant));
    session.map_err(|error| Stop::failed(home.world(), "connecting", error))
}
