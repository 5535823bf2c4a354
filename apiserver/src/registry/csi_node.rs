//! `CSINode`.

use super::kind::{Kind, Names, Scope};

/// The kind.
pub(super) struct CsiNode;

const NAMES: Names = Names {
    group: "storage.k8s.io",
    version: "v1",
    kind: "CSINode",
    plural: "csinodes",
    singular: "csinode",
    short: &[],
    categories: &[],
    schema: "io.k8s.api.storage.v1.CSINode",
};

impl Kind for CsiNode {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Cluster
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/csinodes/"
    }
}
