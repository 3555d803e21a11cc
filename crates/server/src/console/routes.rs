//! Every address of the API, with what it is for: the router and the description at `/api` are made from the same list.

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{from_fn_with_state, map_response};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, patch, post};

use base::SqlState;

use super::answer::Refusal;
use super::endpoint::{Answered, Endpoint, Parameter};
use super::sent::BODY_LEN_MAX;
use super::{
    Console, assets, changes, guard, ledger, live, login, openapi, reports, server, tenant, tenants,
};

type Handler = MethodRouter<Arc<Console>>;

fn get_json(path: &'static str, handler: Handler, schema: &'static str) -> Endpoint<Arc<Console>> {
    Endpoint::new(Method::GET, path, handler).answers(Answered::Json(schema))
}

/// One statement of the administrator's.
fn change(method: Method, path: &'static str, handler: Handler) -> Endpoint<Arc<Console>> {
    Endpoint::new(method, path, handler).answers(Answered::Json("Change")).query(DRY_RUN)
}

const DRY_RUN: &[Parameter] =
    &[("dry_run", "boolean", "Answer with the SQL alone, of which nothing but the syntax is checked")];

const LEDGER: &[Parameter] = &[
    ("tenant", "string", "Of this one alone"),
    ("resource", "string", "cpu, io, memory or work_memory"),
    ("cause", "string", "Broken by overbooked, system, neighbour or device"),
    ("broken", "boolean", "Whether the promise was broken"),
    ("from_ms", "integer", "That began then or later"),
    ("to_ms", "integer", "That began before"),
    ("granularity", "string", "interval for the last hour, minute for 62 days"),
];

const LEDGER_PAGE: &[Parameter] = &[
    LEDGER[0],
    LEDGER[1],
    LEDGER[2],
    LEDGER[3],
    LEDGER[4],
    LEDGER[5],
    LEDGER[6],
    ("offset", "integer", "Rows to leave out"),
    ("limit", "integer", "Rows at most, to 1000"),
];

