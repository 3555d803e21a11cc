//! The reception: accepts connections and does start-up, TLS and authentication, off the workers and with a deadline.
//!
//! One thread with a reactor of its own. A client that is slow, silent or hostile costs a place here and is cut off, the sooner the more there are;
//! only an authenticated socket is handed to its tenant's home. What a name and a database lead to is decided behind
//! [`Gate`].

mod handshake;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use base::{Nanos, SqlError, SqlResult, TenantId};
use env::{Env, Listener, Priority, ShutdownSignal, Socket};
use futures::future::{AbortHandle, Aborted, BoxFuture, abortable};
use futures::stream::{FuturesUnordered, StreamExt as _};
use pgproto::scram::Verifier;
use pgproto::startup::CancelKey;

use crate::shared::{Shared, charged};
use crate::stream::Stream;

pub(crate) use handshake::{Authenticated, shown_address};

/// Connections in start-up or authentication at once; more wait in the listener's queue.
pub(crate) const HANDSHAKES_MAX: usize = 2_000;
/// Who has not come through in so long gives its place up to a newcomer, while all are taken.
const PLACE_TIME: Nanos = Nanos::from_secs(5);
/// How long nothing is accepted after the system refused to accept.
const ACCEPT_PAUSE: Nanos = Nanos::from_millis(50);

/// Who may enter where.
#[derive(Clone)]
pub(crate) struct Admission {
    pub(crate) tenant: TenantId,
    /// The account is the administrator's, who may enter every tenant.
    pub(crate) administrator: bool,
    /// The account may enter the database. Of a session this is asked again when it begins, and told who is known.
    pub(crate) enters: bool,
    /// `None` for a user that does not exist, may not log in or has no password: the exchange is done all the same,
    /// and fails.
    pub(crate) verifier: Option<Verifier>,
}

/// What the reception asks of the server. Calls return at once.
pub(crate) trait Gate: Send + Sync {
    /// Looks up a database and a user of it. Fatal errors are told to the client: 3D000 for an unknown database, 53300 or 57P03 where too many wait for one.
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

/// Connections in start-up or authentication.
#[derive(Default)]
struct Handshakes {
    under_way: FuturesUnordered<Pin<Box<dyn Future<Output = Result<u64, Aborted>> + Send>>>,
    /// By their numbers: when each began, and how to end it.
    begun: BTreeMap<u64, (Nanos, AbortHandle)>,
    next: u64,
}

impl Handshakes {
    fn begin(&mut self, handshake: impl Future<Output = ()> + Send + 'static) {
        let number = self.next;
        self.next += 1;
        let (handshake, handle) = abortable(async move {
            handshake.await;
            number
        });
        self.begun.insert(number, (env::now(), handle));
        self.under_way.push(Box::pin(handshake));
    }

    fn poll(&mut self, cx: &mut Context<'_>) {
        while let Poll::Ready(Some(ended)) = self.under_way.poll_next_unpin(cx) {
            if let Ok(number) = ended {
                self.begun.remove(&number);
            }
        }
    }

    fn are_full(&self) -> bool {
        self.begun.len() >= HANDSHAKES_MAX
    }

    /// Until when nobody gives up a place, if all are taken.
    fn full_until(&self) -> Option<Nanos> {
        let (began, _) = self.begun.values().next().filter(|_| self.are_full())?;
        Some(*began + PLACE_TIME).filter(|until| env::now() < *until)
    }

    fn give_up_oldest(&mut self) {
        if let Some((_, (_, handle))) = self.begun.pop_first() {
            handle.abort();
        }
    }
}

/// Settings of the reception.
pub(crate) struct Reception {
    pub(crate) env: Env,
    pub(crate) gate: Arc<dyn Gate>,
    pub(crate) tls: Option<Arc<rustls::ServerConfig>>,
    pub(crate) authentication_timeout: Nanos,
    /// Makes the salts shown for unknown users: the same at each start.
    pub(crate) mock_secret: [u8; 32],
    pub(crate) counts: Arc<ReceptionCounts>,
}

impl Reception {
    /// Receives clients until `stop`; blocks the calling thread, and lowers its priority. Connections still in start-up are then dropped. What it takes of
    /// the processor `system` is charged for.
    pub(crate) fn run(self, system: Weak<Shared>, listeners: &[Listener], stop: &ShutdownSignal) {
        let env = self.env.clone();
        // Always allowed. A flood of logins does not keep the workers from their tenants.
        let _ = env.threads.current().set_priority(Priority::Low);
        let received = Arc::new(self).receive(listeners, stop.wait());
        env::block_on(&env, charged(system, env.clone(), received));
    }

    async fn receive(self: Arc<Self>, listeners: &[Listener], stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop);
        let mut handshakes = Handshakes::default();
        loop {
            let mut full_until = handshakes.full_until().map(env::sleep_until);
            let accepted = std::future::poll_fn(|cx| {
                if stop.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(None);
                }
                handshakes.poll(cx);
                if let Some(until) = &mut full_until {
                    let has_place = !handshakes.are_full() || Pin::new(until).poll(cx).is_ready();
                    return if has_place { Poll::Ready(Some(None)) } else { Poll::Pending };
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
                    if handshakes.are_full() {
                        handshakes.give_up_oldest();
                        self.counts.timed_out.fetch_add(1, Ordering::Relaxed);
                    }
                    handshakes.begin(self.clone().receive_one(socket, peer));
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
