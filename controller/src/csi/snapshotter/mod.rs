//! Snapshots of volumes. Two controllers, as upstream (kubernetes-csi/external-snapshotter): the one that binds snapshots and
//! contents, for every driver, and the one that calls drivers, with a queue for each ([`crate::csi::driver_queue`]). They interact
//! only through the contents, so a driver whose sidecar runs elsewhere is served in the same way.
//!
//! * [`binding`]: the next step for a snapshot (pure). * [`status`]: its status, derived from its content (pure). * [`common`]: the
//!   controller, with its `steps`.
//! * [`content`]: the next step for a content (pure). * [`driver_queue`]: the controller, with its `calls`.
//! * [`secrets`]: the secrets of a class. * [`protect`]: finalizers.

pub mod binding;
mod calls;
pub mod common;
pub mod content;
pub mod driver_queue;
mod error;
pub mod protect;
pub mod secrets;
pub mod status;
mod steps;

use crate::snapshot::{VolumeSnapshot, VolumeSnapshotContent};

/// Name of the content that is created for a snapshot.
pub fn content_name(snapshot: &VolumeSnapshot) -> String {
    format!("snapcontent-{}", snapshot.metadata.uid.as_deref().unwrap_or_default())
}

/// Whether the content belongs to exactly this snapshot.
pub fn points_to(content: &VolumeSnapshotContent, snapshot: &VolumeSnapshot) -> bool {
    let reference = &content.spec.volume_snapshot_ref;
    names(content, snapshot) && reference.uid.is_some() && reference.uid == snapshot.metadata.uid
}

/// Whether the content is reserved for a snapshot of this name.
pub fn names(content: &VolumeSnapshotContent, snapshot: &VolumeSnapshot) -> bool {
    let reference = &content.spec.volume_snapshot_ref;
    reference.name == snapshot.metadata.name && reference.namespace == snapshot.metadata.namespace
}

/// Whether a volume can be restored from it.
pub fn is_ready(snapshot: &VolumeSnapshot) -> bool {
    snapshot.status.as_ref().and_then(|status| status.ready_to_use) == Some(true)
}

/// The content in the snapshot's status.
pub fn bound_content(snapshot: &VolumeSnapshot) -> Option<&str> {
    let name = snapshot.status.as_ref()?.bound_volume_snapshot_content_name.as_deref();
    name.filter(|name| !name.is_empty())
}

/// The content that the snapshot is bound to or requests, whether it exists or not.
pub fn wanted_content(snapshot: &VolumeSnapshot) -> String {
    if let Some(name) = bound_content(snapshot) {
        return name.to_owned();
    }
    snapshot.spec.source.volume_snapshot_content_name.clone().unwrap_or_else(|| content_name(snapshot))
}
