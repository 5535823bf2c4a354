//! Validation of object metadata. Upstream: apimachinery `pkg/api/validation/objectmeta.go`,
//! `pkg/apis/core/validation` (finalizers), apiserver `pkg/registry/rest/update.go`.
//!
//! Upstream validates an update twice, in the generic registry and in the kind, so the response contains
//! each cause twice. This module reproduces that, since tests count causes.

mod managed_fields;
mod owners;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use orlop_apimachinery::names;
use serde_json::{Map, Value};

use super::label_selector::validate_labels;
use super::{FieldErrors, Path};
use crate::kind::NameRule;
use crate::object::Object;

pub use managed_fields::validate_field_manager;

/// The maximum total size of the keys and values of all annotations, in bytes.
pub const ANNOTATIONS_MAX: usize = 256 * 1024;
const IMMUTABLE: &str = "field is immutable";

/// A rule for a string: returns its error messages.
type Rule = fn(&str) -> Vec<String>;

/// The metadata of a new object, after names were generated and the namespace was set.
pub fn validate_meta(object: &Object, policy: NameRule, namespaced: bool, errors: &mut FieldErrors) {
    validate_general(object, policy, namespaced, errors);
    validate_finalizer_names(object, policy, errors);
}

/// The metadata of a changed object. Omitted values of `uid`, `creationTimestamp` and the deletion's fields
/// have been copied from the stored object; the verbs check `resourceVersion`
/// themselves.
pub fn validate_meta_update(
    new: &Object,
    old: &Object,
    policy: NameRule,
    namespaced: bool,
    errors: &mut FieldErrors,
) {
    // The generic registry, which accepts any path segment as a name.
    validate_general(new, NameRule::PathSegment, namespaced, errors);
    validate_change(new, old, errors);
    if policy == NameRule::PathSegment {
        // Events: the kind has no metadata rules of its own.
        return;
    }
    // The kind: all rules for an object, and those for an update.
    validate_meta(new, policy, namespaced, errors);
    validate_change(new, old, errors);
    validate_finalizer_names(new, policy, errors);
}

fn validate_general(object: &Object, policy: NameRule, namespaced: bool, errors: &mut FieldErrors) {
    let path = Path::new("metadata");
    let (whole, prefix): (Rule, Rule) = match policy {
        NameRule::Subdomain => (names::dns_subdomain, names::dns_subdomain_prefix),
        NameRule::Label => (names::dns_label, names::dns_label_prefix),
        NameRule::Label1035 => (names::dns1035_label, names::dns1035_label_prefix),
        NameRule::PathSegment => (names::path_segment, names::path_segment_prefix),
    };
    let check = |field: &str, value: &str, texts: Vec<String>, errors: &mut FieldErrors| {
        for text in texts {
            errors.invalid(&path.child(field), value, &text);
        }
    };

    let generate_name = object.str_at(&["metadata", "generateName"]);
    if !generate_name.is_empty() {
        check("generateName", generate_name, prefix(generate_name), errors);
    }
    match object.name() {
        "" => errors.required(&path.child("name"), "name or generateName is required"),
        name => check("name", name, whole(name), errors),
    }
    match (namespaced, object.namespace()) {
        (true, "") => errors.required(&path.child("namespace"), ""),
        (true, namespace) => check("namespace", namespace, names::dns_label(namespace), errors),
        (false, "") => {}
        (false, _) => errors.forbidden(&path.child("namespace"), "not allowed on this type"),
    }
    let generation = generation(object);
    if generation < 0 {
        let why = "must be greater than or equal to 0";
        errors.invalid(&path.child("generation"), generation, why);
    }
    validate_parts(object, &path, errors);
    validate_finalizers(object, &path.child("finalizers"), errors);
    managed_fields::validate(list(object, "managedFields"), &path.child("managedFields"), errors);
}

