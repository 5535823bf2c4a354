use serde_json::{Value, json};

use super::*;
use crate::registry::volume_testing::*;

fn range(limits: Value) -> Value {
    json!({"metadata": {"name": "r", "namespace": "n"}, "spec": {"limits": limits}})
}

#[test]
fn defaults_are_derived_from_maximum_and_minimum() {
    for (case, given, want) in [
        (
            "1 from the maximum",
            json!({"type": "Container", "max": {"cpu": "2"}}),
            json!({"type": "Container", "max": {"cpu": "2"}, "default": {"cpu": "2"}, "defaultRequest": {"cpu": "2"}}),
        ),
        (
            "2 from the minimum",
            json!({"type": "Container", "min": {"cpu": "1"}, "default": {"memory": "1Gi"}}),
            json!({"type": "Container", "min": {"cpu": "1"}, "default": {"memory": "1Gi"},
                "defaultRequest": {"memory": "1Gi", "cpu": "1"}}),
        ),
        (
            "3 what is said stays",
            json!({"type": "Container", "max": {"cpu": "2"}, "default": {"cpu": "1"}, "defaultRequest": {"cpu": "500m"}}),
            json!({"type": "Container", "max": {"cpu": "2"}, "default": {"cpu": "1"}, "defaultRequest": {"cpu": "500m"}}),
        ),
        (
            "4 only for containers",
            json!({"type": "Pod", "max": {"cpu": "2"}}),
            json!({"type": "Pod", "max": {"cpu": "2"}}),
        ),
    ] {
        let got = defaulted(&LimitRange, &range(json!([given])));
        assert_eq!(got.at(&["spec", "limits"]), Some(&json!([want])), "{case}");
    }
    let empty = defaulted(&LimitRange, &json!({"metadata": {"name": "r"}}));
    assert_eq!(empty.at(&["spec"]), Some(&json!({"limits": null})));
}

#[test]
fn new_objects_are_validated() {
    let at = "spec.limits[0]";
    for (case, limits, want) in [
        ("1 none", json!([]), vec![]),
        (
            "2 fine",
            json!([{"type": "Container", "min": {"cpu": "100m"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "3"}},
                {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}}, {"type": "example.com/thing", "max": {"cpu": "1"}}]),
            vec![],
        ),
        (
            "3 unknown type",
            json!([{"type": "Node"}]),
            vec![format!("{at}.type: Invalid value: \"Node\": must be a standard limit type or fully qualified")],
        ),
        (
            "4 twice",
            json!([{"type": "Pod"}, {"type": "Pod"}]),
            vec!["spec.limits[1].type: Duplicate value: \"Pod\"".to_owned()],
        ),
        (
            "5 a claim without storage",
            json!([{"type": "PersistentVolumeClaim", "max": {"cpu": "1"}}]),
            vec![format!(
                "{at}.limits: Required value: either minimum or maximum storage value is required, but neither was provided"
            )],
        ),
        (
            "6 defaults of pods",
            json!([{"type": "Pod", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "1"}}]),
            vec![
                format!("{at}.default: Forbidden: may not be specified when `type` is 'Pod'"),
                format!("{at}.defaultRequest: Forbidden: may not be specified when `type` is 'Pod'"),
            ],
        ),
        (
            "7 the wrong way round",
            json!([{"type": "Pod", "min": {"cpu": "2"}, "max": {"cpu": "1"}}]),
            vec![format!("{at}.min[cpu]: Invalid value: \"2\": min value 2 is greater than max value 1")],
        ),
        (
            "8 defaults outside",
            json!([{"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "4"}, "default": {"cpu": "5"},
                "defaultRequest": {"cpu": "1"}}]),
            vec![
                format!(
                    "{at}.defaultRequest[cpu]: Invalid value: \"1\": min value 2 is greater than default request value 1"
                ),
                format!("{at}.default[cpu]: Invalid value: \"4\": default value 5 is greater than max value 4"),
            ],
        ),
        (
            "9 a request above the limit",
            json!([{"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "2"}}]),
            vec![format!(
                "{at}.defaultRequest[cpu]: Invalid value: \"2\": default request value 2 is greater than default limit value 1"
            )],
        ),
        (
            "10 ratios",
            json!([{"type": "Pod", "min": {"cpu": "1"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "3", "memory": "500m"}}]),
            vec![
                format!(
                    "{at}.maxLimitRequestRatio[cpu]: Invalid value: \"3\": ratio 3 is greater than max/min = 2.000000"
                ),
                format!("{at}.maxLimitRequestRatio[memory]: Invalid value: \"500m\": ratio 500m is less than 1"),
            ],
        ),
        (
            "11 not of containers",
            json!([{"type": "Container", "max": {"storage": "1Gi"}}]),
            ["max", "default", "defaultRequest"]
                .map(|list| {
                    format!("{at}.{list}[storage]: Invalid value: \"storage\": must be a standard resource for containers")
                })
                .to_vec(),
        ),
    ] {
        check(case, &create_errors(&LimitRange, &range(limits)), &want);
    }
}

#[test]
fn range_without_name_is_assigned_one() {
    assert_eq!(created(&LimitRange, &json!({"metadata": {}})).name().len(), 36);
    assert_eq!(created(&LimitRange, &json!({"metadata": {"generateName": "a-"}})).name(), "");
}
