#![allow(clippy::unwrap_used)]

use super::super::testing::{causes, kind_now, object};
use super::*;

fn deployment(spec: Value) -> Object {
    let mut value = json!({
        "metadata": {"name": "a", "namespace": "n"},
        "spec": {
            "selector": {"matchLabels": {"app": "x"}},
            "template": {
                "metadata": {"labels": {"app": "x"}},
                "spec": {"containers": [{"name": "c", "image": "i:1"}]},
            },
        },
    });
    json_patch::merge(&mut value, &json!({ "spec": spec }));
    let mut deployment = object(value);
    Deployment.defaults(&mut deployment);
    deployment
}

#[test]
fn rolling_update_is_defaulted() {
    for (case, given, want) in [
        (
            "nothing",
            json!({}),
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}),
        ),
        (
            "zero is a number",
            json!({"rollingUpdate": {"maxSurge": 0}}),
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": 0}}),
        ),
        ("no rolling update", json!({"type": "Recreate"}), json!({"type": "Recreate"})),
    ] {
        let made = deployment(json!({ "strategy": given }));
        assert_eq!(made.at(&["spec", "strategy"]), Some(&want), "{case}");
        assert_eq!(made.at(&["spec", "replicas"]), Some(&json!(1)), "{case}");
        assert_eq!(made.at(&["spec", "revisionHistoryLimit"]), Some(&json!(10)), "{case}");
        assert_eq!(made.at(&["spec", "progressDeadlineSeconds"]), Some(&json!(600)), "{case}");
    }
    assert_eq!(deployment(json!({"replicas": 0})).at(&["spec", "replicas"]), Some(&json!(0)));
}

#[test]
fn invalid_deployments_are_rejected() {
    let rolling = "spec.strategy.rollingUpdate";
    let unavailable = format!("{rolling}.maxUnavailable");
    for (case, spec, reason, path, text) in [
        (
            "a negative number",
            json!({"replicas": -1}),
            "Invalid",
            "spec.replicas",
            "Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            "its own strategy",
            json!({"strategy": {"type": "Magic", "rollingUpdate": {"maxSurge": 1}}}),
            "NotSupported",
            "spec.strategy",
            "Unsupported value: {\"Type\":\"Magic\",\"RollingUpdate\":{\"MaxUnavailable\":0,\"MaxSurge\":1}}: \
             supported values: \"Recreate\", \"RollingUpdate\"",
        ),
        (
            "both strategies",
            json!({"strategy": {"type": "Recreate", "rollingUpdate": {}}}),
            "Forbidden",
            rolling,
            "Forbidden: may not be specified when strategy `type` is 'Recreate'",
        ),
        (
            "no continuation",
            json!({"strategy": {"rollingUpdate": {"maxSurge": "0%", "maxUnavailable": 0}}}),
            "Invalid",
            unavailable.as_str(),
            "Invalid value: 0: may not be 0 when `maxSurge` is 0",
        ),
        (
            "more than all",
            json!({"strategy": {"rollingUpdate": {"maxUnavailable": "110%"}}}),
            "Invalid",
            unavailable.as_str(),
            "Invalid value: \"110%\": must not be greater than 100%",
        ),
        (
            "a surge of more than all is fine, below zero is not",
            json!({"strategy": {"rollingUpdate": {"maxSurge": -1}}}),
            "Invalid",
            "spec.strategy.rollingUpdate.maxSurge",
            "Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            "a deadline that comes too early",
            json!({"minReadySeconds": 600}),
            "Invalid",
            "spec.progressDeadlineSeconds",
            "Invalid value: 600: must be greater than minReadySeconds",
        ),
        (
            "no history",
            json!({"revisionHistoryLimit": -1}),
            "Invalid",
            "spec.revisionHistoryLimit",
            "Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            "an empty selector",
            json!({"selector": {"matchLabels": null}}),
            "Invalid",
            "spec.selector",
            "Invalid value: {}: empty selector is invalid for deployment",
        ),
    ] {
        let reason = format!("FieldValue{reason}");
        let found = causes(|errors| Deployment.validate(&deployment(spec), errors));
        assert_eq!(found, [(reason.as_str(), path, text)], "{case}");
    }
    let surge = deployment(json!({"strategy": {"rollingUpdate": {"maxSurge": "200%"}}}));
    assert!(causes(|errors| Deployment.validate(&surge, errors)).is_empty());
}

#[test]
fn invalid_selector_is_rejected() {
    let odd =
        json!({"selector": {"matchLabels": null, "matchExpressions": [{"key": "a", "operator": "Odd"}]}});
    let found = causes(|errors| Deployment.validate(&deployment(odd), errors));
    let shown = "Invalid value: {\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"Odd\"}]}: invalid label selector";
    assert_eq!(
        found,
        [
            (
                "FieldValueInvalid",
                "spec.selector.matchExpressions[0].operator",
                "Invalid value: \"Odd\": not a valid selector operator"
            ),
            ("FieldValueInvalid", "spec.selector", shown),
        ]
    );
}

#[test]
fn status_update_changes_annotations_but_not_labels() {
    let mut old = deployment(json!({}));
    old.set(&["metadata", "labels", "a"], "1");
    let mut new = old.clone();
    new.set(&["metadata", "labels", "a"], "2");
    new.set(&["metadata", "annotations", "b"], "3");
    Deployment.prepare_status(&mut new, &old, kind_now());
    assert_eq!(new.at(&["metadata", "labels"]), Some(&json!({"a": "1"})));
    assert_eq!(new.annotation("b"), Some("3"));
    old.remove(&["metadata", "labels"]);
    Deployment.prepare_status(&mut new, &old, kind_now());
    assert_eq!(new.at(&["metadata", "labels"]), None);
}
