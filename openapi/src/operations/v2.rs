//! Writes paths in the format of OpenAPI v2.

use serde_json::{Map, Value, json};

use super::parameters::{Parameter, all_shared};
use super::paths::{self, Operation, PathItem};
use super::{Body, Content, Route, UNAUTHORIZED};
use crate::resource::GVK;
use crate::schemas::{DELETE_OPTIONS, PATCH};

/// The keys of shared bodies below `parameters`.
const DELETE_BODY: &str = "body-2Y1dVQaQ";
const PATCH_BODY: &str = "body-78PwaGsr";

/// The paths of operations, in the format of `paths`.
pub(crate) fn paths(routes: &[Route]) -> Vec<(String, Value)> {
    paths::group(routes).iter().map(|item| (item.path.to_owned(), path_item(item))).collect()
}

/// The parameters that operations share, in the format of `parameters`.
pub(crate) fn shared_parameters() -> Map<String, Value> {
    let own = all_shared().filter_map(|one| Some((one.shared_key()?, own_parameter(one))));
    let body = |key: &str, schema: &str, is_required| {
        (key.to_owned(), own_body(&Body { schema: schema.to_owned(), is_required }))
    };
    own.chain([body(DELETE_BODY, DELETE_OPTIONS, false), body(PATCH_BODY, PATCH, true)]).collect()
}

fn path_item(item: &PathItem<'_>) -> Value {
    let mut out = Map::new();
    for operation in &item.operations {
        out.insert(operation.route.method.to_owned(), self::operation(operation));
    }
    if !item.parameters.is_empty() {
        out.insert("parameters".to_owned(), item.parameters.iter().map(|one| parameter(one)).collect());
    }
    out.into()
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
    if let Some((action, kind)) = &route.action {
        out["x-kubernetes-action"] = (*action).into();
        out[GVK] = kind.clone();
    }
    out
}

fn responses(route: &Route) -> Value {
    let schema = match &route.answer {
        Content::Text => json!({"type": "string"}),
        Content::Object(schema) => reference(schema),
    };
    let mut out = Map::new();
    for (code, description) in route.codes {
        out.insert((*code).to_owned(), json!({"description": description, "schema": schema}));
    }
    let (code, description) = UNAUTHORIZED;
    out.insert(code.to_owned(), json!({"description": description}));
    out.into()
}

fn shared(key: &str) -> Value {
    json!({"$ref": format!("#/parameters/{key}")})
}

fn reference(schema: &str) -> Value {
    json!({"$ref": format!("#/definitions/{schema}")})
}
