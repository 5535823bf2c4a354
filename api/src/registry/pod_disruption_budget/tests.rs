//! Tests of the `PodDisruptionBudget` kind, one row per rule.

use super::super::testing::{causes, kind_now, object};
use super::*;

const INVALID: &str = "FieldValueInvalid";

#[test]
fn specs_are_validated() {
    let no_percent = "Invalid value: \"x\": a valid percent string must be a numeric string followed by an ending '%' \
                      (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
    let both = "Invalid value: {\"MinAvailable\":1,\"Selector\":{\"matchLabels\":{\"a\":\"b\"}},\
                \"MaxUnavailable\":\"5%\",\"UnhealthyPodEvictionPolicy\":null}: minAvailable and maxUnavailable \
                cannot be both set";
    type Row<'a> = (&'a str, &'a str, &'a str);
    let cases: [(&str, Value, &[Row<'_>]); 10] = [
        ("1 nothing", json!({}), &[]),
        ("2 a number", json!({"minAvailable": 1, "selector": {}}), &[]),
        ("3 a part", json!({"maxUnavailable": "100%", "unhealthyPodEvictionPolicy": "AlwaysAllow"}), &[]),
        (
            "4 both",
            json!({"minAvailable": 1, "maxUnavailable": "5%", "selector": {"matchLabels": {"a": "b"}}}),
            &[(INVALID, "spec", both)],
        ),
        (
            "5 below zero",
            json!({"minAvailable": -1}),
            &[(INVALID, "spec.minAvailable", "Invalid value: -1: must be greater than or equal to 0")],
        ),
        (
            "6 more than all",
            json!({"maxUnavailable": "101%"}),
            &[(INVALID, "spec.maxUnavailable", "Invalid value: \"101%\": must not be greater than 100%")],
        ),
        ("7 no part", json!({"minAvailable": "x"}), &[(INVALID, "spec.minAvailable", no_percent)]),
        (
            "8 an empty part",
            json!({"minAvailable": "%"}),
            &[(INVALID, "spec.minAvailable", &no_percent.replace("\"x\"", "\"%\""))],
        ),
        (
            "9 a bad selector",
            json!({"selector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}),
            &[(
                INVALID,
                "spec.selector.matchExpressions[0].operator",
                "Invalid value: \"Is\": not a valid selector operator",
            )],
        ),
        (
            "10 an unknown policy",
            json!({"unhealthyPodEvictionPolicy": "Never"}),
            &[(
                "FieldValueNotSupported",
                "spec.unhealthyPodEvictionPolicy",
                "Unsupported value: \"Never\": supported values: \"AlwaysAllow\", \"IfHealthyBudget\"",
            )],
        ),
    ];
    for (case, spec, want) in cases {
        let budget = object(json!({"spec": spec}));
        assert_eq!(causes(|errors| PodDisruptionBudget.validate(&budget, errors)), want, "{case}");
    }
}

#[test]
fn invalid_statuses_are_rejected() {
    for name in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
        let budget = object(json!({"status": {name: -1}}));
        let path = format!("status.{name}");
        let want = [(INVALID, path.as_str(), "Invalid value: -1: must be greater than or equal to 0")];
        assert_eq!(causes(|errors| PodDisruptionBudget.validate_status(&budget, &budget, errors)), want);
    }
    let budget = object(json!({"status": {"conditions": [{
        "type": "DisruptionAllowed", "status": "x", "reason": "R", "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]}}));
    let found = causes(|errors| PodDisruptionBudget.validate_status(&budget, &budget, errors));
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn new_budget_gets_an_empty_status() {
    let mut budget =
        object(json!({"spec": {}, "status": {"disruptionsAllowed": 7, "observedGeneration": 3}}));
    PodDisruptionBudget.prepare_create(&mut budget, kind_now());
    let want = json!({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0});
    assert_eq!(budget.into_value()["status"], want);
}

#[test]
fn table_row_shows_the_budget() {
    let budget = object(json!({
        "metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"maxUnavailable": "5%"}, "status": {"disruptionsAllowed": 2},
    }));
    let want = [json!("a"), json!("N/A"), json!("5%"), json!(2), json!("60s")];
    assert_eq!(PodDisruptionBudget.cells(&budget, kind_now()), want);
    let budget = object(json!({"spec": {"minAvailable": 3}}));
    assert_eq!(PodDisruptionBudget.cells(&budget, kind_now())[1..4], [json!("3"), json!("N/A"), json!(0)]);
    assert_eq!(PodDisruptionBudget.columns().len(), want.len());
}
