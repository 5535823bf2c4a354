//! The kind `CustomResourceDefinition`. Its rules are in `definition`.

use jiff::Timestamp;
use orlop_api::object::Object;
use orlop_api::registry::custom_resource_definition::{NAMES, PREFIX};
use orlop_api::registry::{Generation, Kind, KindRef, Names, Policy, Scope, StatusSubresource};
use orlop_api::validate::FieldErrors;

use crate::definition;

/// The kind `CustomResourceDefinition`.
#[derive(Debug)]
pub struct CustomResourceDefinition;

impl Kind for CustomResourceDefinition {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Cluster
    }

    fn storage_prefix(&self) -> &'static str {
        PREFIX
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

    fn validate_status(&self, object: &Object, old: &Object, errors: &mut FieldErrors) {
        definition::validate_status(object, old, errors);
    }

    fn warnings(&self, object: &Object, old: Option<&Object>) -> Vec<String> {
        definition::warnings(object, old)
    }

    fn deletion_finalizer(&self) -> Option<&'static str> {
        Some(definition::FINALIZER)
    }

    fn begin_delete(&self, object: &mut Object) {
        definition::begin_delete(object);
    }

    fn custom_sibling(&self, api_version: &str) -> Option<KindRef> {
        (api_version == NAMES.api_version()).then_some(KindRef::Builtin(&CustomResourceDefinition))
    }
}
