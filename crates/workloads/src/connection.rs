//! The connection a measured client runs its transactions over: prepared statements, sent in batches.
//!
//! A batch is what libpq's pipeline mode and JDBC's batches send: the statements of one step of a transaction and one Sync, in
//! one write; the server answers in order, and after a statement that fails it skips the rest of the batch. A load
//! generator shares the machine with the server it measures, so this costs a fraction of what a general client does: what comes
//! in is looked through where it lies, and of a batch's reply only the rows are kept, all in the one buffer they came in.
//! Everything that is not measured (loading, checking, administration) uses `tokio-postgres`.

use std::fmt;
use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::backend::{self, ErrorResponseBody, Header, Message};
use postgres_protocol::message::frontend;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio_postgres::Config;
use tokio_postgres::config::Host;
use tokio_postgres::fallible_iterator::FallibleIterator as _;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type};

use crate::Result;
use crate::tls::Tls;

/// A message's tag and length, which come before its body.
const HEADER_LEN: usize = 5;
/// One format code, of all values: binary.
const ALL_BINARY: [u8; 4] = [0, 1, 0, 1];
/// Execute of the unnamed portal, without a limit of rows.
const EXECUTE: &[u8] = b"E\0\0\0\x09\0\0\0\0\0";

/// What the server reported instead of a result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerError {
    /// SQLSTATE.
    pub code: String,
    pub message: String,
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server says: {} ({})", self.message, self.code)
    }
}

impl std::error::Error for ServerError {}

/// Makes a struct `Statements` of prepared statements, each with its name and its SQL, and how to prepare them all.
macro_rules! statements {
    ($($name:ident: $sql:expr;)*) => {
        /// One prepared statement for each step of a transaction.
        pub(super) struct Statements {
            $(pub(super) $name: $crate::connection::Prepared,)*
        }

        impl Statements {
            pub(super) async fn prepare(connection: &mut $crate::connection::Connection) -> $crate::Result<Statements> {
                Ok(Statements { $($name: connection.prepare($sql).await?,)* })
            }
        }
    };
}
pub(crate) use statements;

/// What bytes go over.
pub(crate) trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Socket for S {}

/// A session of one client.
pub struct Connection {
    socket: Box<dyn Socket>,
    inbox: BytesMut,
    outbox: BytesMut,
    /// The columns of each statement of the batch that is being written.
    batch: Vec<Arc<[Type]>>,
    answered: usize,
    prepared: usize,
}

/// A prepared statement of one connection.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// What a Bind of it begins with, up to the values.
    bind: Vec<u8>,
    parameters: Vec<Type>,
    columns: Arc<[Type]>,
}

impl Prepared {
    fn new(name: &str, parameters: Vec<Type>, columns: Arc<[Type]>) -> Result<Prepared> {
        // The unnamed portal comes before the statement.
        let mut bind = vec![0];
        bind.extend_from_slice(name.as_bytes());
        bind.push(0);
        bind.extend_from_slice(&ALL_BINARY);
        bind.extend_from_slice(&u16::try_from(parameters.len())?.to_be_bytes());
        Ok(Prepared { bind, parameters, columns })
    }
}

/// What came back for one statement of a batch.
#[derive(Debug, Default)]
pub struct Reply {
    pub rows: Vec<Row>,
    /// Rows affected, or returned, as the command's tag says.
    pub affected: u64,
}

impl Reply {
    /// The only row.
    ///
    /// # Errors
    /// When there are none or several.
    pub fn row(&self) -> Result<&Row> {
        match self.rows.as_slice() {
            [row] => Ok(row),
            rows => Err(format!("one row was expected, {} came", rows.len()).into()),
        }
    }
}

/// A row, in binary form.
#[derive(Debug)]
pub struct Row {
    /// That of the message: the number of values, then each behind its length.
    body: Bytes,
    columns: Arc<[Type]>,
}

impl Row {
    /// The value of a column.
    ///
    /// # Errors
    /// When there is no such column, or the value is no `T`.
    pub fn get<'a, T: FromSql<'a>>(&'a self, column: usize) -> Result<T> {
        let of = self.columns.get(column).ok_or("a row has fewer columns than were asked for")?;
        let mut values = self.body.get(2..).ok_or("a row says not of how many columns it is")?;
        for _ in 0..column {
            take_value(&mut values)?;
        }
        T::from_sql_nullable(of, take_value(&mut values)?)
    }
}

