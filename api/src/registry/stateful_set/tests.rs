#![allow(clippy::unwrap_used)]

use super::super::testing::{ReportedCause, causes, kind_now, object};
use super::*;

fn stateful_set(spec: Value) -> Object {
    let mut value = json!({
        "metadata": {"name": "a", "namespace": "n"},
        "spec": {
            "selector": {"matchLabels": {"app": "x"}},
            "serviceName": "svc",
            "template": {
                "metadata": {"labels": {"app": "x"}},
                "spec": {"containers": [{"name": "c", "image": "i:1"}]},
            },
        },
    });
    json_patch::merge(&mut value, &json!({ "spec": spec }));
    let mut set = object(value);
    StatefulSet.defaults(&mut set);
    set
}

fn claims() -> Value {
    json!([{
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }])
}

fn new(set: &Object) -> Vec<ReportedCause> {
    causes(|errors| StatefulSet.validate_create(set, errors))
}

#[test]
fn update_strategy_is_defaulted() {
    for (case, given, want) in [
        ("nothing", json!({}), json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}})),
        ("the type alone", json!({"type": "RollingUpdate"}), json!({"type": "RollingUpdate"})),
        (
            "a partition",
            json!({"rollingUpdate": {"partition": 3}}),
            json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 3}}),
        ),
        ("on delete", json!({"type": "OnDelete"}), json!({"type": "OnDelete"})),
    ] {
        let set = stateful_set(json!({ "updateStrategy": given }));
        assert_eq!(set.at(&["spec", "updateStrategy"]), Some(&want), "{case}");
    }
    let set = stateful_set(json!({"volumeClaimTemplates": claims()}));
    assert_eq!(set.at(&["spec", "podManagementPolicy"]), Some(&json!("OrderedReady")));
    assert_eq!(
        set.at(&["spec", "persistentVolumeClaimRetentionPolicy"]),
        Some(&json!({"whenDeleted": "Retain", "whenScaled": "Retain"}))
    );
    let claim = &set.at(&CLAIMS).unwrap()[0];
    assert_eq!((&claim["kind"], &claim["apiVersion"]), (&json!("PersistentVolumeClaim"), &json!("v1")));
    assert_eq!(
        (&claim["spec"]["volumeMode"], &claim["status"]["phase"]),
        (&json!("Filesystem"), &json!("Pending"))
    );
}

#[test]
fn max_unavailable_is_dropped_unless_already_set() {
    let spec = json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": 2}}});
    let mut made = stateful_set(spec.clone());
    StatefulSet.prepare_create(&mut made, kind_now());
    assert_eq!(made.at(&MAX_UNAVAILABLE), None);
    let mut changed = stateful_set(spec.clone());
    StatefulSet.prepare_update(&mut changed, &made, kind_now());
    assert_eq!(changed.at(&MAX_UNAVAILABLE), None);
    let mut kept = stateful_set(spec.clone());
    StatefulSet.prepare_update(&mut kept, &stateful_set(spec), kind_now());
    assert_eq!(kept.at(&MAX_UNAVAILABLE), Some(&json!(2)), "what has it keeps it");
}

#[test]
fn specs_are_validated() {
    for (case, spec, path, text) in [
        (
            "management",
            json!({"podManagementPolicy": "X"}),
            "spec.podManagementPolicy",
            "Invalid value: \"X\": must be 'OrderedReady' or 'Parallel'",
        ),
        (
            "its own strategy",
            json!({"updateStrategy": {"type": "X", "rollingUpdate": {"partition": 1}}}),
            "spec.updateStrategy",
            "Invalid value: {\"Type\":\"X\",\"RollingUpdate\":{\"Partition\":1,\"MaxUnavailable\":null}}: must be \
             'RollingUpdate' or 'OnDelete'",
        ),
        (
            "a partition of nothing",
            json!({"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": 1}}}),
            "spec.updateStrategy.rollingUpdate",
            "Invalid value: {\"Partition\":1,\"MaxUnavailable\":null}: only allowed for updateStrategy 'RollingUpdate'",
        ),
        (
            "a negative partition",
            json!({"updateStrategy": {"rollingUpdate": {"partition": -1}}}),
            "spec.updateStrategy.rollingUpdate.partition",
            "Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            "none at a time",
            json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": "0%"}}}),
            "spec.updateStrategy.rollingUpdate.maxUnavailable",
            "Invalid value: \"0%\": cannot be 0",
        ),
        (
            "a negative ordinal",
            json!({"ordinals": {"start": -1}}),
            "spec.ordinals.start",
            "Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            "a service with a dot",
            json!({"serviceName": "a.b"}),
            "spec.serviceName",
            "Invalid value: \"a.b\": must not contain dots",
        ),
        (
            "an empty selector",
            json!({"selector": {"matchLabels": null}}),
            "spec.selector",
            "Invalid value: {}: empty selector is invalid for statefulset",
        ),
    ] {
        assert_eq!(new(&stateful_set(spec)), [("FieldValueInvalid", path, text)], "{case}");
    }
}

