//! The parts of paths that are the same in the formats of OpenAPI v2 and v3.

use serde_json::{Map, Value, json};

use super::parameters::Parameter;
use super::paths::{self, Operation, PathItem};
use super::{Content, Route, UNAUTHORIZED};
use crate::resource::GVK;

/// The paths of operations, in the format of `paths`.
pub(super) fn paths(
    routes: &[Route],
    operation: impl Fn(&Operation<'_>) -> Value,
    parameter: impl Fn(&Parameter) -> Value,
) -> Vec<(String, Value)> {
    let path_item = |item: &PathItem<'_>| -> Value {
        let mut out = Map::new();
        for one in &item.operations {
            out.insert(one.route.method.to_owned(), operation(one));
        }
        if !item.parameters.is_empty() {
            out.insert("parameters".to_owned(), item.parameters.iter().map(|one| parameter(one)).collect());
        }
        out.into()
    };
    paths::group(routes).iter().map(|item| (item.path.to_owned(), path_item(item))).collect()
}

/// The responses of an operation. `successful` writes one from its description and the schema of its content.
pub(super) fn responses(
    route: &Route,
    reference: impl Fn(&str) -> Value,
    successful: impl Fn(&str, &Value) -> Value,
) -> Value {
    let schema = match &route.answer {
        Content::Text => json!({"type": "string"}),
        Content::Object(schema) => reference(schema),
    };
    let mut out = Map::new();
    for (code, description) in route.codes {
        out.insert((*code).to_owned(), successful(description, &schema));
    }
    let (code, description) = UNAUTHORIZED;
    out.insert(code.to_owned(), json!({"description": description}));
    out.into()
}

/// Writes the members of an operation that name its action and its kind.
pub(super) fn write_action(route: &Route, operation: &mut Value) {
    if let Some((action, kind)) = &route.action {
        operation["x-kubernetes-action"] = (*action).into();
        operation[GVK] = kind.clone();
    }
}
