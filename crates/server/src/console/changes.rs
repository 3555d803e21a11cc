//! What the administrator changes. Each request is one statement, which is shown in the answer, and which either happened or did not.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::{Extension, Json};
use base::SqlState;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sql::session::{HostStatement, OptionChange};

use super::Console;
use super::answer::{Answer, Refusal};
use super::logins::Login;
use super::name::Name;
use super::query::Query;
use super::sent::Sent;
use super::sql_text;
use crate::tenants::{Notice, administer};

/// Options as they are sent: texts, numbers, true or false; null to reset one.
type Options = Map<String, Value>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewTenant {
    name: String,
    password: Option<String>,
    owner: Option<String>,
    template: Option<String>,
    #[serde(default)]
    options: Options,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChangedTenant {
    options: Option<Options>,
    worker: Option<Value>,
    name: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Named {
    name: String,
    tenant: Option<String>,
    options: Options,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Changed {
    options: Options,
}

/// What all of them are asked with.
pub(super) type Asked = (State<Arc<Console>>, Extension<Login>, Query);

/// Runs a statement, or writes it only for `dry_run`.
async fn carry_out(asked: Asked, statement: HostStatement) -> Answer<Json<Value>> {
    let (State(console), Extension(login), query) = asked;
    let written = sql_text::write(&statement)?;
    if query.value("dry_run")?.unwrap_or(false) {
        return Ok(Json(json!({ "sql": written.shown, "notices": [] })));
    }
    let shared = console.shared()?;
    let (user, sql) = (login.account.user, &written.shown);
    match administer(&shared, written.sql).await {
        Ok(answered) => {
            tracing::info!(user, sql, "the console changed something");
            let notices: Vec<Value> = answered.notices.iter().map(notice).collect();
            Ok(Json(json!({ "sql": sql, "notices": notices })))
        }
        Err(error) => {
            tracing::info!(user, sql, %error, "the console was refused a change");
            Err(error.into())
        }
    }
}

fn notice(of: &Notice) -> Value {
    json!({ "severity": of.severity, "message": of.message, "detail": of.detail })
}

/// An option's value as SQL has it.
fn value_of(name: &str, value: &Value) -> Answer<String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(value) => Ok(value.to_string()),
        _ => Err(Refusal::bad_input(format!("option \"{name}\" is a text, a number, true or false"))),
    }
}

fn given(options: &Options) -> Answer<Vec<(String, String)>> {
    options.iter().map(|(name, value)| Ok((name.clone(), value_of(name, value)?))).collect()
}

/// SET or RESET: one statement cannot do both.
fn change_of(options: &Options) -> Answer<OptionChange> {
    if options.is_empty() {
        return Err(Refusal::bad_input("no option is given"));
    }
    match options.values().filter(|value| value.is_null()).count() {
        0 => Ok(OptionChange::Set(given(options)?)),
        reset if reset == options.len() => Ok(OptionChange::Reset(options.keys().cloned().collect())),
        _ => Err(one_change("sets options and resets others")),
    }
}

fn one_change(what: &str) -> Refusal {
    Refusal::bad_input(format!("the request {what}, which takes two statements"))
        .with_hint("Send two requests: each is one statement, which happens or does not.")
}

/// 404 for what is named in the address and is not there.
fn at_address(outcome: Answer<Json<Value>>) -> Answer<Json<Value>> {
    outcome
        .map_err(|refused| refused.or_missing(&[SqlState::UNDEFINED_OBJECT, SqlState::INVALID_CATALOG_NAME]))
}

pub(super) async fn create_tenant(
    state: State<Arc<Console>>,
    login: Extension<Login>,
    query: Query,
    Sent(new): Sent<NewTenant>,
) -> Answer<Json<Value>> {
    let NewTenant { name, password, owner, template, options } = new;
    let options = given(&options)?;
    let if_not_exists = false;
    let statement = HostStatement::CreateTenant { name, template, options, owner, password, if_not_exists };
    carry_out((state, login, query), statement).await
}

pub(super) async fn alter_tenant(
    state: State<Arc<Console>>,
    login: Extension<Login>,
    Path(Name(name)): Path<Name>,
    query: Query,
    Sent(changed): Sent<ChangedTenant>,
) -> Answer<Json<Value>> {
    let statement = match (changed.options, changed.worker, changed.name) {
        (Some(options), None, None) => HostStatement::AlterTenant { name, change: change_of(&options)? },
        (None, Some(worker), None) => HostStatement::MoveTenant { name, worker: worker_of(&worker)? },
        (None, None, Some(to)) => HostStatement::RenameTenant { name, to },
        (None, None, None) => return Err(Refusal::bad_input("nothing is to be changed")),
        _ => return Err(one_change("changes several things")),
    };
    at_address(carry_out((state, login, query), statement).await)
}

/// A worker's number; `None` for `"default"`.
fn worker_of(value: &Value) -> Answer<Option<i64>> {
    match value {
        Value::String(text) if text == "default" => Ok(None),
        Value::Number(number) if number.is_i64() => Ok(number.as_i64()),
        _ => Err(Refusal::bad_input("\"worker\" is a number or \"default\"")),
    }
}

pub(super) async fn drop_tenant(
    state: State<Arc<Console>>,
    login: Extension<Login>,
    Path(Name(name)): Path<Name>,
    query: Query,
) -> Answer<Json<Value>> {
    at_address(carry_out((state, login, query), HostStatement::DropTenant { name, if_exists: false }).await)
}

pub(super) async fn create_size(
    state: State<Arc<Console>>,
    login: Extension<Login>,
    query: Query,
    Sent(new): Sent<Named>,
) -> Answer<Json<Value>> {
    if new.tenant.is_some() {
        return Err(Refusal::bad_input("a size is for no tenant alone"));
    }
    let (name, options) = (new.name, given(&new.options)?);
    carry_out((state, login, query), HostStatement::CreateSize { name, options, if_not_exists: false }).await
}

pub(super) async fn alter_size(
    state: State<Arc<Console>>,
    login: Extension<Login>,
    Path(Name(name)): Path<Name>,
    query: Query,
    Sent(changed): Sent<Changed>,
) -> Answer<Json<Value>> {
    let statement = HostStatement::AlterSize { name, change: change_of(&changed.options)? };
    carry_out((state, login, query), statement).await
}

pub(super) async fn drop_size(
    state: State<Arc<Console>>,
    login: Extension<Login>,
    Path(Name(name)): Path<Name>,
    query: Query,
) -> Answer<Json<Value>> {
    at_address(carry_out((state, login, query), HostStatement::DropSize { name, if_exists: false }).await)
}

pub(super) async fn alter_server(
    state: State<Arc<Console>>,
    login: Extension<Login>,
    query: Query,
    Sent(changed): Sent<Changed>,
) -> Answer<Json<Value>> {
    let statement = HostStatement::AlterServer { change: change_of(&changed.options)? };
    carry_out((state, login, query), statement).await
}

pub(super) async fn alter_volume(
    state: State<Arc<Console>>,
    login: Extension<Login>,
    Path(Name(name)): Path<Name>,
    query: Query,
    Sent(changed): Sent<Changed>,
) -> Answer<Json<Value>> {
    let statement = HostStatement::AlterVolume { name, change: change_of(&changed.options)? };
    carry_out((state, login, query), statement).await
}

pub(super) async fn create_rule(
    state: State<Arc<Console>>,
    login: Extension<Login>,
    query: Query,
    Sent(new): Sent<Named>,
) -> Answer<Json<Value>> {
    let Named { name, tenant, options } = new;
    let options = given(&options)?;
    let statement = HostStatement::CreateRunawayRule { name, tenant, options, if_not_exists: false };
    carry_out((state, login, query), statement).await
}

pub(super) async fn drop_rule(
    state: State<Arc<Console>>,
    login: Extension<Login>,
    Path(Name(name)): Path<Name>,
    query: Query,
) -> Answer<Json<Value>> {
    at_address(
        carry_out((state, login, query), HostStatement::DropRunawayRule { name, if_exists: false }).await,
    )
}
