//! Writes paths in the format of OpenAPI v3.

use serde_json::{Map, Value, json};

use super::paths::Operation;
use super::{Parameter, Route, format};

/// The paths of operations, in the format of `paths`.
pub(crate) fn paths(routes: &[Route]) -> Vec<(String, Value)> {
    format::paths(routes, operation, parameter)
}

fn parameter(of: &Parameter) -> Value {
    let schema = json!({"type": of.kind, "uniqueItems": true});
    let mut out = json!({"name": of.name, "in": of.place, "description": of.description, "schema": schema});
    if of.place == "path" {
        out["required"] = true.into();
    }
    out
}

fn operation(Operation { route, parameters }: &Operation<'_>) -> Value {
    let mut out = json!({
        "tags": [route.tag], "description": route.description, "operationId": route.id, "responses": responses(route),
    });
    if !parameters.is_empty() {
        out["parameters"] = parameters.iter().map(|one| parameter(one)).collect();
    }
    if let Some(body) = &route.body {
        out["requestBody"] = json!({"content": content(route.consumes, &reference(&body.schema))});
        if body.is_required {
            out["requestBody"]["required"] = true.into();
        }
    }
    format::write_action(route, &mut out);
    out
}

fn responses(route: &Route) -> Value {
    format::responses(
        route,
        reference,
        |description, schema| json!({"description": description, "content": content(route.produces, schema)}),
    )
}

fn content(media: &[&str], schema: &Value) -> Map<String, Value> {
    media.iter().map(|media| ((*media).to_owned(), json!({"schema": schema}))).collect()
}

fn reference(schema: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{schema}")})
}
