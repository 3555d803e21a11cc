//! The reception: accepts connections and does start-up, TLS and authentication, off the workers and with a deadline.
//!
//! One thread with a reactor of its own. A client that is slow, silent or hostile costs a place here and is cut off;
//! only an authenticated socket is handed to its tenant's home. What a name and a database lead to is decided behind
//! [`Gate`].

mod handshake;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use base::{Nanos, SqlError, SqlResult, TenantId};
use env::{Env, Listener, ShutdownSignal, Socket};
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt as _};
use pgproto::scram::Verifier;
use pgproto::startup::CancelKey;

use crate::stream::Stream;

pub(crate) use handshake::{Authenticated, shown_address};

/// Connections in start-up or authentication at once; more wait in the listener's queue.
const HANDSHAKES_MAX: usize = 2_000;
/// How long nothing is accepted after the system refused to accept.
const ACCEPT_PAUSE: Nanos = Nanos::from_millis(50);

/// Who may enter where.
#[derive(Clone)]
pub(crate) struct Admission {
    pub(crate) tenant: TenantId,
    /// The account is the administrator's, who may enter every tenant.
    pub(crate) administrator: bool,
    /// `None` for a user that does not exist, may not log in or has no password: the exchange is done all the same,
    /// and fails.
    pub(crate) verifier: Option<Verifier>,
}

/// What the reception asks of the server. Calls return at once.
pub(crate) trait Gate: Send + Sync {
    /// Looks up a database and a user of it. Fatal errors are told to the client: 3D000 for an unknown database.
    fn admit(&self, database: &str, user: &str) -> BoxFuture<'static, SqlResult<Admission>>;
    /// Takes over an authenticated client.
    ///
    /// # Errors
    /// Fatal: there is no place for it.
    fn enter(&self, client: Authenticated) -> Result<(), Box<(Authenticated, SqlError)>>;
    /// Cancels what the holder of the key runs.
    fn cancel(&self, key: CancelKey);
}

/// What the reception counted since the start.
#[derive(Default)]
pub(crate) struct ReceptionCounts {
    pub(crate) accepted: AtomicU64,
    pub(crate) authenticated: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) timed_out: AtomicU64,
}

/// Settings of the reception.
pub(crate) struct Reception {
    pub(crate) env: Env,
    pub(crate) gate: Arc<dyn Gate>,
    pub(crate) tls: Option<Arc<rustls::ServerConfig>>,
    pub(crate) authentication_timeout: Nanos,
    /// Makes the salts shown for unknown users.
    pub(crate) mock_secret: [u8; 32],
    pub(crate) counts: Arc<ReceptionCounts>,
}

impl Reception {
    /// Receives clients until `stop`; blocks the calling thread. Connections still in start-up are then dropped.
    pub(crate) fn run(self, listeners: &[Listener], stop: &ShutdownSignal) {
        let env = self.env.clone();
        let this = Arc::new(self);
        env::block_on(&env, this.receive(listeners, stop.wait()));
    }

    async fn receive(self: Arc<Self>, listeners: &[Listener], stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop);
        let mut handshakes: FuturesUnordered<Pin<Box<dyn Future<Output = ()> + Send>>> =
            FuturesUnordered::new();
        loop {
            let room = handshakes.len() < HANDSHAKES_MAX;
            let accepted = std::future::poll_fn(|cx| {
                if stop.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(None);
                }
                while let Poll::Ready(Some(())) = handshakes.poll_next_unpin(cx) {}
                if !room {
                    // Comes back when a handshake ends.
                    return if handshakes.len() < HANDSHAKES_MAX {
                        Poll::Ready(Some(None))
                    } else {
                        Poll::Pending
                    };
                }
                // An accept belongs to its listener: what one of them waits for is not lost with this future.
                for listener in listeners {
                    if let Poll::Ready(accepted) = std::pin::pin!(listener.accept()).poll(cx) {
                        return Poll::Ready(Some(Some(accepted)));
                    }
                }
                Poll::Pending
            })
            .await;
            match accepted {
                None => return,
                Some(None) => {}
                Some(Some(Ok((socket, peer)))) => {
                    self.counts.accepted.fetch_add(1, Ordering::Relaxed);
                    handshakes.push(Box::pin(self.clone().receive_one(socket, peer)));
                }
                Some(Some(Err(error))) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    env::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn receive_one(self: Arc<Self>, socket: Socket, peer: std::net::SocketAddr) {
        let deadline = env::now() + self.authentication_timeout;
        let counts = self.counts.clone();
        match env::timeout_at(Some(deadline), handshake::receive(&self, Stream::new(socket, peer))).await {
            Ok(true) => counts.authenticated.fetch_add(1, Ordering::Relaxed),
            Ok(false) => counts.failed.fetch_add(1, Ordering::Relaxed),
            Err(env::Elapsed) => {
                tracing::info!(%peer, "a client did not finish its start-up in time");
                counts.timed_out.fetch_add(1, Ordering::Relaxed)
            }
        };
    }
}
