//! Every address of the API, with what it is for: the router and the description at `/api` are made from the same list.

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::Method;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, get, post};

use super::answer::Refusal;
use super::sent::BODY_LEN_MAX;
use super::{Console, assets, guard, live, login, openapi, server, tenants};

/// What an address is answered with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answered {
    /// JSON of this schema.
    Json(&'static str),
    /// 204.
    Nothing,
    Csv,
    /// Server-sent events.
    Events,
}

/// One address and method.
pub(super) struct Endpoint {
    pub(super) method: Method,
    pub(super) path: &'static str,
    handler: MethodRouter<Arc<Console>>,
    pub(super) summary: &'static str,
    /// Parameters behind the question mark, each with its schema and what it says.
    pub(super) query: &'static [Parameter],
    /// The schema of the JSON that is to be sent.
    pub(super) body: Option<&'static str>,
    pub(super) answered: Answered,
}

/// A parameter: its name, its JSON schema's type, what it says.
pub(super) type Parameter = (&'static str, &'static str, &'static str);

impl Endpoint {
    fn new(method: Method, path: &'static str, handler: MethodRouter<Arc<Console>>) -> Endpoint {
        let answered = Answered::Nothing;
        Endpoint { method, path, handler, summary: "", query: &[], body: None, answered }
    }

    fn get(path: &'static str, handler: MethodRouter<Arc<Console>>, schema: &'static str) -> Endpoint {
        Endpoint { answered: Answered::Json(schema), ..Endpoint::new(Method::GET, path, handler) }
    }

    fn is(mut self, summary: &'static str) -> Endpoint {
        self.summary = summary;
        self
    }

    fn query(mut self, query: &'static [Parameter]) -> Endpoint {
        self.query = query;
        self
    }

    fn body(mut self, schema: &'static str) -> Endpoint {
        self.body = Some(schema);
        self
    }

    fn answers(mut self, answered: Answered) -> Endpoint {
        self.answered = answered;
        self
    }
}

/// All of them.
pub(super) fn endpoints() -> Vec<Endpoint> {
    vec![
        Endpoint::get("/api", get(openapi::describe), "Object").is("This description"),
        Endpoint::new(Method::POST, "/api/login", post(login::login))
            .is("Log in; sets the cookie rowhouse_session")
            .body("Credentials")
            .answers(Answered::Json("Session")),
        Endpoint::get("/api/session", get(login::session), "Session").is("Who is logged in"),
        Endpoint::new(Method::POST, "/api/logout", post(login::logout)).is("Log out"),
        Endpoint::get("/api/server", get(server::server), "Server").is("The server and its volumes"),
        Endpoint::get("/api/tenants", get(tenants::list), "Tenants")
            .is("All tenants, a page of them at a time")
            .query(&[
                ("search", "string", "Part of the name, in upper or lower case"),
                ("sort", "string", "A key of the rows"),
                ("order", "string", "asc or desc"),
                ("offset", "integer", "Rows to leave out"),
                ("limit", "integer", "Rows at most, to 500"),
            ]),
        Endpoint::get("/api/live", get(live::live), "Frame")
            .is("Server-sent events: history, frame, changed, expired, and those of the embedder")
            .query(&[
                ("top", "integer", "Tenants to show by name, those that use the most; to 64"),
                ("watch", "string", "Tenants to show whatever they use, separated by commas; to 16"),
                ("tenant", "string", "One to tell all of"),
                ("history", "integer", "Seconds of frames to begin with, to 600"),
            ])
            .answers(Answered::Events),
        Endpoint::get("/api/sizes", get(server::sizes), "Rows").is("SHOW SIZES"),
        Endpoint::get("/api/runaway-rules", get(server::runaway_rules), "Rows").is("SHOW RUNAWAY RULES"),
    ]
}

/// The page, the API and what the embedder adds.
pub(crate) fn router(console: &Arc<Console>) -> Router {
    let mut api = Router::new();
    for endpoint in endpoints() {
        api = api.route(endpoint.path, endpoint.handler);
    }
    let mut api = api.with_state(console.clone());
    if let Some(more) = console.extension.routes.clone() {
        api = api.merge(more);
    }
    let api = api
        .route("/api/{*other}", axum::routing::any(unknown))
        .layer(from_fn_with_state(console.clone(), guard::authorize))
        .layer(DefaultBodyLimit::max(BODY_LEN_MAX));
    let page = Router::new().fallback(get(assets::serve));
    api.merge(page).layer(from_fn_with_state(console.clone(), guard::guard))
}

async fn unknown() -> Refusal {
    Refusal::missing("the API has no such address")
}
