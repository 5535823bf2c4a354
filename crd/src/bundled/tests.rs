#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use orlop_api::registry::Kind as _;
use orlop_api::validate::FieldErrors;
use serde_json::json;

use super::*;
use crate::definition::is_established;
use crate::{CustomKind, Definition};

const SNAPSHOT: &str = "VolumeGroupSnapshot";
const CONTENT: &str = "VolumeGroupSnapshotContent";
const CLASS: &str = "VolumeGroupSnapshotClass";

#[test]
fn bundled_definitions_are_valid_and_established() {
    for object in definitions() {
        let name = object.name();
        assert!(has(name) && is_established(object), "{name}");
        assert_eq!(object.uid(), "", "{name}");
        let mut approved = object.clone();
        approved.set(&["metadata", "annotations"], json!({definition::APPROVED: "here"}));
        definition::first_status(&mut approved);
        let mut errors = FieldErrors::new();
        definition::validate(&approved, None, &mut errors);
        assert_eq!(errors.len(), 0, "{name}: {errors:?}");
    }
    assert!(!has("widgets.example.com"));
}

/// The served versions of a kind.
fn versions_of(kind: &str) -> Vec<CustomKind> {
    let object = definitions().iter().find(|object| object.str_at(&["spec", "names", "kind"]) == kind);
    let definition = Arc::new(Definition::of(object.unwrap()).unwrap());
    CustomKind::all(&definition).collect()
}

#[test]
fn versions_of_group_snapshots_have_the_same_form() {
    for kind in [SNAPSHOT, CONTENT, CLASS] {
        let versions = versions_of(kind);
        let names: Vec<&str> = versions.iter().map(|version| version.own_names().version).collect();
        assert_eq!(names, ["v1", "v1beta2"], "{kind}");
        assert_eq!(versions[0].storage_version(), Some("v1beta2"), "{kind}");
        assert!(versions[0].openapi_schema().is_some(), "{kind}");
        assert_eq!(versions[0].openapi_schema(), versions[1].openapi_schema(), "{kind}");
        assert_eq!(versions[0].own_columns(), versions[1].own_columns(), "{kind}");
        assert_eq!(versions[0].deprecated(), None, "{kind}");
        assert_eq!(versions[1].deprecated(), None, "{kind}");
    }
}

/// A valid object of a kind of group snapshots.
fn valid(kind: &str) -> Value {
    match kind {
        SNAPSHOT => json!({
            "metadata": {"name": "g", "namespace": "n"},
            "spec": {"volumeGroupSnapshotClassName": "k", "source": {"selector": {
                "matchLabels": {"app": "one"},
                "matchExpressions": [{"key": "tier", "operator": "In", "values": ["a", "b"]}]}}},
            "status": {"boundVolumeGroupSnapshotContentName": "x", "creationTime": "2026-01-02T03:04:05Z",
                "readyToUse": true, "error": {"message": "m", "time": "2026-01-02T03:04:05Z"}},
        }),
        CONTENT => json!({
            "metadata": {"name": "x"},
            "spec": {"deletionPolicy": "Delete", "driver": "d", "volumeGroupSnapshotClassName": "k",
                "source": {"volumeHandles": ["v", "w"]},
                "volumeGroupSnapshotRef": {"name": "g", "namespace": "n", "uid": "u"}},
            "status": {"creationTime": "2026-01-02T03:04:05Z", "readyToUse": true, "volumeGroupSnapshotHandle": "h",
                "volumeSnapshotInfoList": [{"creationTime": 1, "readyToUse": true, "restoreSize": 1024,
                    "snapshotHandle": "s", "volumeHandle": "v"}, {}]},
        }),
        _ => json!({
            "metadata": {"name": "k"}, "driver": "d", "deletionPolicy": "Delete", "parameters": {"a": "b"},
        }),
    }
}

/// The errors of a new object, or of an update of `old`.
fn errors(kind: &CustomKind, object: &Value, old: Option<&Value>) -> Vec<String> {
    let object = Object::from_value(object.clone());
    let mut errors = FieldErrors::new();
    match old {
        None => kind.validate_create(&object, &mut errors),
        Some(old) => kind.validate_update(&object, &Object::from_value(old.clone()), &mut errors),
    }
    errors.causes().iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
}

