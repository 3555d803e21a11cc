//! One client from its first byte to its authentication.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use base::{SqlError, SqlResult, SqlState};
use pgproto::frontend::{self, Frontend};
use pgproto::scram::{self, ScramError, ServerExchange, Verifier};
use pgproto::startup::{self, Opening, Startup};
use pgproto::{backend, frame};

use super::{Admission, Reception};
use crate::stream::Stream;

/// A client who proved who it is.
pub(crate) struct Authenticated {
    pub(crate) stream: Stream,
    pub(crate) database: String,
    pub(crate) user: String,
    pub(crate) admission: Admission,
    /// Settings of the start-up message, `options` split up among them.
    pub(crate) parameters: Vec<(String, String)>,
    /// Received beyond the authentication.
    pub(crate) input: Vec<u8>,
    /// To be sent before the session says anything.
    pub(crate) output: Vec<u8>,
}

/// Why a connection ends here.
enum End {
    /// The client knows, or is gone.
    Quietly,
    /// The client is told.
    Told(SqlError),
}

impl From<SqlError> for End {
    fn from(error: SqlError) -> End {
        End::Told(error)
    }
}
impl From<io::Error> for End {
    fn from(_: io::Error) -> End {
        End::Quietly
    }
}

struct Client {
    stream: Stream,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Client {
    async fn receive_more(&mut self) -> io::Result<()> {
        let (received, input) = self.stream.recv(std::mem::take(&mut self.input)).await;
        self.input = input;
        match received? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    async fn flush(&mut self) -> io::Result<()> {
        let (sent, output) = self.stream.send(std::mem::take(&mut self.output)).await;
        self.output = output;
        sent
    }

    /// Receives until `self.input` starts with a whole untagged message; its length.
    async fn startup_len(&mut self) -> Result<usize, End> {
        loop {
            if let Some(body) = frame::next_startup(&self.input)? {
                return Ok(4 + body.len());
            }
            self.receive_more().await?;
        }
    }

    /// The body of the next password message.
    async fn authentication_message(&mut self) -> Result<Vec<u8>, End> {
        loop {
            let unexpected = |tag: u8| {
                SqlError::fatal(
                    SqlState::PROTOCOL_VIOLATION,
                    format!("expected SASL response, got message type {tag}"),
                )
            };
            if let Some(&tag) = self.input.first()
                && tag != b'p'
            {
                // A client that gives up says Terminate.
                return Err(if tag == b'X' { End::Quietly } else { unexpected(tag).into() });
            }
            if let Some(message) = frame::next(&self.input)? {
                let Ok(Frontend::Authentication(body)) = frontend::decode(message) else {
                    return Err(unexpected(message.tag).into());
                };
                let (body, len) = (body.to_vec(), message.wire_len());
                self.input.drain(..len);
                return Ok(body);
            }
            self.receive_more().await?;
        }
    }
}

/// Receives one client and hands it over; true if it was authenticated.
pub(super) async fn receive(reception: &Reception, stream: Stream) -> bool {
    let mut client = Client { stream, input: Vec::new(), output: Vec::new() };
    let error = match begin(reception, &mut client).await {
        Ok((database, user, admission, parameters)) => {
            client.stream.quiesce().await;
            let authenticated = Authenticated {
                stream: client.stream,
                database,
                user,
                admission,
                parameters,
                input: client.input,
                output: client.output,
            };
            match reception.gate.enter(authenticated) {
                Ok(()) => return true,
                Err(refused) => {
                    let (authenticated, error) = *refused;
                    client = Client {
                        stream: authenticated.stream,
                        input: authenticated.input,
                        output: authenticated.output,
                    };
                    error
                }
            }
        }
        Err(End::Quietly) => return false,
        Err(End::Told(error)) => error,
    };
    // As a text in quotes: it has names that a stranger chose.
    tracing::info!(peer = %client.stream.peer(), error = ?error.to_string(), "a client was refused");
    backend::report(&mut client.output, &error.with_severity(base::Severity::Fatal));
    if client.flush().await.is_ok() {
        client.stream.finish().await;
    }
    false
}

type Entry = (String, String, Admission, Vec<(String, String)>);

async fn begin(reception: &Reception, client: &mut Client) -> Result<Entry, End> {
    let mut may_ask_for_gss = true;
    loop {
        let len = client.startup_len().await?;
        let message: Vec<u8> = client.input.drain(..len).collect();
        match startup::decode(&message[4..])? {
            Opening::Cancel(key) => {
                reception.gate.cancel(key);
                return Err(End::Quietly);
            }
            Opening::SslRequest if !client.stream.is_encrypted() => {
                answer_ssl_request(reception, client).await?;
            }
            Opening::GssEncRequest if may_ask_for_gss && !client.stream.is_encrypted() => {
                may_ask_for_gss = false;
                client.output.push(b'N');
                client.flush().await?;
            }
            Opening::SslRequest | Opening::GssEncRequest => {
                let what = "received an encryption request twice or within encryption";
                return Err(SqlError::fatal(SqlState::PROTOCOL_VIOLATION, what).into());
            }
            Opening::Startup(startup) => return authenticate(reception, client, &startup).await,
        }
    }
}

async fn answer_ssl_request(reception: &Reception, client: &mut Client) -> Result<(), End> {
    // Bytes sent in the clear before the handshake must not be taken for bytes of the session.
    if !client.input.is_empty() {
        let error = SqlError::fatal(
            SqlState::PROTOCOL_VIOLATION,
            "received unencrypted data after SSL request",
        )
        .with_detail("This could be either a client-software bug or evidence of an attempted man-in-the-middle attack.");
        return Err(error.into());
    }
    client.output.push(if reception.tls.is_some() { b'S' } else { b'N' });
    client.flush().await?;
    match &reception.tls {
        Some(config) => Ok(client.stream.accept_tls(Arc::clone(config)).await?),
        None => Ok(()),
    }
}

async fn authenticate(
    reception: &Reception,
    client: &mut Client,
    startup: &Startup<'_>,
) -> Result<Entry, End> {
    if !matches!(startup.replication, "" | "false" | "off" | "no" | "0") {
        return Err(SqlError::unsupported("replication").into());
    }
    if startup.minor_version.is_some() || !startup.unknown_options.is_empty() {
        backend::negotiate_protocol_version(&mut client.output, &startup.unknown_options);
    }
    let parameters = parameters(startup)?;
    let admission = reception.gate.admit(startup.database, startup.user).await?;
    let verifier = match &admission.verifier {
        Some(verifier) => verifier.clone(),
        // Of another tenant it is another role, whose salt would be another one.
        None => Verifier::mock(&reception.mock_secret, &format!("{}:{}", admission.tenant.0, startup.user)),
    };
    let known = admission.verifier.is_some();
    exchange(reception, client, verifier, startup.user, known).await?;
    backend::authentication_ok(&mut client.output);
    Ok((startup.database.to_owned(), startup.user.to_owned(), admission, parameters))
}

fn parameters(startup: &Startup<'_>) -> SqlResult<Vec<(String, String)>> {
    let mut all = startup::split_options(startup.options)?;
    all.extend(startup.settings.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())));
    Ok(all)
}

