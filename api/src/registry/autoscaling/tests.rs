use serde_json::{Value, json};

use super::HorizontalPodAutoscaler::{V1, V2};
use crate::kind::Kind;
use crate::object::Object;
use crate::registry::volume_testing::{check, created, defaulted, row, status_errors, with};
use crate::validate::FieldErrors;

fn scaler() -> Value {
    json!({"metadata": {"name": "a"}, "spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}, "maxReplicas": 5,
    }})
}

fn metrics(list: Value) -> Value {
    with(&scaler(), &json!({"spec": {"metrics": list}}))
}

/// The errors of a create or, with an old object, of an update.
fn errors(kind: &dyn Kind, old: Option<&Value>, new: &Value) -> Vec<String> {
    let new = created(kind, new);
    let mut errors = FieldErrors::new();
    match old {
        None => kind.validate_create(&new, &mut errors),
        Some(old) => kind.validate_update(&new, &created(kind, old), &mut errors),
    }
    errors.causes().iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
}

#[test]
fn omitted_fields_are_set() {
    let cpu = json!({"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}});
    let spec = |value: &Value| defaulted(&V2, value).at(&["spec"]).cloned().unwrap_or_default();
    let plain = spec(&scaler());
    assert_eq!(plain["minReplicas"], 1);
    assert_eq!(plain["metrics"], json!([{"type": "Resource", "resource": cpu}]));
    assert_eq!(plain.get("behavior"), None);
    let down = json!({"spec": {"behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}}}});
    assert_eq!(
        spec(&with(&scaler(), &down))["behavior"],
        json!({
            "scaleUp": {"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [
                {"type": "Pods", "value": 4, "periodSeconds": 15},
                {"type": "Percent", "value": 100, "periodSeconds": 15},
            ]},
            "scaleDown": {"stabilizationWindowSeconds": 60, "selectPolicy": "Max", "policies": [
                {"type": "Percent", "value": 100, "periodSeconds": 15},
            ]},
        })
    );
}

#[test]
fn invalid_specs_are_rejected() {
    const TYPES: &str = "\"ContainerResource\", \"External\", \"Object\", \"Pods\", \"Resource\"";
    let odd = format!("spec.metrics[0].type: Unsupported value: \"Odd\": supported values: {TYPES}");
    let resource =
        |target: Value| json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]);
    let value = json!({"type": "AverageValue", "averageValue": "1"});
    let cases: [(&str, Value, Vec<&str>); 17] = [
        ("1 valid", scaler(), vec![]),
        (
            "2 no replicas",
            with(&scaler(), &json!({"spec": {"maxReplicas": 0}})),
            vec![
                "spec.maxReplicas: Required value: must be set and greater than 0",
                "spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`",
            ],
        ),
        (
            "3 minimum above the maximum",
            with(&scaler(), &json!({"spec": {"minReplicas": 9}})),
            vec!["spec.maxReplicas: Invalid value: 5: must be greater than or equal to `minReplicas`"],
        ),
        (
            "4 scales to zero",
            with(&scaler(), &json!({"spec": {"minReplicas": 0}})),
            vec![
                "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1",
                "spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to zero replicas",
            ],
        ),
        (
            "5 no target",
            with(
                &scaler(),
                &json!({"spec": {"scaleTargetRef": {"apiVersion": null, "kind": "", "name": ""}}}),
            ),
            vec![
                "spec.scaleTargetRef.kind: Required value",
                "spec.scaleTargetRef.name: Required value",
                "spec.scaleTargetRef.apiVersion: Invalid value: \"\": apiVersion must specify API group",
            ],
        ),
        (
            "6 invalid target",
            with(&scaler(), &json!({"spec": {"scaleTargetRef": {"apiVersion": "a/b/c", "kind": "a/b"}}})),
            vec![
                "spec.scaleTargetRef.kind: Invalid value: \"a/b\": may not contain '/'",
                "spec.scaleTargetRef.apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c",
            ],
        ),
        (
            "7 ReplicationController",
            with(
                &scaler(),
                &json!({"spec": {"scaleTargetRef": {"apiVersion": "v1", "kind": "ReplicationController"}}}),
            ),
            vec![],
        ),
        ("8 unknown type", metrics(json!([{"type": "Odd"}])), vec![&odd, &odd]),
        (
            "9 no source",
            metrics(json!([{"type": "Resource"}])),
            vec![
                "spec.metrics[0].resource: Required value: must populate information for the given metric source",
            ],
        ),
        (
            "10 no value",
            metrics(resource(json!({"type": "Utilization"}))),
            vec![
                "spec.metrics[0].resource.target.averageUtilization: Required value: must set either a target raw value \
                 or a target utilization",
            ],
        ),
        (
            "11 two values",
            metrics(resource(json!({"type": "Utilization", "averageUtilization": 1, "averageValue": "1"}))),
            vec![
                "spec.metrics[0].resource.target.averageValue: Forbidden: may not set both a target raw value and a \
                 target utilization",
            ],
        ),
        (
            "12 invalid values",
            metrics(resource(json!({"type": "Some", "averageUtilization": -1, "value": "0"}))),
            vec![
                "spec.metrics[0].resource.target.type: Invalid value: \"Some\": must be either Utilization, Value, or \
                 AverageValue",
                "spec.metrics[0].resource.target.value: Invalid value: \"0\": must be positive",
                "spec.metrics[0].resource.target.averageUtilization: Invalid value: -1: must be greater than 0",
            ],
        ),
        (
            "13 two sources",
            metrics(json!([{
                "type": "Pods", "pods": {"metric": {"name": ""}, "target": value},
                "resource": {"name": "", "target": value},
            }])),
            vec![
                "spec.metrics[0].pods.metric.name: Required value: must specify a metric name",
                "spec.metrics[0].resource: Forbidden: must populate the given metric source only",
            ],
        ),
        (
            "14 container",
            metrics(json!([{
                "type": "ContainerResource",
                "containerResource": {"name": "", "container": "", "target": value},
            }])),
            vec![
                "spec.metrics[0].containerResource.name: Required value: must specify a resource name",
                "spec.metrics[0].containerResource.container: Required value: must specify a container",
            ],
        ),
        (
            "15 object",
            metrics(json!([{"type": "Object", "object": {
                "metric": {"name": "m"}, "describedObject": {"kind": "S", "name": "s"}, "target": {"type": "Value"},
            }}])),
            vec![
                "spec.metrics[0].object.target.averageValue: Required value: must set either a target value or averageValue",
            ],
        ),
        (
            "16 external",
            metrics(json!([{"type": "External", "external": {
                "metric": {"name": "m"}, "target": {"type": "Value", "value": "1", "averageValue": "1"},
            }}])),
            vec![
                "spec.metrics[0].external.target.value: Forbidden: may not set both a target value for metric and a \
                 per-pod target",
            ],
        ),
        (
            "17 behavior",
            with(
                &scaler(),
                &json!({"spec": {"behavior": {
                    "scaleUp": {"policies": [], "stabilizationWindowSeconds": 4000},
                    "scaleDown": {
                        "selectPolicy": "Some", "tolerance": "-1",
                        "policies": [{"type": "Odd", "value": 0, "periodSeconds": 1801}],
                    },
                }}}),
            ),
            vec![
                "spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: 4000: must be less than or equal to 3600",
                "spec.behavior.scaleUp.policies: Required value: must specify at least one Policy",
                "spec.behavior.scaleDown.selectPolicy: Unsupported value: \"Some\": supported values: \"Disabled\", \
                 \"Max\", \"Min\"",
                "spec.behavior.scaleDown.policies[0].type: Unsupported value: \"Odd\": supported values: \"Percent\", \"Pods\"",
                "spec.behavior.scaleDown.policies[0].value: Invalid value: 0: must be greater than zero",
                "spec.behavior.scaleDown.policies[0].periodSeconds: Invalid value: 1801: must be less than or equal to 1800",
                "spec.behavior.scaleDown.tolerance: Invalid value: \"-1\": must be greater than or equal to 0",
            ],
        ),
    ];
    for (case, object, want) in cases {
        check(case, &errors(&V2, None, &object), &want);
    }
}

#[test]
fn invalid_stored_values_may_stay() {
    let zero = with(
        &scaler(),
        &json!({"spec": {"minReplicas": 0, "metrics": [{"type": "External", "external": {
            "metric": {"name": "m"}, "target": {"type": "Value", "value": "1"},
        }}]}}),
    );
    assert_eq!(errors(&V2, Some(&zero), &zero), [""; 0]);
    check(
        "new",
        &errors(&V2, Some(&scaler()), &zero),
        &["spec.minReplicas: Invalid value: 0: must be greater than or equal to 1"],
    );
    let core = with(&scaler(), &json!({"spec": {"scaleTargetRef": {"apiVersion": "v1"}}}));
    assert_eq!(errors(&V2, Some(&core), &core), [""; 0]);
    assert_eq!(errors(&V2, Some(&scaler()), &core).len(), 1);
}

#[test]
fn negative_numbers_in_a_status_are_rejected() {
    check(
        "status",
        &status_errors(&V2, &scaler(), &json!({"currentReplicas": -1, "desiredReplicas": -2})),
        &[
            "status.currentReplicas: Invalid value: -1: must be greater than or equal to 0",
            "status.desiredReplicas: Invalid value: -2: must be greater than or equal to 0",
        ],
    );
}

/// An object of version 2 with everything that version 1 cannot express.
fn full() -> Value {
    json!({
        "metadata": {"name": "a", "annotations": {"own": "x"}},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
            "minReplicas": 1, "maxReplicas": 5,
            "metrics": [
                {"type": "Pods", "pods": {
                    "metric": {"name": "m<", "selector": {"matchLabels": {"a": "b"}}},
                    "target": {"type": "AverageValue", "averageValue": "1k"},
                }},
                {"type": "Object", "object": {
                    "describedObject": {"kind": "S", "name": "s"}, "metric": {"name": "m"},
                    "target": {"type": "Value", "value": "10"},
                }},
                {"type": "External", "external": {
                    "metric": {"name": "q"}, "target": {"type": "AverageValue", "averageValue": "30"},
                }},
                {"type": "ContainerResource", "containerResource": {
                    "name": "memory", "container": "c", "target": {"type": "Utilization", "averageUtilization": 60},
                }},
                {"type": "Resource", "resource": {
                    "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50},
                }},
            ],
            "behavior": {"scaleDown": {"selectPolicy": "Max", "tolerance": "100m", "policies": [
                {"type": "Percent", "value": 100, "periodSeconds": 15},
            ]}},
        },
        "status": {
            "desiredReplicas": 2,
            "currentMetrics": [{"type": "Resource", "resource": {
                "name": "cpu", "current": {"averageUtilization": 40, "averageValue": "200m"},
            }}],
            "conditions": [{
                "type": "AbleToScale", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "R",
            }],
        },
    })
}

#[test]
fn version_1_keeps_all_parts_in_annotations() {
    let shown = V1.to_shown(Object::from_value(full()));
    assert_eq!(
        shown.clone().into_value(),
        json!({
            "metadata": {"name": "a", "annotations": {
                "own": "x",
                "autoscaling.alpha.kubernetes.io/metrics": concat!(
                    r#"[{"type":"Pods","pods":{"metricName":"m\u003c","targetAverageValue":"1k","selector":{"matchLabels":{"a":"b"}}}},"#,
                    r#"{"type":"Object","object":{"target":{"kind":"S","name":"s"},"metricName":"m","targetValue":"10"}},"#,
                    r#"{"type":"External","external":{"metricName":"q","targetAverageValue":"30"}},"#,
                    r#"{"type":"ContainerResource","containerResource":{"name":"memory","targetAverageUtilization":60,"container":"c"}}]"#,
                ),
                "autoscaling.alpha.kubernetes.io/behavior": concat!(
                    r#"{"ScaleUp":null,"ScaleDown":{"StabilizationWindowSeconds":null,"SelectPolicy":"Max","#,
                    r#""Policies":[{"Type":"Percent","Value":100,"PeriodSeconds":15}],"Tolerance":"100m"}}"#,
                ),
                "autoscaling.alpha.kubernetes.io/current-metrics": concat!(
                    r#"[{"type":"Resource","resource":{"name":"cpu","currentAverageUtilization":40,"#,
                    r#""currentAverageValue":"200m"}}]"#,
                ),
                "autoscaling.alpha.kubernetes.io/conditions":
                    r#"[{"type":"AbleToScale","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"R"}]"#,
            }},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
                "minReplicas": 1, "maxReplicas": 5, "targetCPUUtilizationPercentage": 50,
            },
            "status": {"currentReplicas": 0, "desiredReplicas": 2, "currentCPUUtilizationPercentage": 40},
        })
    );
    assert_eq!(V1.to_stored(shown).into_value(), full());
}

