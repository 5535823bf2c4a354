//! The rules for the spec: numbers of replicas, the target, the behavior. The rules for metrics are in
//! [`metric_rules`](super::metric_rules).

use serde_json::Value;

use super::reference_rules::{ReferenceRules, reference, version_problem};
use super::{items, metric_rules};
use crate::registry::checks;
use crate::registry::workload::{given, number, text};
use crate::validate::{FieldErrors, Path};

/// The longest period of a scaling policy, seconds.
const LONGEST_PERIOD: i64 = 1800;
/// The longest stabilization window, seconds.
const LONGEST_WINDOW: i64 = 3600;

/// Validates the spec of a new autoscaler or, with the stored spec, that of a changed one.
pub(super) fn validate(spec: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    let path = Path::new("spec");
    let (least, most) = (given(spec, "minReplicas").and_then(Value::as_i64), number(spec, "maxReplicas"));
    // The feature gate HPAScaleToZero is off; an autoscaler that already scales to zero retains it.
    let bound = if old.is_some_and(|old| old.get("minReplicas") == Some(&0.into())) { 0 } else { 1 };
    if let Some(least) = least.filter(|least| *least < bound) {
        let why = format!("must be greater than or equal to {bound}");
        errors.invalid(&path.child("minReplicas"), least, &why);
    }
    let at = path.child("maxReplicas");
    if most == 0 {
        errors.required(&at, "must be set and greater than 0");
    } else if most < 0 {
        errors.invalid(&at, most, "must be greater than 0");
    }
    if least.is_some_and(|least| most < least) {
        errors.invalid(&at, most, "must be greater than or equal to `minReplicas`");
    }
    let target = spec.get("scaleTargetRef").unwrap_or(&Value::Null);
    reference(target, target_rules(spec, old), &path.child("scaleTargetRef"), errors);
    metric_rules::validate(spec, described_rules(old), least, &path.child("metrics"), errors);
    if let Some(behavior) = given(spec, "behavior") {
        let path = path.child("behavior");
        for direction in ["scaleUp", "scaleDown"] {
            if let Some(rules) = given(behavior, direction) {
                scaling_rules(rules, &path.child(direction), errors);
            }
        }
    }
}

/// The rules for the target. Only ReplicationControllers have no group; a target that is already invalid remains valid.
fn target_rules(spec: &Value, old: Option<&Value>) -> ReferenceRules {
    let of = |spec: &Value| spec.get("scaleTargetRef").cloned().unwrap_or_default();
    let rules = ReferenceRules {
        empty_group: text(&of(spec), "kind") == "ReplicationController",
        any_version: false,
    };
    let any_version = old.is_some_and(|old| version_problem(text(&of(old), "apiVersion"), rules).is_some());
    ReferenceRules { any_version, ..rules }
}

/// The rules for the objects that metrics describe.
fn described_rules(old: Option<&Value>) -> ReferenceRules {
    let rules = ReferenceRules { empty_group: true, any_version: false };
    let is_invalid = |metric: &Value| {
        let version = metric.pointer("/object/describedObject/apiVersion").and_then(Value::as_str);
        version.is_some_and(|version| version_problem(version, rules).is_some())
    };
    let any_version = old.is_some_and(|old| items(old, "metrics").iter().any(is_invalid));
    ReferenceRules { any_version, ..rules }
}

fn scaling_rules(rules: &Value, path: &Path, errors: &mut FieldErrors) {
    if let Some(window) = given(rules, "stabilizationWindowSeconds").and_then(Value::as_i64) {
        let at = path.child("stabilizationWindowSeconds");
        if window < 0 {
            errors.invalid(&at, window, "must be greater than or equal to zero");
        }
        if window > LONGEST_WINDOW {
            errors.invalid(&at, window, &format!("must be less than or equal to {LONGEST_WINDOW}"));
        }
    }
    let select = given(rules, "selectPolicy").and_then(Value::as_str);
    checks::one_of(errors, &path.child("selectPolicy"), select, &["Disabled", "Max", "Min"]);
    let (policies, at) = (items(rules, "policies"), path.child("policies"));
    if policies.is_empty() {
        errors.required(&at, "must specify at least one Policy");
    }
    for (index, policy) in policies.iter().enumerate() {
        scaling_policy(policy, &at.index(index), errors);
    }
    if let Some(tolerance) = given(rules, "tolerance").and_then(Value::as_str) {
        checks::non_negative_quantity(errors, &path.child("tolerance"), tolerance);
    }
}

fn scaling_policy(policy: &Value, path: &Path, errors: &mut FieldErrors) {
    checks::one_of(errors, &path.child("type"), Some(text(policy, "type")), &["Percent", "Pods"]);
    for field in ["value", "periodSeconds"] {
        let value = number(policy, field);
        if value <= 0 {
            errors.invalid(&path.child(field), value, "must be greater than zero");
        }
    }
    let period = number(policy, "periodSeconds");
    if period > LONGEST_PERIOD {
        let why = format!("must be less than or equal to {LONGEST_PERIOD}");
        errors.invalid(&path.child("periodSeconds"), period, &why);
    }
}
