//! `ClusterRole`: permissions for the whole cluster, or for the namespaces of the role bindings that refer to it.

use super::rbac;
use crate::kind::{Kind, NameRule, Names, Policy, Scope};
use crate::object::Object;
use crate::validate::FieldErrors;

/// The `ClusterRole` kind.
pub(super) struct ClusterRole;

const NAMES: Names = Names {
    group: rbac::GROUP,
    version: "v1",
    kind: "ClusterRole",
    plural: "clusterroles",
    singular: "clusterrole",
    short: &[],
    categories: &[],
    schema: "io.k8s.api.rbac.v1.ClusterRole",
};

impl Kind for ClusterRole {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Cluster
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/clusterroles/"
    }

    fn policy(&self) -> Policy {
        Policy { names: NameRule::PathSegment, create_on_update: true, ..Policy::DEFAULT }
    }

    fn validate(&self, role: &Object, errors: &mut FieldErrors) {
        rbac::rules(role, false, errors);
        rbac::aggregation(role, errors);
    }
}
