//! Tests of the `StorageClass` kind.

use serde_json::json;

use super::*;
use crate::registry::volume_testing::*;

#[test]
fn missing_fields_are_defaulted() {
    let got = created(&StorageClass, &json!({"metadata": {"name": "x"}, "provisioner": "p"}));
    let want = json!({
        "metadata": {"name": "x"}, "provisioner": "p", "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate",
    });
    assert_eq!(got.into_value(), want);
    let own = json!({"reclaimPolicy": "Retain", "volumeBindingMode": "WaitForFirstConsumer"});
    assert_eq!(created(&StorageClass, &own).into_value(), own);
}

#[test]
fn new_classes_are_validated() {
    let good = json!({"metadata": {"name": "x"}, "provisioner": "csi.example.com"});
    let term = |expressions| json!({"allowedTopologies": [{"matchLabelExpressions": expressions}]});
    let many: serde_json::Map<_, _> = (0..513).map(|i| (i.to_string(), json!("x"))).collect();
    let a = || json!({"key": "a", "values": ["x"]});
    for (case, patch, want) in [
        ("1 good", json!({}), vec![]),
        ("2 no provisioner", json!({"provisioner": ""}), vec!["provisioner: Required value".to_owned()]),
        (
            "3 bad provisioner",
            json!({"provisioner": "kubernetes.io/Bad Name"}),
            vec![format!("provisioner: Invalid value: \"kubernetes.io/bad name\": {NAME_PART}")],
        ),
        ("4 capitals", json!({"provisioner": "BAD_name"}), vec![]),
        (
            "5 policy and mode",
            json!({"reclaimPolicy": "Recycle", "volumeBindingMode": "Later"}),
            vec![
                "reclaimPolicy: Unsupported value: \"Recycle\": supported values: \"Delete\", \"Retain\"".to_owned(),
                "volumeBindingMode: Unsupported value: \"Later\": supported values: \"Immediate\", \"WaitForFirstConsumer\"".to_owned(),
            ],
        ),
        (
            "6 empty parameter",
            json!({"parameters": {"": "x"}}),
            vec!["parameters: Invalid value: \"\": field can not be empty.".to_owned()],
        ),
        (
            "7 many parameters",
            json!({"parameters": many}),
            vec!["parameters: Too long: may not be more than 512 bytes".to_owned()],
        ),
        (
            "8 large parameters",
            json!({"parameters": {"a": "x".repeat(262_144)}}),
            vec!["parameters: Too long: may not be more than 262144 bytes".to_owned()],
        ),
        (
            "9 topology without a key",
            term(json!([{"key": "", "values": ["a"]}])),
            vec![
                "allowedTopologies[0].matchLabelExpressions[0].key: Invalid value: \"\": name part must be non-empty".to_owned(),
                format!("allowedTopologies[0].matchLabelExpressions[0].key: Invalid value: \"\": {NAME_PART}"),
            ],
        ),
        (
            "10 topology without values",
            term(json!([{"key": "a", "values": []}])),
            vec!["allowedTopologies[0].matchLabelExpressions[0].values: Required value".to_owned()],
        ),
        (
            "11 a value twice",
            term(json!([{"key": "a", "values": ["x", "x"]}])),
            vec!["allowedTopologies[0].matchLabelExpressions[0].values[1]: Duplicate value: \"x\"".to_owned()],
        ),
        (
            "12 a key twice",
            term(json!([{"key": "a", "values": ["x"]}, {"key": "a", "values": ["y"]}])),
            vec!["allowedTopologies[0].matchLabelExpressions[1].key: Duplicate value: \"a\"".to_owned()],
        ),
        (
            "13 a term twice",
            json!({"allowedTopologies": [{"matchLabelExpressions": [a()]}, {"matchLabelExpressions": [a()]}]}),
            vec!["allowedTopologies[1].matchLabelExpressions: Duplicate value: \"\"".to_owned()],
        ),
        (
            "14 an empty term",
            json!({"allowedTopologies": [{}]}),
            vec!["allowedTopologies[0].matchLabelExpressions: Duplicate value: \"\"".to_owned()],
        ),
    ] {
        check(case, &create_errors(&StorageClass, &with(&good, &patch)), &want);
    }
}