/// All of them.
pub(super) fn endpoints() -> Vec<Endpoint<Arc<Console>>> {
    vec![
        get_json("/api", get(openapi::describe), "Object").is("This description"),
        Endpoint::new(Method::POST, "/api/login", post(login::login))
            .is("Log in; sets the session's cookie")
            .body("Credentials")
            .answers(Answered::Json("Session")),
        get_json("/api/session", get(login::session), "Session").is("Who is logged in"),
        Endpoint::new(Method::POST, "/api/logout", post(login::logout)).is("Log out"),
        get_json("/api/server", get(server::server), "Server").is("The server and its volumes"),
        get_json("/api/tenants", get(tenants::list), "Tenants")
            .is("All tenants, a page of them at a time")
            .query(&[
                ("search", "string", "Part of the name, in upper or lower case"),
                ("sort", "string", "A key of the rows"),
                ("order", "string", "asc or desc"),
                ("offset", "integer", "Rows to leave out"),
                ("limit", "integer", "Rows at most, to 500"),
            ]),
        get_json("/api/live", get(live::live), "Frame")
            .is("Server-sent events: history (in parts, while there is more), frame, names, changed, expired, and those of the embedder")
            .query(&[
                ("top", "integer", "Tenants to show by name, those that use the most; to 64"),
                ("watch", "string", "Tenants to show whatever they use, separated by commas (within a name: %2C); to 16"),
                ("tenant", "string", "One to tell all of"),
                (
                    "lines",
                    "integer",
                    "Tenants whose throughput is told beside, those that run the most; to 256",
                ),
                ("history", "integer", "Seconds of frames to begin with, to 600"),
            ])
            .answers(Answered::Events),
        get_json("/api/tenants/{name}", get(tenant::detail), "TenantDetail")
            .is("A tenant with its options, its cache-size curve and what its tasks waited for"),
        get_json("/api/tenants/{name}/sessions", get(tenant::sessions), "Sessions").is("Its sessions"),
        get_json("/api/tenants/{name}/statements", get(tenant::statements), "Statements")
            .is("Its statements that took the most, by their normal texts")
            .query(&[("by", "string", "cpu, io or calls"), ("limit", "integer", "Rows at most, to 500")]),
        get_json("/api/tenants/{name}/locks", get(tenant::locks), "Locks")
            .is("Locks that its sessions have and wait for"),
        get_json("/api/tenants/{name}/advise", get(tenant::advise), "Rows")
            .is("What to promise it: the columns of rowhouse.advise")
            .query(&[("p99_ms", "number", "A goal: 99 of 100 statements take no longer")]),
        change(Method::POST, "/api/tenants/{name}/sessions/{pid}/cancel", post(tenant::cancel))
            .is("Cancel what a session runs")
            .query(&[])
            .answers(Answered::Json("Signalled")),
        change(Method::POST, "/api/tenants/{name}/sessions/{pid}/terminate", post(tenant::terminate))
            .is("End a session")
            .query(&[])
            .answers(Answered::Json("Signalled")),
        get_json("/api/sizes", get(server::sizes), "Rows").is("SHOW SIZES"),
        get_json("/api/runaway-rules", get(server::runaway_rules), "Rows").is("SHOW RUNAWAY RULES"),
        get_json("/api/ledger", get(ledger::ledger), "Ledger")
            .is("The ledger, newest rows first")
            .query(LEDGER_PAGE),
        get_json("/api/ledger.csv", get(ledger::csv), "Rows")
            .is("All rows of the ledger that are wanted, newest first")
            .query(LEDGER)
            .answers(Answered::Csv),
        get_json("/api/reports/{name}", get(reports::report), "Report")
            .is("How a tenant's promises were kept in a month")
            .query(&[("month", "string", "As 2026-11, by UTC")]),
        change(Method::POST, "/api/tenants", post(changes::create_tenant))
            .is("CREATE TENANT")
            .body("NewTenant"),
        change(Method::PATCH, "/api/tenants/{name}", patch(changes::alter_tenant))
            .is("ALTER TENANT: one of options, worker and name")
            .body("ChangedTenant"),
        change(Method::DELETE, "/api/tenants/{name}", delete(changes::drop_tenant)).is("DROP TENANT"),
        change(Method::POST, "/api/sizes", post(changes::create_size)).is("CREATE SIZE").body("Named"),
        change(Method::PATCH, "/api/sizes/{name}", patch(changes::alter_size))
            .is("ALTER SIZE")
            .body("ChangedOptions"),
        change(Method::DELETE, "/api/sizes/{name}", delete(changes::drop_size)).is("DROP SIZE"),
        change(Method::PATCH, "/api/server", patch(changes::alter_server))
            .is("ALTER SERVER")
            .body("ChangedOptions"),
        change(Method::PATCH, "/api/volumes/{name}", patch(changes::alter_volume))
            .is("ALTER VOLUME")
            .body("ChangedOptions"),
        change(Method::POST, "/api/runaway-rules", post(changes::create_rule))
            .is("CREATE RUNAWAY RULE")
            .body("Named"),
        change(Method::DELETE, "/api/runaway-rules/{name}", delete(changes::drop_rule))
            .is("DROP RUNAWAY RULE"),
    ]
}

/// The page, the API and what the embedder adds.
pub(crate) fn router(console: &Arc<Console>) -> Router {
    let mut api = Router::new();
    for endpoint in endpoints() {
        api = api.route(endpoint.path, endpoint.handler);
    }
    let mut api = api.with_state(console.clone());
    for endpoint in console.extension.endpoints.clone() {
        api = api.route(endpoint.path, endpoint.handler);
    }
    let api = api
        .route("/api/", axum::routing::any(unknown))
        .route("/api/{*other}", axum::routing::any(unknown))
        .layer(map_response(told))
        .layer(from_fn_with_state(console.clone(), guard::authorize))
        .layer(DefaultBodyLimit::max(BODY_LEN_MAX));
    let page = Router::new().fallback(get(assets::serve));
    api.merge(page).layer(from_fn_with_state(console.clone(), guard::guard))
}

async fn unknown() -> Refusal {
    Refusal::missing("the API has no such address")
}

/// What is refused before a handler has it, told as handlers tell it.
async fn told(response: Response) -> Response {
    let is_json = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| *kind == HeaderValue::from_static("application/json"));
    let status = response.status();
    if !status.is_client_error() || is_json {
        return response;
    }
    let message = match status {
        StatusCode::METHOD_NOT_ALLOWED => "the address has not this method",
        _ => "the address makes no sense: it is badly encoded, or a word stands for a number",
    };
    let mut refused = Refusal::new(status, SqlState::INVALID_PARAMETER_VALUE, message).into_response();
    if let Some(allowed) = response.headers().get(header::ALLOW) {
        refused.headers_mut().insert(header::ALLOW, allowed.clone());
    }
    refused
}
