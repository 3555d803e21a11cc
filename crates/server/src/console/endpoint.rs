//! One address of the API with what it is for: the router and the description at `/api` are made from lists of these, so that neither has
//! what the other lacks.

use axum::http::Method;
use axum::routing::MethodRouter;

/// What an address is answered with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answered {
    /// 200 with JSON of this schema.
    Json(&'static str),
    /// 204.
    Nothing,
    /// 200 with comma-separated values.
    Csv,
    /// 200 with server-sent events.
    Events,
}

/// A parameter: its name, its JSON schema's type, what it says.
pub(super) type Parameter = (&'static str, &'static str, &'static str);

/// One address and method.
#[derive(Clone, Debug)]
pub struct Endpoint<S = ()> {
    pub(super) method: Method,
    pub(super) path: &'static str,
    pub(super) handler: MethodRouter<S>,
    pub(super) summary: &'static str,
    /// Parameters behind the question mark.
    pub(super) query: &'static [Parameter],
    /// The schema of the JSON that is to be sent.
    pub(super) body: Option<&'static str>,
    pub(super) answered: Answered,
}

impl<S> Endpoint<S> {
    /// `handler` answers `method` at `path`, with 204 unless [`Endpoint::answers`] says otherwise.
    pub fn new(method: Method, path: &'static str, handler: MethodRouter<S>) -> Endpoint<S> {
        Endpoint { method, path, handler, summary: "", query: &[], body: None, answered: Answered::Nothing }
    }

    /// What it does, in a few words.
    pub fn is(mut self, summary: &'static str) -> Endpoint<S> {
        self.summary = summary;
        self
    }

    /// It takes JSON of this schema.
    pub fn body(mut self, schema: &'static str) -> Endpoint<S> {
        self.body = Some(schema);
        self
    }

    /// It is answered with this.
    pub fn answers(mut self, answered: Answered) -> Endpoint<S> {
        self.answered = answered;
        self
    }

    pub(super) fn query(mut self, query: &'static [Parameter]) -> Endpoint<S> {
        self.query = query;
        self
    }
}
