#![allow(clippy::unwrap_used)]

use serde_json::json;

use super::*;
use crate::registry::testing::{causes, kind_now, object};
use crate::registry::{BUILTIN_KINDS, Kind};

fn kind(plural: &str) -> &'static dyn Kind {
    *BUILTIN_KINDS.iter().find(|kind| kind.names().plural == plural).unwrap()
}

/// A workload after defaulting.
fn workload(plural: &str, change: Value) -> Object {
    let selector = match plural {
        "replicationcontrollers" => json!({"app": "x"}),
        _ => json!({"matchLabels": {"app": "x"}}),
    };
    let mut value = json!({
        "metadata": {"name": "a", "namespace": "n"},
        "spec": {
            "selector": selector,
            "template": {
                "metadata": {"labels": {"app": "x"}},
                "spec": {"containers": [{"name": "c", "image": "i:1"}]},
            },
        },
    });
    json_patch::merge(&mut value, &change);
    let mut object = object(value);
    kind(plural).defaults(&mut object);
    object
}

#[test]
fn percentages_are_validated_and_converted() {
    let path = Path::new("p");
    let odd = "Invalid value: \"3\": a valid percent string must be a numeric string followed by an ending '%' \
               (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
    for (value, amount, want) in [
        (json!(3), 3, vec![]),
        (
            json!(-3),
            -3,
            vec![("FieldValueInvalid", "p", "Invalid value: -3: must be greater than or equal to 0")],
        ),
        (json!("25%"), 25, vec![]),
        (json!("3"), 3, vec![("FieldValueInvalid", "p", odd)]),
        (
            json!("110%"),
            110,
            vec![("FieldValueInvalid", "p", "Invalid value: \"110%\": must not be greater than 100%")],
        ),
        (
            json!("99999999999999999999%"),
            i64::MAX,
            vec![(
                "FieldValueInvalid",
                "p",
                "Invalid value: \"99999999999999999999%\": must not be greater than 100%",
            )],
        ),
    ] {
        let found = causes(|errors| {
            percent::validate(&value, &path, errors);
            percent::at_most_all(&value, &path, errors);
        });
        assert_eq!(found, want, "{value}");
        assert_eq!(percent::amount(&value), amount, "{value}");
    }
}

const KINDS_WITH_REPLICAS: [&str; 4] =
    ["replicationcontrollers", "replicasets", "deployments", "statefulsets"];

#[test]
fn complete_workloads_are_valid() {
    for plural in KINDS_WITH_REPLICAS.into_iter().chain(["daemonsets"]) {
        let complete = workload(plural, json!({}));
        let found = causes(|errors| {
            kind(plural).validate(&complete, errors);
            kind(plural).validate_create(&complete, errors);
            kind(plural).validate_update(&complete, &complete, errors);
        });
        assert!(found.is_empty(), "{plural}: {found:?}");
        assert!(kind(plural).warnings(&complete, None).is_empty(), "{plural}");
    }
}

#[test]
fn templates_are_validated() {
    for plural in KINDS_WITH_REPLICAS.into_iter().chain(["daemonsets"]) {
        let name = match plural {
            // They share the rule with their ReplicaSets.
            "deployments" | "replicasets" => "ReplicaSet",
            "replicationcontrollers" => "ReplicationController",
            "statefulsets" => "StatefulSet",
            _ => "DaemonSet",
        };
        let deadline = format!("Forbidden: activeDeadlineSeconds in {name} is not Supported");
        let template = "spec.template.spec";
        let at = |field: &str| format!("{template}.{field}");
        for (case, change, want) in [
            (
                "never again",
                json!({"restartPolicy": "Never"}),
                (
                    "FieldValueNotSupported",
                    at("restartPolicy"),
                    "Unsupported value: \"Never\": supported values: \"Always\"",
                ),
            ),
            (
                "a deadline",
                json!({"activeDeadlineSeconds": 5}),
                ("FieldValueForbidden", at("activeDeadlineSeconds"), deadline.as_str()),
            ),
            (
                "nothing to run",
                json!({"containers": []}),
                ("FieldValueRequired", at("containers"), "Required value"),
            ),
            (
                "ephemeral containers",
                json!({"ephemeralContainers": [{"name": "e", "image": "i:1"}]}),
                (
                    "FieldValueForbidden",
                    at("ephemeralContainers"),
                    "Forbidden: ephemeral containers not allowed in pod template",
                ),
            ),
        ] {
            let bad = workload(plural, json!({"spec": {"template": {"spec": change}}}));
            let found = causes(|errors| {
                kind(plural).validate(&bad, errors);
                kind(plural).validate_create(&bad, errors);
            });
            assert_eq!(found, [(want.0, want.1.as_str(), want.2)], "{plural}: {case}");
        }
    }
}

