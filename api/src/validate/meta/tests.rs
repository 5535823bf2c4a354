#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use serde_json::json;

use super::*;

const NAME: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

fn object(metadata: Value) -> Object {
    Object::from_value(json!({"metadata": metadata}))
}

/// The errors as `field: message`.
fn of_create(metadata: Value, policy: NameRule, namespaced: bool) -> Vec<String> {
    let mut errors = FieldErrors::new();
    validate_meta(&object(metadata), policy, namespaced, &mut errors);
    errors.causes().iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
}

#[test]
fn new_metadata_is_validated() {
    let with = |member: &str, value: Value| json!({"name": "a", "namespace": "n", member: value});
    let owner = |extra: Value| {
        let mut owner = json!({"apiVersion": "v1", "kind": "K", "name": "o", "uid": "u"});
        owner.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        owner
    };
    for (metadata, expected) in [
        (with("labels", json!({"example.com/a": "b"})), vec![]),
        (json!({"name": "a.b", "namespace": "n", "generateName": "a-"}), vec![]),
        (
            json!({"namespace": "n"}),
            vec!["metadata.name: Required value: name or generateName is required".to_owned()],
        ),
        (json!({"name": "a"}), vec!["metadata.namespace: Required value".to_owned()]),
        (
            json!({"name": "a", "namespace": "n.n"}),
            vec!["metadata.namespace: Invalid value: \"n.n\": must not contain dots".to_owned()],
        ),
        (
            with("generation", json!(-1)),
            vec!["metadata.generation: Invalid value: -1: must be greater than or equal to 0".to_owned()],
        ),
        (
            with("labels", json!({"": "x"})),
            vec![
                "metadata.labels: Invalid value: \"\": name part must be non-empty".to_owned(),
                format!("metadata.labels: Invalid value: \"\": {NAME}"),
            ],
        ),
        (
            with("annotations", json!({"A.B/c": "-", "a b": "x"})),
            vec![format!("metadata.annotations: Invalid value: \"a b\": {NAME}")],
        ),
        (with("annotations", json!({"a": "x".repeat(262_143)})), vec![]),
        (
            with("annotations", json!({"a": "x".repeat(262_144)})),
            vec!["metadata.annotations: Too long: may not be more than 262144 bytes".to_owned()],
        ),
        (with("ownerReferences", json!([owner(json!({"controller": true})), owner(json!({}))])), vec![]),
        (
            with("ownerReferences", json!([{"apiVersion": "g/"}])),
            vec![
                "metadata.ownerReferences.apiVersion: Invalid value: \"g/\": version must not be empty"
                    .to_owned(),
                "metadata.ownerReferences.kind: Invalid value: \"\": must not be empty".to_owned(),
                "metadata.ownerReferences.name: Invalid value: \"\": must not be empty".to_owned(),
                "metadata.ownerReferences.uid: Invalid value: \"\": must not be empty".to_owned(),
            ],
        ),
        (
            with("ownerReferences", json!([owner(json!({"apiVersion": "a/b/c"}))])),
            vec![
                "metadata.ownerReferences.apiVersion: Invalid value: \"a/b/c\": version must not be empty"
                    .to_owned(),
            ],
        ),
        (
            with(
                "ownerReferences",
                json!([owner(json!({"controller": true})), owner(json!({"controller": true, "name": "p"}))]),
            ),
            vec![
                "metadata.ownerReferences: Invalid value: [{\"apiVersion\":\"v1\",\"kind\":\"K\",\"name\":\"o\",\"uid\":\"u\",\"controller\":true},{\"apiVersion\":\"v1\",\"kind\":\"K\",\"name\":\"p\",\"uid\":\"u\",\"controller\":true}]: Only one reference can have Controller set to true. Found \"true\" in references for K/o and K/p"
                    .to_owned(),
            ],
        ),
        (
            with("ownerReferences", json!([owner(json!({"kind": "Event"}))])),
            vec![
                "metadata.ownerReferences: Invalid value: {\"apiVersion\":\"v1\",\"kind\":\"Event\",\"name\":\"o\",\"uid\":\"u\"}: /v1, Kind=Event is disallowed from being an owner"
                    .to_owned(),
            ],
        ),
        (with("finalizers", json!(["a.b/c", "kubernetes", "orphan"])), vec![]),
        (
            with("finalizers", json!(["x y"])),
            vec![
                format!("metadata.finalizers: Invalid value: \"x y\": {NAME}"),
                "metadata.finalizers[0]: Invalid value: \"x y\": name is neither a standard finalizer name nor is it fully qualified"
                    .to_owned(),
            ],
        ),
        (
            with("finalizers", json!(["orphan", "foregroundDeletion"])),
            vec![
                "metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer orphan and foregroundDeletion cannot be both set"
                    .to_owned(),
            ],
        ),
        (
            with(
                "managedFields",
                json!([
                    {"operation": "Apply", "fieldsType": "FieldsV1", "manager": "m m"},
                    {"operation": "Fix", "fieldsType": "V2", "manager": "a\nb", "subresource": "s".repeat(257)},
                ]),
            ),
            vec![
                "metadata.managedFields[1].operation: Invalid value: \"Fix\": must be `Apply` or `Update`"
                    .to_owned(),
                "metadata.managedFields[1].fieldsType: Invalid value: \"V2\": must be `FieldsV1`".to_owned(),
                "metadata.managedFields[1].manager: Invalid value: \"a\\nb\": invalid character U+000A (at position 1)"
                    .to_owned(),
                "metadata.managedFields[1].subresource: Too long: may not be more than 256 bytes".to_owned(),
            ],
        ),
    ] {
        assert_eq!(of_create(metadata.clone(), NameRule::Subdomain, true), expected, "{metadata}");
    }
}