/// Takes the first value, which may be NULL, from those of a row that are left.
fn take_value<'a>(values: &mut &'a [u8]) -> Result<Option<&'a [u8]>> {
    let (len, rest) = values.split_first_chunk::<4>().ok_or("a row has fewer values than columns")?;
    // The length of NULL is -1.
    let Ok(len) = usize::try_from(i32::from_be_bytes(*len)) else {
        *values = rest;
        return Ok(None);
    };
    let (value, rest) = rest.split_at_checked(len).ok_or("a row ends within a value")?;
    *values = rest;
    Ok(Some(value))
}

/// The replies to a batch, as far as they have come.
struct Replies {
    /// The columns of each statement.
    batch: Vec<Arc<[Type]>>,
    whole: Vec<Reply>,
    /// To the statement that has not ended.
    partial: Reply,
    error: Option<ServerError>,
}

impl Replies {
    /// Those to statements with these columns, of which nothing has come.
    fn new(batch: Vec<Arc<[Type]>>) -> Replies {
        let whole = Vec::with_capacity(batch.len());
        Replies { batch, whole, partial: Reply::default(), error: None }
    }

    /// Takes whole messages; whether the server is ready, which is the last that it says.
    fn take(&mut self, messages: &Bytes) -> Result<bool> {
        let (mut at, mut is_ready) = (0, false);
        while let Some(header) = Header::parse(&messages[at..])? {
            let message = at..at + message_len(header)?;
            let body = at + HEADER_LEN..message.end;
            at = message.end;
            match header.tag() {
                backend::DATA_ROW_TAG => {
                    let columns = self.batch.get(self.whole.len()).ok_or("a row for no statement")?;
                    self.partial.rows.push(Row { body: messages.slice(body), columns: Arc::clone(columns) });
                }
                backend::COMMAND_COMPLETE_TAG => {
                    self.partial.affected = rows_counted(&messages[body]);
                    self.whole.push(std::mem::take(&mut self.partial));
                }
                backend::EMPTY_QUERY_RESPONSE_TAG => self.whole.push(Reply::default()),
                backend::ERROR_RESPONSE_TAG => {
                    if let Some(Message::ErrorResponse(body)) =
                        Message::parse(&mut BytesMut::from(&messages[message]))?
                    {
                        self.error = Some(reported(&body)?);
                    }
                }
                backend::READY_FOR_QUERY_TAG => is_ready = true,
                _ => {}
            }
        }
        Ok(is_ready)
    }

    fn finish(self) -> Result<Vec<Reply>> {
        match self.error {
            Some(error) => Err(error.into()),
            None if self.whole.len() == self.batch.len() => Ok(self.whole),
            None => Err("the server did not answer each statement".into()),
        }
    }
}

/// The length of a message with its header.
fn message_len(header: Header) -> Result<usize> {
    // The tag is not counted in it; a length that is none is an error of `Header::parse`.
    Ok(1 + usize::try_from(header.len())?)
}

/// The length of the messages that have come whole, up to where the server is ready: what follows belongs to what is asked next.
fn whole_len(received: &[u8]) -> Result<usize> {
    let mut at = 0;
    while let Some(header) = Header::parse(&received[at..])? {
        let end = at + message_len(header)?;
        if end > received.len() {
            break;
        }
        at = end;
        if header.tag() == backend::READY_FOR_QUERY_TAG {
            break;
        }
    }
    Ok(at)
}

/// The rows that the tag of a command says it affected or returned; 0 if it says nothing of rows.
fn rows_counted(tag: &[u8]) -> u64 {
    let tag = tag.strip_suffix(b"\0").unwrap_or(tag);
    let last = tag.rsplit(|&byte| byte == b' ').next().unwrap_or_default();
    str::from_utf8(last).ok().and_then(|last| last.parse().ok()).unwrap_or(0)
}

impl Connection {
    /// Connects, encrypts as `tls` says, and authenticates.
    ///
    /// # Errors
    /// When the server cannot be reached or refuses.
    pub(crate) async fn open(config: &Config, tls: &Tls, database: &str) -> Result<Connection> {
        let port = config.get_ports().first().copied().unwrap_or(5432);
        let socket: Box<dyn Socket> = match config.get_hosts().first() {
            Some(Host::Tcp(host)) => {
                let socket = TcpStream::connect((host.as_str(), port)).await?;
                socket.set_nodelay(true)?;
                tls.encrypt(socket, host).await?
            }
            Some(Host::Unix(folder)) => {
                Box::new(UnixStream::connect(folder.join(format!(".s.PGSQL.{port}"))).await?)
            }
            None => return Err("the URL names no host".into()),
        };
        let mut connection = Connection {
            socket,
            inbox: BytesMut::with_capacity(16 << 10),
            outbox: BytesMut::with_capacity(16 << 10),
            batch: Vec::new(),
            answered: 0,
            prepared: 0,
        };
        let user = config.get_user().ok_or("the URL names no user")?;
        let parameters = [("user", user), ("database", database), ("client_encoding", "UTF8")];
        frontend::startup_message(parameters, &mut connection.outbox)?;
        connection.authenticate(user, config.get_password().unwrap_or_default()).await?;
        connection.until_ready().await?;
        Ok(connection)
    }

