//! A client over the simulated network, speaking as drivers do: start-up, SCRAM, prepared statements, a Sync each. Some take the
//! rows of a portal few at a time, and have statements cancelled.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;

use base::{Nanos, SqlError, SqlState};
use env::Socket;
use env::sim::World;
use futures::future::join;
use pgproto::client as wire;
use pgproto::scram::{ClientExchange, MECHANISM};
use pgproto::startup::CancelKey;

use crate::client::{Connection, Fate, Values};
use crate::{Dice, Stop};

/// Who enters where.
#[derive(Clone, Debug)]
pub(super) struct Login {
    pub(super) address: SocketAddr,
    pub(super) database: String,
    pub(super) user: &'static str,
    pub(super) password: &'static str,
}

/// Often enough for a tenant that opens, not for ever.
const CONNECTS_MAX: u32 = 200;

/// Of a hundred statements of a client with odd ways, so many have their rows taken few at a time, and so many are cancelled.
const IN_PARTS_PERCENT: u64 = 30;
const CANCELLED_PERCENT: u64 = 20;
/// Rows at a time, in turn.
const PARTS: [u32; 2] = [1, 2];
/// Microseconds after which a cancellation is sent at the latest.
const CANCELLED_AFTER: u64 = 300;

/// What came of odd ways, of all clients that have them.
#[derive(Default)]
pub(super) struct OddWays {
    /// Statements that were cancelled.
    pub(super) cancelled: Cell<u64>,
    /// How often a portal was left with rows in it, or at its end.
    pub(super) suspended: Cell<u64>,
}

pub(super) struct WireClient {
    world: World,
    login: Login,
    link: Option<Link>,
    /// How often connections were broken on purpose.
    breaks: Rc<Cell<u64>>,
    /// Queries that miss more pages than they may hold are refused, because no analytical thread takes them.
    refuses_queries: bool,
    /// `None` where it has none.
    odd: Option<Rc<OddWays>>,
}

/// What came of a text.
#[derive(Default)]
pub(super) struct Answer {
    pub(super) rows: Vec<Values>,
    /// Data of a COPY to the client.
    pub(super) copied: Vec<u8>,
}

/// Bytes of a COPY's data in one message.
const COPY_DATA_LEN: usize = 20_000;

struct Link {
    socket: Socket,
    input: Vec<u8>,
    prepared: Vec<&'static str>,
    /// `breaks` when it was made.
    breaks: u64,
    /// By which what its session runs is cancelled.
    key: Option<CancelKey>,
}

impl WireClient {
    /// A client that connects when it has something to say.
    pub(super) fn new(
        world: &World,
        login: Login,
        breaks: &Rc<Cell<u64>>,
        refuses_queries: bool,
    ) -> WireClient {
        let (world, breaks) = (world.clone(), breaks.clone());
        WireClient { world, login, link: None, breaks, refuses_queries, odd: None }
    }

    /// The same with these ways.
    pub(super) fn with(self, odd: Option<Rc<OddWays>>) -> WireClient {
        WireClient { odd, ..self }
    }

    /// Leaves; what was prepared is prepared anew over the next connection.
    pub(super) fn hang_up(&mut self) {
        self.link = None;
    }

    fn unless_expected(&self, error: &SqlError) -> Result<(), Stop> {
        match error.state() {
            SqlState::FEATURE_NOT_SUPPORTED if self.refuses_queries => Ok(()),
            SqlState::QUERY_CANCELED if self.odd.is_some() => Ok(()),
            _ => Stop::unless_expected(&self.world, error),
        }
    }

    /// Runs a text by the simple protocol, with `data` for a COPY that asks for some.
    pub(super) async fn script(&mut self, sql: &str, data: &[u8]) -> Result<Answer, Fate> {
        self.script_unread(sql, data, Nanos(0)).await
    }

    /// As [`WireClient::script`], of whose answer nothing is read for so long.
    pub(super) async fn script_unread(
        &mut self,
        sql: &str,
        data: &[u8],
        unread: Nanos,
    ) -> Result<Answer, Fate> {
        if self.link.is_none() {
            self.connect().await?;
        }
        let mut link = self.link.take().expect("connected above");
        let outcome = self.converse(&mut link, sql, data, unread).await;
        if !matches!(outcome, Err(Fate::Stop(_))) {
            self.link = Some(link);
        }
        outcome
    }