#[test]
fn names_and_namespaces_are_validated() {
    for (metadata, policy, namespaced, expected) in [
        (json!({"name": "a"}), NameRule::Subdomain, false, None),
        (
            json!({"name": "a", "namespace": "n"}),
            NameRule::Subdomain,
            false,
            Some("metadata.namespace: Forbidden: not allowed on this type"),
        ),
        (
            json!({"name": "dd.d"}),
            NameRule::Label,
            false,
            Some("metadata.name: Invalid value: \"dd.d\": must not contain dots"),
        ),
        (json!({"name": "A b"}), NameRule::PathSegment, false, None),
        (
            json!({"name": ".."}),
            NameRule::PathSegment,
            false,
            Some("metadata.name: Invalid value: \"..\": may not be '..'"),
        ),
        (json!({"name": "a", "finalizers": ["short"]}), NameRule::PathSegment, false, None),
        (json!({"name": "ab", "generateName": "a-"}), NameRule::Label, false, None),
    ] {
        let found = of_create(metadata.clone(), policy, namespaced);
        assert_eq!(found.first().map(String::as_str), expected, "{metadata}");
        assert!(found.len() <= 1, "{metadata}: {found:?}");
    }
}

#[test]
fn metadata_updates_are_validated() {
    let old = json!({"name": "a", "namespace": "n", "uid": "u", "generation": 2, "creationTimestamp": "t"});
    let deleted = {
        let mut deleted = old.clone();
        deleted["deletionTimestamp"] = "d".into();
        deleted["finalizers"] = json!(["e/f", "e/h"]);
        deleted
    };
    for (old, change, expected) in [
        (&old, json!({}), vec![]),
        (&old, json!({"labels": {"a": "b"}, "finalizers": ["e/g"], "generation": 3}), vec![]),
        (&old, json!({"uid": "v"}), vec!["metadata.uid: Invalid value: \"v\": field is immutable"; 2]),
        (
            &old,
            json!({"generation": 1}),
            vec!["metadata.generation: Invalid value: 1: must not be decremented"; 2],
        ),
        (
            &old,
            json!({"deletionGracePeriodSeconds": 5}),
            vec!["metadata.deletionGracePeriodSeconds: Invalid value: 5: field is immutable"; 2],
        ),
        (
            &old,
            json!({"finalizers": ["short"]}),
            vec![
                "metadata.finalizers[0]: Invalid value: \"short\": name is neither a standard finalizer name nor is it fully qualified";
                2
            ],
        ),
        (
            &old,
            json!({"finalizers": ["/g"]}),
            vec!["metadata.finalizers: Invalid value: \"/g\": prefix part must be non-empty"; 2],
        ),
        (&deleted, json!({"finalizers": ["e/h"]}), vec![]),
        (
            &deleted,
            json!({"finalizers": ["e/z", "e/f", "e/g"]}),
            vec![
                "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"e/g\", \"e/z\"}";
                2
            ],
        ),
        (
            &deleted,
            json!({"deletionTimestamp": null}),
            vec!["metadata.deletionTimestamp: Invalid value: null: field is immutable"; 2],
        ),
    ] {
        let mut new = old.clone();
        new.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let mut errors = FieldErrors::new();
        validate_meta_update(&object(new), &object(old.clone()), NameRule::Subdomain, true, &mut errors);
        let found: Vec<String> =
            errors.causes().iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
        assert_eq!(found, expected, "{change}");
    }
}

proptest! {
    #[test]
    fn no_metadata_panics(name in "\\PC{0,8}", key in "\\PC{0,8}", value in "\\PC{0,8}", which in 0..8usize) {
        let member = ["labels", "annotations", "ownerReferences", "finalizers", "managedFields", "generation",
            "namespace", "uid"][which];
        for odd in [json!({&key: &value}), json!([{&key: &value}]), json!([&value]), json!(&value), json!(1)] {
            let new = object(json!({"name": &name, member: odd}));
            validate_meta_update(&new, &Object::default(), NameRule::Label, true, &mut FieldErrors::new());
        }
    }
}
