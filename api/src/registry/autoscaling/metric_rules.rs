//! The rules for the metrics of an autoscaler.

use orlop_apimachinery::names;
use orlop_apimachinery::quantity::Quantity;
use serde_json::Value;

use super::items;
use super::reference_rules::{ReferenceRules, reference};
use crate::registry::checks;
use crate::registry::workload::{given, text};
use crate::validate::{FieldErrors, Path};

/// The types of metrics.
const TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];
/// The fields with the sources of metrics in upstream's order, and their types.
const SOURCES: [(&str, &str); 5] = [
    ("object", "Object"),
    ("external", "External"),
    ("pods", "Pods"),
    ("resource", "Resource"),
    ("containerResource", "ContainerResource"),
];

/// Validates the metrics of a spec. `least` is the smallest number of replicas.
pub(super) fn validate(
    spec: &Value,
    described: ReferenceRules,
    least: Option<i64>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let metrics = items(spec, "metrics");
    for (at, metric) in metrics.iter().enumerate() {
        one(metric, described, &path.index(at), errors);
    }
    let scales_to_zero = |metric: &Value| matches!(text(metric, "type"), "Object" | "External");
    if least == Some(0) && !metrics.iter().any(scales_to_zero) {
        let why = "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.forbidden(path, why);
    }
}

fn one(metric: &Value, described: ReferenceRules, path: &Path, errors: &mut FieldErrors) {
    let (kind, at) = (text(metric, "type"), path.child("type"));
    if kind.is_empty() {
        errors.required(&at, "must specify a metric source type");
    }
    let is_known = TYPES.contains(&kind);
    if !is_known {
        errors.not_supported(&at, kind, &TYPES);
    }
    let mut present: Vec<&str> = SOURCES.iter().map(|(field, _)| *field).collect();
    present.retain(|field| given(metric, field).is_some());
    // Upstream validates only the first of several sources.
    if let Some(first) = present.first() {
        source(&metric[*first], first, described, &path.child(first), errors);
    }
    let expected = SOURCES.iter().find(|(_, of)| *of == kind).map(|(field, _)| *field);
    match expected {
        Some(field) if !present.contains(&field) => {
            errors.required(&path.child(field), "must populate information for the given metric source");
        }
        Some(_) => {}
        // Upstream reports an unknown type twice.
        None => errors.not_supported(&at, kind, &TYPES),
    }
    if present.len() > 1 {
        present.sort_unstable();
        for field in present.into_iter().filter(|field| Some(*field) != expected) {
            errors.forbidden(&path.child(field), "must populate the given metric source only");
        }
    }
}

fn source(of: &Value, field: &str, described: ReferenceRules, path: &Path, errors: &mut FieldErrors) {
    let target = of.get("target").unwrap_or(&Value::Null);
    let (at, has) = (path.child("target"), |field: &str| given(target, field).is_some());
    match field {
        "object" | "external" | "pods" => {
            if field == "object" {
                let object = of.get("describedObject").unwrap_or(&Value::Null);
                reference(object, described, &path.child("describedObject"), errors);
            }
            identifier(of.get("metric").unwrap_or(&Value::Null), &path.child("metric"), errors);
        }
        _ => {
            if text(of, "name").is_empty() {
                errors.required(&path.child("name"), "must specify a resource name");
            }
            if field == "containerResource" {
                let (container, at) = (text(of, "container"), path.child("container"));
                if container.is_empty() {
                    errors.required(&at, "must specify a container");
                } else {
                    checks::label(errors, &at, container);
                }
            }
        }
    }
    metric_target(target, &at, errors);
    let average = at.child("averageValue");
    let (value, has_value, has_average) = (at.child("value"), has("value"), has("averageValue"));
    match field {
        "object" => {
            if !has_value && !has_average {
                errors.required(&average, "must set either a target value or averageValue");
            }
        }
        "external" => match (has_value, has_average) {
            (false, false) => {
                errors.required(&average, "must set either a target value for metric or a per-pod target");
            }
            (true, true) => {
                errors.forbidden(&value, "may not set both a target value for metric and a per-pod target");
            }
            (true, false) | (false, true) => {}
        },
        "pods" => {
            if !has_average {
                errors.required(&average, "must specify a positive target averageValue");
            }
        }
        _ => match (has("averageUtilization"), has_average) {
            (false, false) => errors.required(
                &at.child("averageUtilization"),
                "must set either a target raw value or a target utilization",
            ),
            (true, true) => {
                errors.forbidden(&average, "may not set both a target raw value and a target utilization");
            }
            (true, false) | (false, true) => {}
        },
    }
}

fn identifier(metric: &Value, path: &Path, errors: &mut FieldErrors) {
    let (name, at) = (text(metric, "name"), path.child("name"));
    if name.is_empty() {
        errors.required(&at, "must specify a metric name");
    } else {
        checks::each(errors, &at, name, names::path_segment(name));
    }
}

fn metric_target(target: &Value, path: &Path, errors: &mut FieldErrors) {
    let (kind, at) = (text(target, "type"), path.child("type"));
    if kind.is_empty() {
        errors.required(&at, "must specify a metric target type");
    }
    if !matches!(kind, "Utilization" | "Value" | "AverageValue") {
        errors.invalid(&at, kind, "must be either Utilization, Value, or AverageValue");
    }
    for field in ["value", "averageValue"] {
        let Some(value) = given(target, field).and_then(Value::as_str) else { continue };
        let is_positive = |quantity: Quantity| !quantity.is_negative() && !quantity.is_zero();
        // Decoding has already rejected values that do not parse.
        if !Quantity::parse(value).is_ok_and(is_positive) {
            errors.invalid(&path.child(field), value, "must be positive");
        }
    }
    if let Some(percent) = given(target, "averageUtilization").and_then(Value::as_i64)
        && percent < 1
    {
        errors.invalid(&path.child("averageUtilization"), percent, "must be greater than 0");
    }
}