#[test]
fn selector_must_match_the_template() {
    let text = "Invalid value: {\"app\":\"y\"}: `selector` does not match template `labels`";
    for plural in KINDS_WITH_REPLICAS.into_iter().chain(["daemonsets"]) {
        let bad = workload(plural, json!({"spec": {"template": {"metadata": {"labels": {"app": "y"}}}}}));
        let found = causes(|errors| {
            kind(plural).validate(&bad, errors);
            kind(plural).validate_create(&bad, errors);
        });
        assert_eq!(found, [("FieldValueInvalid", "spec.template.metadata.labels", text)], "{plural}");
    }
    let none = workload("replicasets", json!({"spec": {"template": {"metadata": {"labels": null}}}}));
    let found = causes(|errors| kind("replicasets").validate(&none, errors));
    let text = "Invalid value: null: `selector` does not match template `labels`";
    assert_eq!(found, [("FieldValueInvalid", "spec.template.metadata.labels", text)]);
}

#[test]
fn status_numbers_are_validated() {
    let status = json!({"replicas": 2, "readyReplicas": 1, "availableReplicas": 3, "observedGeneration": -1});
    for (plural, ready) in [
        ("replicationcontrollers", "readyReplicas"),
        ("replicasets", "readyReplicas"),
        ("deployments", "readyReplicas"),
        ("statefulsets", "status.readyReplicas"),
    ] {
        let bad = workload(plural, json!({"status": status}));
        let more = format!("Invalid value: 3: cannot be greater than {ready}");
        assert_eq!(
            causes(|errors| kind(plural).validate_status(&bad, &bad, errors)),
            [
                (
                    "FieldValueInvalid",
                    "status.observedGeneration",
                    "Invalid value: -1: must be greater than or equal to 0"
                ),
                (
                    "FieldValueInvalid",
                    "status.availableReplicas",
                    "Invalid value: 3: cannot be greater than status.replicas"
                ),
                ("FieldValueInvalid", "status.availableReplicas", more.as_str()),
            ],
            "{plural}"
        );
    }
}

#[test]
fn collision_count_cannot_decrease() {
    let with = |count: Value| object(json!({"status": {"collisionCount": count}}));
    for (before, after, want) in [
        (Value::Null, json!(1), None),
        (json!(1), json!(2), None),
        (json!(2), json!(1), Some("Invalid value: 1: cannot be decremented")),
        (json!(2), Value::Null, Some("Invalid value: 0: cannot be decremented")),
    ] {
        let found = causes(|errors| collisions(&with(after.clone()), &with(before.clone()), errors));
        let want: Vec<_> =
            want.iter().map(|text| ("FieldValueInvalid", "status.collisionCount", *text)).collect();
        assert_eq!(found, want, "{before} to {after}");
    }
}

#[test]
fn selectors_are_immutable() {
    for plural in ["replicasets", "deployments", "daemonsets"] {
        let old = workload(plural, json!({}));
        let change = json!({"spec": {
            "selector": {"matchLabels": {"app": "y"}}, "template": {"metadata": {"labels": {"app": "y"}}},
        }});
        let new = workload(plural, change);
        assert_eq!(
            causes(|errors| kind(plural).validate_update(&new, &old, errors)),
            [(
                "FieldValueInvalid",
                "spec.selector",
                "Invalid value: {\"matchLabels\":{\"app\":\"y\"}}: field is immutable"
            )],
            "{plural}"
        );
    }
}

