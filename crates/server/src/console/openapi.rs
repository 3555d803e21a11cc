//! The description of the API (OpenAPI 3.1), made of the list of its addresses and of the schemas in `schemas.json`.

use std::sync::LazyLock;

use axum::Json;
use axum::http::Method;
use serde_json::{Map, Value, json};

use super::guard::COOKIE;
use super::routes::{Answered, Endpoint, endpoints};

static DESCRIPTION: LazyLock<Value> = LazyLock::new(description);
const SCHEMAS: &str = include_str!("schemas.json");

pub(super) async fn describe() -> Json<&'static Value> {
    Json(&DESCRIPTION)
}

fn description() -> Value {
    let schemas: Value = serde_json::from_str(SCHEMAS).expect("schemas.json is JSON");
    let mut paths = Map::new();
    for endpoint in endpoints() {
        let path = paths.entry(endpoint.path).or_insert_with(|| json!({}));
        path[endpoint.method.as_str().to_lowercase()] = operation(&endpoint);
    }
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
                "session": { "type": "apiKey", "in": "cookie", "name": COOKIE },
                "csrf": { "type": "apiKey", "in": "header", "name": "X-CSRF-Token" }
            }
        }
    })
}

fn schema(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn content(kind: &str, schema: Value) -> Value {
    json!({ kind: { "schema": schema } })
}

fn operation(endpoint: &Endpoint) -> Value {
    let in_path = endpoint.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let mut parameters: Vec<Value> = in_path
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }))
        .collect();
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

    #[test]
    fn every_schema_is_there_and_used() {
        let description = description();
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

    #[test]
    fn every_address_is_described_once() {
        let description = description();
        let paths = description["paths"].as_object().expect("paths");
        let described: usize = paths.values().map(|path| path.as_object().expect("methods").len()).sum();
        assert_eq!(described, endpoints().len(), "no address and method is there twice");
        for endpoint in endpoints() {
            assert!(!endpoint.summary.is_empty(), "{}", endpoint.path);
        }
    }
}
