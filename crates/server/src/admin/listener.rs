//! Connections of the administrator's HTTP server: TLS and plain HTTP on one port, so many at a time and of one address, none of them silent
//! or in the middle of a question for long.
//!
//! As on the wire, a client decides whether it encrypts: a TLS handshake begins with a byte that no HTTP request begins with. What may be
//! asked for without encryption is `console::guard`'s to say. A handshake goes on in the connection's own task, so a slow one holds up
//! nobody.
//!
//! While a request is being answered ([`Peer::answering`]) nothing has to go over its connection: a statement takes its time.

use std::future::Future as _;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use base::Nanos;
use env::Env;
use rustc_hash::FxHashMap;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{Accept, TlsAcceptor};

use crate::console::{IpNetwork, counted_as};

/// Connections at a time, each with some 20 KiB of buffers; more wait in the listener's queue.
const CONNECTIONS_MAX: usize = 256;
/// Connections of one address; more are hung up on. A proxy that was named has as many as there are.
const OF_ADDRESS_MAX: usize = CONNECTIONS_MAX / 2;
/// How long a client may take.
const PATIENCE: Patience = Patience { silence: Nanos::from_secs(60), question: Nanos::from_secs(20) };
/// How long nothing is accepted after the system refused to accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// The first byte of a TLS record with a handshake (RFC 8446, section 5.1).
const TLS_HANDSHAKE: u8 = 22;

/// After how long connections are closed.
#[derive(Clone, Copy, Debug)]
struct Patience {
    /// Over which nothing went. Longer than the pause between two heartbeats of a live stream.
    silence: Nanos,
    /// From the first byte of a handshake or of a request's head to its last one, however many come.
    question: Nanos,
}

/// What a connection and the requests on it know of each other.
#[derive(Debug, Default)]
struct Spoken {
    encrypted: AtomicBool,
    answering: AtomicBool,
}

/// Who is at the other end of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    spoken: Arc<Spoken>,
}

impl Peer {
    pub(crate) fn is_encrypted(&self) -> bool {
        self.spoken.encrypted.load(Ordering::Relaxed)
    }

    /// The head of a request has come, which is answered until what this gives is dropped. One at a time, as in HTTP/1.1.
    pub(crate) fn answering(&self) -> Answering {
        self.spoken.answering.store(true, Ordering::Relaxed);
        Answering(self.spoken.clone())
    }
}

/// While there is one, its connection waits for as long as it takes.
pub(crate) struct Answering(Arc<Spoken>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.answering.store(false, Ordering::Relaxed);
    }
}

impl Connected<IncomingStream<'_, AdminListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, AdminListener>) -> Peer {
        Peer { address: *stream.remote_addr(), spoken: stream.io().spoken.clone() }
    }
}

/// Connections there are, by address.
#[derive(Default)]
struct Counts(Mutex<FxHashMap<IpAddr, usize>>);

/// One connection among those of its address, until it is dropped.
struct Counted {
    address: IpAddr,
    counts: Arc<Counts>,
}

impl Counts {
    /// `None` where the address has `max` already.
    fn count(self: &Arc<Counts>, address: IpAddr, max: usize) -> Option<Counted> {
        let address = counted_as(address);
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(address).or_default();
        // One that is there already keeps the entry.
        if *count >= max {
            return None;
        }
        *count += 1;
        Some(Counted { address, counts: self.clone() })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut counts = self.counts.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.get_mut(&self.address).expect("counted when the connection began");
        *count -= 1;
        if *count == 0 {
            counts.remove(&self.address);
        }
    }
}

/// Accepts connections; with a TLS configuration those that begin with a handshake are encrypted.
pub(super) struct AdminListener {
    tcp: TcpListener,
    tls: Option<TlsAcceptor>,
    places: Arc<Semaphore>,
    counts: Arc<Counts>,
    /// Each of which speaks for many.
    proxies: Vec<IpNetwork>,
    patience: Patience,
    env: Env,
}

impl AdminListener {
    pub(super) fn new(
        tcp: TcpListener,
        tls: Option<Arc<rustls::ServerConfig>>,
        proxies: Vec<IpNetwork>,
        env: Env,
    ) -> AdminListener {
        AdminListener {
            tcp,
            tls: tls.map(TlsAcceptor::from),
            places: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            counts: Arc::default(),
            proxies,
            patience: PATIENCE,
            env,
        }
    }

    fn of_address_max(&self, address: IpAddr) -> usize {
        let is_proxy = self.proxies.iter().any(|network| network.contains(address));
        if is_proxy { CONNECTIONS_MAX } else { OF_ADDRESS_MAX }
    }
}

