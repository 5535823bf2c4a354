//! `ServiceAccount`.

use super::kind::{Kind, Names, Scope};

/// The kind.
pub(super) struct ServiceAccount;

const NAMES: Names = Names {
    group: "",
    version: "v1",
    kind: "ServiceAccount",
    plural: "serviceaccounts",
    singular: "serviceaccount",
    short: &["sa"],
    categories: &[],
    schema: "io.k8s.api.core.v1.ServiceAccount",
};

impl Kind for ServiceAccount {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Namespaced
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/serviceaccounts/"
    }
}
