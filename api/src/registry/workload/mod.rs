//! Common parts of kinds with a pod template, a selector and a number of replicas.
//!
//! Each rule exists once and takes a path, so that every kind can call the rules in upstream's order
//! (pkg/apis/apps/validation, pkg/apis/core/validation). The validation of templates is in
//! [`template`], that of numbers that may be percentages in [`percent`], the table cells in [`table`].

pub(super) mod percent;
pub(super) mod table;
pub(super) mod template;
pub(super) mod template_format;
#[cfg(test)]
mod tests;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use orlop_apimachinery::labels::Selector;
use orlop_apimachinery::names;
use serde::Deserialize;
use serde_json::Value;

use super::checks::{self, NON_NEGATIVE};
use crate::kind::{ScalePaths, ScaleSelector, Subresource};
use crate::object::Object;
use crate::validate::label_selector::validate_label_selector;
use crate::validate::{FieldErrors, Path};

/// The `/scale` subresource for discovery.
pub(super) const SCALE: &[Subresource] = &[Subresource {
    name: "scale",
    group: "autoscaling",
    version: "v1",
    kind: "Scale",
    schema: "io.k8s.api.autoscaling.v1.Scale",
    verbs: &["get", "patch", "update"],
}];

/// The paths of the fields for `/scale` in the kinds of `apps/v1`.
pub(super) fn scale_paths() -> ScalePaths<'static> {
    ScalePaths {
        replicas: vec!["spec", "replicas"],
        status_replicas: vec!["status", "replicas"],
        selector: ScaleSelector::LabelSelector(vec!["spec", "selector"]),
    }
}

/// A number in an object; 0 if absent.
pub(super) fn number(of: &Value, field: &str) -> i64 {
    of.get(field).and_then(Value::as_i64).unwrap_or_default()
}

/// A field of an object; `None` if absent or `null`.
pub(super) fn given<'a>(of: &'a Value, field: &str) -> Option<&'a Value> {
    of.get(field).filter(|value| !value.is_null())
}

/// A string in an object; `""` if absent.
pub(super) fn text<'a>(of: &'a Value, field: &str) -> &'a str {
    of.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The spec of an object.
pub(super) fn spec(object: &Object) -> &Value {
    object.at(&["spec"]).unwrap_or(&Value::Null)
}

/// Validates that each of the numbers, if present, is not negative.
pub(super) fn counts(of: &Value, fields: &[&str], path: &Path, errors: &mut FieldErrors) {
    for field in fields {
        if let Some(number) = of.get(*field).and_then(Value::as_i64) {
            checks::non_negative(errors, &path.child(field), number);
        }
    }
}

/// Validates the selector of a workload. `of` is the kind in the error about an empty
/// selector; `bad` is the message for an invalid one. Returns the selector if it is valid.
pub(super) fn selector(
    spec: &Value,
    of: &str,
    bad: &str,
    path: &Path,
    errors: &mut FieldErrors,
) -> Option<Selector> {
    let path = path.child("selector");
    let Some(given) = given(spec, "selector") else {
        errors.required(&path, "");
        return Some(Selector::nothing());
    };
    let typed = LabelSelector::deserialize(given).unwrap_or_default();
    validate_label_selector(&typed, &path, errors);
    if is_empty(&typed) {
        errors.invalid(&path, given.clone(), &format!("empty selector is invalid for {of}"));
    }
    let usable = Selector::from_label_selector(&typed);
    if usable.is_err() {
        errors.invalid(&path, given.clone(), bad);
    }
    usable.ok()
}

/// Whether a selector has no requirements.
pub(super) fn is_empty(selector: &LabelSelector) -> bool {
    selector.match_labels.iter().flatten().next().is_none()
        && selector.match_expressions.iter().flatten().next().is_none()
}

/// Validates the numbers in a status: none negative, none of `parts` above the number of replicas, and
/// not more available than ready. `ready` is the name of the ready replicas in the last error.
pub(super) fn status_numbers(
    status: &Value,
    counted: &[&str],
    parts: &[&str],
    ready: &str,
    errors: &mut FieldErrors,
) {
    let path = Path::new("status");
    counts(status, counted, &path, errors);
    let all = number(status, "replicas");
    for part in parts {
        let count = number(status, part);
        if count > all {
            errors.invalid(&path.child(part), count, "cannot be greater than status.replicas");
        }
    }
    let available = number(status, "availableReplicas");
    if available > number(status, "readyReplicas") {
        let text = format!("cannot be greater than {ready}");
        errors.invalid(&path.child("availableReplicas"), available, &text);
    }
}

/// The collision count cannot decrease.
pub(super) fn collisions(object: &Object, old: &Object, errors: &mut FieldErrors) {
    let count = |object: &Object| object.at(&["status", "collisionCount"]).and_then(Value::as_i64);
    let (after, before) = (count(object), count(old));
    let Some(before) = before else { return };
    if after.is_none_or(|after| after < before) {
        let path = Path::new("status.collisionCount");
        errors.invalid(&path, after.unwrap_or_default(), "cannot be decremented");
    }
}

/// A number of seconds that must be greater than `minReadySeconds`.
pub(super) fn deadline(spec: &Value, path: &Path, errors: &mut FieldErrors) {
    let Some(seconds) = spec.get("progressDeadlineSeconds").and_then(Value::as_i64) else { return };
    let path = path.child("progressDeadlineSeconds");
    if seconds < 0 {
        errors.invalid(&path, seconds, NON_NEGATIVE);
    }
    if seconds <= number(spec, "minReadySeconds") {
        errors.invalid(&path, seconds, "must be greater than minReadySeconds");
    }
}

/// The warning about a workload whose name is not valid as the host name of its pods.
pub(super) fn name_warning(object: &Object) -> Option<String> {
    let problems = names::dns_label(object.name());
    (!problems.is_empty()).then(|| {
        format!(
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; \
             a DNS label is recommended: [{}]",
            problems.join(" ")
        )
    })
}

/// Whether a change incremented the object's generation.
pub(super) fn has_new_generation(object: &Object, old: &Object) -> bool {
    object.at(&["metadata", "generation"]) != old.at(&["metadata", "generation"])
}