    async fn converse(&self, link: &mut Link, sql: &str, data: &[u8], unread: Nanos) -> Result<Answer, Fate> {
        let mut out = Vec::new();
        wire::query(&mut out, sql);
        self.send(link, out).await?;
        if unread > Nanos(0) {
            env::sleep(unread).await;
        }
        let (mut answer, mut refused) = (Answer::default(), None);
        loop {
            let (tag, body) = self.receive(link).await?;
            match tag {
                b'D' => answer.rows.push(texts(&body)),
                b'd' => answer.copied.extend_from_slice(&body),
                b'G' => {
                    let mut out = Vec::new();
                    data.chunks(COPY_DATA_LEN).for_each(|data| wire::copy_data(&mut out, data));
                    wire::copy_done(&mut out);
                    self.send(link, out).await?;
                }
                b'E' => refused = Some(refusal(&body)),
                b'Z' => return refused.map_or(Ok(answer), |error| Err(Fate::Refused(error))),
                _ => {}
            }
        }
    }

    /// What it means that a connection was lost. Nobody but the harness breaks one, unless a fault was met.
    fn lost(&self, since: u64, what: &str) -> Fate {
        match Stop::failed(&self.world, "a connection", what) {
            Stop::Violation(what) if self.breaks.get() != since => Stop::Fault(what),
            stop => stop,
        }
        .into()
    }

    async fn connect(&mut self) -> Result<(), Fate> {
        for _ in 0..CONNECTS_MAX {
            let breaks = self.breaks.get();
            let socket = match self.world.env().net.connect(self.login.address) {
                Ok(socket) => socket,
                Err(error) => return Err(self.lost(breaks, &error.to_string())),
            };
            let mut link = Link { socket, input: Vec::new(), prepared: Vec::new(), breaks, key: None };
            match self.authenticate(&mut link).await {
                Ok(()) => {
                    self.link = Some(link);
                    return Ok(());
                }
                Err(Fate::Refused(error)) => self.unless_expected(&error)?,
                Err(fate @ Fate::Stop(Stop::PowerOff | Stop::Violation(_))) => return Err(fate),
                Err(Fate::Stop(Stop::Fault(_))) => {}
            }
            Dice::of(&self.world).pause(20_000).await;
        }
        Err(Stop::Fault("the server lets nobody in".to_owned()).into())
    }

    async fn authenticate(&self, link: &mut Link) -> Result<(), Fate> {
        let mut nonce = [0; 18];
        self.world.env().entropy.fill(&mut nonce);
        let mut exchange = ClientExchange::new(self.login.password, nonce);
        let mut out = Vec::new();
        wire::startup(&mut out, &[("user", self.login.user), ("database", &self.login.database)]);
        loop {
            if !out.is_empty() {
                self.send(link, std::mem::take(&mut out)).await?;
            }
            let (tag, body) = self.receive(link).await?;
            match (tag, body.get(..4)) {
                (b'E', _) => return Err(Fate::Refused(refusal(&body))),
                (b'R', Some([0, 0, 0, 10])) => {
                    wire::sasl_initial_response(&mut out, MECHANISM, &exchange.first());
                }
                (b'R', Some([0, 0, 0, 11])) => {
                    let last = exchange.server_first(&body[4..]).expect("a good challenge");
                    wire::sasl_response(&mut out, &last);
                }
                (b'R', Some([0, 0, 0, 12])) => exchange.server_final(&body[4..]).expect("the server knows"),
                (b'K', _) => link.key = Some(wire::backend_key_data(&body).expect("a key")),
                (b'Z', _) => return Ok(()),
                _ => {}
            }
        }
    }

    async fn send(&self, link: &Link, bytes: Vec<u8>) -> Result<(), Fate> {
        let (sent, _) = link.socket.send(bytes).await;
        sent.map_err(|error| self.lost(link.breaks, &format!("sending: {error}")))
    }

    /// The next message.
    async fn receive(&self, link: &mut Link) -> Result<(u8, Vec<u8>), Fate> {
        loop {
            if let Some(frame) = wire::next(&link.input).expect("the server's messages are well-formed") {
                let (tag, body, len) = (frame.tag, frame.body.to_vec(), frame.wire_len());
                link.input.drain(..len);
                return Ok((tag, body));
            }
            let (received, bytes) = link.socket.recv(Vec::new()).await;
            match received {
                Ok(0) => return Err(self.lost(link.breaks, "the server hung up")),
                Ok(_) => link.input.extend_from_slice(&bytes),
                Err(error) => return Err(self.lost(link.breaks, &format!("receiving: {error}"))),
            }
        }
    }

    async fn execute(
        &self,
        link: &mut Link,
        sql: &'static str,
        parameters: &[String],
    ) -> Result<Vec<Values>, Fate> {
        let Some(odd) = &self.odd else { return self.exchange(link, sql, parameters, 0).await };
        let dice = Dice::of(&self.world);
        let part = PARTS[dice.below(PARTS.len() as u64) as usize];
        let rows_max = if dice.percent(IN_PARTS_PERCENT) { part } else { 0 };
        let key = link.key.filter(|_| dice.percent(CANCELLED_PERCENT));
        let exchange = self.exchange(link, sql, parameters, rows_max);
        let outcome = match key {
            Some(key) => join(exchange, self.cancel(key, &dice)).await.0,
            None => exchange.await,
        };
        if matches!(&outcome, Err(Fate::Refused(error)) if error.state() == SqlState::QUERY_CANCELED) {
            odd.cancelled.set(odd.cancelled.get() + 1);
        }
        outcome
    }

