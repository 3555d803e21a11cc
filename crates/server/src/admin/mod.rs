//! Administration over HTTP: `/healthz`, `/metrics` and the console, on a thread of its own with tokio and axum, never on a worker.

mod exposition;
mod listener;
mod metrics;
mod tenant_figures;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak, mpsc};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use env::{Env, JoinHandle, ShutdownSignal};
use futures::stream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

pub(crate) use exposition::{Distribution, Exposition};
pub(crate) use listener::Peer;

use crate::StartError;
use crate::console::{self, Console, IpNetwork};
use crate::shared::Shared;
use listener::AdminListener;
use tenant_figures::Chosen;

/// Scrapes that are answered at a time. With a thousand tenants an answer has megabytes, which wait for whoever reads slowly, and anybody may ask.
const SCRAPES_MAX: usize = 16;
/// How long who asked may read.
const READ_MAX: Duration = Duration::from_secs(20);
/// What is written of an answer at once.
const PIECE_LEN: usize = 64 << 10;

/// The administrator's HTTP server.
pub(crate) struct AdminServer {
    address: SocketAddr,
    stop: ShutdownSignal,
    thread: JoinHandle,
}

/// What requests are answered from.
#[derive(Clone)]
struct Served {
    shared: Weak<Shared>,
    /// One scrape is made at a time.
    chosen: Arc<Mutex<Chosen>>,
    /// Of scrapes whose answers are not read yet.
    scrapes: Arc<Semaphore>,
}

impl AdminServer {
    /// Listens on `address` and serves on a thread of its own; with `tls` also by HTTPS.
    ///
    /// # Errors
    /// The address is taken, or no thread can be had.
    pub(crate) fn start(
        shared: &Arc<Shared>,
        address: SocketAddr,
        tls: Option<Arc<rustls::ServerConfig>>,
    ) -> Result<AdminServer, StartError> {
        let stop = ShutdownSignal::default();
        let (stopped, served) = (
            stop.clone(),
            Served {
                shared: Arc::downgrade(shared),
                chosen: Arc::default(),
                scrapes: Arc::new(Semaphore::new(SCRAPES_MAX)),
            },
        );
        let console = Console::new(shared, address, tls.is_some());
        let (env, proxies) = (shared.env.clone(), shared.config.admin_proxies.clone());
        let (tell, told) = mpsc::sync_channel(1);
        let body = Box::new(move || {
            let bind = Bind { address, tls, proxies, env };
            if let Err(error) = serve(bind, served, console, stopped, &tell) {
                // Told to whoever starts the server if it still listens, else to the log.
                if let Err(mpsc::SendError(Err(error))) = tell.send(Err(error)) {
                    tracing::error!(%error, "the administrator's HTTP server failed");
                }
            }
        });
        let thread = shared.env.threads.spawn("admin", None, body);
        let thread = thread.map_err(|error| StartError::System { what: "start a thread", error })?;
        let ended = |_| io::Error::other("the thread ended before it began");
        let address = told
            .recv()
            .map_err(ended)
            .and_then(|told| told)
            .map_err(|error| StartError::Listen { address, error })?;
        Ok(AdminServer { address, stop, thread })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends the server; blocks until its thread ended.
    pub(crate) fn stop(self) {
        self.stop.request();
        let _ = self.thread.join();
    }
}

type Told = io::Result<SocketAddr>;

/// Where and how to listen.
struct Bind {
    address: SocketAddr,
    tls: Option<Arc<rustls::ServerConfig>>,
    proxies: Vec<IpNetwork>,
    env: Env,
}

fn serve(
    bind: Bind,
    served: Served,
    console: Arc<Console>,
    stop: ShutdownSignal,
    tell: &mpsc::SyncSender<Told>,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let tcp = tokio::net::TcpListener::bind(bind.address).await?;
        let _ = tell.send(tcp.local_addr());
        let listener = AdminListener::new(tcp, bind.tls, bind.proxies, bind.env);
        let figures =
            Router::new().route("/healthz", get(health)).route("/metrics", get(metrics)).with_state(served);
        let routes = figures.merge(console::router(&console));
        let service = routes.into_make_service_with_connect_info::<Peer>();
        // Requests in flight are dropped: a scraper that stalls must not hold up the end.
        tokio::select! {
            served = async { axum::serve(listener, service).await } => served,
            () = console.keep() => Ok(()),
            () = stop.wait() => Ok(()),
        }
    })
}

async fn health(State(served): State<Served>) -> impl IntoResponse {
    let Some(shared) = served.shared.upgrade() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "stopping\n");
    };
    if shared.workers.iter().any(|seat| seat.log.failure().is_some()) {
        return (StatusCode::SERVICE_UNAVAILABLE, "a redo log failed\n");
    }
    (StatusCode::OK, "ok\n")
}

async fn metrics(State(served): State<Served>) -> Response {
    let Ok(permit) = served.scrapes.clone().try_acquire_owned() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "too many scrapes at a time\n").into_response();
    };
    let render = |shared: Arc<Shared>| {
        let mut chosen = served.chosen.lock().unwrap_or_else(PoisonError::into_inner);
        metrics::render(&shared, &mut chosen)
    };
    let text = served.shared.upgrade().map(render).unwrap_or_default();
    let kind = (header::CONTENT_TYPE, "text/plain; version=0.0.4".to_owned());
    let len = (header::CONTENT_LENGTH, text.len().to_string());
    ([kind, len], body_of(text, permit)).into_response()
}

/// Has the permit until all of the text is on its way. Pieces are copies: one that waits keeps no more than itself.
fn body_of(text: String, permit: OwnedSemaphorePermit) -> Body {
    let until = Instant::now() + READ_MAX;
    let pieces = stream::unfold((text, 0, permit), move |(text, at, permit)| async move {
        let piece = text.as_bytes()[at..].chunks(PIECE_LEN).next().map(Bytes::copy_from_slice)?;
        if Instant::now() > until {
            return Some((Err(io::Error::from(io::ErrorKind::TimedOut)), (String::new(), 0, permit)));
        }
        let next = at + piece.len();
        Some((Ok(piece), (text, next, permit)))
    });
    Body::from_stream(pieces)
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;

    use super::*;

    #[test]
    fn a_scrape_counts_until_it_is_read() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let scrapes = Arc::new(Semaphore::new(1));
        let text: String = (0..50_000).map(|n| format!("{n}\n")).collect();
        for read in [text.len(), PIECE_LEN] {
            let permit = scrapes.clone().try_acquire_owned().expect("nobody reads");
            let mut pieces = body_of(text.clone(), permit).into_data_stream();
            let mut there = Vec::new();
            while there.len() < read {
                assert_eq!(scrapes.available_permits(), 0);
                let piece = runtime.block_on(pieces.next()).expect("there is more");
                there.extend_from_slice(&piece.expect("it is text"));
            }
            assert!(text.as_bytes().starts_with(&there));
            // All of it was read, or who reads has left.
            drop(pieces);
            assert_eq!(scrapes.available_permits(), 1);
        }
    }
}