#[test]
fn writes_in_version_1_retain_the_other_half_of_the_object() {
    let old = V1.to_shown(Object::from_value(full()));
    let mut bare = old.clone();
    bare.remove(&["metadata", "annotations"]);
    let mut changed = bare.clone();
    V1.prepare_update(&mut changed, &old, crate::registry::volume_testing::now());
    let stored = V1.to_stored(changed).into_value();
    assert_eq!(stored["status"], full()["status"]);
    assert_eq!(stored["spec"].get("behavior"), None, "the client has removed it");
    V1.prepare_status(&mut bare, &old, crate::registry::volume_testing::now());
    let stored = V1.to_stored(bare).into_value();
    assert_eq!(stored["spec"], full()["spec"]);
    assert_eq!(stored["status"].get("conditions"), None);
}

#[test]
fn version_1_sets_the_default_metric_and_ignores_unreadable_annotations() {
    let made = created(&V1, &scaler());
    assert_eq!(made.at(&["spec", "targetCPUUtilizationPercentage"]), Some(&json!(80)));
    assert_eq!(made.at(&["status"]), Some(&json!({"currentReplicas": 0, "desiredReplicas": 0})));
    for text in ["", "{", "[1]", "{\"ScaleUp\":{\"Policies\":7}}", "[{\"type\":1}]"] {
        let annotations: serde_json::Map<String, Value> =
            ["metrics", "behavior", "current-metrics", "conditions"]
                .map(|name| (format!("autoscaling.alpha.kubernetes.io/{name}"), text.into()))
                .into_iter()
                .collect();
        let stored = V1
            .to_stored(defaulted(&V1, &with(&scaler(), &json!({"metadata": {"annotations": annotations}}))));
        let want = V1.to_stored(defaulted(&V1, &scaler()));
        assert_eq!(stored, want, "{text}");
    }
    let bad = with(&scaler(), &json!({"spec": {"targetCPUUtilizationPercentage": 0}}));
    check(
        "validated in the stored form",
        &errors(&V1, None, &bad),
        &["spec.metrics[0].resource.target.averageUtilization: Invalid value: 0: must be greater than 0"],
    );
}

