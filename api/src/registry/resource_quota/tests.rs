use serde_json::{Value, json};

use super::*;
use crate::registry::volume_testing::*;

fn quota(spec: Value) -> Value {
    json!({"metadata": {"name": "q", "namespace": "n"}, "spec": spec})
}

const QUALIFIED: &str = "must be a standard resource type or fully qualified";

#[test]
fn new_quotas_are_validated() {
    let expression = |scope: &str, operator: &str, values: Value| json!({"scopeSelector": {"matchExpressions": [{"scopeName": scope, "operator": operator, "values": values}]}});
    let selector = "spec.scopeSelector.matchExpressions";
    for (case, spec, want) in [
        ("1 nothing", json!({}), vec![]),
        (
            "2 all sorts",
            json!({"hard": {"pods": "1", "requests.storage": "1Gi", "gold.storageclass.storage.k8s.io/requests.storage": "1Gi",
                "count/deployments.apps": "3", "requests.hugepages-2Mi": "2Mi", "requests.example.com/gpu": "2"}}),
            vec![],
        ),
        (
            "3 unknown",
            json!({"hard": {"beans": "1"}}),
            vec![
                format!("spec.hard[beans]: Invalid value: \"beans\": {QUALIFIED}"),
                "spec.hard[beans]: Invalid value: \"beans\": must be a standard resource for quota"
                    .to_owned(),
            ],
        ),
        (
            "4 not for quotas",
            json!({"hard": {"storage": "1"}}),
            vec![
                "spec.hard[storage]: Invalid value: \"storage\": must be a standard resource for quota"
                    .to_owned(),
            ],
        ),
        (
            "5 negative",
            json!({"hard": {"pods": "-1"}}),
            vec!["spec.hard[pods]: Invalid value: \"-1\": must be greater than or equal to 0".to_owned()],
        ),
        (
            "6 half a pod",
            json!({"hard": {"pods": "500m"}}),
            vec!["spec.hard[pods]: Invalid value: \"500m\": must be an integer".to_owned()],
        ),
        (
            "7 unknown scope",
            json!({"scopes": ["Sunny"]}),
            vec!["spec.scopes: Invalid value: [\"Sunny\"]: unsupported scope".to_owned()],
        ),
        (
            "8 a scope of pods for claims",
            json!({"hard": {"requests.storage": "1Gi", "pods": "1"}, "scopes": ["Terminating"]}),
            vec![
                "spec.scopes: Invalid value: [\"Terminating\"]: unsupported scope applied to resource"
                    .to_owned(),
            ],
        ),
        (
            "9 best effort uses nothing",
            json!({"hard": {"cpu": "1"}, "scopes": ["BestEffort"]}),
            vec![
                "spec.scopes: Invalid value: [\"BestEffort\"]: unsupported scope applied to resource"
                    .to_owned(),
            ],
        ),
        (
            "10 both",
            json!({"scopes": ["BestEffort", "NotBestEffort"]}),
            vec![
                "spec.scopes: Invalid value: [\"BestEffort\",\"NotBestEffort\"]: conflicting scopes"
                    .to_owned(),
            ],
        ),
        ("11 a class", expression("VolumeAttributesClass", "In", json!(["gold"])), vec![]),
        (
            "12 no values",
            expression("PriorityClass", "In", json!([])),
            vec![format!(
                "{selector}.values: Required value: must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            )],
        ),
        (
            "13 values",
            expression("PriorityClass", "Exists", json!(["x"])),
            vec![format!(
                "{selector}.values: Invalid value: [\"x\"]: must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            )],
        ),
        (
            "14 operator",
            expression("PriorityClass", "Near", json!([])),
            vec![format!("{selector}.operator: Invalid value: \"Near\": not a valid selector operator")],
        ),
        (
            "15 only exists",
            expression("Terminating", "DoesNotExist", json!([])),
            vec![format!("{selector}.operator: Invalid value: \"DoesNotExist\": {EXISTS_ALONE}")],
        ),
        (
            "16 a scope of claims for pods",
            with(&expression("VolumeAttributesClass", "Exists", json!([])), &json!({"hard": {"pods": "1"}})),
            vec![format!(
                "{selector}: Invalid value: {{\"MatchExpressions\":[{{\"ScopeName\":\"VolumeAttributesClass\",\"Operator\":\"Exists\",\"Values\":null}}]}}: unsupported scope applied to resource"
            )],
        ),
    ] {
        check(case, &create_errors(&ResourceQuota, &quota(spec)), &want);
    }
}

#[test]
fn scopes_are_immutable() {
    let old = quota(json!({"hard": {"pods": "1"}, "scopes": ["Terminating", "BestEffort"]}));
    let same = quota(json!({"hard": {"pods": "2"}, "scopes": ["BestEffort", "Terminating"]}));
    check("order", &update_errors(&ResourceQuota, &old, &same), &[""; 0]);
    let other = quota(json!({"hard": {"pods": "2"}, "scopes": ["BestEffort"]}));
    check(
        "scopes stay",
        &update_errors(&ResourceQuota, &old, &other),
        &["spec.scopes: Invalid value: [\"BestEffort\"]: field is immutable"],
    );
}

#[test]
fn status_amounts_are_validated() {
    let old = quota(json!({}));
    check(
        "both lists",
        &status_errors(&ResourceQuota, &old, &json!({"hard": {"x": "1"}, "used": {"pods": "-1"}})),
        &[
            format!("status.hard[x]: Invalid value: \"x\": {QUALIFIED}"),
            "status.hard[x]: Invalid value: \"x\": must be a standard resource for quota".to_owned(),
            "status.used[pods]: Invalid value: \"-1\": must be greater than or equal to 0".to_owned(),
        ],
    );
    let mut given = quota(json!({}));
    given["status"] = json!({"hard": {"pods": "1"}});
    assert_eq!(created(&ResourceQuota, &given).at(&["status"]), Some(&json!({})), "a client cannot give it");
}

#[test]
fn table_row_shows_used_and_hard_amounts() {
    assert_eq!(row(&ResourceQuota, &quota(json!({}))), json!(["q", "", "", "10s"]));
    let mut full = quota(json!({}));
    full["status"] = json!({
        "hard": {"pods": "5", "requests.storage": "10Gi", "limits.cpu": "2", "limits.memory": "1Gi"},
        "used": {"pods": "1", "requests.storage": "8Gi", "limits.cpu": "500m"}
    });
    let want = json!([
        "q",
        "pods: 1/5, requests.storage: 8Gi/10Gi",
        "limits.cpu: 500m/2, limits.memory: 0/1Gi",
        "10s"
    ]);
    assert_eq!(row(&ResourceQuota, &full), want);
}