impl Listener for AdminListener {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        let place = self.places.clone().acquire_owned().await.expect("never closed");
        loop {
            match self.tcp.accept().await {
                Ok((tcp, address)) => {
                    let max = self.of_address_max(address.ip());
                    let Some(counted) = self.counts.count(address.ip(), max) else { continue };
                    let _ = tcp.set_nodelay(true);
                    let stream = match &self.tls {
                        Some(tls) => Stream::Unknown(tcp, tls.clone()),
                        None => Stream::Plain(tcp),
                    };
                    let held = Held { _place: place, _counted: counted };
                    return (Connection::new(stream, held, self.patience, self.env.clone()), address);
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection to the administrator's HTTP server could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }
}

enum Stream {
    /// Nothing has come yet.
    Unknown(TcpStream, TlsAcceptor),
    Handshake(Box<Accept<TcpStream>>),
    Tls(Box<TlsStream<TcpStream>>),
    Plain(TcpStream),
    /// The handshake failed.
    Closed,
}

/// What a connection has until it is dropped.
struct Held {
    _place: OwnedSemaphorePermit,
    _counted: Counted,
}

/// One connection. Dropping it gives its place to the next one.
pub(super) struct Connection {
    stream: Stream,
    spoken: Arc<Spoken>,
    patience: Patience,
    env: Env,
    last_progress: Nanos,
    /// When the handshake or the request's head that has not come to its end began.
    asked_since: Option<Nanos>,
    alarm: Pin<Box<Sleep>>,
    _held: Held,
}

fn sleep(time: Nanos) -> Sleep {
    tokio::time::sleep(Duration::from_nanos(time.0))
}

impl Connection {
    fn new(stream: Stream, held: Held, patience: Patience, env: Env) -> Connection {
        let (spoken, alarm) = (Arc::default(), Box::pin(sleep(patience.silence)));
        let last_progress = env.now();
        Connection { stream, spoken, patience, env, last_progress, asked_since: None, alarm, _held: held }
    }

    /// The client began to say something.
    fn begin_question(&mut self) {
        if self.asked_since.is_none() {
            self.asked_since = Some(self.env.now());
            self.alarm.set(sleep(self.patience.question));
        }
    }

    /// Goes on until it is known what is spoken.
    fn poll_begun(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match &mut self.stream {
                Stream::Plain(_) | Stream::Tls(_) => return Poll::Ready(Ok(())),
                Stream::Closed => return Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
                Stream::Unknown(tcp, _) => {
                    let mut first = [0; 1];
                    let seen = ready!(tcp.poll_peek(cx, &mut ReadBuf::new(&mut first)))?;
                    let Stream::Unknown(tcp, tls) = std::mem::replace(&mut self.stream, Stream::Closed)
                    else {
                        unreachable!("matched above")
                    };
                    self.stream = if seen == 1 && first[0] == TLS_HANDSHAKE {
                        self.begin_question();
                        Stream::Handshake(Box::new(tls.accept(tcp)))
                    } else {
                        Stream::Plain(tcp)
                    };
                }
                Stream::Handshake(accept) => {
                    let outcome = ready!(Pin::new(&mut **accept).poll(cx));
                    self.stream = Stream::Closed;
                    self.stream = Stream::Tls(Box::new(outcome?));
                    self.spoken.encrypted.store(true, Ordering::Relaxed);
                    self.asked_since = None;
                    self.last_progress = self.env.now();
                }
            }
        }
    }

    /// Fails once the client took too long; else wakes the task when that may be so.
    fn poll_patience(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        loop {
            ready!(self.alarm.as_mut().poll(cx));
            let now = self.env.now();
            if self.spoken.answering.load(Ordering::Relaxed) {
                self.asked_since = None;
                self.last_progress = now;
            }
            let silent_at = self.last_progress + self.patience.silence;
            let asked_at = self.asked_since.map(|since| since + self.patience.question);
            let ends_at = asked_at.map_or(silent_at, |at| at.min(silent_at));
            if now >= ends_at {
                return Poll::Ready(io::ErrorKind::TimedOut.into());
            }
            self.alarm.set(sleep(ends_at - now));
        }
    }

    /// Carries out `call` on what is spoken; `moved` says whether it moved anything.
    fn poll_on<T>(
        &mut self,
        cx: &mut Context<'_>,
        call: impl FnOnce(Pin<&mut dyn Bytes>, &mut Context<'_>) -> Poll<io::Result<T>>,
        moved: impl FnOnce(&T) -> bool,
    ) -> Poll<io::Result<T>> {
        let polled = match self.poll_begun(cx) {
            Poll::Ready(Ok(())) => match &mut self.stream {
                Stream::Plain(tcp) => call(Pin::new(tcp), cx),
                Stream::Tls(tls) => call(Pin::new(&mut **tls), cx),
                _ => unreachable!("it is known what is spoken"),
            },
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
        };
        match polled {
            Poll::Ready(Ok(done)) => {
                if moved(&done) {
                    self.last_progress = self.env.now();
                }
                Poll::Ready(Ok(done))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => self.poll_patience(cx).map(Err),
        }
    }
}

trait Bytes: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Bytes for T {}

impl AsyncRead for Connection {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = |stream: Pin<&mut dyn Bytes>, cx: &mut Context<'_>| {
            stream.poll_read(cx, buf).map_ok(|()| buf.filled().len())
        };
        let this = self.get_mut();
        let filled = ready!(this.poll_on(cx, read, |filled| *filled > before))?;
        if filled > before && !this.spoken.answering.load(Ordering::Relaxed) {
            this.begin_question();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written =
            ready!(this.poll_on(cx, |stream, cx| stream.poll_write(cx, bytes), |written| *written > 0))?;
        // An answer: the question was whole.
        this.asked_since = None;
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_on(cx, |stream, cx| stream.poll_flush(cx), |()| false)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        match &this.stream {
            Stream::Plain(_) | Stream::Tls(_) => {
                this.poll_on(cx, |stream, cx| stream.poll_shutdown(cx), |()| false)
            }
            // Nothing was said that a client would wait for the end of.
            _ => Poll::Ready(Ok(())),
        }
    }
}

#[cfg(test)]
mod tests;
