#![allow(clippy::unwrap_used)]

use serde_json::json;

use super::*;

fn widgets() -> Value {
    json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {
                    "type": "object", "properties": {"size": {"type": "integer"}, "color": {"type": "string"}}}}}},
            }],
        },
    })
}

/// Returns the widgets definition with a JSON merge patch applied.
fn changed(patch: Value) -> Object {
    let mut value = widgets();
    json_patch::merge(&mut value, &patch);
    let mut object = Object::from_value(value);
    defaults(&mut object);
    first_status(&mut object);
    object
}

fn texts(errors: &FieldErrors) -> Vec<String> {
    errors.causes().iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
}

#[test]
fn new_definition_receives_default_names_and_status() {
    let mut object = changed(json!({}));
    assert_eq!(object.str_at(&["spec", "names", "singular"]), "widget");
    assert_eq!(object.str_at(&["spec", "names", "listKind"]), "WidgetList");
    assert_eq!(object.str_at(&["spec", "conversion", "strategy"]), "None");
    first_status(&mut object);
    let status =
        json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": ["v1"]});
    assert_eq!(object.0["status"], status);
    let mut errors = FieldErrors::new();
    validate(&object, None, &mut errors);
    assert_eq!(texts(&errors), Vec::<String>::new());
}

#[test]
fn invalid_definitions_are_rejected() {
    let version = |patch: Value| {
        let mut version = widgets()["spec"]["versions"][0].clone();
        json_patch::merge(&mut version, &patch);
        json!({"spec": {"versions": [version]}})
    };
    for (case, patch, want) in [
        (
            "1 name",
            json!({"metadata": {"name": "bad"}}),
            "metadata.name: Invalid value: \"bad\": must be spec.names.plural+\".\"+spec.group",
        ),
        (
            "2 scope",
            json!({"spec": {"scope": "Both"}}),
            "spec.scope: Unsupported value: \"Both\": supported values: \"Cluster\", \"Namespaced\"",
        ),
        ("3 no scope", json!({"spec": {"scope": ""}}), "spec.scope: Required value"),
        (
            "4 no storage",
            version(json!({"storage": false})),
            "must have exactly one version marked as storage version",
        ),
        (
            "5 no schema",
            version(json!({"schema": null})),
            "spec.versions[0].schema.openAPIV3Schema: Required value",
        ),
        (
            "6 kinds",
            json!({"spec": {"names": {"listKind": "Widget"}}}),
            "spec.names.listKind: Invalid value: \"Widget\": kind and listKind may not be the same",
        ),
        (
            "7 short names",
            json!({"spec": {"names": {"shortNames": ["W"]}}}),
            "spec.names.shortNames[0]: Invalid value: \"W\": a DNS-1035 label",
        ),
        (
            "8 conversion",
            json!({"spec": {"conversion": {"strategy": "Webhook",
                "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://a"}}}}}),
            "spec.conversion.strategy: Unsupported value: \"Webhook\": supported values: \"None\"",
        ),
        ("9 version name", version(json!({"name": "1"})), "spec.versions[0].name: Invalid value: \"1\""),
        (
            "10 scale",
            version(
                json!({"subresources": {"scale": {"specReplicasPath": ".status.n", "statusReplicasPath": ".status.n"}}}),
            ),
            "spec.subresources.scale.specReplicasPath: Invalid value: \".status.n\": should be a json path under .spec",
        ),
        (
            "11 columns",
            version(json!({"additionalPrinterColumns": [{"name": "A", "type": "text", "jsonPath": ".a"}]})),
            "spec.additionalPrinterColumns[0].type: Invalid value: \"text\": must be one of boolean,date,integer,number,string",
        ),
        (
            "12 selectable fields",
            version(json!({"selectableFields": [{"jsonPath": ".spec.nope"}]})),
            "spec.selectableFields[0].jsonPath: Invalid value: \".spec.nope\": is an invalid path: does not refer to a valid field",
        ),
        (
            "13 selectable objects",
            version(json!({"selectableFields": [{"jsonPath": ".spec"}]})),
            "must point to a field of type string, boolean or integer",
        ),
        (
            "14 deprecation",
            version(json!({"deprecationWarning": "x"})),
            "spec.versions[0].deprecationWarning: Invalid value: \"x\": can only be set for deprecated versions",
        ),
        (
            "15 pruning",
            json!({"spec": {"preserveUnknownFields": true}}),
            "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true",
        ),
    ] {
        let mut errors = FieldErrors::new();
        validate(&changed(patch), None, &mut errors);
        let found = texts(&errors);
        assert!(found.first().is_some_and(|first| first.contains(want)), "{case}: {found:#?}");
    }
}

