//! Who may enter where: the reception's questions, answered by the tenants' homes.
//!
//! A login waits for its tenant's home: for as long as the tenant takes to open, or its limit of processor time says. Meanwhile it has one of the reception's
//! places, which all tenants share. So of one tenant a bounded number waits, and more are refused.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{Nanos, SqlError, SqlResult, SqlState, TenantId};
use futures::future::BoxFuture;
use pgproto::scram::Verifier;
use pgproto::startup::CancelKey;
use rustc_hash::FxHashMap;
use sql::session::BackendRow;
use tenant::catalog::Privileges;

use crate::reception::{Admission, Authenticated, Gate, HANDSHAKES_MAX, shown_address};
use crate::session;
use crate::shared::Shared;
use crate::tenants::{ADMINISTRATOR, Entry, Home};

/// For how long a tenant stays open that was opened to look up a role, unless somebody logs in: whoever knows names of tenants should not have all of
/// them open for minutes.
const LOGIN_WAIT: Nanos = Nanos::from_secs(5);

/// Logins of one tenant that wait for its home at once, a fourth of the reception's places. A tenant that is open and below its limits answers in less than a
/// millisecond.
const LOGINS_MAX: usize = HANDSHAKES_MAX / 4;

/// [`Gate`] of a running server.
pub(crate) struct ServerGate {
    shared: Arc<Shared>,
    logins: Arc<Logins>,
}

impl ServerGate {
    pub(crate) fn new(shared: Arc<Shared>) -> ServerGate {
        ServerGate { shared, logins: Arc::default() }
    }
}

/// How many logins wait for the home of each tenant for which any does.
#[derive(Default)]
struct Logins(Mutex<FxHashMap<TenantId, usize>>);

/// One of them, until this is dropped.
struct WaitingLogin {
    logins: Arc<Logins>,
    tenant: TenantId,
}

impl Logins {
    fn lock(&self) -> MutexGuard<'_, FxHashMap<TenantId, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None` where as many wait as may.
    fn begin(self: &Arc<Logins>, tenant: TenantId) -> Option<WaitingLogin> {
        let mut waiting = self.lock();
        let of_tenant = waiting.entry(tenant).or_default();
        if *of_tenant >= LOGINS_MAX {
            return None;
        }
        *of_tenant += 1;
        Some(WaitingLogin { logins: self.clone(), tenant })
    }
}

impl Drop for WaitingLogin {
    fn drop(&mut self) {
        let mut waiting = self.logins.lock();
        let of_tenant = waiting.get_mut(&self.tenant).expect("it was counted");
        *of_tenant -= 1;
        if *of_tenant == 0 {
            waiting.remove(&self.tenant);
        }
    }
}

/// A role as far as its login goes.
struct Login {
    verifier: Option<Verifier>,
    superuser: bool,
    /// It has CONNECT on its database.
    enters: bool,
}

impl Gate for ServerGate {
    fn admit(&self, database: &str, user: &str) -> BoxFuture<'static, SqlResult<Admission>> {
        let (shared, logins) = (self.shared.clone(), self.logins.clone());
        let (database, user) = (database.to_owned(), user.to_owned());
        Box::pin(async move {
            // The administrator is asked for elsewhere, and may look why nobody gets in.
            let asked = shared.tenants.find(&database).filter(|_| user != ADMINISTRATOR);
            let waiting = asked.map(|entry| logins.begin(entry.id).ok_or_else(|| too_many(&entry)));
            let _waiting = waiting.transpose()?;
            // While there is time to tell why.
            let wait = Nanos(shared.config.authentication_timeout.0 / 3 * 2);
            let mut admitted = pin!(admit(&shared, &database, &user));
            match env::timeout_at(Some(env::now() + wait), admitted.as_mut()).await {
                Ok(admission) => admission,
                Err(env::Elapsed) if is_being_opened(&shared, &database) => Err(starting_up()),
                Err(env::Elapsed) => admitted.await,
            }
        })
    }

    fn enter(&self, client: Authenticated) -> Result<(), Box<(Authenticated, SqlError)>> {
        let shared = &self.shared;
        let tenant = client.admission.tenant;
        let Some(entry) = shared.tenants.get(tenant) else {
            let error = unknown_database(&client.database);
            return Err(Box::new((client, error)));
        };
        let (client_address, client_port) = shown_address(client.stream.peer());
        let activity = BackendRow {
            database: client.database.clone(),
            user: client.user.clone(),
            client_address,
            client_port,
            tls: client.stream.encryption(),
            backend_start: session::wall_clock(&shared.env),
            state: "idle",
            ..BackendRow::default()
        };
        let promised_max = entry.row().promise.connections_max;
        let begun = shared.sessions.begin(tenant, client.admission.administrator, promised_max, activity);
        let control = match begun {
            Ok(control) => control,
            Err(error) => return Err(Box::new((client, error))),
        };
        let home = entry.home.clone();
        let background = control.background.clone();
        let task = session::serve(shared.clone(), home, control, client);
        entry.home.spawn_with(background, task).detach();
        Ok(())
    }

    fn cancel(&self, key: CancelKey) {
        self.shared.sessions.cancel(key);
    }
}

