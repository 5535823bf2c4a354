//! `PersistentVolume`.

use super::kind::{Kind, Names, Scope};

/// The kind.
pub(super) struct PersistentVolume;

const NAMES: Names = Names {
    group: "",
    version: "v1",
    kind: "PersistentVolume",
    plural: "persistentvolumes",
    singular: "persistentvolume",
    short: &["pv"],
    categories: &[],
    schema: "io.k8s.api.core.v1.PersistentVolume",
};

impl Kind for PersistentVolume {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Cluster
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/persistentvolumes/"
    }
}
