use serde_json::json;

use super::super::testing::{causes, object};
use super::*;

#[test]
fn data_and_revision_are_validated() {
    for (case, value, want) in [
        ("right", json!({"data": {}, "revision": 1}), vec![]),
        (
            "no data",
            json!({"revision": 1}),
            vec![("FieldValueRequired", "data", "Required value: data is mandatory")],
        ),
        (
            "null",
            json!({"data": null, "revision": 1}),
            vec![("FieldValueRequired", "data", "Required value: data is mandatory")],
        ),
        (
            "a list",
            json!({"data": [], "revision": 1}),
            vec![("FieldValueRequired", "data", "Required value: data must be a valid JSON object")],
        ),
        (
            "a negative number",
            json!({"data": {}, "revision": -1}),
            vec![("FieldValueInvalid", "revision", "Invalid value: -1: must be greater than or equal to 0")],
        ),
    ] {
        let revision = object(value);
        let found = causes(|errors| {
            ControllerRevision.validate(&revision, errors);
            ControllerRevision.validate_create(&revision, errors);
        });
        assert_eq!(found, want, "{case}");
    }
}

#[test]
fn data_is_immutable() {
    let (old, new) = (object(json!({"data": {"a": 1}})), object(json!({"data": {"a": 2}})));
    assert!(causes(|errors| ControllerRevision.validate_update(&old, &old, errors)).is_empty());
    assert_eq!(
        causes(|errors| ControllerRevision.validate_update(&new, &old, errors)),
        [("FieldValueInvalid", "data", "Invalid value: {\"a\":2}: field is immutable")]
    );
}

#[test]
fn controller_cell_shows_the_controlling_owner() {
    for (owners, want) in [
        (json!([]), "<none>"),
        (json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"}]), "<none>"),
        (
            json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "controller": true}]),
            "statefulset.apps/web",
        ),
        (json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "controller": true}]), "pod/p"),
    ] {
        let revision = object(json!({"metadata": {"ownerReferences": owners}}));
        assert_eq!(controller(&revision), want, "{owners}");
    }
}
