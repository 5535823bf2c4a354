//! `CSIDriver`.

use super::kind::{Kind, Names, Scope};

/// The kind.
pub(super) struct CsiDriver;

const NAMES: Names = Names {
    group: "storage.k8s.io",
    version: "v1",
    kind: "CSIDriver",
    plural: "csidrivers",
    singular: "csidriver",
    short: &[],
    categories: &[],
    schema: "io.k8s.api.storage.v1.CSIDriver",
};

impl Kind for CsiDriver {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Cluster
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/csidrivers/"
    }
}