#[test]
fn updates_are_validated() {
    let old = json!({"metadata": {"name": "x"}, "provisioner": "p", "parameters": {"a": "b"}});
    for (case, patch, want) in [
        ("1 nothing", json!({}), vec![]),
        (
            "2 all that is fixed",
            json!({
                "provisioner": "z", "parameters": {"q": "r"}, "reclaimPolicy": "Retain",
                "volumeBindingMode": "WaitForFirstConsumer",
            }),
            vec![
                "parameters: Invalid value: {\"a\":\"b\",\"q\":\"r\"}: field is immutable",
                "provisioner: Invalid value: \"z\": field is immutable",
                "reclaimPolicy: Invalid value: \"Retain\": field is immutable",
                "volumeBindingMode: Invalid value: \"WaitForFirstConsumer\": field is immutable",
            ],
        ),
        (
            "3 parameters removed",
            json!({"parameters": null}),
            vec!["parameters: Invalid value: null: field is immutable"],
        ),
        (
            "4 what may change",
            json!({
                "allowVolumeExpansion": true, "mountOptions": ["y"],
                "allowedTopologies": [{"matchLabelExpressions": [{"key": "a", "values": ["b"]}]}],
            }),
            vec![],
        ),
    ] {
        check(case, &update_errors(&StorageClass, &old, &with(&old, &patch)), &want);
    }
}

#[test]
fn table_rows_mark_the_default_class() {
    for (case, class, want) in [
        (
            "1 plain",
            json!({"metadata": {"name": "a"}, "provisioner": "p"}),
            json!(["a", "p", "Delete", "Immediate", false, "10s"]),
        ),
        (
            "2 the default, and everything set",
            json!({
                "metadata": {"name": "a", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
                "provisioner": "p", "reclaimPolicy": "Retain", "volumeBindingMode": "WaitForFirstConsumer",
                "allowVolumeExpansion": true,
            }),
            json!(["a (default)", "p", "Retain", "WaitForFirstConsumer", true, "10s"]),
        ),
        (
            "3 the beta annotation counts, other values do not",
            json!({
                "metadata": {"name": "a", "annotations": {
                    "storageclass.kubernetes.io/is-default-class": "yes",
                    "storageclass.beta.kubernetes.io/is-default-class": "true",
                }},
                "provisioner": "p",
            }),
            json!(["a (default)", "p", "Delete", "Immediate", false, "10s"]),
        ),
    ] {
        assert_eq!(row(&StorageClass, &class), want, "{case}");
    }
}

#[test]
fn deprecated_node_labels_cause_warnings() {
    let class = json!({"provisioner": "p", "allowedTopologies": [{"matchLabelExpressions": [
        {"key": "a", "values": ["x"]}, {"key": "failure-domain.beta.kubernetes.io/zone", "values": ["x"]}]}]});
    let want = "allowedTopologies[0].matchLabelExpressions[1]: deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead";
    check("warnings", &warnings(&StorageClass, &class), &[want]);
}

#[test]
fn class_annotation_takes_precedence_over_the_field() {
    for (object, class, named) in [
        (json!({"spec": {}}), "", false),
        (json!({"spec": {"storageClassName": null}}), "", false),
        (json!({"spec": {"storageClassName": ""}}), "", true),
        (json!({"spec": {"storageClassName": "a"}}), "a", true),
        (
            json!({"metadata": {"annotations": {BETA_ANNOTATION: "b"}}, "spec": {"storageClassName": "a"}}),
            "b",
            true,
        ),
    ] {
        let object = Object::from_value(object);
        assert_eq!((class_of(&object), is_named(&object)), (class, named), "{object:?}");
    }
}
