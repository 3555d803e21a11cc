//! The console: a page for the engineer on call, and the API behind it, on the thread of the administrator's HTTP server.
//!
//! `routes` has every address and its description, `guard` what each request goes through, `logins`, `login` and `throttle` who may. What is
//! shown comes from figures that any thread may read (`live` looks at them once a second, `tenants`, `server`, `ledger`, `reports` when
//! asked), and where only a tenant's home knows, from a task there. What is changed is SQL that `changes` writes and the administrator's
//! session runs, as if it had come over the wire. Nothing here is the truth of anything but of who is logged in.
//!
//! Whatever takes long is awaited, or done on a thread of its own (`aside`): this one serves everybody.

mod answer;
mod aside;
mod assets;
mod changes;
mod client;
mod endpoint;
mod extension;
mod frames;
mod guard;
mod ledger;
mod live;
mod login;
mod logins;
mod name;
mod openapi;
mod query;
mod reports;
mod routes;
mod sampler;
mod sent;
mod server;
mod shown_frame;
mod sql_text;
mod tenant;
mod tenants;
mod throttle;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use axum::http::HeaderMap;
use base::Nanos;
use env::Env;
use tokio::sync::Semaphore;

pub use answer::Refusal as ConsoleRefusal;
pub use client::IpNetwork;
pub use endpoint::{Answered as ConsoleAnswered, Endpoint as ConsoleEndpoint};
pub use extension::{ConsoleEvents, ConsoleExtension};
pub(crate) use routes::router;
pub use sent::Sent as ConsoleSent;
pub(crate) use throttle::counted_as;

use self::answer::{Answer, Refusal};
use self::live::Live;
use self::logins::{Login, Logins};
use self::tenants::TenantTable;
use self::throttle::Throttle;
use crate::shared::Shared;

/// How often accounts of sessions are looked at again.
const ACCOUNTS_LOOK: Duration = Duration::from_secs(30);

/// One for each server.
pub(crate) struct Console {
    shared: Weak<Shared>,
    env: Env,
    /// The server listens on this machine alone.
    is_local_only: bool,
    has_tls: bool,
    /// Whose word for whom they speak is taken.
    proxies: Vec<IpNetwork>,
    /// Makes the verifiers that passwords of unknown users are held against.
    mock_secret: [u8; 32],
    logins: Mutex<Logins>,
    throttle: Mutex<Throttle>,
    extension: ConsoleExtension,
    /// The API's, as JSON.
    description: String,
    live: Live,
    /// Places for threads that read.
    aside: Arc<Semaphore>,
    /// Places for threads that write files for browsers.
    downloads: Arc<Semaphore>,
    tenants: Mutex<TenantTable>,
    /// The wall's clock less the monotonic one at the start, in milliseconds.
    wall_offset_ms: i64,
    started: Nanos,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Console {
    pub(crate) fn new(shared: &Arc<Shared>, listens_on: SocketAddr, has_tls: bool) -> Arc<Console> {
        let env = shared.env.clone();
        let (now, wall) = (env.now(), env.clock.unix_micros());
        Arc::new(Console {
            shared: Arc::downgrade(shared),
            is_local_only: listens_on.ip().to_canonical().is_loopback(),
            has_tls,
            proxies: shared.config.admin_proxies.clone(),
            mock_secret: env.entropy.bytes(),
            logins: Mutex::default(),
            throttle: Mutex::new(Throttle::new()),
            extension: shared.config.console.clone(),
            description: openapi::description(&shared.config.console).to_string(),
            live: Live::new(shared),
            aside: Arc::new(Semaphore::new(aside::ASIDE_MAX)),
            downloads: Arc::new(Semaphore::new(aside::DOWNLOADS_MAX)),
            tenants: Mutex::default(),
            wall_offset_ms: (wall - (now.0 / 1000).cast_signed()) / 1000,
            started: now,
            env,
        })
    }

    /// # Errors
    /// 503: the server ends.
    fn shared(&self) -> Answer<Arc<Shared>> {
        self.shared.upgrade().ok_or_else(Refusal::stopping)
    }

    /// An instant of the server's clock in milliseconds since 1970.
    fn wall_ms(&self, at: Nanos) -> i64 {
        self.wall_offset_ms + (at.0 / 1_000_000).cast_signed()
    }

    /// The session that a request is of, which is used by that unless the page asks by itself.
    fn login_of(&self, headers: &HeaderMap) -> Option<Login> {
        let secret = guard::secret(headers)?;
        lock(&self.logins).of_secret(secret, guard::is_attended(headers), self.env.now())
    }

    /// What the console does by itself, for as long as the server runs.
    pub(crate) async fn keep(self: Arc<Console>) {
        let accounts = async {
            let mut next = tokio::time::interval(ACCOUNTS_LOOK);
            loop {
                next.tick().await;
                login::end_those_that_changed(&self).await;
            }
        };
        tokio::join!(accounts, self.live.keep(&self));
    }
}
