//! Conversion between `autoscaling/v2` and `autoscaling/v1`. Annotations contain the parts that version 1 cannot express. A text that
//! cannot be read is ignored.
//!
//! Upstream: pkg/apis/autoscaling/v1/conversion.go.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{DEFAULT_UTILIZATION, behavior_format, cpu_metric, items, metric_format};
use crate::go_json;
use crate::object::Object;
use crate::registry::workload::{given, text};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const STATUSES: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
/// The annotations of version 1 for fields of version 2.
pub(super) const ANNOTATIONS: &[&str] = &[METRICS, BEHAVIOR, STATUSES, CONDITIONS];

/// The fields of a condition in upstream's order.
const CONDITION: [&str; 5] = ["type", "status", "lastTransitionTime", "reason", "message"];

/// Removes the annotations that only version 1 has.
pub(super) fn drop_annotations(scaler: &mut Object) {
    take_annotations(scaler);
}

/// Removes the annotations, and returns their texts: metrics, behavior, current metrics, conditions.
fn take_annotations(scaler: &mut Object) -> [Option<String>; 4] {
    let Some(annotations) = scaler.meta().get_mut("annotations").and_then(Value::as_object_mut) else {
        return [const { None }; 4];
    };
    let texts = [METRICS, BEHAVIOR, STATUSES, CONDITIONS].map(|name| match annotations.remove(name) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    });
    if annotations.is_empty() {
        scaler.meta().remove("annotations");
    }
    texts
}

/// The resource of a metric, if it is the CPU.
fn cpu(metric: &Value) -> Option<&Value> {
    let resource = given(metric, "resource").filter(|_| text(metric, "type") == "Resource");
    resource.filter(|resource| text(resource, "name") == "cpu")
}

/// The average utilization of the CPU in the target or the current value of a metric.
fn cpu_utilization<'a>(metric: &'a Value, part: &str) -> Option<&'a Value> {
    cpu(metric)?.get(part).and_then(|part| given(part, "averageUtilization"))
}

/// Moves the members with these names from one object to another.
fn move_members(from: &mut Map<String, Value>, to: &mut Map<String, Value>, names: &[&str]) {
    for name in names {
        if let Some(value) = from.remove(*name) {
            to.insert((*name).to_owned(), value);
        }
    }
}

fn take_member(scaler: &mut Object, name: &str) -> Map<String, Value> {
    match scaler.0.remove(name) {
        Some(Value::Object(map)) => map,
        _ => Map::new(),
    }
}

/// Converts the stored form to version 1.
pub(super) fn to_v1(mut scaler: Object) -> Object {
    take_annotations(&mut scaler);
    let (spec, status) = (take_member(&mut scaler, "spec"), take_member(&mut scaler, "status"));
    let (mut spec, mut status) = (Value::Object(spec), Value::Object(status));
    let mut annotations = Map::new();
    let mut annotate = |name: &str, text: String| annotations.insert(name.to_owned(), text.into());
    let metrics = items(&spec, "metrics");
    let is_other = |metric: &&Value| cpu_utilization(metric, "target").is_none();
    if metrics.iter().any(|metric| is_other(&metric)) {
        annotate(METRICS, metric_format::write(metric_format::SPECS, metrics.iter().filter(is_other)));
    }
    // Upstream examines only the first metric of the CPU, and has removed any further target from the other metrics.
    let target = metrics.iter().find(|metric| cpu(metric).is_some());
    let target = target.and_then(|metric| cpu_utilization(metric, "target")).cloned();
    let current = items(&status, "currentMetrics");
    if !current.is_empty() {
        annotate(STATUSES, metric_format::write(metric_format::STATUSES, current.iter()));
    }
    let reached = current.iter().rev().find_map(|metric| cpu_utilization(metric, "current")).cloned();
    if let Some(behavior) = given(&spec, "behavior") {
        annotate(BEHAVIOR, behavior_format::write(behavior));
    }
    let conditions = items(&status, "conditions");
    if !conditions.is_empty() {
        let conditions: Vec<String> = conditions.iter().map(write_condition).collect();
        annotate(CONDITIONS, format!("[{}]", conditions.join(",")));
    }
    let (mut new_spec, mut new_status) = (Map::new(), Map::new());
    if let Some(spec) = spec.as_object_mut() {
        move_members(spec, &mut new_spec, &["scaleTargetRef", "minReplicas", "maxReplicas"]);
    }
    if let Some(target) = target {
        new_spec.insert("targetCPUUtilizationPercentage".to_owned(), target);
    }
    if let Some(status) = status.as_object_mut() {
        let names = ["observedGeneration", "lastScaleTime", "currentReplicas", "desiredReplicas"];
        move_members(status, &mut new_status, &names);
    }
    if let Some(reached) = reached {
        new_status.insert("currentCPUUtilizationPercentage".to_owned(), reached);
    }
    for name in ["currentReplicas", "desiredReplicas"] {
        new_status.entry(name).or_insert_with(|| 0.into());
    }
    scaler.0.insert("spec".to_owned(), new_spec.into());
    scaler.0.insert("status".to_owned(), new_status.into());
    if !annotations.is_empty() {
        scaler.object_at(&["metadata", "annotations"]).extend(annotations);
    }
    scaler
}