    /// Has what a session runs cancelled in some time, if it runs anything then.
    async fn cancel(&self, key: CancelKey, dice: &Dice) {
        dice.pause(CANCELLED_AFTER).await;
        let Ok(socket) = self.world.env().net.connect(self.login.address) else { return };
        let mut out = Vec::new();
        wire::cancel_request(&mut out, key);
        if let (Ok(()), _) = socket.send(out).await {
            // The server hangs up once it is asked for.
            let _ = socket.recv(Vec::new()).await;
        }
    }

    /// `rows_max`: rows that are taken at a time, with the Sync behind the last; 0 for all at once.
    async fn exchange(
        &self,
        link: &mut Link,
        sql: &'static str,
        parameters: &[String],
        rows_max: u32,
    ) -> Result<Vec<Values>, Fate> {
        let known = link.prepared.iter().position(|prepared| *prepared == sql);
        let name = format!("statement {}", known.unwrap_or(link.prepared.len()));
        let mut out = Vec::new();
        if known.is_none() {
            wire::parse(&mut out, &name, sql, &[]);
        }
        let values: Vec<Option<&[u8]>> = parameters.iter().map(|value| Some(value.as_bytes())).collect();
        wire::bind(&mut out, "", &name, &[], &values, &[]);
        wire::execute(&mut out, "", rows_max);
        let mut is_synced = rows_max == 0;
        if is_synced {
            wire::sync(&mut out);
        } else {
            wire::flush(&mut out);
        }
        self.send(link, out).await?;
        let (mut rows, mut refused) = (Vec::new(), None);
        loop {
            let (tag, body) = self.receive(link).await?;
            let mut more = Vec::new();
            if tag == b's' {
                self.odd.iter().for_each(|odd| odd.suspended.set(odd.suspended.get() + 1));
                wire::execute(&mut more, "", rows_max);
                wire::flush(&mut more);
            } else if !is_synced && matches!(tag, b'C' | b'E') {
                is_synced = true;
                wire::sync(&mut more);
            }
            if !more.is_empty() {
                self.send(link, more).await?;
            }
            match tag {
                b'1' => link.prepared.push(sql),
                b'D' => rows.push(texts(&body)),
                b'E' => refused = Some(refusal(&body)),
                b'Z' => return refused.map_or(Ok(rows), |error| Err(Fate::Refused(error))),
                _ => {}
            }
        }
    }
}

impl Connection for WireClient {
    async fn run(&mut self, sql: &'static str, parameters: &[String]) -> Result<Vec<Values>, Fate> {
        if self.link.is_none() {
            self.connect().await?;
        }
        let mut link = self.link.take().expect("connected above");
        let outcome = self.execute(&mut link, sql, parameters).await;
        if !matches!(outcome, Err(Fate::Stop(_))) {
            self.link = Some(link);
        }
        outcome
    }

    async fn recover(&mut self, fate: Fate) -> Result<(), Stop> {
        match fate {
            Fate::Stop(Stop::Fault(_)) => self.link = None,
            Fate::Stop(stop) => return Err(stop),
            Fate::Refused(error) => {
                self.unless_expected(&error)?;
                match self.run("rollback", &[]).await {
                    Ok(_) => {}
                    Err(Fate::Stop(stop @ (Stop::PowerOff | Stop::Violation(_)))) => return Err(stop),
                    Err(Fate::Refused(error)) => {
                        self.unless_expected(&error)?;
                        // The transaction may be open yet.
                        if error.state() == SqlState::QUERY_CANCELED {
                            self.link = None;
                        }
                    }
                    Err(Fate::Stop(Stop::Fault(_))) => self.link = None,
                }
            }
        }
        Ok(())
    }
}

/// A row's values.
fn texts(body: &[u8]) -> Values {
    let text = |value: Option<&[u8]>| value.map(|v| String::from_utf8_lossy(v).into_owned());
    wire::data_row(body).expect("a well-formed row").into_iter().map(text).collect()
}

fn refusal(body: &[u8]) -> SqlError {
    let fields = wire::report_fields(body).expect("a well-formed report");
    let message = fields.iter().find(|(code, _)| *code == b'M').map_or("", |(_, text)| *text);
    let state: SqlState = wire::report_state(body).expect("a state");
    SqlError::new(state, message.to_owned())
}
