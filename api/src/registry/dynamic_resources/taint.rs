//! Taints of devices, the tolerations of requests, and the conditions for binding.

use std::collections::HashSet;

use orlop_apimachinery::names;
use serde_json::Value;

use super::collection::{each, items};
use crate::registry::checks;
use crate::registry::workload::text;
use crate::validate::label_selector::validate_label_key;
use crate::validate::{FieldErrors, Path};

const MOST_TAINTS: usize = 16;
const MOST_TOLERATIONS: usize = 16;
const MOST_CONDITIONS: usize = 4;
const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];

/// The `taints` of a device.
pub(super) fn validate_taints(device: &Value, path: &Path, errors: &mut FieldErrors) {
    each(items(device, "taints"), MOST_TAINTS, &path.child("taints"), errors, |taint, path, errors| {
        validate_label_key(text(taint, "key"), &path.child("key"), errors);
        label_value(text(taint, "value"), &path.child("value"), errors);
        let path = path.child("effect");
        if checks::required(errors, &path, text(taint, "effect")) {
            checks::one_of(errors, &path, Some(text(taint, "effect")), &EFFECTS);
        }
    });
}

/// The `tolerations` of a request or an allocated device.
pub(super) fn validate_tolerations(of: &Value, path: &Path, errors: &mut FieldErrors) {
    let path = path.child("tolerations");
    each(items(of, "tolerations"), MOST_TOLERATIONS, &path, errors, |toleration, path, errors| {
        let (key, value, effect) =
            (text(toleration, "key"), text(toleration, "value"), text(toleration, "effect"));
        if !key.is_empty() {
            validate_label_key(key, &path.child("key"), errors);
        }
        match text(toleration, "operator") {
            "Exists" if !value.is_empty() => {
                errors.invalid(&path.child("value"), value, "must be empty for operator `Exists`");
            }
            "Exists" => {}
            "Equal" => label_value(value, &path.child("value"), errors),
            "" => errors.required(&path.child("operator"), ""),
            other => errors.not_supported(&path.child("operator"), other, &["Equal", "Exists"]),
        }
        if !effect.is_empty() {
            checks::one_of(errors, &path.child("effect"), Some(effect), &EFFECTS);
        }
    });
}

fn label_value(value: &str, path: &Path, errors: &mut FieldErrors) {
    checks::each(errors, path, value, names::label_value(value));
}

/// The `bindingConditions` and `bindingFailureConditions` of a device.
pub(super) fn validate_binding(device: &Value, path: &Path, errors: &mut FieldErrors) {
    let [success, failure] = ["bindingConditions", "bindingFailureConditions"]
        .map(|field| (items(device, field), path.child(field)));
    for (conditions, path) in [&success, &failure] {
        each(conditions, MOST_CONDITIONS, path, errors, |condition, path, errors| {
            validate_label_key(condition.as_str().unwrap_or_default(), path, errors);
        });
    }
    let mut seen = HashSet::new();
    for (at, condition) in success.0.iter().enumerate() {
        if !seen.insert(condition.to_string()) {
            errors.duplicate(&success.1.index(at), condition.clone());
        }
    }
    let mut failed = HashSet::new();
    for (at, condition) in failure.0.iter().enumerate() {
        let path = failure.1.index(at);
        if !failed.insert(condition.to_string()) {
            errors.duplicate(&path, condition.clone());
        }
        if seen.contains(&condition.to_string()) {
            let why = "bindingFailureConditions must not overlap with bindingConditions";
            errors.invalid(&path, condition.clone(), why);
        }
    }
    match (success.0.is_empty(), failure.0.is_empty()) {
        (true, false) => {
            let why = "bindingConditions are required to use bindingFailureConditions";
            errors.invalid(&success.1, Value::Null, why);
        }
        (false, true) => {
            let why = "bindingFailureConditions are required to use bindingConditions";
            errors.invalid(&failure.1, Value::Null, why);
        }
        (true, true) | (false, false) => {}
    }
}
