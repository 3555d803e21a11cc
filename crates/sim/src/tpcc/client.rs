//! A client of one session: prepared statements, one round trip a statement, replies that wait for the log.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use base::{CommitNo, Nanos, SessionId, SqlError};
use rustc_hash::FxHashSet;
use sql::session::stand_in::{Answer, LoneHost};
use sql::session::{Bind, Home as Turn, Pause, Session, SessionStart};

use super::model::{Effect, Model};
use crate::server::Reply;
use crate::{Home, Stop};

/// Values as text; `None` for NULL.
pub(super) type Values = Vec<Option<String>>;

/// Why a statement gave no rows.
#[derive(Debug)]
pub(super) enum Fate {
    Refused(SqlError),
    Stop(Stop),
}

impl From<Stop> for Fate {
    fn from(stop: Stop) -> Fate {
        Fate::Stop(stop)
    }
}

/// What a read depends on, judged in the turn that read; `Err` if it read what is not so.
pub(super) type Judge<'a> = &'a dyn Fn(&Model, &[Values]) -> Result<CommitNo, String>;

/// A connection.
pub(super) struct Client {
    home: Rc<Home>,
    model: Rc<RefCell<Model>>,
    session: Session,
    prepared: FxHashSet<&'static str>,
    /// What the open transaction does when it commits.
    pub(super) effects: Vec<Effect>,
}

impl Client {
    pub(super) fn connect(home: &Rc<Home>, model: &Rc<RefCell<Model>>, number: u32) -> Result<Client, Stop> {
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
        let session = session.map_err(|error| Stop::failed(home.world(), "connecting", error))?;
        Ok(Client {
            home: home.clone(),
            model: model.clone(),
            session,
            prepared: FxHashSet::default(),
            effects: Vec::new(),
        })
    }

    /// Runs a statement with these parameters; its rows, once they may be known.
    pub(super) async fn run(
        &mut self,
        sql: &'static str,
        parameters: &[String],
    ) -> Result<Vec<Values>, Fate> {
        self.judged(sql, parameters, &|_, _| Ok(CommitNo(0))).await
    }

    /// As [`Client::run`], for what only reads.
    pub(super) async fn judged(
        &mut self,
        sql: &'static str,
        parameters: &[String],
        judge: Judge<'_>,
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
        let model = self.model.clone();
        let mut read = Ok(CommitNo(0));
        let committed = self
            .call(&mut |session, turn| {
                session.execute(turn, "", None, &mut out)?;
                session.sync(turn, &mut out)?;
                read = judge(&model.borrow(), &out.rows);
                Ok(())
            })
            .await?;
        if let Some(wait_for) = self.session.observed() {
            let reply = if committed.is_some() { Reply::OfCommit } else { Reply::OfRead };
            self.home.before_reply(wait_for, reply).await?;
            self.session.reset_observed();
        }
        let read = read.map_err(|what| Stop::violation(format!("{sql}: {what}")))?;
        let mut model = self.model.borrow_mut();
        model.journal.told(read, "a read's reply");
        if let Some(commit) = committed {
            model.journal.told(commit, "a commit's reply");
            model.acknowledged += 1;
        }
        Ok(out.rows)
    }

    /// Makes a call again and again until it ends, as the server does; the commit it made, if any.
    async fn call(
        &mut self,
        body: &mut dyn FnMut(&mut Session, &mut Turn<'_>) -> Result<(), Pause>,
    ) -> Result<Option<CommitNo>, Fate> {
        loop {
            let (session, model, effects) = (&mut self.session, &self.model, &mut self.effects);
            let outcome = self.home.turn(|turn| {
                let before = turn.tenant.committed();
                let outcome = body(session, turn);
                let committed = Some(turn.tenant.committed()).filter(|commit| *commit > before);
                if let Some(commit) = committed {
                    model.borrow_mut().commit(commit, std::mem::take(effects));
                }
                outcome.map(|()| committed)
            });
            match outcome {
                Ok(committed) => return Ok(committed),
                Err(Pause::Error(error)) => return Err(Fate::Refused(error)),
                Err(Pause::Lock(wait)) => self.home.lock(wait).await?,
                Err(Pause::Page(request)) => self.home.load_page(request).await?,
                Err(Pause::Yield) => env::sleep(Nanos(1)).await,
                Err(pause) => return Err(Stop::violation(format!("a statement paused for {pause:?}")).into()),
            }
        }
    }

    pub(super) fn home(&self) -> &Rc<Home> {
        &self.home
    }
}
