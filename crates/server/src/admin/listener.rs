//! Connections of the administrator's HTTP server: TLS and plain HTTP on one port, so many at a time, none of them silent for long.
//!
//! As on the wire, a client decides whether it encrypts: a TLS handshake begins with a byte that no HTTP request begins with. What may be
//! asked for without encryption is `console::guard`'s to say. A handshake goes on in the connection's own task, so a slow one holds up
//! nobody.

use std::future::Future as _;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use base::Nanos;
use env::Env;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{Accept, TlsAcceptor};

/// Connections at a time, each with some 20 KiB of buffers; more wait in the listener's queue.
const CONNECTIONS_MAX: usize = 256;
/// A connection over which nothing went for so long is closed. Longer than the pause between two heartbeats of a live stream.
const SILENCE_MAX: Nanos = Nanos::from_secs(60);
/// How long nothing is accepted after the system refused to accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// The first byte of a TLS record with a handshake (RFC 8446, section 5.1).
const TLS_HANDSHAKE: u8 = 22;

/// Who is at the other end of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    encrypted: Arc<AtomicBool>,
}

impl Peer {
    pub(crate) fn is_encrypted(&self) -> bool {
        self.encrypted.load(Ordering::Relaxed)
    }
}

impl Connected<IncomingStream<'_, AdminListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, AdminListener>) -> Peer {
        Peer { address: *stream.remote_addr(), encrypted: stream.io().encrypted.clone() }
    }
}

/// Accepts connections; with a TLS configuration those that begin with a handshake are encrypted.
pub(super) struct AdminListener {
    tcp: TcpListener,
    tls: Option<TlsAcceptor>,
    places: Arc<Semaphore>,
    env: Env,
}

impl AdminListener {
    pub(super) fn new(tcp: TcpListener, tls: Option<Arc<rustls::ServerConfig>>, env: Env) -> AdminListener {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        AdminListener { tcp, tls: tls.map(TlsAcceptor::from), places, env }
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
                    let _ = tcp.set_nodelay(true);
                    let stream = match &self.tls {
                        Some(tls) => Stream::Unknown(tcp, tls.clone()),
                        None => Stream::Plain(tcp),
                    };
                    return (Connection::new(stream, place, self.env.clone()), address);
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

/// One connection. Dropping it gives its place to the next one.
pub(super) struct Connection {
    stream: Stream,
    encrypted: Arc<AtomicBool>,
    env: Env,
    last_progress: Nanos,
    alarm: Pin<Box<Sleep>>,
    _place: OwnedSemaphorePermit,
}

impl Connection {
    fn new(stream: Stream, place: OwnedSemaphorePermit, env: Env) -> Connection {
        let alarm = Box::pin(tokio::time::sleep(Duration::from_nanos(SILENCE_MAX.0)));
        let last_progress = env.now();
        Connection { stream, encrypted: Arc::default(), env, last_progress, alarm, _place: place }
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
                        Stream::Handshake(Box::new(tls.accept(tcp)))
                    } else {
                        Stream::Plain(tcp)
                    };
                }
                Stream::Handshake(accept) => {
                    let outcome = ready!(Pin::new(&mut **accept).poll(cx));
                    self.stream = Stream::Closed;
                    self.stream = Stream::Tls(Box::new(outcome?));
                    self.encrypted.store(true, Ordering::Relaxed);
                }
            }
        }
    }

    /// Fails once nothing went over the connection for too long; else wakes the task when that may be so.
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        loop {
            ready!(self.alarm.as_mut().poll(cx));
            let silent = self.env.now() - self.last_progress;
            if silent >= SILENCE_MAX {
                return Poll::Ready(io::ErrorKind::TimedOut.into());
            }
            let left = tokio::time::sleep(Duration::from_nanos((SILENCE_MAX - silent).0));
            self.alarm.set(left);
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
            Poll::Pending => self.poll_silence(cx).map(Err),
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
        self.get_mut().poll_on(cx, read, |filled| *filled > before).map_ok(drop)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().poll_on(cx, |stream, cx| stream.poll_write(cx, bytes), |written| *written > 0)
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