/// Checks changes of valid objects: the kind, a merge patch, and the field and the end of the expected error.
fn check(is_update: bool, cases: &[(&str, Value, &str, &str)]) {
    for (name, change, field, message) in cases {
        let (before, mut object) = (valid(name), valid(name));
        json_patch::merge(&mut object, change);
        for kind in versions_of(name) {
            let found = errors(&kind, &object, is_update.then_some(&before));
            let fits = match field.is_empty() {
                true => found.is_empty(),
                false => found
                    .iter()
                    .any(|error| error.starts_with(&format!("{field}: ")) && error.ends_with(*message)),
            };
            assert!(fits, "{name} {change}: wanted {field}: {message}, found {found:?}");
        }
    }
}

#[test]
fn new_group_snapshots_are_validated() {
    let one = "exactly one of selector and volumeGroupSnapshotContentName must be set";
    let handles = "exactly one of volumeHandles and groupSnapshotHandles must be set";
    let existing = json!({"volumeGroupSnapshotHandle": "h", "volumeSnapshotHandles": ["s"]});
    let source = |change: Value| json!({"spec": {"source": change}});
    let status = |change: Value| json!({ "status": change });
    check(
        false,
        &[
            (SNAPSHOT, json!({}), "", ""),
            (SNAPSHOT, json!({"spec": {"volumeGroupSnapshotClassName": null}, "status": null}), "", ""),
            (SNAPSHOT, source(json!({"selector": {"matchLabels": null, "matchExpressions": null}})), "", ""),
            (SNAPSHOT, source(json!({"selector": null, "volumeGroupSnapshotContentName": "x"})), "", ""),
            (SNAPSHOT, source(json!({"selector": null})), "spec.source", one),
            (SNAPSHOT, source(json!({"volumeGroupSnapshotContentName": "x"})), "spec.source", one),
            (SNAPSHOT, source(Value::Null), "spec.source", "Required value"),
            (SNAPSHOT, json!({"spec": null}), "spec", "Required value"),
            (
                SNAPSHOT,
                source(json!({"selector": {"matchExpressions": [{"key": "tier"}]}})),
                "spec.source.selector.matchExpressions[0].operator",
                "Required value",
            ),
            (
                SNAPSHOT,
                json!({"spec": {"volumeGroupSnapshotClassName": ""}}),
                "spec.volumeGroupSnapshotClassName",
                "volumeGroupSnapshotClassName must not be the empty string when set",
            ),
            (SNAPSHOT, status(json!({"readyToUse": "yes"})), "status.readyToUse", "\"string\""),
            (SNAPSHOT, status(json!({"creationTime": "now"})), "status.creationTime", "\"now\""),
            (CONTENT, json!({}), "", ""),
            (CONTENT, json!({"spec": {"volumeGroupSnapshotRef": {"uid": null}}, "status": null}), "", ""),
            (CONTENT, source(json!({"volumeHandles": null, "groupSnapshotHandles": existing})), "", ""),
            (CONTENT, source(json!({"groupSnapshotHandles": existing})), "spec.source", handles),
            (CONTENT, source(json!({"volumeHandles": null})), "spec.source", handles),
            (
                CONTENT,
                source(
                    json!({"volumeHandles": null, "groupSnapshotHandles": {"volumeGroupSnapshotHandle": "h"}}),
                ),
                "spec.source.groupSnapshotHandles.volumeSnapshotHandles",
                "Required value",
            ),
            (
                CONTENT,
                json!({"spec": {"deletionPolicy": "Recycle"}}),
                "spec.deletionPolicy",
                "supported values: \"Delete\", \"Retain\"",
            ),
            (CONTENT, json!({"spec": {"driver": null}}), "spec.driver", "Required value"),
            (
                CONTENT,
                json!({"spec": {"volumeGroupSnapshotRef": {"namespace": null}}}),
                "spec.volumeGroupSnapshotRef",
                "both volumeGroupSnapshotRef.name and volumeGroupSnapshotRef.namespace must be set",
            ),
            // Unlike the time of a VolumeSnapshotContent.
            (CONTENT, status(json!({"creationTime": 1})), "status.creationTime", "\"integer\""),
            (
                CONTENT,
                status(json!({"volumeSnapshotInfoList": [{"restoreSize": "1Gi"}]})),
                "status.volumeSnapshotInfoList[0].restoreSize",
                "\"string\"",
            ),
            (CLASS, json!({}), "", ""),
            (CLASS, json!({"parameters": null, "deletionPolicy": "Retain"}), "", ""),
            (CLASS, json!({"driver": null}), "driver", "Required value"),
            (CLASS, json!({"deletionPolicy": null}), "deletionPolicy", "Required value"),
            (CLASS, json!({"deletionPolicy": "Recycle"}), "deletionPolicy", "\"Delete\", \"Retain\""),
            (CLASS, json!({"parameters": {"a": 1}}), "parameters.a", "\"integer\""),
        ],
    );
}

