#![allow(clippy::unwrap_used)]

use super::super::testing::{causes, kind_now, object};
use super::*;

fn daemon_set(spec: Value) -> Object {
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
    let mut set = object(value);
    DaemonSet.defaults(&mut set);
    set
}

#[test]
fn new_set_gets_defaults_and_an_empty_status() {
    let mut set = daemon_set(json!({}));
    DaemonSet.prepare_create(&mut set, kind_now());
    assert_eq!(
        set.at(&["spec", "updateStrategy"]),
        Some(&json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}))
    );
    assert_eq!(set.at(&["spec", "revisionHistoryLimit"]), Some(&json!(10)));
    assert_eq!(set.annotation(TEMPLATE_GENERATION), Some("1"));
    assert_eq!(
        set.at(&["status"]),
        Some(
            &json!({"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0})
        )
    );
}

#[test]
fn template_changes_increment_the_template_generation() {
    let mut old = daemon_set(json!({}));
    DaemonSet.prepare_create(&mut old, kind_now());
    for (case, change, want) in [
        ("nothing", json!({}), "1"),
        ("something else", json!({"minReadySeconds": 3}), "1"),
        ("the template", json!({"template": {"spec": {"hostNetwork": true}}}), "2"),
    ] {
        let mut new = daemon_set(change);
        DaemonSet.prepare_update(&mut new, &old, kind_now());
        assert_eq!(new.annotation(TEMPLATE_GENERATION), Some(want), "{case}");
    }
    let mut status = daemon_set(json!({}));
    DaemonSet.prepare_status(&mut status, &old, kind_now());
    assert_eq!(status.annotation(TEMPLATE_GENERATION), Some("1"), "a status cannot take it away");
}

#[test]
fn invalid_sets_are_rejected() {
    let rolling = "spec.updateStrategy.rollingUpdate";
    let (surge, unavailable) = (format!("{rolling}.maxSurge"), format!("{rolling}.maxUnavailable"));
    for (case, spec, reason, path, text) in [
        (
            "no selector",
            json!({"selector": null}),
            "Invalid",
            "spec.template.metadata.labels",
            "Invalid value: {\"app\":\"x\"}: `selector` does not match template `labels`",
        ),
        (
            "an empty selector",
            json!({"selector": {"matchLabels": null}}),
            "Invalid",
            "spec.selector",
            "Invalid value: {}: empty selector is invalid for daemonset",
        ),
        (
            "both ways at once",
            json!({"updateStrategy": {"rollingUpdate": {"maxSurge": 1}}}),
            "Invalid",
            surge.as_str(),
            "Invalid value: 1: may not be set when maxUnavailable is non-zero",
        ),
        (
            "neither way",
            json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0}}}),
            "Required",
            unavailable.as_str(),
            "Required value: cannot be 0 when maxSurge is 0",
        ),
        (
            "its own strategy",
            json!({"updateStrategy": {"type": "X"}}),
            "NotSupported",
            "spec.updateStrategy",
            "Unsupported value: {\"Type\":\"X\",\"RollingUpdate\":null}: supported values: \"RollingUpdate\", \"OnDelete\"",
        ),
    ] {
        let reason = format!("FieldValue{reason}");
        let found = causes(|errors| DaemonSet.validate(&daemon_set(spec), errors));
        assert_eq!(found, [(reason.as_str(), path, text)], "{case}");
    }
}