    async fn authenticate(&mut self, user: &str, password: &[u8]) -> Result<()> {
        let mut scram: Option<ScramSha256> = None;
        loop {
            self.write_out().await?;
            match self.read().await? {
                Message::AuthenticationOk => return Ok(()),
                Message::AuthenticationCleartextPassword => {
                    frontend::password_message(password, &mut self.outbox)?;
                }
                Message::AuthenticationMd5Password(body) => {
                    let hash = md5_hash(user.as_bytes(), password, body.salt());
                    frontend::password_message(hash.as_bytes(), &mut self.outbox)?;
                }
                Message::AuthenticationSasl(_) => {
                    let made = scram.insert(ScramSha256::new(password, ChannelBinding::unsupported()));
                    frontend::sasl_initial_response(SCRAM_SHA_256, made.message(), &mut self.outbox)?;
                }
                Message::AuthenticationSaslContinue(body) => {
                    let scram = scram.as_mut().ok_or("the server continues what it did not begin")?;
                    scram.update(body.data())?;
                    frontend::sasl_response(scram.message(), &mut self.outbox)?;
                }
                Message::AuthenticationSaslFinal(body) => {
                    scram.as_mut().ok_or("the server ends what it did not begin")?.finish(body.data())?;
                }
                Message::ErrorResponse(body) => return Err(reported(&body)?.into()),
                _ => return Err("the server wants an authentication that is not known here".into()),
            }
        }
    }

    /// Reads to the next ReadyForQuery.
    async fn until_ready(&mut self) -> Result<()> {
        loop {
            match self.read().await? {
                Message::ReadyForQuery(_) => return Ok(()),
                Message::ErrorResponse(body) => return Err(reported(&body)?.into()),
                _ => {}
            }
        }
    }

    /// Prepares a statement.
    ///
    /// # Errors
    /// When the server refuses it.
    pub async fn prepare(&mut self, sql: &str) -> Result<Prepared> {
        self.prepared += 1;
        let name = format!("s{}", self.prepared);
        frontend::parse(&name, sql, std::iter::empty(), &mut self.outbox)?;
        frontend::describe(b'S', &name, &mut self.outbox)?;
        frontend::sync(&mut self.outbox);
        self.write_out().await?;
        let (mut parameters, mut columns, mut error) = (Vec::new(), Vec::new(), None);
        let of_oid = |oid| Type::from_oid(oid).ok_or_else(|| format!("the type {oid} is not known here"));
        loop {
            match self.read().await? {
                Message::ParameterDescription(body) => {
                    parameters = body
                        .parameters()
                        .map_err(crate::Error::from)
                        .map(|oid| Ok(of_oid(oid)?))
                        .collect()?;
                }
                Message::RowDescription(body) => {
                    columns = body
                        .fields()
                        .map_err(crate::Error::from)
                        .map(|field| Ok(of_oid(field.type_oid())?))
                        .collect()?;
                }
                Message::ErrorResponse(body) => error = Some(reported(&body)?),
                Message::ReadyForQuery(_) => break,
                _ => {}
            }
        }
        match error {
            Some(error) => Err(error.into()),
            None => Prepared::new(&name, parameters, columns.into()),
        }
    }

    /// Adds a statement to the batch; nothing is sent yet.
    ///
    /// # Errors
    /// When a value does not fit its parameter.
    pub fn add(&mut self, statement: &Prepared, values: &[&(dyn ToSql + Sync)]) -> Result<()> {
        if values.len() != statement.parameters.len() {
            return Err(
                format!("{} values for {} parameters", values.len(), statement.parameters.len()).into()
            );
        }
        let out = &mut self.outbox;
        out.put_u8(b'B');
        let message = begin_counted(out);
        out.extend_from_slice(&statement.bind);
        for (value, of) in values.iter().zip(&statement.parameters) {
            let at = begin_counted(out);
            match value.to_sql_checked(of, out)? {
                IsNull::Yes => out[at..at + 4].copy_from_slice(&(-1i32).to_be_bytes()),
                // The length of a value does not count itself, that of a message does.
                IsNull::No => end_counted(out, at, at + 4)?,
            }
        }
        out.extend_from_slice(&ALL_BINARY);
        end_counted(out, message, message)?;
        out.extend_from_slice(EXECUTE);
        self.batch.push(Arc::clone(&statement.columns));
        Ok(())
    }

