//! `VolumeAttributesClass`.

use super::kind::{Kind, Names, Scope};

/// The kind.
pub(super) struct VolumeAttributesClass;

const NAMES: Names = Names {
    group: "storage.k8s.io",
    version: "v1",
    kind: "VolumeAttributesClass",
    plural: "volumeattributesclasses",
    singular: "volumeattributesclass",
    short: &["vac"],
    categories: &[],
    schema: "io.k8s.api.storage.v1.VolumeAttributesClass",
};

impl Kind for VolumeAttributesClass {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Cluster
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/volumeattributesclasses/"
    }
}
