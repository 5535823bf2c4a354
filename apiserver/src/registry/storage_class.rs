//! `StorageClass`.

use super::kind::{Kind, Names, Scope};

/// The kind.
pub(super) struct StorageClass;

const NAMES: Names = Names {
    group: "storage.k8s.io",
    version: "v1",
    kind: "StorageClass",
    plural: "storageclasses",
    singular: "storageclass",
    short: &["sc"],
    categories: &[],
    schema: "io.k8s.api.storage.v1.StorageClass",
};

impl Kind for StorageClass {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Cluster
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/storageclasses/"
    }
}
