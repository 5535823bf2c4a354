//! What kinds with a pod template, a selector and a number of replicas have in common.
//!
//! Rules stand here once, at a path, so that each kind can call them in upstream's order
//! (pkg/apis/apps/validation, pkg/apis/core/validation). What a template must be is in
//! [`template`], numbers that may be shares in [`percent`], cells of tables in [`table`].

pub(super) mod percent;
pub(super) mod table;
pub(super) mod template;
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

/// The `/scale` subresource as discovery names it.
pub(super) const SCALE: &[Subresource] = &[Subresource {
    name: "scale",
    group: "autoscaling",
    version: "v1",
    kind: "Scale",
    schema: "io.k8s.api.autoscaling.v1.Scale",
    verbs: &["get", "patch", "update"],
}];

/// Where the kinds of `apps/v1` keep what `/scale` shows.
pub(super) fn scale_paths() -> ScalePaths<'static> {
    ScalePaths {
        replicas: vec!["spec", "replicas"],
        status_replicas: vec!["status", "replicas"],
        selector: ScaleSelector::LabelSelector(vec!["spec", "selector"]),
    }
}

/// A number of an object; 0 when there is none.
pub(super) fn number(of: &Value, field: &str) -> i64 {
    of.get(field).and_then(Value::as_i64).unwrap_or_default()
}

/// A member of an object; `null` counts as none.
pub(super) fn given<'a>(of: &'a Value, field: &str) -> Option<&'a Value> {
    of.get(field).filter(|value| !value.is_null())
}

/// A text of an object; `""` when there is none.
pub(super) fn text<'a>(of: &'a Value, field: &str) -> &'a str {
    of.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The spec of an object.
pub(super) fn spec(object: &Object) -> &Value {
    object.at(&["spec"]).unwrap_or(&Value::Null)
}

/// Numbers that must not be below zero, each when it is there.
pub(super) fn counts(of: &Value, fields: &[&str], path: &Path, errors: &mut FieldErrors) {
    for field in fields {
        if let Some(number) = of.get(*field).and_then(Value::as_i64) {
            checks::non_negative(errors, &path.child(field), number);
        }
    }
}

/// The rules of the selector of a workload. `of` is the kind that the refusal of an empty selector
/// names; `bad` is said of one that cannot be used. Gives the selector when it can be.
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

/// Whether a selector asks for nothing.
pub(super) fn is_empty(selector: &LabelSelector) -> bool {
    selector.match_labels.iter().flatten().next().is_none()
        && selector.match_expressions.iter().flatten().next().is_none()
}

/// The rules of the numbers in a status: none below zero, none of `parts` above all replicas, and
/// not more available than ready. `ready` is how the last refusal names the ready ones.
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

/// The number of collisions of names only grows.
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

/// What people are told who give a workload a name that its pods cannot have as their host's.
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

/// Whether a change of an object counted as one of its spec.
pub(super) fn has_new_generation(object: &Object, old: &Object) -> bool {
    object.at(&["metadata", "generation"]) != old.at(&["metadata", "generation"])
}
