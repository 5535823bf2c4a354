//! `ClusterRoleBinding`: who has a role everywhere.

use jiff::Timestamp;
use serde_json::Value;

use super::kind::{Column, Kind, NameRule, Names, Policy, Scope};
use super::rbac;
use crate::object::Object;
use crate::validate::FieldErrors;

/// The kind.
pub(super) struct ClusterRoleBinding;

const NAMES: Names = Names {
    group: rbac::GROUP,
    version: "v1",
    kind: "ClusterRoleBinding",
    plural: "clusterrolebindings",
    singular: "clusterrolebinding",
    short: &[],
    categories: &[],
    schema: "io.k8s.api.rbac.v1.ClusterRoleBinding",
};

impl Kind for ClusterRoleBinding {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Cluster
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/clusterrolebindings/"
    }

    fn policy(&self) -> Policy {
        Policy { names: NameRule::PathSegment, create_on_update: true, ..Policy::DEFAULT }
    }

    fn defaults(&self, binding: &mut Object) {
        rbac::default_binding(binding);
    }

    fn validate(&self, binding: &Object, errors: &mut FieldErrors) {
        rbac::binding(binding, false, errors);
    }

    fn validate_update(&self, binding: &Object, old: &Object, errors: &mut FieldErrors) {
        rbac::same_role(binding, old, errors);
    }

    fn columns(&self) -> &'static [Column] {
        rbac::BINDING_COLUMNS
    }

    fn cells(&self, binding: &Object, now: Timestamp) -> Vec<Value> {
        rbac::binding_cells(binding, now)
    }
}