/// Converts version 1 to the stored form.
pub(super) fn to_v2(mut scaler: Object) -> Object {
    let [metrics, behavior, statuses, conditions] = take_annotations(&mut scaler);
    let (mut spec, mut status) = (take_member(&mut scaler, "spec"), take_member(&mut scaler, "status"));
    let target = spec.remove("targetCPUUtilizationPercentage").filter(|target| !target.is_null());
    let reached = status.remove("currentCPUUtilizationPercentage").filter(|reached| !reached.is_null());
    let metrics = metrics.and_then(|text| metric_format::read(metric_format::SPECS, &text));
    let mut metrics = metrics.unwrap_or_default();
    metrics.extend(target.and_then(|target| target.as_i64()).map(cpu_metric));
    if metrics.is_empty() {
        metrics.push(cpu_metric(DEFAULT_UTILIZATION));
    }
    spec.insert("metrics".to_owned(), metrics.into());
    if let Some(behavior) = behavior.and_then(|text| behavior_format::read(&text)) {
        spec.insert("behavior".to_owned(), behavior);
    }
    // The annotation contains more than the field.
    let current = statuses.and_then(|text| metric_format::read(metric_format::STATUSES, &text));
    let current = current.filter(|current| !current.is_empty()).map(Value::from).or_else(|| {
        let cpu = |reached: Value| json!({"name": "cpu", "current": {"averageUtilization": reached}});
        reached.map(|reached| json!([{"type": "Resource", "resource": cpu(reached)}]))
    });
    status.insert("currentMetrics".to_owned(), current.unwrap_or_default());
    if let Some(conditions) = conditions.and_then(|text| read_conditions(&text)) {
        status.insert("conditions".to_owned(), conditions.into());
    }
    if status.get("currentReplicas").and_then(Value::as_i64) == Some(0) {
        status.remove("currentReplicas");
    }
    status.entry("desiredReplicas").or_insert_with(|| 0.into());
    scaler.0.insert("spec".to_owned(), spec.into());
    scaler.0.insert("status".to_owned(), status.into());
    scaler
}

fn write_condition(condition: &Value) -> String {
    let members = CONDITION.iter().filter_map(|name| {
        let value = given(condition, name).map(go_json::encode);
        let value = match *name {
            "type" | "status" => value.unwrap_or_else(|| "\"\"".to_owned()),
            "lastTransitionTime" => value.unwrap_or_else(|| "null".to_owned()),
            _ => value?,
        };
        Some(format!("\"{name}\":{value}"))
    });
    format!("{{{}}}", members.collect::<Vec<String>>().join(","))
}

fn read_conditions(text: &str) -> Option<Vec<Value>> {
    let document: Value = serde_json::from_str(text).ok()?;
    let conditions = document.as_array()?.iter().map(|condition| {
        let given = condition.as_object()?;
        let mut read = Map::new();
        for name in CONDITION {
            let value = given.get(name).filter(|value| !value.is_null());
            match value.map(Value::as_str) {
                Some(Some("")) if matches!(name, "reason" | "message") => {}
                Some(Some(time)) if name == "lastTransitionTime" && time.parse::<Timestamp>().is_err() => {
                    return None;
                }
                Some(value) => drop(read.insert(name.to_owned(), value?.into())),
                None if name == "lastTransitionTime" => drop(read.insert(name.to_owned(), Value::Null)),
                None if matches!(name, "type" | "status") => drop(read.insert(name.to_owned(), "".into())),
                None => {}
            }
        }
        Some(Value::Object(read))
    });
    conditions.collect::<Option<Vec<Value>>>().filter(|conditions| !conditions.is_empty())
}
