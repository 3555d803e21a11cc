//! The description of the API (OpenAPI 3.1), made of the lists of its addresses, the server's and the embedder's, and of their schemas.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{Method, header};
use axum::response::IntoResponse;
use serde_json::{Map, Value, json};

use super::endpoint::{Answered, Endpoint};
use super::guard::COOKIE;
use super::routes::endpoints;
use super::{Console, ConsoleExtension};

const SCHEMAS: &str = include_str!("schemas.json");

pub(super) async fn describe(State(console): State<Arc<Console>>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], console.description.clone())
}

/// # Panics
/// The embedder describes a schema or an address that the server has itself.
pub(super) fn description(extension: &ConsoleExtension) -> Value {
    let mut schemas: Map<String, Value> = serde_json::from_str(SCHEMAS).expect("schemas.json is an object");
    for (name, schema) in &extension.schemas {
        assert!(schemas.insert(name.clone(), schema.clone()).is_none(), "the schema {name} is there twice");
    }
    let mut paths = Map::new();
    endpoints().iter().for_each(|endpoint| describe_in(&mut paths, endpoint));
    extension.endpoints.iter().for_each(|endpoint| describe_in(&mut paths, endpoint));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Rowhouse console",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Times are integers of milliseconds since 1970 where a name ends in _ms, sizes are bytes, processor time is in cores, null stands for unknown or no limit. What changes something takes the header X-CSRF-Token with the session's token, and ?dry_run=true to have the SQL only."
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "session": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": COOKIE,
                    "description": "With _ and the port behind, where the address has one"
                },
                "csrf": { "type": "apiKey", "in": "header", "name": "X-CSRF-Token" }
            }
        }
    })
}

fn describe_in<S>(paths: &mut Map<String, Value>, endpoint: &Endpoint<S>) {
    let path = paths.entry(endpoint.path).or_insert_with(|| json!({})).as_object_mut().expect("methods");
    let before = path.insert(endpoint.method.as_str().to_lowercase(), operation(endpoint));
    assert!(before.is_none(), "{} {} is there twice", endpoint.method, endpoint.path);
}

fn schema(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn content(kind: &str, schema: Value) -> Value {
    json!({ kind: { "schema": schema } })
}

fn operation<S>(endpoint: &Endpoint<S>) -> Value {
    let names = endpoint.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let in_path = |name: &str| {
        let says = if name == "name" {
            "A name of dots alone has two dots more here: of the tenant . it is ..."
        } else {
            ""
        };
        json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" }, "description": says })
    };
    let mut parameters: Vec<Value> = names.map(in_path).collect();
    parameters.extend(endpoint.query.iter().map(|(name, kind, says)| {
        json!({ "name": name, "in": "query", "schema": { "type": kind }, "description": says })
    }));
    let text = || json!({ "type": "string" });
    let (status, answer) = match endpoint.answered {
        Answered::Json(name) => {
            ("200", json!({ "description": "", "content": content("application/json", schema(name)) }))
        }
        Answered::Nothing => ("204", json!({ "description": "" })),
        Answered::Csv => ("200", json!({ "description": "", "content": content("text/csv", text()) })),
        Answered::Events => {
            ("200", json!({ "description": "", "content": content("text/event-stream", schema("Frame")) }))
        }
    };
    let refused =
        json!({ "description": "Refused", "content": content("application/json", schema("Error")) });
    let is_open = matches!(endpoint.path, "/api" | "/api/login");
    let mut operation = json!({
        "summary": endpoint.summary,
        "parameters": parameters,
        "responses": { status: answer, "default": refused },
        "security": match (is_open, &endpoint.method) {
            (true, _) => json!([]),
            (_, &Method::GET) => json!([{ "session": [] }]),
            _ => json!([{ "session": [], "csrf": [] }]),
        },
    });
    if let Some(name) = endpoint.body {
        operation["requestBody"] =
            json!({ "required": true, "content": content("application/json", schema(name)) });
    }
    operation
}

#[cfg(test)]
mod tests {
    use super::*;

    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => map.iter().for_each(|(key, value)| match value {
                Value::String(name) if key == "$ref" => found.push(name.clone()),
                value => references(value, found),
            }),
            Value::Array(all) => all.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    fn extension() -> ConsoleExtension {
        let handler = axum::routing::get(|| async {});
        let schemas = json!({ "Song": { "type": "object" } });
        ConsoleExtension {
            endpoints: vec![
                Endpoint::new(Method::GET, "/api/songs", handler).is("One").answers(Answered::Json("Song")),
            ],
            schemas: serde_json::from_value(schemas).expect("an object"),
            ..ConsoleExtension::default()
        }
    }

    #[test]
    fn every_schema_is_there_and_used() {
        for extension in [ConsoleExtension::default(), extension()] {
            let description = description(&extension);
            let mut found = Vec::new();
            references(&description, &mut found);
            let schemas = description["components"]["schemas"].as_object().expect("schemas");
            for name in &found {
                let name = name.strip_prefix("#/components/schemas/").expect("a schema of this file");
                assert!(schemas.contains_key(name), "{name}");
            }
            for name in schemas.keys() {
                assert!(found.contains(&format!("#/components/schemas/{name}")), "{name} is not used");
            }
        }
    }

    #[test]
    fn every_address_is_described_once() {
        for extension in [ConsoleExtension::default(), extension()] {
            let description = description(&extension);
            let paths = description["paths"].as_object().expect("paths");
            let described: usize = paths.values().map(|path| path.as_object().expect("methods").len()).sum();
            assert_eq!(described, endpoints().len() + extension.endpoints.len());
            for path in paths.values().flat_map(|path| path.as_object().expect("methods").values()) {
                assert_ne!(path["summary"], "", "{path}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "is there twice")]
    fn an_address_of_the_servers_own_is_not_the_embedders() {
        let handler = axum::routing::get(|| async {});
        let endpoints = vec![Endpoint::new(Method::GET, "/api/server", handler)];
        description(&ConsoleExtension { endpoints, ..ConsoleExtension::default() });
    }
}
