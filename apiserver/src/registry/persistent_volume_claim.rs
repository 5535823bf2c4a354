//! `PersistentVolumeClaim`.

use super::kind::{Kind, Names, Scope};

/// The kind.
pub(super) struct PersistentVolumeClaim;

const NAMES: Names = Names {
    group: "",
    version: "v1",
    kind: "PersistentVolumeClaim",
    plural: "persistentvolumeclaims",
    singular: "persistentvolumeclaim",
    short: &["pvc"],
    categories: &[],
    schema: "io.k8s.api.core.v1.PersistentVolumeClaim",
};

impl Kind for PersistentVolumeClaim {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Namespaced
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/persistentvolumeclaims/"
    }
}
