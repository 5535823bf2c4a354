//! `Node`.

use super::kind::{Kind, Names, Scope};

/// The kind.
pub(super) struct Node;

const NAMES: Names = Names {
    group: "",
    version: "v1",
    kind: "Node",
    plural: "nodes",
    singular: "node",
    short: &["no"],
    categories: &[],
    schema: "io.k8s.api.core.v1.Node",
};

impl Kind for Node {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Cluster
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/minions/"
    }
}
