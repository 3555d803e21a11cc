//! `/api/demo`: what the page asks for and changes. Handlers touch the board and nothing else: none of them waits.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, patch, post, put};
use base::SqlState;
use serde::Deserialize;
use serde_json::{Map, Value};
use server::{ConsoleAnswered, ConsoleEndpoint, ConsoleRefusal, ConsoleSent};

use crate::Shared;
use crate::board::{Board, Problem};
use crate::file;
use crate::group::GroupSpec;

type Answer = Result<Json<Value>, ConsoleRefusal>;

/// Every address, none of which waits.
pub(crate) fn endpoints(shared: &Arc<Shared>) -> Vec<ConsoleEndpoint> {
    let of = |method, path, handler: MethodRouter<Arc<Shared>>| {
        let handler = handler.with_state(shared.clone());
        ConsoleEndpoint::new(method, path, handler).answers(ConsoleAnswered::Json("Demo"))
    };
    let (group, file) = ("/api/demo/groups/{id}", "/api/demo/file");
    vec![
        of(Method::GET, "/api/demo", get(show))
            .is("Stories and client groups; also event demo of /api/live, each second and at each change"),
        of(Method::PATCH, "/api/demo", patch(steer)).is("Pace of the story that runs").body("DemoPace"),
        of(Method::POST, "/api/demo/start", post(start)).is("Begin a story").body("DemoStart"),
        of(Method::POST, "/api/demo/stop", post(stop)).is("End the story and take back what it made"),
        of(Method::POST, "/api/demo/groups", post(add)).is("Add a client group").body("ClientGroup"),
        of(Method::PATCH, group, patch(change)).is("Change the fields given").body("ChangedClientGroup"),
        of(Method::DELETE, group, delete(remove)).is("Remove a client group and its tenants"),
        of(Method::GET, file, get(save))
            .is("All groups as a file")
            .answers(ConsoleAnswered::Json("GroupsFile")),
        of(Method::PUT, file, put(load))
            .is("Take the groups of a file in the place of all")
            .body("GroupsFile"),
    ]
}

/// The schemas that `endpoints` name.
pub(crate) fn schemas() -> Map<String, Value> {
    serde_json::from_str(include_str!("schemas.json")).expect("schemas.json is an object")
}

impl From<Problem> for ConsoleRefusal {
    fn from(problem: Problem) -> ConsoleRefusal {
        match problem {
            Problem::Invalid(text) => ConsoleRefusal::bad_input(text),
            Problem::Missing(text) => ConsoleRefusal::missing(text),
            Problem::InUse(text) => ConsoleRefusal::new(StatusCode::CONFLICT, SqlState::OBJECT_IN_USE, text),
        }
    }
}

/// Changes the board, has the runner look at once, and answers how everything is.
fn changed(shared: &Shared, change: impl FnOnce(&mut Board) -> Result<(), Problem>) -> Answer {
    let mut board = shared.board();
    change(&mut board)?;
    shared.changed.notify_one();
    Ok(Json(board.json()))
}

async fn show(State(shared): State<Arc<Shared>>) -> Json<Value> {
    Json(shared.board().json())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Start {
    story: String,
}

async fn start(State(shared): State<Arc<Shared>>, sent: ConsoleSent<Start>) -> Answer {
    let now_ms = shared.env.clock.unix_micros() / 1000;
    changed(&shared, |board| board.start(&sent.0.story, now_ms))
}

async fn stop(State(shared): State<Arc<Shared>>) -> Answer {
    changed(&shared, |board| {
        board.stop();
        Ok(())
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Steer {
    speed: Option<f64>,
    paused: Option<bool>,
}

async fn steer(State(shared): State<Arc<Shared>>, sent: ConsoleSent<Steer>) -> Answer {
    changed(&shared, |board| board.steer(sent.0.speed, sent.0.paused))
}

async fn add(State(shared): State<Arc<Shared>>, sent: ConsoleSent<GroupSpec>) -> Answer {
    changed(&shared, |board| board.add(sent.0).map(|_| ()))
}

async fn change(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    sent: ConsoleSent<Map<String, Value>>,
) -> Answer {
    changed(&shared, |board| board.change(&id, sent.0))
}

async fn remove(State(shared): State<Arc<Shared>>, Path(id): Path<String>) -> Answer {
    changed(&shared, |board| board.remove(&id))
}

async fn save(State(shared): State<Arc<Shared>>) -> Response {
    let text = file::write(shared.board().groups.iter().map(|group| group.spec.clone()));
    let headers = [
        (header::CONTENT_TYPE, "application/json"),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"scenario.json\""),
    ];
    (headers, text).into_response()
}

async fn load(State(shared): State<Arc<Shared>>, sent: ConsoleSent<Value>) -> Answer {
    let groups = file::read(sent.0).map_err(ConsoleRefusal::bad_input)?;
    changed(&shared, |board| board.replace(groups))
}
