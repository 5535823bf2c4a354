//! Changes of a job's spec. Most of it is immutable; the scheduling rules and the resources of the pods can change while
//! the job is suspended and no pod runs.

use serde_json::{Map, Value};

use super::INDEXED;
use super::failure_policy::FAILURE_POLICY;
use super::job_spec::{count, validate_with_selector};
use super::success_policy::SUCCESS_POLICY;
use crate::object::Object;
use crate::registry::checks::{self, IMMUTABLE};
use crate::registry::go_format::Shape;
use crate::registry::workload::template_format::show_template;
use crate::registry::workload::{given, number, spec, text};
use crate::validate::{FieldErrors, Path};

/// Validates a change.
pub(super) fn validate_change(job: &Object, old: &Object, errors: &mut FieldErrors) {
    let (new, old_spec) = (spec(job), spec(old));
    let path = Path::new("spec");
    // As in upstream, the spec is validated a second time.
    validate_with_selector(new, errors);
    validate_completions(new, old_spec, &path.child("completions"), errors);
    let immutable = |field: &str, errors: &mut FieldErrors| {
        checks::immutable(errors, &path.child(field), given(new, field), given(old_spec, field));
    };
    let immutable_shown = |field: &str, shape: &Shape, errors: &mut FieldErrors| {
        if given(new, field) != given(old_spec, field) {
            errors.invalid_shown(&path.child(field), &shape.show(given(new, field)), IMMUTABLE);
        }
    };
    immutable("selector", errors);
    let is_suspended = given(old_spec, "suspend").is_some_and(|flag| *flag == true);
    let is_idle = is_suspended && old.at(&["status"]).is_none_or(|status| number(status, "active") == 0);
    let template = new.get("template").unwrap_or(&Value::Null);
    let mut expected = old_spec.get("template").cloned().unwrap_or_default();
    if is_idle {
        adopt_scheduling(&mut expected, template);
        adopt_resources(&mut expected, template);
    }
    if *template != expected {
        errors.invalid_shown(&path.child("template"), &show_template(template), IMMUTABLE);
    }
    immutable("completionMode", errors);
    immutable_shown("podFailurePolicy", &FAILURE_POLICY, errors);
    immutable("backoffLimitPerIndex", errors);
    immutable("managedBy", errors);
    immutable_shown("successPolicy", &SUCCESS_POLICY, errors);
}

/// The completions of an indexed job can change together with its parallelism.
fn validate_completions(new: &Value, old: &Value, path: &Path, errors: &mut FieldErrors) {
    let (after, before) = (given(new, "completions"), given(old, "completions"));
    if text(new, "completionMode") != INDEXED {
        return checks::immutable(errors, path, after, before);
    }
    let Some(completions) = after.filter(|_| after != before) else { return };
    if completions.as_i64() != count(new, "parallelism") {
        errors.invalid(path, completions.clone(), "can only be modified in tandem with spec.parallelism");
    }
}

fn copy(to: &mut Map<String, Value>, from: Option<&Value>, field: &str) {
    match from.and_then(|from| from.get(field)) {
        Some(value) => to.insert(field.to_owned(), value.clone()),
        None => to.remove(field),
    };
}

/// A member that is an object, created if absent.
fn member<'a>(of: &'a mut Map<String, Value>, field: &str) -> Option<&'a mut Map<String, Value>> {
    of.entry(field.to_owned()).or_insert_with(|| Map::new().into()).as_object_mut()
}

/// Copies the scheduling fields of a template.
fn adopt_scheduling(template: &mut Value, from: &Value) {
    let Some(template) = template.as_object_mut() else { return };
    if let Some(metadata) = member(template, "metadata") {
        ["labels", "annotations"].iter().for_each(|field| copy(metadata, from.get("metadata"), field));
    }
    let from = from.get("spec");
    let Some(pod) = member(template, "spec") else { return };
    ["nodeSelector", "tolerations", "schedulingGates"].iter().for_each(|field| copy(pod, from, field));
    let affinity = from.and_then(|from| from.get("affinity")).filter(|affinity| affinity.is_object());
    if let Some(own) = member(pod, "affinity") {
        copy(own, affinity, "nodeAffinity");
        if own.is_empty() && affinity.is_none() {
            pod.remove("affinity");
        }
    }
}

/// Copies the resources of the containers.
fn adopt_resources(template: &mut Value, from: &Value) {
    for list in ["containers", "initContainers"] {
        let place = format!("/spec/{list}");
        let own = template.pointer_mut(&place).and_then(Value::as_array_mut);
        let from = from.pointer(&place).and_then(Value::as_array);
        for (own, from) in own.into_iter().flatten().zip(from.into_iter().flatten()) {
            if let Some(own) = own.as_object_mut() {
                copy(own, Some(from), "resources");
            }
        }
    }
}
