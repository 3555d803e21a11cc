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
use std::sync::atomic::{AtomicI64, Ordering};
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

/// By how many milliseconds the wall's clock goes otherwise than the monotonic one where it was set.
const CLOCK_SET_MS: u64 = 1_000;

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
    wall: WallClock,
    started: Nanos,
}

/// The wall's clock less the monotonic one, in milliseconds.
struct WallClock(AtomicI64);

impl WallClock {
    fn new(unix_micros: i64, now: Nanos) -> WallClock {
        WallClock(AtomicI64::new(offset_ms(unix_micros, now)))
    }

    /// Looks whether the wall's clock was set. What is less than that is none: an instant is the same each time that it is told.
    fn look(&self, unix_micros: i64, now: Nanos) {
        let offset = offset_ms(unix_micros, now);
        if offset.abs_diff(self.offset_ms()) >= CLOCK_SET_MS {
            self.0.store(offset, Ordering::Relaxed);
        }
    }

    fn offset_ms(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    fn ms(&self, at: Nanos) -> i64 {
        self.offset_ms() + (at.0 / 1_000_000).cast_signed()
    }
}

fn offset_ms(unix_micros: i64, now: Nanos) -> i64 {
    (unix_micros - (now.0 / 1000).cast_signed()) / 1000
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Console {
    pub(crate) fn new(shared: &Arc<Shared>, listens_on: SocketAddr, has_tls: bool) -> Arc<Console> {
        let env = shared.env.clone();
        let now = env.now();
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
            wall: WallClock::new(env.clock.unix_micros(), now),
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
        self.wall.ms(at)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_clock_that_was_set_is_followed_and_one_that_was_not_tells_an_instant_the_same() {
        let second = Nanos::from_secs;
        let wall = WallClock::new(1_000_000_000, second(5));
        assert_eq!(wall.ms(second(6)), 1_001_000);
        wall.look(1_004_400_000, second(9));
        assert_eq!(wall.ms(second(6)), 1_001_000, "a little more is none");
        // An hour back, and the machine stood still for two.
        for (unix_s, now, then) in [(1_005 - 3_600, 10, 1_001 - 3_600), (1_006 + 7_200, 11, 1_001 + 7_200)] {
            wall.look(unix_s * 1_000_000, second(now));
            assert_eq!(wall.ms(second(6)), then * 1_000);
        }
    }
}
