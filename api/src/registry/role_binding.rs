//! `RoleBinding` and `ClusterRoleBinding`: grant a role to subjects, in a namespace or in the whole cluster.

use jiff::Timestamp;
use serde_json::Value;

use super::rbac;
use crate::kind::{Column, Kind, NameRule, Names, Policy, Scope};
use crate::object::Object;
use crate::validate::FieldErrors;

/// One of the two kinds.
pub(super) struct Binding {
    names: Names,
    scope: Scope,
    prefix: &'static str,
}

/// Grants a role in a namespace.
pub(super) static ROLE_BINDING: Binding = Binding {
    names: Names {
        group: rbac::GROUP,
        version: "v1",
        kind: "RoleBinding",
        plural: "rolebindings",
        singular: "rolebinding",
        short: &[],
        categories: &[],
        schema: "io.k8s.api.rbac.v1.RoleBinding",
    },
    scope: Scope::Namespaced,
    prefix: "/registry/rolebindings/",
};

/// Grants a role in the whole cluster.
pub(super) static CLUSTER_ROLE_BINDING: Binding = Binding {
    names: Names {
        kind: "ClusterRoleBinding",
        plural: "clusterrolebindings",
        singular: "clusterrolebinding",
        schema: "io.k8s.api.rbac.v1.ClusterRoleBinding",
        ..ROLE_BINDING.names
    },
    scope: Scope::Cluster,
    prefix: "/registry/clusterrolebindings/",
};

impl Kind for Binding {
    fn names(&self) -> &Names {
        &self.names
    }

    fn scope(&self) -> Scope {
        self.scope
    }

    fn storage_prefix(&self) -> &'static str {
        self.prefix
    }

    fn policy(&self) -> Policy {
        Policy { names: NameRule::PathSegment, create_on_update: true, ..Policy::DEFAULT }
    }

    fn defaults(&self, binding: &mut Object) {
        rbac::default_binding(binding);
    }

    fn validate(&self, binding: &Object, errors: &mut FieldErrors) {
        rbac::binding(binding, self.scope == Scope::Namespaced, errors);
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
