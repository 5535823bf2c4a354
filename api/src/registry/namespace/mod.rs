//! The `Namespace` kind.
//!
//! The name is repeated as a label, and `spec.finalizers` blocks the deletion of the namespace until it is
//! empty; only `/finalize` changes them.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{cells, checks};
use crate::kind::{
    Column, DeleteAnswer, Kind, NameRule, Names, Policy, Scope, StatusSubresource, Subresource, UnknownField,
};
use crate::object::Object;
use crate::validate::{FieldErrors, Path};

/// The `Namespace` kind.
pub(super) struct Namespace;

const NAMES: Names = Names {
    group: "",
    version: "v1",
    kind: "Namespace",
    plural: "namespaces",
    singular: "namespace",
    short: &["ns"],
    categories: &[],
    schema: "io.k8s.api.core.v1.Namespace",
};

const SUBRESOURCES: &[Subresource] = &[Subresource {
    name: "finalize",
    group: "",
    version: "v1",
    kind: "Namespace",
    schema: "io.k8s.api.core.v1.Namespace",
    verbs: &["update"],
}];

const COLUMNS: &[Column] =
    &[cells::NAME, cells::text("Status", "Active, or Terminating while it is being deleted."), cells::AGE];

/// The label with the name of the namespace.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// The finalizer that blocks the deletion of a namespace until it is empty.
const FINALIZER: &str = "kubernetes";

impl Kind for Namespace {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Cluster
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/namespaces/"
    }

    fn policy(&self) -> Policy {
        Policy {
            names: NameRule::Label,
            delete_answer: DeleteAnswer::Object,
            status: StatusSubresource::WithMetadata,
            ..Policy::DEFAULT
        }
    }

    fn verbs(&self) -> &'static [&'static str] {
        &["create", "delete", "get", "list", "patch", "update", "watch"]
    }

    fn subresources(&self) -> &'static [Subresource] {
        SUBRESOURCES
    }

    fn defaults(&self, object: &mut Object) {
        label_with_name(object);
        if object.str_at(&["status", "phase"]).is_empty() {
            object.set(&["status", "phase"], "Active");
        }
    }

    fn begin_delete(&self, object: &mut Object) {
        object.set(&["status", "phase"], "Terminating");
    }

    fn is_held(&self, object: &Object) -> bool {
        // The first delete only marks the namespace as terminating: its contents are deleted first.
        !object.is_terminating()
            || object
                .at(&["spec", "finalizers"])
                .and_then(Value::as_array)
                .is_some_and(|held| !held.is_empty())
    }

    fn prepare_create(&self, object: &mut Object, _now: Timestamp) {
        // A generated name is assigned after defaulting.
        label_with_name(object);
        object.set(&["status"], json!({"phase": "Active"}));
        let mut finalizers =
            object.at(&["spec", "finalizers"]).and_then(Value::as_array).cloned().unwrap_or_default();
        if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
            finalizers.push(FINALIZER.into());
        }
        object.set(&["spec", "finalizers"], finalizers);
    }

    fn prepare_update(&self, object: &mut Object, old: &Object, _now: Timestamp) {
        label_with_name(object);
        match old.at(&["spec", "finalizers"]) {
            Some(finalizers) => object.set(&["spec", "finalizers"], finalizers.clone()),
            None => {
                object.remove(&["spec", "finalizers"]);
            }
        }
    }

    fn validate(&self, object: &Object, errors: &mut FieldErrors) {
        let path = Path::new("spec.finalizers");
        let finalizers = object.at(&["spec", "finalizers"]).and_then(Value::as_array);
        for finalizer in finalizers.into_iter().flatten().filter_map(Value::as_str) {
            checks::qualified_name(errors, &path, finalizer);
            if !finalizer.contains('/')
                && !["kubernetes", "orphan", "foregroundDeletion"].contains(&finalizer)
            {
                let text = "name is neither a standard finalizer name nor is it fully qualified";
                errors.invalid(&path, finalizer, text);
            }
        }
    }

    fn validate_status(&self, object: &Object, _old: &Object, errors: &mut FieldErrors) {
        let phase = object.str_at(&["status", "phase"]);
        // The capital letter is upstream's.
        let path = Path::new("status.Phase");
        if object.is_terminating() {
            if phase != "Terminating" {
                let text = "may only be 'Terminating' if `deletionTimestamp` is not empty";
                errors.invalid(&path, phase, text);
            }
        } else if phase != "Active" {
            errors.invalid(&path, phase, "may only be 'Active' if `deletionTimestamp` is empty");
        }
    }

    fn selectable(&self) -> &'static [&'static str] {
        &["status.phase"]
    }

    fn unknown_field(&self) -> UnknownField {
        UnknownField::NotSupported
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        vec![cells::name(object), object.str_at(&["status", "phase"]).into(), cells::age(object, now)]
    }
}

/// Sets the name label, unless the namespace has no name yet (`generateName`).
fn label_with_name(object: &mut Object) {
    let name = object.name().to_owned();
    if !name.is_empty() {
        object.set(&["metadata", "labels", NAME_LABEL], name);
    }
}

#[cfg(test)]
mod tests;
