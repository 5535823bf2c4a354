//! `Role`: permissions in its namespace.

use super::rbac;
use crate::kind::{Kind, NameRule, Names, Policy, Scope};
use crate::object::Object;
use crate::validate::FieldErrors;

/// The `Role` kind.
pub(super) struct Role;

const NAMES: Names = Names {
    group: rbac::GROUP,
    version: "v1",
    kind: "Role",
    plural: "roles",
    singular: "role",
    short: &[],
    categories: &[],
    schema: "io.k8s.api.rbac.v1.Role",
};

impl Kind for Role {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Namespaced
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/roles/"
    }

    fn policy(&self) -> Policy {
        Policy { names: NameRule::PathSegment, create_on_update: true, ..Policy::DEFAULT }
    }

    fn validate(&self, role: &Object, errors: &mut FieldErrors) {
        rbac::rules(role, true, errors);
    }
}
