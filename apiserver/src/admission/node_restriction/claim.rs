//! Claims: a node reports the size and the conditions of claims in their status.

use orlop_api::object::Object;
use orlop_api::status::ApiError;
use serde_json::{Map, Value};

use super::operation_name;
use crate::admission::request::{Operation, Request};

/// The members of a claim's status that a node may change.
const REPORTED: [&str; 4] = ["capacity", "conditions", "allocatedResourceStatuses", "allocatedResources"];

/// The metadata that every write changes.
const MANAGED: [&str; 2] = ["resourceVersion", "managedFields"];

/// Maximum length of a value in a refusal, in characters.
const MAX_SHOWN: usize = 200;

pub(super) fn restrict(request: &Request<'_>, node: &str) -> Result<(), ApiError> {
    if request.subresource != "status" {
        return Err(request.refuse("may only update PVC status"));
    }
    let (Operation::Update, Some(new), Some(old)) =
        (request.operation, request.object.as_deref(), request.old)
    else {
        return Err(request.refuse(&format!("unexpected operation {:?}", operation_name(request.operation))));
    };
    let Some(difference) = difference(old, new) else { return Ok(()) };
    Err(request.refuse(&format!(
        "node {node:?} is not allowed to update fields other than status.quantity and status.conditions: {difference}"
    )))
}

/// The first difference that a node may not make, as a diff.
fn difference(old: &Object, new: &Object) -> Option<String> {
    let members = |object: &Object| object.0.keys().cloned().collect::<Vec<_>>();
    for member in members(old).into_iter().chain(members(new)) {
        let ignored: &[&str] = match member.as_str() {
            "metadata" => &MANAGED,
            "status" => &REPORTED,
            _ => &[],
        };
        let (before, after) = (part(old, &member, ignored), part(new, &member, ignored));
        let changed =
            before.keys().chain(after.keys()).find(|name| !same(before.get(*name), after.get(*name)));
        if let Some(name) = changed {
            let (before, after) = (shown(before.get(name)), shown(after.get(name)));
            return Some(format!("@@ {member}.{name} @@\n-{before}\n+{after}"));
        }
    }
    None
}

/// The members of a part of an object, without those that are ignored.
fn part(object: &Object, member: &str, ignored: &[&str]) -> Map<String, Value> {
    let mut part = object.at(&[member]).and_then(Value::as_object).cloned().unwrap_or_default();
    part.retain(|name, _| !ignored.contains(&name.as_str()));
    part
}

/// Whether values are equal; absent, null and empty ones are.
fn same(before: Option<&Value>, after: Option<&Value>) -> bool {
    let given = |value: Option<&'_ Value>| {
        value
            .filter(|value| match value {
                Value::Null => false,
                Value::Object(map) => !map.is_empty(),
                Value::Array(items) => !items.is_empty(),
                Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
            })
            .cloned()
    };
    given(before) == given(after)
}

fn shown(value: Option<&Value>) -> String {
    value.map_or_else(String::new, |value| value.to_string().chars().take(MAX_SHOWN).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::NodeRestriction;
    use super::*;
    use crate::admission::testing::{Facts, Write};

    fn why(write: Write) -> String {
        let outcome = write.in_namespace("ns").by_node("n1").mutate(&NodeRestriction, &Facts::none());
        let Err(error) = outcome else { return String::new() };
        error.message.split_once("is forbidden: ").map_or(error.message.clone(), |(_, why)| why.to_owned())
    }

    #[test]
    fn node_reports_sizes_and_conditions() {
        let old = json!({
            "metadata": {"name": "c", "resourceVersion": "1"}, "spec": {"volumeName": "v"},
            "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}},
        });
        let changed = |path: &[&str], value: Value| {
            let mut object = Object::from_value(old.clone());
            object.set(path, value);
            object.into_value()
        };
        let refused = |difference: &str| {
            format!(
                "node \"n1\" is not allowed to update fields other than status.quantity and status.conditions: {difference}"
            )
        };
        for (new, want) in [
            (changed(&["status", "capacity"], json!({"storage": "2Gi"})), String::new()),
            (changed(&["status", "conditions"], json!([{"type": "FileSystemResizePending"}])), String::new()),
            (changed(&["status", "allocatedResources"], json!({"storage": "2Gi"})), String::new()),
            (changed(&["metadata", "resourceVersion"], "".into()), String::new()),
            (changed(&["metadata", "managedFields"], json!([{}])), String::new()),
            (changed(&["metadata", "labels"], json!({})), String::new()),
            (
                changed(&["status", "phase"], "Lost".into()),
                refused("@@ status.phase @@\n-\"Bound\"\n+\"Lost\""),
            ),
            (
                changed(&["metadata", "labels"], json!({"a": "b"})),
                refused("@@ metadata.labels @@\n-\n+{\"a\":\"b\"}"),
            ),
            (changed(&["spec", "volumeName"], "w".into()), refused("@@ spec.volumeName @@\n-\"v\"\n+\"w\"")),
        ] {
            let write = Write::update("persistentvolumeclaims", old.clone(), new.clone()).to("status");
            assert_eq!(why(write), want, "{new}");
        }
        for write in [
            Write::update("persistentvolumeclaims", old.clone(), old.clone()),
            Write::create("persistentvolumeclaims", old.clone()),
            Write::delete("persistentvolumeclaims", old.clone()),
        ] {
            assert_eq!(why(write), "may only update PVC status");
        }
    }
}
