//! `VolumeAttachment`.

use super::kind::{Kind, Names, Scope};

/// The kind.
pub(super) struct VolumeAttachment;

const NAMES: Names = Names {
    group: "storage.k8s.io",
    version: "v1",
    kind: "VolumeAttachment",
    plural: "volumeattachments",
    singular: "volumeattachment",
    short: &[],
    categories: &[],
    schema: "io.k8s.api.storage.v1.VolumeAttachment",
};

impl Kind for VolumeAttachment {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Cluster
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/volumeattachments/"
    }
}