    /// Sends the batch and waits for the server to have done with it. A reply for each statement, in their order.
    ///
    /// # Errors
    /// [`ServerError`] from the first statement that fails; those after it were not run.
    pub async fn exchange(&mut self) -> Result<Vec<Reply>> {
        self.answered = 0;
        frontend::sync(&mut self.outbox);
        self.write_out().await?;
        let mut replies = Replies::new(std::mem::take(&mut self.batch));
        while !replies.take(&self.read_whole().await?)? {}
        self.answered = replies.whole.len();
        replies.finish()
    }

    /// How many statements of the last batch have succeeded: all of them, or those before the one that failed. A transaction that
    /// one of them has committed is.
    pub fn answered(&self) -> usize {
        self.answered
    }

    /// Runs one statement by the simple protocol and reads its rows, which are not kept; how many there were.
    ///
    /// # Errors
    /// [`ServerError`] when it fails.
    pub async fn run_text(&mut self, sql: &str) -> Result<u64> {
        frontend::query(sql, &mut self.outbox)?;
        self.write_out().await?;
        let (mut rows, mut error) = (0, None);
        loop {
            match self.read().await? {
                Message::DataRow(_) => rows += 1,
                Message::ErrorResponse(body) => error = Some(reported(&body)?),
                Message::ReadyForQuery(_) => break,
                _ => {}
            }
        }
        error.map_or(Ok(rows), |error| Err(error.into()))
    }

    /// As [`Connection::exchange`], for a batch of `N` statements.
    ///
    /// # Errors
    /// As [`Connection::exchange`].
    ///
    /// # Panics
    /// When the batch has another number of statements.
    pub(crate) async fn exchange_all<const N: usize>(&mut self) -> Result<[Reply; N]> {
        Ok(self.exchange().await?.try_into().expect("a reply for each statement"))
    }

    /// Forgets a batch that was not sent.
    pub fn clear(&mut self) {
        self.outbox.clear();
        self.batch.clear();
    }

    async fn write_out(&mut self) -> Result<()> {
        self.socket.write_all(&self.outbox).await?;
        self.outbox.clear();
        // What is encrypted may wait in the socket's own buffer.
        Ok(self.socket.flush().await?)
    }

    async fn read(&mut self) -> Result<Message> {
        loop {
            if let Some(message) = Message::parse(&mut self.inbox)? {
                return Ok(message);
            }
            self.receive().await?;
        }
    }

    /// The messages that have come whole, one at least; no more than to where the server is ready.
    async fn read_whole(&mut self) -> Result<Bytes> {
        loop {
            let len = whole_len(&self.inbox)?;
            if len > 0 {
                return Ok(self.inbox.split_to(len).freeze());
            }
            self.receive().await?;
        }
    }

    async fn receive(&mut self) -> Result<()> {
        self.inbox.reserve(8 << 10);
        if self.socket.read_buf(&mut self.inbox).await? == 0 {
            return Err("the server closed the connection".into());
        }
        Ok(())
    }
}

/// Leaves room for the length of what follows, to be filled by [`end_counted`]; where that is.
fn begin_counted(out: &mut BytesMut) -> usize {
    out.put_i32(0);
    out.len() - 4
}

/// Fills in the length, at `at`, of what has been written from `from` on.
fn end_counted(out: &mut BytesMut, at: usize, from: usize) -> Result<()> {
    let len = i32::try_from(out.len() - from)?;
    out[at..at + 4].copy_from_slice(&len.to_be_bytes());
    Ok(())
}