async fn exchange(
    reception: &Reception,
    client: &mut Client,
    verifier: Verifier,
    user: &str,
    known: bool,
) -> Result<(), End> {
    let refused = |error: ScramError| match error {
        ScramError::WrongPassword => wrong_password(user),
        malformed => SqlError::fatal(SqlState::PROTOCOL_VIOLATION, malformed.to_string()),
    };
    backend::authentication_sasl(&mut client.output, &[scram::MECHANISM]);
    client.flush().await?;
    let message = client.authentication_message().await?;
    let (mechanism, first) = frontend::sasl_initial_response(&message)?;
    if mechanism != scram::MECHANISM {
        let what = "client selected an invalid SASL authentication mechanism";
        return Err(SqlError::fatal(SqlState::PROTOCOL_VIOLATION, what).into());
    }
    let mut server = ServerExchange::new(verifier, reception.env.entropy.bytes());
    let reply = server.client_first(first.unwrap_or_default()).map_err(refused)?;
    backend::authentication_sasl_continue(&mut client.output, &reply);
    client.flush().await?;
    let message = client.authentication_message().await?;
    let reply = server.client_final(&message).map_err(refused)?;
    if !known {
        // Unreachable but for a collision of SHA-256.
        return Err(wrong_password(user).into());
    }
    backend::authentication_sasl_final(&mut client.output, &reply);
    Ok(())
}

fn wrong_password(user: &str) -> SqlError {
    SqlError::fatal(SqlState::INVALID_PASSWORD, format!("password authentication failed for user \"{user}\""))
}

/// The address as `pg_stat_activity` shows it; nothing for a local socket.
pub(crate) fn shown_address(peer: SocketAddr) -> (Option<String>, Option<u16>) {
    if peer == env::LOCAL_PEER {
        return (None, None);
    }
    (Some(peer.ip().to_string()), Some(peer.port()))
}
