//! `Lease`.

use super::kind::{Kind, Names, Scope};

/// The kind.
pub(super) struct Lease;

const NAMES: Names = Names {
    group: "coordination.k8s.io",
    version: "v1",
    kind: "Lease",
    plural: "leases",
    singular: "lease",
    short: &[],
    categories: &[],
    schema: "io.k8s.api.coordination.v1.Lease",
};

impl Kind for Lease {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Namespaced
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/leases/"
    }
}
