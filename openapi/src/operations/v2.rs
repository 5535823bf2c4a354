//! Writes paths in the format of OpenAPI v2.

use serde_json::{Map, Value, json};

use super::parameters::{Parameter, all_shared};
use super::paths::Operation;
use super::{Body, Route, format};
use crate::schemas::{DELETE_OPTIONS, PATCH};

/// The keys of shared bodies below `parameters`.
const DELETE_BODY: &str = "body-2Y1dVQaQ";
const PATCH_BODY: &str = "body-78PwaGsr";

/// The paths of operations, in the format of `paths`.
pub(crate) fn paths(routes: &[Route]) -> Vec<(String, Value)> {
    format::paths(routes, operation, parameter)
}

/// The parameters that operations share, in the format of `parameters`.
pub(crate) fn shared_parameters() -> Map<String, Value> {
    let own = all_shared().filter_map(|one| Some((one.shared_key()?, own_parameter(one))));
    let body = |key: &str, schema: &str, is_required| {
        (key.to_owned(), own_body(&Body { schema: schema.to_owned(), is_required }))
    };
    own.chain([body(DELETE_BODY, DELETE_OPTIONS, false), body(PATCH_BODY, PATCH, true)]).collect()
}

fn parameter(of: &Parameter) -> Value {
    of.shared_key().map_or_else(|| own_parameter(of), |key| shared(&key))
}

fn own_parameter(of: &Parameter) -> Value {
    let mut out = json!({
        "name": of.name, "in": of.place, "description": of.description, "type": of.kind, "uniqueItems": true,
    });
    if of.place == "path" {
        out["required"] = true.into();
    }
    out
}

fn body(of: &Body) -> Value {
    match of.schema.as_str() {
        DELETE_OPTIONS => shared(DELETE_BODY),
        PATCH => shared(PATCH_BODY),
        _ => own_body(of),
    }
}

fn own_body(of: &Body) -> Value {
    let mut out = json!({"name": "body", "in": "body", "schema": reference(&of.schema)});
    if of.is_required {
        out["required"] = true.into();
    }
    out
}

fn operation(Operation { route, parameters }: &Operation<'_>) -> Value {
    let mut out = json!({
        "tags": [route.tag], "description": route.description, "operationId": route.id, "schemes": ["https"],
        "produces": route.produces, "responses": responses(route),
    });
    if !route.consumes.is_empty() {
        out["consumes"] = json!(route.consumes);
    }
    // The body is sorted by its name.
    let (before, after): (Vec<_>, Vec<_>) = parameters.iter().partition(|one| one.name < "body");
    let before = before.into_iter().map(parameter);
    let after = after.into_iter().map(parameter);
    let parameters: Vec<Value> = before.chain(route.body.as_ref().map(body)).chain(after).collect();
    if !parameters.is_empty() {
        out["parameters"] = parameters.into();
    }
    format::write_action(route, &mut out);
    out
}

fn responses(route: &Route) -> Value {
    format::responses(
        route,
        reference,
        |description, schema| json!({"description": description, "schema": schema}),
    )
}

fn shared(key: &str) -> Value {
    json!({"$ref": format!("#/parameters/{key}")})
}

fn reference(schema: &str) -> Value {
    json!({"$ref": format!("#/definitions/{schema}")})
}
