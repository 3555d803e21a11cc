//! Logging in and out: the accounts are those of the administrator's database, the passwords those of the wire.
//!
//! Its superuser is the administrator here as there. Any other role of it that may log in and enter it (CONNECT) is a viewer. Which user there is and which not
//! is not told: an unknown one takes as long as a wrong password and gets the same answer.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use base::limits::IDENTIFIER_LEN_MAX;
use base::{SqlState, TenantId};
use pgproto::scram::Verifier;
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{Answer, Refusal};
use super::client::Client;
use super::guard::cookie_name;
use super::logins::{AGE_MAX, Account, Login, Role};
use super::sent::Sent;
use super::{Console, lock};
use crate::gate;
use crate::shared::Shared;
use crate::tenants::SYSTEM_DATABASE;

/// Bytes of a password at most.
const PASSWORD_LEN_MAX: usize = 1024;
/// Iterations of a verifier at most: some 30 ms of the one thread that serves HTTP. A role chooses the verifier of its own password, and on the wire the client has the work.
const ITERATIONS_MAX: u32 = 100_000;

#[derive(Deserialize)]
pub(super) struct Credentials {
    user: String,
    password: String,
}

pub(super) async fn login(
    State(console): State<Arc<Console>>,
    Extension(client): Extension<Client>,
    headers: HeaderMap,
    Sent(credentials): Sent<Credentials>,
) -> Answer<Response> {
    let shared = console.shared()?;
    let Credentials { user, password } = credentials;
    if user.len() > IDENTIFIER_LEN_MAX || password.len() > PASSWORD_LEN_MAX {
        return Err(Refusal::bad_input("a user or a password is not that long"));
    }
    let address = client.address;
    lock(&console.throttle).begin(address, console.env.now()).map_err(|wait| {
        let (status, state) = (StatusCode::TOO_MANY_REQUESTS, SqlState::CONFIGURATION_LIMIT_EXCEEDED);
        Refusal::new(status, state, "too many attempts to log in").with_retry_after(wait)
    })?;
    let account = account_of(&shared, &user).await?;
    let verifier = account.as_ref().map(|account| account.verifier.clone());
    let verifier = verifier.filter(|verifier| {
        let iterations = verifier.iterations();
        if iterations > ITERATIONS_MAX {
            tracing::warn!(user, iterations, "a role's verifier has too many iterations for the console");
        }
        iterations <= ITERATIONS_MAX
    });
    // Held against something in any case. It takes some milliseconds of this thread, which is why attempts are counted before.
    let is_right = verifier.unwrap_or_else(|| Verifier::mock(&console.mock_secret, &user)).is_of(&password);
    let Some(account) = account.filter(|_| is_right) else {
        tracing::warn!(client = %address, "a login to the console failed");
        let message = format!("password authentication failed for user \"{user}\"");
        return Err(Refusal::new(StatusCode::UNAUTHORIZED, SqlState::INVALID_PASSWORD, message));
    };
    tracing::info!(client = %address, user, role = account.role.as_str(), "a login to the console");
    lock(&console.throttle).succeeded(address);
    let random = console.env.entropy.bytes();
    let (secret, login) = lock(&console.logins).begin(account, &random, console.env.now());
    let age = AGE_MAX.0 / 1_000_000_000;
    let cookie = cookie(&format!("{}={secret}; Max-Age={age}", cookie_name(&headers)), client.is_encrypted);
    Ok(([(header::SET_COOKIE, cookie)], Json(shown(&console, &login))).into_response())
}

fn cookie(pair: &str, is_secure: bool) -> HeaderValue {
    let secure = if is_secure { "; Secure" } else { "" };
    let cookie = format!("{pair}; Path=/; HttpOnly; SameSite=Strict{secure}");
    HeaderValue::try_from(cookie).expect("a name, base64 and attributes")
}

fn shown(console: &Console, login: &Login) -> Value {
    json!({
        "user": login.account.user,
        "role": login.account.role.as_str(),
        "csrf": login.csrf,
        "expires_ms": console.wall_ms(login.expires),
    })
}

pub(super) async fn session(
    State(console): State<Arc<Console>>,
    Extension(login): Extension<Login>,
) -> Json<Value> {
    Json(shown(&console, &login))
}

pub(super) async fn logout(
    State(console): State<Arc<Console>>,
    Extension(client): Extension<Client>,
    Extension(login): Extension<Login>,
    headers: HeaderMap,
) -> Response {
    lock(&console.logins).end(login.key);
    let cookie = cookie(&format!("{}=; Max-Age=0", cookie_name(&headers)), client.is_encrypted);
    (StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response()
}

/// The account that `user` logs in by; `None` if there is none, it may not log in, not enter the database or has no password.
async fn account_of(shared: &Arc<Shared>, user: &str) -> Answer<Option<Account>> {
    let admission = gate::admit(shared, SYSTEM_DATABASE, user).await?;
    assert_eq!(admission.tenant, TenantId::SYSTEM, "the administrator's database is the system tenant's");
    let role = if admission.administrator { Role::Administrator } else { Role::Viewer };
    let verifier = admission.verifier.filter(|_| admission.enters);
    Ok(verifier.map(|verifier| Account { user: user.to_owned(), role, verifier }))
}

/// Ends the sessions of accounts that are gone, may not log in any more, or have another password or role.
pub(super) async fn end_those_that_changed(console: &Console) {
    let Ok(shared) = console.shared() else { return };
    let accounts = lock(&console.logins).accounts();
    for account in accounts {
        // What cannot be looked up now is looked up the next time.
        if let Ok(now) = account_of(&shared, &account.user).await
            && now.as_ref() != Some(&account)
        {
            tracing::info!(user = account.user, "an account changed: its sessions in the console end");
            lock(&console.logins).end_all_of(&account);
        }
    }
    lock(&console.logins).end_expired(console.env.now());
}
