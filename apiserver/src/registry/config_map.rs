//! `ConfigMap`.

use super::kind::{Kind, Names, Scope};

/// The kind.
pub(super) struct ConfigMap;

const NAMES: Names = Names {
    group: "",
    version: "v1",
    kind: "ConfigMap",
    plural: "configmaps",
    singular: "configmap",
    short: &["cm"],
    categories: &[],
    schema: "io.k8s.api.core.v1.ConfigMap",
};

impl Kind for ConfigMap {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Namespaced
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/configmaps/"
    }
}
