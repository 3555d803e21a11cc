//! Who may enter where: the reception's questions, answered by the tenants' homes.

use std::pin::pin;
use std::sync::Arc;

use base::{Nanos, SqlError, SqlResult, SqlState, TenantId};
use futures::future::BoxFuture;
use pgproto::scram::Verifier;
use pgproto::startup::CancelKey;
use sql::session::BackendRow;
use tenant::catalog::Privileges;

use crate::reception::{Admission, Authenticated, Gate, shown_address};
use crate::session;
use crate::shared::Shared;
use crate::tenants::{ADMINISTRATOR, Entry, Home};

/// For how long a tenant stays open that was opened to look up a role, unless somebody logs in: whoever knows names of tenants should not have all of
/// them open for minutes.
const LOGIN_WAIT: Nanos = Nanos::from_secs(5);

/// [`Gate`] of a running server.
pub(crate) struct ServerGate(pub(crate) Arc<Shared>);

/// A role as far as its login goes.
struct Login {
    verifier: Option<Verifier>,
    superuser: bool,
    /// It has CONNECT on its database.
    enters: bool,
}

impl Gate for ServerGate {
    fn admit(&self, database: &str, user: &str) -> BoxFuture<'static, SqlResult<Admission>> {
        let shared = self.0.clone();
        let (database, user) = (database.to_owned(), user.to_owned());
        Box::pin(async move {
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
        let shared = &self.0;
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
        self.0.sessions.cancel(key);
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
