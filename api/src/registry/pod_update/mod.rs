//! Permitted changes of an existing pod, through the main resource and its subresources.
//!
//! Upstream: pkg/apis/core/validation, `ValidatePodUpdate` and its siblings.

mod container_status;
pub(super) mod ephemeral;
#[cfg(test)]
mod parts;
pub(super) mod resize;
mod restart_policy;
mod status;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1 as api;
use serde_json::{Map, Value, json};

pub(super) use status::validate_status;

use super::checks;
use super::go_format::{SELECTOR_TERM, SELECTOR_TERMS};
use super::pod_spec::{self, scheduling};
use crate::object::Object;
use crate::validate::{FieldErrors, Path};

const MIRROR: &str = "kubernetes.io/config.mirror";
/// The path of errors about the pod as a whole: upstream prints a path with an empty name in this way.
const WHOLE_POD: &str = "[]";
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The mutable fields, as listed in the message about a change of any other field.
const MUTABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
                       `spec.tolerations` (only additions to existing tolerations),\
                       `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Validates annotations with a meaning for the kubelet or for controllers.
pub(super) fn validate_annotations(pod: &Object, errors: &mut FieldErrors) {
    let node = pod.str_at(&["spec", "nodeName"]);
    annotation_rules(|key| pod.annotation(key), node, &Path::new("metadata.annotations"), errors);
}

/// Validates annotations at a path, also those of templates: `annotation` returns the value of one,
/// `node` is the pod's.
pub(super) fn annotation_rules<'a>(
    annotation: impl Fn(&str) -> Option<&'a str>,
    node: &str,
    path: &Path,
    errors: &mut FieldErrors,
) {
    if let Some(value) = annotation(MIRROR)
        && node.is_empty()
    {
        let text = "must set spec.nodeName if mirror pod annotation is set";
        errors.invalid(&path.key(MIRROR), value, text);
    }
    if let Some(cost) = annotation(DELETION_COST) {
        // A plus sign or leading zeros would give one cost several spellings.
        let odd = cost.starts_with('+') || (cost.starts_with('0') && cost != "0");
        if odd || cost.parse::<i32>().is_err() {
            errors.invalid(&path.key(DELETION_COST), cost, "must be a 32bit integer");
        }
    }
}

/// Annotations of mirror pods and AppArmor are immutable.
fn validate_annotation_changes(new: &Object, old: &Object, errors: &mut FieldErrors) {
    let path = Path::new("metadata.annotations");
    let empty = Map::new();
    let annotations =
        |pod: &'_ Object| pod.at(&["metadata", "annotations"]).and_then(Value::as_object).cloned();
    let (new, old) = (annotations(new), annotations(old));
    let (new, old) = (new.as_ref().unwrap_or(&empty), old.as_ref().unwrap_or(&empty));
    for (key, value) in old {
        if new.get(key) == Some(value) {
            continue;
        }
        if key.starts_with(APP_ARMOR) {
            errors.forbidden(&path.key(key), "may not remove or update AppArmor annotations");
        }
        if key == MIRROR {
            errors.forbidden(&path.key(key), "may not remove or update mirror pod annotation");
        }
    }
    for key in new.keys().filter(|key| !old.contains_key(*key)) {
        if key.starts_with(APP_ARMOR) {
            errors.forbidden(&path.key(key), "may not add AppArmor annotations");
        }
        if key == MIRROR {
            errors.forbidden(&path.key(key), "may not add mirror pod annotation");
        }
    }
}

/// Validates a change of a pod outside its spec.
pub(super) fn validate(pod: &Object, old_pod: &Object, errors: &mut FieldErrors) {
    validate_annotation_changes(pod, old_pod, errors);
    let (Some(json), Some(old_json)) = (pod.at(&["spec"]), old_pod.at(&["spec"])) else {
        return;
    };
    let (Some(new), Some(old)) = (pod_spec::typed(json), pod_spec::typed(old_json)) else {
        return;
    };
    let path = Path::new("spec");
    let init = |spec: &api::PodSpec| spec.init_containers.clone().unwrap_or_default();
    if !images(&new.containers, &old.containers, &path.child("containers"), errors)
        || !images(&init(&new), &init(&old), &path.child("initContainers"), errors)
        || !deadline(&new, &old, &path.child("activeDeadlineSeconds"), errors)
    {
        return;
    }
    tolerations(&new, &old, &path.child("tolerations"), errors);
    gates(&new, &old, &path.child("schedulingGates"), errors);

    let mut rest = json.clone();
    put_back_mutable(&mut rest, old_json);
    if old.scheduling_gates.is_some_and(|gates| !gates.is_empty()) {
        narrowing(&mut rest, old_json, &path, errors);
    }
    if rest != *old_json {
        errors.forbidden(&path, &refusal(&rest, old_json));
    }
}

/// Images may change, the list may not. Returns false if further comparison is pointless.
fn images(new: &[api::Container], old: &[api::Container], path: &Path, errors: &mut FieldErrors) -> bool {
    if new.len() != old.len() {
        errors.forbidden(path, "pod updates may not add or remove containers");
        return false;
    }
    for (i, container) in new.iter().enumerate() {
        let (path, image) = (path.index(i).child("image"), container.image.as_deref().unwrap_or_default());
        // Upstream checks this a second time here, and reports two causes.
        checks::required(errors, &path, image);
        if image.trim() != image {
            errors.invalid(&path, image, "must not have leading or trailing whitespace");
        }
    }
    true
}

/// A deadline may be set or shortened. Returns false if further comparison is pointless.
fn deadline(new: &api::PodSpec, old: &api::PodSpec, path: &Path, errors: &mut FieldErrors) -> bool {
    match (new.active_deadline_seconds, old.active_deadline_seconds) {
        (Some(seconds), _) if !(0..=i64::from(i32::MAX)).contains(&seconds) => {
            errors.invalid(path, seconds, "must be between 0 and 2147483647, inclusive");
            false
        }
        (Some(seconds), Some(before)) if before < seconds => {
            errors.invalid(path, seconds, "must be less than or equal to previous value");
            false
        }
        (None, Some(_)) => {
            errors.invalid(path, Value::Null, "must not update from a positive integer to nil value");
            true
        }
        (Some(_), _) | (None, None) => true,
    }
}

/// Tolerations may be added; in existing ones only the seconds may change.
fn tolerations(new: &api::PodSpec, old: &api::PodSpec, path: &Path, errors: &mut FieldErrors) {
    let tolerations = new.tolerations.clone().unwrap_or_default();
    // All fields except the seconds.
    fn identity(one: &api::Toleration) -> [Option<&str>; 4] {
        [&one.key, &one.operator, &one.value, &one.effect].map(Option::as_deref)
    }
    let known: BTreeSet<[Option<&str>; 4]> = tolerations.iter().map(identity).collect();
    for before in old.tolerations.iter().flatten() {
        if !known.contains(&identity(before)) {
            let text = "existing toleration can not be modified except its tolerationSeconds";
            errors.forbidden(path, text);
            return;
        }
    }
    scheduling::tolerations(&tolerations, path, errors);
}

/// Scheduling gates may only be removed.
fn gates(new: &api::PodSpec, old: &api::PodSpec, path: &Path, errors: &mut FieldErrors) {
    let known: BTreeSet<&str> =
        old.scheduling_gates.iter().flatten().map(|gate| gate.name.as_str()).collect();
    for (i, gate) in new.scheduling_gates.iter().flatten().enumerate() {
        if !known.contains(gate.name.as_str()) {
            let text = format!("only deletion is allowed, but found new scheduling gate '{}'", gate.name);
            errors.forbidden(&path.index(i).child("name"), &text);
        }
    }
}

/// Resets the mutable fields to their old values, so that any remaining difference is an error.
fn put_back_mutable(spec: &mut Value, old: &Value) {
    for list in ["containers", "initContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        let before = old.get(list).and_then(Value::as_array).into_iter().flatten();
        for (container, before) in containers.zip(before) {
            put_back(container, before, "image");
        }
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        put_back(spec, old, field);
    }
    let grace = |spec: &Value| spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64);
    if grace(old).is_some_and(|seconds| seconds < 0) && grace(spec) == Some(1) {
        put_back(spec, old, "terminationGracePeriodSeconds");
    }
}

fn put_back(value: &mut Value, old: &Value, field: &str) {
    if let Some(map) = value.as_object_mut() {
        match old.get(field) {
            Some(before) => map.insert(field.to_owned(), before.clone()),
            None => map.remove(field),
        };
    }
}

/// The node selector and the node affinity of a gated pod may become
/// narrower.
fn narrowing(spec: &mut Value, old: &Value, path: &Path, errors: &mut FieldErrors) {
    let empty = Map::new();
    let selector = |spec: &Value| spec.get("nodeSelector").and_then(Value::as_object).cloned();
    let (new_selector, old_selector) = (selector(spec), selector(old));
    let before = old_selector.as_ref().unwrap_or(&empty);
    let after = new_selector.as_ref().unwrap_or(&empty);
    if before.iter().any(|(key, value)| after.get(key) != Some(value)) {
        let text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errors.invalid(&path.child("nodeSelector"), json!(after), text);
    }
    put_back(spec, old, "nodeSelector");

    let node_affinity = |spec: &Value| spec.pointer("/affinity/nodeAffinity").cloned();
    let (after, before) = (node_affinity(spec), node_affinity(old));
    if after == before {
        return;
    }
    if let Some(before) = &before {
        let path = path.child("affinity").child("nodeAffinity");
        narrower_affinity(after.as_ref().unwrap_or(&Value::Null), before, &path, errors);
    }
    let others = |spec: &Value| {
        let affinity = spec.get("affinity").and_then(Value::as_object);
        affinity.is_some_and(|affinity| affinity.keys().any(|key| key != "nodeAffinity"))
    };
    match (spec.get_mut("affinity").and_then(Value::as_object_mut), &before) {
        (Some(affinity), Some(before)) => {
            affinity.insert("nodeAffinity".to_owned(), before.clone());
        }
        (None, Some(before)) => spec["affinity"] = json!({ "nodeAffinity": before }),
        (Some(affinity), None) => {
            affinity.remove("nodeAffinity");
            if !others(spec) && old.get("affinity").is_none() {
                put_back(spec, old, "affinity");
            }
        }
        (None, None) => {}
    }
}

/// Terms of a required node affinity cannot be removed; each may gain further requirements.
fn narrower_affinity(new: &Value, old: &Value, path: &Path, errors: &mut FieldErrors) {
    let path = path.child("requiredDuringSchedulingIgnoredDuringExecution").child("nodeSelectorTerms");
    let terms = |affinity: &Value| {
        let terms = affinity.pointer("/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms");
        terms.and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let (new, old) = (terms(new), terms(old));
    if old.is_empty() {
        return;
    }
    if new.len() != old.len() {
        let text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        errors.invalid_shown(&path, &SELECTOR_TERMS.show(Some(&json!(new))), text);
        return;
    }
    for (i, (after, before)) in new.iter().zip(&old).enumerate() {
        if !only_additions(after, before) {
            let shown = SELECTOR_TERM.show(Some(after));
            let text = "only additions are allowed (no mutations or deletions)";
            errors.invalid_shown(&path.index(i), &shown, text);
        }
    }
}

fn only_additions(new: &Value, old: &Value) -> bool {
    let list =
        |term: &Value, field: &str| term.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
    let fields = ["matchExpressions", "matchFields"];
    // An empty term matches nothing; with a requirement it would match some nodes.
    let was_empty = fields.iter().all(|field| list(old, field).is_empty());
    if was_empty {
        return fields.iter().all(|field| list(new, field).is_empty());
    }
    fields.iter().all(|field| list(new, field).starts_with(&list(old, field)))
}

/// The error message: the mutable fields, and the fields that changed.
fn refusal(new: &Value, old: &Value) -> String {
    let empty = Map::new();
    let (new, old) = (new.as_object().unwrap_or(&empty), old.as_object().unwrap_or(&empty));
    let mut changed: Vec<&str> = new
        .iter()
        .filter(|(field, value)| old.get(*field) != Some(value))
        .map(|(field, _)| field.as_str())
        .chain(old.keys().filter(|field| !new.contains_key(*field)).map(String::as_str))
        .collect();
    changed.sort_unstable();
    format!("pod updates may not change fields other than {MUTABLE}\nchanged: {}", changed.join(", "))
}

#[cfg(test)]
mod tests;