#[test]
fn changes_of_group_snapshots_are_validated() {
    let existing = json!({"volumeGroupSnapshotHandle": "h", "volumeSnapshotHandles": ["s"]});
    let spec = |change: Value| json!({ "spec": change });
    let reference = |change: Value| json!({"spec": {"volumeGroupSnapshotRef": change}});
    let names = "volumeGroupSnapshotRef.name and volumeGroupSnapshotRef.namespace are immutable";
    let uid = "volumeGroupSnapshotRef.uid is immutable once set";
    check(
        true,
        &[
            (SNAPSHOT, json!({"status": {"error": null, "readyToUse": false}}), "", ""),
            (SNAPSHOT, spec(json!({"volumeGroupSnapshotClassName": "l"})), "", ""),
            (
                SNAPSHOT,
                spec(json!({"source": {"selector": {"matchLabels": {"app": "two"}}}})),
                "spec.source.selector",
                "selector is immutable",
            ),
            (
                SNAPSHOT,
                spec(json!({"source": {"selector": null, "volumeGroupSnapshotContentName": "x"}})),
                "spec.source",
                "selector is required once set",
            ),
            (
                SNAPSHOT,
                json!({"status": {"boundVolumeGroupSnapshotContentName": "y"}}),
                "status.boundVolumeGroupSnapshotContentName",
                "boundVolumeGroupSnapshotContentName is immutable once set",
            ),
            (CONTENT, spec(json!({"deletionPolicy": "Retain"})), "", ""),
            (CONTENT, json!({"status": {"volumeSnapshotInfoList": []}}), "", ""),
            (CONTENT, spec(json!({"driver": "e"})), "spec.driver", "driver is immutable once set"),
            (
                CONTENT,
                spec(json!({"source": {"volumeHandles": ["v"]}})),
                "spec.source.volumeHandles",
                "volumeHandles is immutable",
            ),
            (
                CONTENT,
                spec(json!({"source": {"volumeHandles": null, "groupSnapshotHandles": existing}})),
                "spec.source",
                "volumeHandles is required once set",
            ),
            (
                CONTENT,
                spec(json!({"volumeGroupSnapshotClassName": "l"})),
                "spec.volumeGroupSnapshotClassName",
                "volumeGroupSnapshotClassName is immutable once set",
            ),
            (CONTENT, reference(json!({"resourceVersion": "7"})), "", ""),
            (CONTENT, reference(json!({"name": "h"})), "spec.volumeGroupSnapshotRef", names),
            (CONTENT, reference(json!({"uid": "v"})), "spec.volumeGroupSnapshotRef", uid),
            (CONTENT, reference(json!({"uid": null})), "spec.volumeGroupSnapshotRef", uid),
            (
                CONTENT,
                json!({"status": {"volumeGroupSnapshotHandle": "i"}}),
                "status.volumeGroupSnapshotHandle",
                "volumeGroupSnapshotHandle is immutable once set",
            ),
            (CLASS, json!({"metadata": {"labels": {"a": "b"}}}), "", ""),
            (CLASS, json!({"driver": "e"}), "driver", "driver is immutable once set"),
            (
                CLASS,
                json!({"deletionPolicy": "Retain"}),
                "deletionPolicy",
                "deletionPolicy is immutable once set",
            ),
            (CLASS, json!({"parameters": {"a": "c"}}), "parameters", "parameters are immutable once set"),
        ],
    );
}