#[test]
fn replication_controller_defaults_its_labels_from_the_template() {
    let mut controller = object(json!({"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}}));
    kind("replicationcontrollers").defaults(&mut controller);
    assert_eq!(controller.at(&["spec", "selector"]), Some(&json!({"a": "b"})));
    assert_eq!(controller.at(&["metadata", "labels"]), Some(&json!({"a": "b"})));
    assert_eq!(controller.at(&["spec", "replicas"]), Some(&json!(1)));

    let mut own = workload("replicationcontrollers", json!({"metadata": {"labels": {"own": "1"}}}));
    kind("replicationcontrollers").defaults(&mut own);
    assert_eq!(own.at(&["metadata", "labels"]), Some(&json!({"own": "1"})));
}

#[test]
fn replication_controller_requires_template_and_selector() {
    let bare = workload("replicationcontrollers", json!({"spec": {"template": null, "selector": null}}));
    assert_eq!(
        causes(|errors| kind("replicationcontrollers").validate(&bare, errors)),
        [
            ("FieldValueRequired", "spec.selector", "Required value"),
            ("FieldValueRequired", "spec.template", "Required value"),
        ]
    );
}

#[test]
fn dotted_names_cause_a_warning() {
    let text = "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; \
                a DNS label is recommended: [must not contain dots]";
    for plural in ["replicationcontrollers", "replicasets", "deployments"] {
        let dotted = workload(plural, json!({"metadata": {"name": "a.b"}}));
        assert_eq!(kind(plural).warnings(&dotted, None), [text], "{plural}");
        assert!(kind(plural).warnings(&dotted, Some(&dotted)).is_empty(), "{plural}: not on every update");
    }
}

#[test]
fn template_warnings_repeat_only_when_the_spec_changes() {
    let odd = json!({"spec": {"template": {"spec": {"terminationGracePeriodSeconds": -1}}}});
    let text = "spec.template.spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and \
                will be treated as 1";
    for plural in KINDS_WITH_REPLICAS.into_iter().chain(["daemonsets"]) {
        let old = workload(plural, odd.clone());
        let mut new = old.clone();
        new.set(&["metadata", "generation"], 2);
        assert_eq!(kind(plural).warnings(&new, None), [text], "{plural}");
        assert_eq!(kind(plural).warnings(&new, Some(&old)), [text], "{plural}");
        assert!(kind(plural).warnings(&new, Some(&new)).is_empty(), "{plural}");
    }
}

#[test]
fn table_rows_show_replicas_and_containers() {
    let change = json!({
        "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"replicas": 4, "template": {"spec": {
            "containers": [{"name": "c", "image": "i:1"}, {"name": "d", "image": "j"}],
            "nodeSelector": {"disk": "fast"},
        }}},
        "status": {
            "replicas": 3, "readyReplicas": 2, "updatedReplicas": 1, "availableReplicas": 1,
            "desiredNumberScheduled": 5, "currentNumberScheduled": 4, "numberReady": 3,
            "updatedNumberScheduled": 2, "numberAvailable": 1,
        },
    });
    for (plural, want) in [
        ("replicationcontrollers", json!(["a", 4, 3, 2, "60s", "c,d", "i:1,j", "app=x"])),
        ("replicasets", json!(["a", 4, 3, 2, "60s", "c,d", "i:1,j", "app=x"])),
        ("deployments", json!(["a", "2/4", 1, 1, "60s", "c,d", "i:1,j", "app=x"])),
        ("statefulsets", json!(["a", "2/4", "60s", "c,d", "i:1,j"])),
        ("daemonsets", json!(["a", 5, 4, 3, 2, 1, "disk=fast", "60s", "c,d", "i:1,j", "app=x"])),
    ] {
        let object = workload(plural, change.clone());
        assert_eq!(json!(kind(plural).cells(&object, kind_now())), want, "{plural}");
        assert_eq!(kind(plural).columns().len(), want.as_array().unwrap().len(), "{plural}");
    }
    let nothing = object(json!({}));
    assert_eq!(table::selector(&nothing), "<none>");
    let odd = object(json!({"spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "Odd"}]}}}));
    assert_eq!(table::selector(&odd), "<error>");
}

#[test]
fn only_replication_controllers_have_selectable_fields() {
    let controller = workload("replicationcontrollers", json!({"status": {"replicas": 3}}));
    assert_eq!(kind("replicationcontrollers").field(&controller, "status.replicas"), "3");
    for plural in ["replicasets", "deployments", "statefulsets", "daemonsets", "controllerrevisions"] {
        assert!(kind(plural).selectable().is_empty(), "{plural}");
    }
}