#[test]
fn table_row_shows_the_values_of_metrics() {
    let cells = |value: &Value| row(&V2, value);
    assert_eq!(
        cells(&full()),
        json!(["a", "Deployment/d", "<unknown>/1k, <unknown>/10 + 3 more...", "1", 5, 0, "10s"])
    );
    let cpu = |percent: Value| json!({"type": "Resource", "resource": {"name": "cpu", "target": percent}});
    let current = json!({"status": {"currentReplicas": 2, "currentMetrics": [{"type": "Resource", "resource": {
        "name": "cpu", "current": {"averageUtilization": 40, "averageValue": "200m"},
    }}]}});
    for (target, want) in [
        (json!({"type": "Utilization", "averageUtilization": 70}), "cpu: 40%/70%"),
        (json!({"type": "AverageValue", "averageValue": "1"}), "cpu: 200m/1"),
    ] {
        let object = with(&metrics(json!([cpu(target)])), &current);
        assert_eq!(cells(&object), json!(["a", "Deployment/d", want, "<unset>", 5, 2, "10s"]));
    }
    assert_eq!(cells(&scaler())[2], "<none>");
    assert_eq!(
        row(
            &V1,
            &json!({"metadata": {"name": "a"}, "spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 70,
        "scaleTargetRef": {"kind": "D", "name": "d"}}})
        )[2],
        "cpu: <unknown>/70%"
    );
}

