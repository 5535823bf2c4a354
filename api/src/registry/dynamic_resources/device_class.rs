//! `DeviceClass`: a set of devices, and the configuration for them.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::GROUP;
use super::claim_spec::MOST_CONFIGURATIONS;
use super::collection::{each, items};
use super::selector::{validate_configuration, validate_selectors};
use crate::kind::{Column, DeleteAnswer, Generation, Kind, KindRef, Names, Policy, Scope};
use crate::object::Object;
use crate::registry::cells;
use crate::registry::expressions::CompilesExpressions;
use crate::registry::pod_spec::resources::is_extended;
use crate::registry::workload::{given, spec};
use crate::validate::{FieldErrors, Path};

pub(super) const NAMES: Names = Names {
    group: GROUP,
    version: "v1",
    kind: "DeviceClass",
    plural: "deviceclasses",
    singular: "deviceclass",
    short: &[],
    categories: &[],
    schema: "io.k8s.api.resource.v1.DeviceClass",
};

/// The `DeviceClass` kind.
#[derive(Clone, Copy)]
pub struct DeviceClass {
    /// Validates the expressions.
    pub compiler: &'static dyn CompilesExpressions,
}

impl fmt::Debug for DeviceClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAMES.kind)
    }
}

impl Kind for DeviceClass {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Cluster
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/deviceclasses/"
    }

    fn policy(&self) -> Policy {
        Policy { delete_answer: DeleteAnswer::Object, generation: Generation::Spec, ..Policy::DEFAULT }
    }

    fn validate_create(&self, class: &Object, errors: &mut FieldErrors) {
        self.validate_spec(spec(class), None, errors);
    }

    fn validate_update(&self, class: &Object, old: &Object, errors: &mut FieldErrors) {
        self.validate_spec(spec(class), Some(spec(old)), errors);
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[cells::NAME, cells::AGE];
        COLUMNS
    }

    fn cells(&self, class: &Object, now: Timestamp) -> Vec<Value> {
        vec![cells::name(class), cells::age(class, now)]
    }

    fn custom_sibling(&self, api_version: &str) -> Option<KindRef> {
        (api_version == NAMES.api_version()).then(|| KindRef::Custom(Arc::new(*self)))
    }
}

impl DeviceClass {
    /// Validates the spec. Unchanged selectors are not compiled again, and unchanged configurations may exceed the size limit.
    fn validate_spec(&self, spec: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
        let path = Path::new("spec");
        let is_stored = |field: &str| old.is_some_and(|old| old.get(field) == spec.get(field));
        if !is_stored("selectors") {
            validate_selectors(spec, self.compiler, &path, errors);
        }
        let is_stored = is_stored("config");
        let config = items(spec, "config");
        each(config, MOST_CONFIGURATIONS, &path.child("config"), errors, |config, path, errors| {
            validate_configuration(config, is_stored, path, errors);
        });
        if let Some(name) = given(spec, "extendedResourceName").and_then(Value::as_str)
            && !is_extended(name)
        {
            let path = path.child("extendedResourceName");
            errors.invalid(&path, name, "must be a valid extended resource name");
        }
    }
}
