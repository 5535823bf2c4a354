//! `Namespace`.

use super::kind::{Kind, Names, Scope};

/// The kind.
pub(super) struct Namespace;

const NAMES: Names = Names {
    group: "",
    version: "v1",
    kind: "Namespace",
    plural: "namespaces",
    singular: "namespace",
    short: &["ns"],
    categories: &[],
    schema: "io.k8s.api.core.v1.Namespace",
};

impl Kind for Namespace {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Cluster
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/namespaces/"
    }
}