fn is_being_opened(shared: &Shared, database: &str) -> bool {
    shared.tenants.find(database).is_some_and(|entry| !entry.home.is_open())
}

/// What PostgreSQL says while it replays its log: clients try another server, or again.
fn starting_up() -> SqlError {
    SqlError::fatal(SqlState::CANNOT_CONNECT_NOW, "the database system is starting up").with_detail(
        "The database is being opened, which takes long where much is in its log or its limits hold it.",
    )
}

/// Too many logins wait for a tenant's home: most because it is being opened, else because its limits hold it.
fn too_many(entry: &Entry) -> SqlError {
    if !entry.home.is_open() {
        return starting_up();
    }
    SqlError::fatal(SqlState::TOO_MANY_CONNECTIONS, "too many clients log in to this database at once")
        .with_detail("Its limit of processor time holds those that do.")
}

fn unknown_database(name: &str) -> SqlError {
    SqlError::fatal(SqlState::INVALID_CATALOG_NAME, format!("database \"{name}\" does not exist"))
}

/// Who `user` is in `database`. Asks the tenant that has the role, which opens for it. From any thread.
///
/// # Errors
/// Fatal: 3D000 for an unknown database; the tenant cannot be opened.
pub(crate) async fn admit(shared: &Arc<Shared>, database: &str, user: &str) -> SqlResult<Admission> {
    let entry = shared.tenants.find(database).ok_or_else(|| unknown_database(database))?;
    // The administrator's name is looked up among the system tenant's roles alone, so that no tenant can set its
    // password; other roles of the system tenant count only in its own database.
    let administrator = user == ADMINISTRATOR;
    let login = if administrator {
        let system = shared.tenants.get(TenantId::SYSTEM).ok_or_else(|| unknown_database(database))?;
        login(&system, user).await?
    } else {
        login(&entry, user).await?
    };
    let administrator =
        login.as_ref().is_some_and(|l| l.superuser) && (administrator || entry.id == TenantId::SYSTEM);
    Ok(Admission {
        tenant: entry.id,
        administrator,
        enters: administrator || login.as_ref().is_some_and(|login| login.enters),
        verifier: login.and_then(|login| login.verifier),
    })
}

/// The role `user` of a tenant, asked at its home, which opens for it.
async fn login(entry: &Entry, user: &str) -> SqlResult<Option<Login>> {
    let home = entry.home.clone();
    let user = user.to_owned();
    let task = entry.home.spawn(async move {
        let was_open = home.is_open();
        home.open().await?;
        if !was_open {
            home.close_after_all(LOGIN_WAIT);
        }
        let now = home.wall_clock()?;
        home.with(|home| read_login(home.tenant, &user, now))
    });
    task.await.unwrap_or_else(|| Err(SqlError::internal("the role could not be looked up")))
}

fn read_login(tenant: &tenant::Tenant, user: &str, now: i64) -> Option<Login> {
    let role = tenant.catalog().role_named(user)?;
    let valid = role.attributes.login && role.valid_until.is_none_or(|until| now < until);
    let verifier = role.scram_verifier.as_deref().filter(|_| valid).and_then(|text| text.parse().ok());
    let enters = tenant.catalog().has_database_privileges(role.oid, Privileges::CONNECT);
    Some(Login { verifier, superuser: role.attributes.superuser, enters })
}

impl Home {
    /// The present as PostgreSQL counts it.
    fn wall_clock(&self) -> SqlResult<i64> {
        let stopping =
            || SqlError::fatal(SqlState::CANNOT_CONNECT_NOW, "the database system is shutting down");
        self.shared_if_running().map(|shared| session::wall_clock(&shared.env)).ok_or_else(stopping)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_tenants_logins_leave_the_receptions_places_to_others() {
        const { assert!(LOGINS_MAX < HANDSHAKES_MAX) };
        let (logins, [held, other]) = (Arc::<Logins>::default(), [16, 17].map(TenantId));
        let mut waiting: Vec<_> = std::iter::from_fn(|| logins.begin(held)).take(HANDSHAKES_MAX).collect();
        assert_eq!(waiting.len(), LOGINS_MAX);
        assert!(logins.begin(other).is_some());
        waiting.pop();
        waiting.extend(logins.begin(held));
        assert_eq!((waiting.len(), logins.begin(held).is_some()), (LOGINS_MAX, false));
        drop(waiting);
        assert!(logins.lock().is_empty());
    }
}
