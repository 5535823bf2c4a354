//! `CSIStorageCapacity`.

use super::kind::{Kind, Names, Policy, Scope};

/// The kind.
pub(super) struct CsiStorageCapacity;

const NAMES: Names = Names {
    group: "storage.k8s.io",
    version: "v1",
    kind: "CSIStorageCapacity",
    plural: "csistoragecapacities",
    singular: "csistoragecapacity",
    short: &[],
    categories: &[],
    schema: "io.k8s.api.storage.v1.CSIStorageCapacity",
};

impl Kind for CsiStorageCapacity {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Namespaced
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/csistoragecapacities/"
    }

    fn policy(&self) -> Policy {
        Policy { unconditional_update: false, ..Policy::DEFAULT }
    }
}