#[test]
fn errors_are_those_of_upstreams_internal_form() {
    let version = |name: &str, storage: bool, column: &str| {
        let mut version = widgets()["spec"]["versions"][0].clone();
        version["name"] = name.into();
        version["storage"] = storage.into();
        version["additionalPrinterColumns"] = json!([{"name": "A", "type": "string", "jsonPath": column}]);
        version
    };
    let shown = |name: &str, storage: bool| {
        format!(
            "{{\"Name\":\"{name}\",\"Served\":true,\"Storage\":{storage},\"Deprecated\":false,\"DeprecationWarning\":null,\
             \"Schema\":null,\"Subresources\":null,\"AdditionalPrinterColumns\":null,\"SelectableFields\":null}}"
        )
    };
    for (case, versions, want) in [
        (
            "1 parts of one version",
            vec![version("v1", true, "a")],
            vec!["spec.additionalPrinterColumns[0].JSONPath: Invalid value: \"a\": must be a simple json path starting with .".to_owned()],
        ),
        (
            "2 parts that differ",
            vec![version("v1", true, ".a"), version("v2", false, "b")],
            vec!["spec.versions[1].additionalPrinterColumns[0].JSONPath: Invalid value: \"b\": must be a simple json path starting with .".to_owned()],
        ),
        (
            "3 no storage version",
            vec![version("v1", false, ".a")],
            vec![
                format!("spec.versions: Invalid value: [{}]: must have exactly one version marked as storage version", shown("v1", false)),
                "status.storedVersions: Invalid value: null: must have at least one stored version".to_owned(),
            ],
        ),
        (
            "4 two storage versions",
            vec![version("v1", true, ".a"), version("v2", true, ".a")],
            vec![
                format!(
                    "spec.versions: Invalid value: [{},{}]: must have exactly one version marked as storage version",
                    shown("v1", true),
                    shown("v2", true)
                ),
                "status.storedVersions: Invalid value: [\"v1\"]: must have the storage version v2".to_owned(),
            ],
        ),
    ] {
        let mut errors = FieldErrors::new();
        validate(&changed(json!({"spec": {"versions": versions}})), None, &mut errors);
        assert_eq!(texts(&errors), want, "{case}");
    }
}

#[test]
fn unrecognized_formats_cause_warnings() {
    let formats = |formats: &[&str]| {
        let properties: serde_json::Map<String, Value> = formats
            .iter()
            .map(|format| ((*format).to_owned(), json!({"type": "string", "format": format})))
            .collect();
        let mut version = widgets()["spec"]["versions"][0].clone();
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] = properties.into();
        changed(json!({"spec": {"versions": [version]}}))
    };
    let (old, new) = (formats(&["odd", "date"]), formats(&["odd", "other"]));
    assert_eq!(warnings(&old, None), ["unrecognized format \"odd\""]);
    assert_eq!(warnings(&new, Some(&old)), ["unrecognized format \"other\""]);
}

#[test]
fn protected_groups_require_the_approval_annotation() {
    let patch = |annotations: Value| json!({"metadata": {"name": "widgets.storage.k8s.io", "annotations": annotations}, "spec": {"group": "storage.k8s.io"}});
    let mut errors = FieldErrors::new();
    validate(&changed(patch(json!({}))), None, &mut errors);
    assert_eq!(texts(&errors).len(), 1);
    assert!(
        texts(&errors)[0].starts_with("metadata.annotations[api-approved.kubernetes.io]: Required value")
    );
    let mut errors = FieldErrors::new();
    validate(&changed(patch(json!({APPROVED: "https://example.com"}))), None, &mut errors);
    assert_eq!(texts(&errors), Vec::<String>::new());
}

#[test]
fn group_is_immutable_and_scope_and_kind_once_established() {
    let established = |established: bool| {
        let mut object = changed(json!({}));
        first_status(&mut object);
        if established {
            set_condition(&mut object, "Established", "True", "r", "m", &json!("t"));
        }
        object
    };
    for (case, is_established, patch, want) in [
        ("1 nothing", true, json!({}), vec![]),
        ("2 scope before", false, json!({"spec": {"scope": "Cluster"}}), vec![]),
        (
            "3 scope after",
            true,
            json!({"spec": {"scope": "Cluster"}}),
            vec!["spec.scope: Invalid value: \"Cluster\": field is immutable"],
        ),
        (
            "4 kind",
            true,
            json!({"spec": {"names": {"kind": "Gadget"}}}),
            vec!["spec.names.kind: Invalid value: \"Gadget\": field is immutable"],
        ),
        (
            "5 group",
            false,
            json!({"spec": {"group": "example.org"}}),
            vec!["spec.group: Invalid value: \"example.org\": field is immutable"],
        ),
    ] {
        let old = established(is_established);
        let mut value = old.clone().into_value();
        json_patch::merge(&mut value, &patch);
        let mut errors = FieldErrors::new();
        validate_update(&Object::from_value(value), &old, &mut errors);
        assert_eq!(texts(&errors), want, "{case}");
    }
}