#[test]
fn claim_templates_are_validated_and_act_as_volumes() {
    let mount = json!({"containers": [{
        "name": "c", "image": "i:1", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}]});
    let with =
        |claims: Value| stateful_set(json!({"volumeClaimTemplates": claims, "template": {"spec": mount}}));
    assert!(new(&with(claims())).is_empty());
    assert_eq!(
        new(&with(json!([]))),
        [(
            "FieldValueNotFound",
            "spec.template.spec.containers[0].volumeMounts[0].name",
            "Not found: \"data\""
        )]
    );
    let mut bad = claims();
    bad[0]["spec"]["accessModes"] = json!([]);
    assert_eq!(
        new(&with(bad.clone())),
        [(
            "FieldValueRequired",
            "spec.volumeClaimTemplates[0].spec.accessModes",
            "Required value: at least 1 access mode is required"
        )]
    );
    // They are immutable, so an update does not validate them again.
    let old = with(bad);
    assert!(causes(|errors| StatefulSet.validate_update(&old, &old, errors)).is_empty());
    // A claim replaces a volume with the same name.
    let taken =
        json!({"spec": {"template": {"spec": {"volumes": [{"name": "data", "hostPath": {"path": ""}}]}}}});
    let mut set = with(claims()).into_value();
    json_patch::merge(&mut set, &taken);
    assert!(new(&object(set)).is_empty());
}

#[test]
fn host_names_of_the_template_are_not_validated() {
    let odd = json!({"template": {"spec": {"hostname": "A_B", "subdomain": "C_D"}}});
    assert!(new(&stateful_set(odd)).is_empty());
}

#[test]
fn only_mutable_fields_of_the_spec_may_change() {
    let text = "Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
                'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
                'minReadySeconds' are forbidden";
    let old = stateful_set(json!({}));
    for (case, spec, is_taken) in [
        ("replicas", json!({"replicas": 3}), true),
        ("ordinals", json!({"ordinals": {"start": 1}}), true),
        ("template", json!({"template": {"spec": {"hostNetwork": false}}}), true),
        ("history", json!({"revisionHistoryLimit": 3}), true),
        ("retention", json!({"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"}}), true),
        ("ready", json!({"minReadySeconds": 3}), true),
        ("strategy", json!({"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}}), true),
        ("service", json!({"serviceName": "other"}), false),
        ("management", json!({"podManagementPolicy": "Parallel"}), false),
        ("claims", json!({"volumeClaimTemplates": claims()}), false),
    ] {
        let found = causes(|errors| StatefulSet.validate_update(&stateful_set(spec), &old, errors));
        let want: &[(&str, &str, &str)] =
            if is_taken { &[] } else { &[("FieldValueForbidden", "spec", text)] };
        assert_eq!(found, want, "{case}");
    }
}

#[test]
fn unchanged_invalid_template_is_accepted_on_update() {
    let wrong = json!({"template": {"spec": {"containers": [{"name": "A_B", "image": "i:1"}]}}});
    let old = stateful_set(wrong.clone());
    assert!(!new(&old).is_empty());
    assert!(causes(|errors| StatefulSet.validate_update(&old, &old, errors)).is_empty());
    let right = stateful_set(json!({}));
    assert!(!causes(|errors| StatefulSet.validate_update(&old, &right, errors)).is_empty());
}

#[test]
fn fractional_byte_values_cause_warnings() {
    let mut odd = claims();
    odd[0]["spec"]["resources"]["requests"]["storage"] = json!("1500m");
    let set = stateful_set(json!({"volumeClaimTemplates": odd}));
    let path = "spec.volumeClaimTemplates[0]";
    let rest = "resources.requests[storage]: fractional byte value \"1500m\" is invalid, must be an integer";
    assert_eq!(StatefulSet.warnings(&set, None), [format!("{path}.{rest}")]);
    assert_eq!(StatefulSet.warnings(&set, Some(&set)), [format!("{path}.Spec.{rest}")]);
}