fn reported(body: &ErrorResponseBody) -> Result<ServerError> {
    let mut error = ServerError { code: String::new(), message: String::new() };
    let mut fields = body.fields();
    while let Some(field) = fields.next()? {
        let value = String::from_utf8_lossy(field.value_bytes());
        match field.type_() {
            b'C' => error.code = value.into_owned(),
            b'M' => error.message = value.into_owned(),
            _ => {}
        }
    }
    Ok(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message of the server.
    fn message(tag: u8, body: &[u8]) -> Vec<u8> {
        let len = u32::try_from(body.len() + 4).expect("it is short");
        [&[tag][..], &len.to_be_bytes(), body].concat()
    }

    #[test]
    fn a_reply_is_the_same_wherever_it_is_cut() {
        let told = [
            message(b'2', b""),
            message(b'D', b"\0\x02\0\0\0\x02hi\xff\xff\xff\xff"),
            message(b'C', b"SELECT 1\0"),
            message(b'2', b""),
            message(b'C', b"BEGIN\0"),
            message(b'Z', b"T"),
        ];
        let told = told.concat();
        let later = [&told[..], &message(b'N', b"\0")[..]].concat();
        assert_eq!(
            whole_len(&later).expect("messages"),
            told.len(),
            "what comes later is of the next exchange"
        );
        let (columns, none): (Arc<[Type]>, Arc<[Type]>) = ([Type::TEXT, Type::TEXT].into(), [].into());
        for cut in 0..=told.len() {
            let mut replies = Replies::new(vec![Arc::clone(&columns), Arc::clone(&none)]);
            let (first, rest) = told.split_at(whole_len(&told[..cut]).expect("messages"));
            let is_ready = replies.take(&Bytes::copy_from_slice(first)).expect("messages");
            assert_eq!(is_ready, cut == told.len());
            assert!(is_ready || replies.take(&Bytes::copy_from_slice(rest)).expect("messages"));
            let replies = replies.finish().expect("both statements are answered");
            assert_eq!(replies.iter().map(|reply| reply.affected).collect::<Vec<_>>(), [1, 0]);
            let row = replies[0].row().expect("the only one");
            assert_eq!(row.get::<&str>(0).expect("text"), "hi");
            assert_eq!(row.get::<Option<&str>>(1).expect("text or NULL"), None);
            assert!(row.get::<&str>(2).is_err(), "there is no third column");
        }
    }

    /// As a library for such messages writes them.
    #[test]
    fn a_statement_is_bound_and_executed() {
        let parameters = vec![Type::INT4, Type::TEXT, Type::INT8];
        let statement = Prepared::new("s7", parameters, [].into()).expect("three parameters");
        let (near, _far) = tokio::io::duplex(64);
        let mut connection = Connection {
            socket: Box::new(near),
            inbox: BytesMut::new(),
            outbox: BytesMut::new(),
            batch: Vec::new(),
            answered: 0,
            prepared: 0,
        };
        connection.add(&statement, &[&5i32, &"five", &None::<i64>]).expect("values fit");
        let mut expected = BytesMut::new();
        let five = 5i32.to_be_bytes();
        let values: [Option<&[u8]>; 3] = [Some(&five), Some(b"five"), None];
        let write = |value: Option<&[u8]>, out: &mut BytesMut| {
            out.extend_from_slice(value.unwrap_or_default());
            Ok(if value.is_some() { postgres_protocol::IsNull::No } else { postgres_protocol::IsNull::Yes })
        };
        let bound = frontend::bind("", "s7", [1], values, write, [1], &mut expected);
        assert!(bound.is_ok());
        frontend::execute("", 0, &mut expected).expect("it is short");
        assert_eq!(connection.outbox, expected);
        assert!(connection.add(&statement, &[&5i32]).is_err(), "two values are missing");
        assert_eq!(connection.outbox, expected, "nothing of it is written");
    }

    #[test]
    fn what_is_no_reply_is_an_error() {
        assert!(whole_len(b"D\0\0\0\x03").is_err(), "a length counts itself");
        let columns: Arc<[Type]> = [].into();
        let mut replies = Replies::new(vec![Arc::clone(&columns)]);
        replies.take(&message(b'Z', b"I").into()).expect("messages");
        assert!(replies.finish().is_err(), "the statement is not answered");
        let mut replies = Replies::new(vec![columns]);
        replies.take(&message(b'E', b"C23505\0Mtwice\0\0").into()).expect("messages");
        let error = replies.finish().expect_err("the statement failed");
        assert_eq!(error.downcast_ref::<ServerError>().expect("the server said it").code, "23505");
        for torn in [&b""[..], b"\0\x01", b"\0\x01\0\0\0\x02h"] {
            let row = Row { body: Bytes::from_static(torn), columns: [Type::TEXT].into() };
            assert!(row.get::<&str>(0).is_err(), "{torn:?}");
        }
    }
}
