//! Writes paths in the format of OpenAPI v3.

use serde_json::{Map, Value, json};

use super::paths::{self, Operation, PathItem};
use super::{Content, Parameter, Route, UNAUTHORIZED};
use crate::resource::GVK;

/// The paths of operations, in the format of `paths`.
pub(crate) fn paths(routes: &[Route]) -> Vec<(String, Value)> {
    paths::group(routes).iter().map(|item| (item.path.to_owned(), path_item(item))).collect()
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
        let response = json!({"description": description, "content": content(route.produces, &schema)});
        out.insert((*code).to_owned(), response);
    }
    let (code, description) = UNAUTHORIZED;
    out.insert(code.to_owned(), json!({"description": description}));
    out.into()
}

fn content(media: &[&str], schema: &Value) -> Map<String, Value> {
    media.iter().map(|media| ((*media).to_owned(), json!({"schema": schema}))).collect()
}

fn reference(schema: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{schema}")})
}