#[test]
fn stored_versions_must_remain_in_spec() {
    let mut object = changed(json!({}));
    first_status(&mut object);
    object.set(&["spec", "versions"], json!([{"name": "v2", "storage": true, "served": true}]));
    keep_stored_versions(&mut object);
    assert_eq!(object.0["status"]["storedVersions"], json!(["v1", "v2"]));
    let mut errors = FieldErrors::new();
    validate_stored_versions(&object, &mut errors);
    assert!(
        texts(&errors)[0]
            .starts_with("status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions")
    );
    object.set(&["status", "storedVersions"], json!([]));
    let mut errors = FieldErrors::new();
    validate_stored_versions(&object, &mut errors);
    assert_eq!(
        texts(&errors),
        ["status.storedVersions: Invalid value: []: must have at least one stored version"]
    );
}

#[test]
fn transition_time_changes_only_with_the_status() {
    let mut object = Object::default();
    set_condition(&mut object, "A", "True", "r", "m", &json!("1"));
    set_condition(&mut object, "A", "True", "other", "m", &json!("2"));
    assert_eq!(object.0["status"]["conditions"][0]["lastTransitionTime"], "1");
    set_condition(&mut object, "A", "False", "r", "m", &json!("3"));
    assert_eq!(object.0["status"]["conditions"][0]["lastTransitionTime"], "3");
    assert_eq!((condition(&object, "A"), condition(&object, "B")), ("False", ""));
}

#[test]
fn lists_of_a_definition_are_bounded() {
    let validated = |object: &Object| {
        let started = orlop_apimachinery::thread_time::ThreadTime::start();
        let mut errors = FieldErrors::new();
        validate(object, None, &mut errors);
        assert!(started.spent().as_secs() < 2, "{:?}", started.spent());
        texts(&errors)
    };
    let version = |patch: Value| {
        let mut version = widgets()["spec"]["versions"][0].clone();
        json_patch::merge(&mut version, &patch);
        version
    };
    let many = |versions: Vec<Value>| changed(json!({"spec": {"versions": versions}}));
    let numbered = |n: usize| version(json!({"name": format!("v{n}"), "storage": n == 1}));
    assert_eq!(validated(&many((1..=50).map(numbered).collect())), Vec::<String>::new());
    let found = validated(&many((1..=20_000).map(numbered).collect()));
    assert_eq!(found, ["spec.versions: Too many: 20000: must have at most 50 items"]);

    let column = json!({"name": "A", "type": "text", "jsonPath": ".a"});
    let found = validated(&many(vec![version(json!({"additionalPrinterColumns": vec![column; 1_000]}))]));
    let want = "spec.additionalPrinterColumns: Too many: 1000: must have at most 100 items";
    assert_eq!((found.len(), found[0].as_str()), (101, want));

    let field = json!({"jsonPath": ".spec.size"});
    let found = validated(&many(vec![version(json!({"selectableFields": vec![field; 100_000]}))]));
    assert_eq!((found.len(), found[0].contains("Duplicate")), (1_000, true));

    let path = format!(".spec.{}", "x".repeat(300));
    let found = validated(&many(vec![version(json!({"selectableFields": [{"jsonPath": path}]}))]));
    assert_eq!(found, ["spec.selectableFields[0].jsonPath: Too long: may not be more than 256 bytes"]);

    let names: Vec<String> = (0..33).map(|n| format!("n{n}")).collect();
    let found =
        validated(&changed(json!({"spec": {"names": {"shortNames": names, "categories": &names[1..]}}})));
    assert_eq!(found, ["spec.names.shortNames: Too many: 33: must have at most 32 items"]);
}

#[test]
fn stored_versions_are_checked_in_linear_time() {
    let definition = |n: usize| {
        let versions: Vec<Value> = (0..n).map(|n| json!({"name": format!("v{n}")})).collect();
        let stored: Vec<String> = (0..n).rev().map(|n| format!("v{n}")).collect();
        Object::from_value(json!({"spec": {"versions": versions}, "status": {"storedVersions": stored}}))
    };
    orlop_apimachinery::thread_time::assert_linear("stored versions", 1_000, definition, |object| {
        let mut errors = FieldErrors::new();
        validate_stored_versions(object, &mut errors);
        assert_eq!(errors.len(), 0);
    });
}

#[test]
fn accepted_names_are_bounded() {
    let established = |accepted: Value| {
        let mut object = changed(json!({}));
        first_status(&mut object);
        set_condition(&mut object, "Established", "True", "r", "m", &json!("t"));
        object.set(&["status", "acceptedNames"], accepted);
        object
    };
    let short: Vec<String> = (0..40).map(|n| format!("n{n}")).collect();
    let names = json!({"plural": "widgets", "kind": "Widget", "shortNames": short});
    let definition = std::sync::Arc::new(crate::Definition::of(&established(names)).unwrap());
    assert_eq!(crate::CustomKind::first(&definition).own_names().short.len(), MAX_NAMES);
    let names = json!({"plural": "widgets", "kind": "W".repeat(64)});
    assert!(crate::Definition::of(&established(names)).is_none());
}
