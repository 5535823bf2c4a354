//! `Secret`.

use super::kind::{Kind, Names, Scope};

/// The kind.
pub(super) struct Secret;

const NAMES: Names = Names {
    group: "",
    version: "v1",
    kind: "Secret",
    plural: "secrets",
    singular: "secret",
    short: &[],
    categories: &[],
    schema: "io.k8s.api.core.v1.Secret",
};

impl Kind for Secret {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Namespaced
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/secrets/"
    }
}
