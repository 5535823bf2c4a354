//! `CustomResourceDefinition`. What its rules are and what becomes of it is in `custom`.

use jiff::Timestamp;

use super::kind::{Generation, Kind, Names, Policy, Scope, StatusSubresource};
use crate::custom::{definition, keeper};
use crate::object::Object;
use crate::validate::FieldErrors;

/// The kind.
pub(super) struct CustomResourceDefinition;

const NAMES: Names = Names {
    group: "apiextensions.k8s.io",
    version: "v1",
    kind: "CustomResourceDefinition",
    plural: "customresourcedefinitions",
    singular: "customresourcedefinition",
    short: &["crd", "crds"],
    categories: &["api-extensions"],
    schema: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
};

impl Kind for CustomResourceDefinition {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Cluster
    }

    fn storage_prefix(&self) -> &'static str {
        keeper::PREFIX
    }

    fn policy(&self) -> Policy {
        Policy {
            unconditional_update: false,
            status: StatusSubresource::StatusOnly,
            generation: Generation::Spec,
            ..Policy::DEFAULT
        }
    }

    fn defaults(&self, object: &mut Object) {
        definition::defaults(object);
    }

    fn prepare_create(&self, object: &mut Object, _now: Timestamp) {
        definition::first_status(object);
    }

    fn prepare_update(&self, object: &mut Object, _old: &Object, _now: Timestamp) {
        definition::keep_stored_versions(object);
    }

    fn validate_create(&self, object: &Object, errors: &mut FieldErrors) {
        definition::validate(object, None, errors);
    }

    fn validate_update(&self, object: &Object, old: &Object, errors: &mut FieldErrors) {
        definition::validate(object, Some(old), errors);
        definition::validate_update(object, old, errors);
    }

    fn validate_status(&self, object: &Object, _old: &Object, errors: &mut FieldErrors) {
        definition::validate_stored_versions(object, errors);
    }

    fn deletion_finalizer(&self) -> Option<&'static str> {
        Some(keeper::FINALIZER)
    }

    fn begin_delete(&self, object: &mut Object) {
        keeper::begin_delete(object);
    }
}
