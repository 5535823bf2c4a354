//! `Pod`.

use super::kind::{Kind, Names, Scope};

/// The kind.
pub(super) struct Pod;

const NAMES: Names = Names {
    group: "",
    version: "v1",
    kind: "Pod",
    plural: "pods",
    singular: "pod",
    short: &["po"],
    categories: &[],
    schema: "io.k8s.api.core.v1.Pod",
};

impl Kind for Pod {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Namespaced
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/pods/"
    }
}
