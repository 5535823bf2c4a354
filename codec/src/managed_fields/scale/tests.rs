#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use super::*;
use crate::managed_fields::testing::{LATER, NOW, entries, kind};

const REPLICAS: [&str; 2] = ["spec", "replicas"];

fn entry(manager: &str, operation: &str, version: &str, subresource: &str, fields: Value) -> Value {
    let mut entry = json!({
        "manager": manager, "operation": operation, "apiVersion": version, "time": NOW,
        "fieldsType": "FieldsV1", "fieldsV1": fields,
    });
    if !subresource.is_empty() {
        entry["subresource"] = subresource.into();
    }
    entry
}

fn with(list: Value) -> Object {
    Object::from_value(json!({"metadata": {"name": "a", "managedFields": list}}))
}

/// The owners of a Scale for an object with these managed fields.
fn shown(list: Value) -> Vec<(String, Value)> {
    let mut scale = Object::default();
    to_scale(kind("apps", "deployments"), &with(list), &REPLICAS, &mut scale);
    entries(&scale)
}

/// The owners of an object after a write leaves its Scale with these managed fields.
fn joined(list: Value, scale: Value) -> Vec<(String, Value)> {
    let mut object = with(list);
    to_object(kind("apps", "deployments"), &mut object, &REPLICAS, &with(scale));
    entries(&object)
}

fn replicas() -> Value {
    json!({"f:spec": {"f:replicas": {}}})
}

#[test]
fn scale_lists_the_owners_of_the_replicas() {
    let more = json!({"f:spec": {"f:replicas": {}, "f:paused": {}}});
    let other = json!({"f:spec": {"f:paused": {}}});
    assert_eq!(
        shown(json!([
            entry("a", "Apply", "apps/v1", "", more.clone()),
            entry("b", "Update", "apps/v1", "", other),
            entry("c", "Update", "other/v1", "", replicas()),
            entry("d", "Update", "apps/v1", "scale", replicas()),
        ])),
        [(format!("a Apply@{NOW}"), replicas()), (format!("d Update/scale@{NOW}"), replicas()),]
    );
    assert_eq!(shown(json!([])), []);
}

#[test]
fn scaling_transfers_ownership_of_the_replicas() {
    let both = json!({"f:spec": {"f:replicas": {}, "f:paused": {}}});
    let rest = json!({"f:spec": {"f:paused": {}}});
    let scaler = || entry("s", "Update", "autoscaling/v1", "scale", replicas());
    for (case, before, scale, want) in [
        (
            "from an applier",
            json!([entry("a", "Apply", "apps/v1", "", both.clone())]),
            json!([scaler()]),
            vec![(format!("a Apply@{NOW}"), rest.clone()), ("s Update/scale".to_owned(), replicas())],
        ),
        (
            "from a manager without other fields",
            json!([entry("a", "Apply", "apps/v1", "", replicas())]),
            json!([scaler()]),
            vec![("s Update/scale".to_owned(), replicas())],
        ),
        (
            "from oneself",
            json!([entry("s", "Update", "apps/v1", "scale", replicas())]),
            json!([scaler()]),
            vec![("s Update/scale".to_owned(), replicas())],
        ),
        (
            "an applier that keeps them",
            json!([entry("a", "Apply", "apps/v1", "", both.clone())]),
            json!([entry("a", "Apply", "autoscaling/v1", "", replicas()), scaler()]),
            vec![(format!("a Apply@{NOW}"), both.clone()), ("s Update/scale".to_owned(), replicas())],
        ),
        (
            "no manager is left",
            json!([entry("a", "Apply", "apps/v1", "", both.clone())]),
            json!([]),
            vec![(format!("a Apply@{NOW}"), rest.clone())],
        ),
        (
            "a status is not theirs to own",
            json!([]),
            json!([entry("s", "Update", "autoscaling/v1", "scale", json!({"f:status": {"f:replicas": {}}}))]),
            vec![],
        ),
    ] {
        assert_eq!(joined(before, scale), want, "{case}");
    }
}

#[test]
fn owners_of_other_fields_are_unchanged() {
    let own = json!({"f:metadata": {"f:labels": {"f:a": {}}}});
    let mut later = entry("l", "Update", "apps/v1", "", own.clone());
    later["time"] = LATER.into();
    assert_eq!(joined(json!([later]), json!([])), [(format!("l Update@{LATER}"), own)]);
}