/// Labels, annotations and owners.
fn validate_parts(object: &Object, path: &Path, errors: &mut FieldErrors) {
    validate_labels(texts(object.labels()), &path.child("labels"), errors);
    let annotations = object.at(&["metadata", "annotations"]).and_then(Value::as_object);
    validate_annotations(texts(annotations), &path.child("annotations"), errors);
    owners::validate(list(object, "ownerReferences"), &path.child("ownerReferences"), errors);
}

fn texts(map: Option<&Map<String, Value>>) -> impl Iterator<Item = (&str, &str)> {
    map.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}

fn list<'a>(object: &'a Object, field: &str) -> &'a [Value] {
    object.at(&["metadata", field]).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn generation(object: &Object) -> i64 {
    object.at(&["metadata", "generation"]).and_then(Value::as_i64).unwrap_or_default()
}

/// Annotations, also those of templates inside specs; every error has the path `path` itself.
pub fn validate_annotations<'a>(
    annotations: impl Iterator<Item = (&'a str, &'a str)>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let mut size = 0;
    for (key, value) in annotations {
        size += key.len() + value.len();
        for text in names::qualified_name(&key.to_lowercase()) {
            errors.invalid(path, key, &text);
        }
    }
    if size > ANNOTATIONS_MAX {
        errors.too_long(path, ANNOTATIONS_MAX);
    }
}

fn validate_finalizers(object: &Object, path: &Path, errors: &mut FieldErrors) {
    let (mut orphan, mut foreground) = (false, false);
    for finalizer in object.finalizers() {
        orphan |= finalizer == "orphan";
        foreground |= finalizer == "foregroundDeletion";
        for text in names::qualified_name(finalizer) {
            errors.invalid(path, finalizer, &text);
        }
    }
    if orphan && foreground {
        let all: Vec<&str> = object.finalizers().collect();
        errors.invalid(path, all, "finalizer orphan and foregroundDeletion cannot be both set");
    }
}

/// Built-in kinds accept only finalizers with a recognizable owner.
fn validate_finalizer_names(object: &Object, policy: NameRule, errors: &mut FieldErrors) {
    if policy == NameRule::PathSegment {
        return;
    }
    for (i, finalizer) in object.finalizers().enumerate() {
        let standard = matches!(finalizer, "kubernetes" | "orphan" | "foregroundDeletion");
        if !finalizer.contains('/') && !standard {
            let path = Path::new("metadata").child("finalizers").index(i);
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            errors.invalid(&path, finalizer, why);
        }
    }
}

fn validate_change(new: &Object, old: &Object, errors: &mut FieldErrors) {
    let path = Path::new("metadata");
    if old.is_terminating() {
        let known: BTreeSet<&str> = old.finalizers().collect();
        let added: BTreeSet<&str> = new.finalizers().filter(|one| !known.contains(one)).collect();
        if !added.is_empty() {
            let added: Vec<String> = added.into_iter().map(|one| Value::from(one).to_string()).collect();
            errors.forbidden(
                &path.child("finalizers"),
                &format!(
                    "no new finalizers can be added if the object is being deleted, found new finalizers \
                     []string{{{}}}",
                    added.join(", ")
                ),
            );
        }
    }
    if generation(new) < generation(old) {
        errors.invalid(&path.child("generation"), generation(new), "must not be decremented");
    }
    for field in ["name", "namespace", "uid"] {
        let (new, old) = (new.str_at(&["metadata", field]), old.str_at(&["metadata", field]));
        if new != old {
            errors.invalid(&path.child(field), new, IMMUTABLE);
        }
    }
    for field in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let value = |object: &Object| object.at(&["metadata", field]).cloned().unwrap_or_default();
        if value(new) != value(old) {
            errors.invalid(&path.child(field), value(new), IMMUTABLE);
        }
    }
    validate_parts(new, &path, errors);
    managed_fields::validate(list(new, "managedFields"), &path.child("managedFields"), errors);
}