/// Upstream prints a row before it converts the object, so version 1 shows the metrics in the stored order.
#[test]
fn rows_of_version_1_show_the_stored_order_of_metrics() {
    let pods = json!({"type": "Pods", "pods": {
        "metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "1k"},
    }});
    let cpu = json!({"type": "Resource", "resource": {
        "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50},
    }});
    let stored = Object::from_value(metrics(json!([cpu, pods])));
    let targets = |cells: Vec<Value>| cells[2].clone();
    let now = crate::registry::volume_testing::now();
    assert_eq!(
        V1.cells_of_stored(&stored, now).map(targets),
        Some(json!("cpu: <unknown>/50%, <unknown>/1k"))
    );
    // A write in version 1 appends the CPU to the metrics of the annotation.
    assert_eq!(targets(V1.cells(&V1.to_shown(stored), now)), "<unknown>/1k, cpu: <unknown>/50%");
}

#[test]
fn version_1_shows_the_target_of_the_first_cpu_metric() {
    let cpu = |target: Value| json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
    let raw = cpu(json!({"type": "AverageValue", "averageValue": "1"}));
    let used = cpu(json!({"type": "Utilization", "averageUtilization": 50}));
    for (list, want) in
        [(json!([used, raw]), Some(json!(50))), (json!([raw, used]), None), (json!([raw]), None)]
    {
        let shown = V1.to_shown(Object::from_value(metrics(list.clone())));
        assert_eq!(shown.at(&["spec", "targetCPUUtilizationPercentage"]).cloned(), want, "{list}");
    }
}
