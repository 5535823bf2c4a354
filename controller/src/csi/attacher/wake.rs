//! Which change is worth a look at which attachments. What this controller writes about a failed try wakes nobody: the key
//! keeps the wait that its failures have earned.

use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::{CSINode, VolumeAttachment};

use super::decide::{is_unsettled, volume_name};
use crate::csi::handle::attacher_finalizer;
use orlop_client::informer::Change;
use orlop_client::meta::is_terminating;
use orlop_client::names::{ANN_CSI_NODE_ID, FINALIZER_EXTERNAL_ATTACHER_PREFIX};

/// Whether a changed attachment has something to do.
pub(super) fn attachment_matters(change: &Change<VolumeAttachment>) -> bool {
    let Some(new) = change.new.as_deref().filter(|new| is_unsettled(new)) else { return false };
    match change.old() {
        None => true,
        Some(old) => change.replaced() || without_marks(old) != without_marks(new),
    }
}

/// Without what the attacher writes before and after a try.
fn without_marks(attachment: &VolumeAttachment) -> VolumeAttachment {
    let mut bare = attachment.clone();
    bare.metadata.resource_version = None;
    bare.metadata.managed_fields = None;
    let own = attacher_finalizer(&bare.spec.attacher);
    if let Some(finalizers) = &mut bare.metadata.finalizers {
        finalizers.retain(|finalizer| *finalizer != own);
    }
    bare.metadata.finalizers = bare.metadata.finalizers.filter(|rest| !rest.is_empty());
    if let Some(annotations) = &mut bare.metadata.annotations {
        annotations.remove(ANN_CSI_NODE_ID);
    }
    bare.metadata.annotations = bare.metadata.annotations.filter(|rest| !rest.is_empty());
    if let Some(status) = &mut bare.status {
        (status.attach_error, status.detach_error) = (None, None);
    }
    // A server may print an empty status or none.
    bare.status = bare.status.filter(|status| *status != Default::default());
    bare
}

/// Whether attachments that wait for this volume may get further now.
pub(super) fn volume_helps(change: &Change<PersistentVolume>) -> bool {
    let Some(new) = change.new.as_deref() else { return false };
    match change.old() {
        None => true,
        Some(old) => {
            let of = |volume: &PersistentVolume| {
                volume
                    .spec
                    .clone()
                    .map(|spec| (spec.csi, spec.access_modes, spec.volume_mode, spec.mount_options))
            };
            change.replaced() || of(old) != of(new)
        }
    }
}

/// Whether the finalizer of an attacher may have to leave this volume.
pub(super) fn volume_is_held(volume: &PersistentVolume) -> bool {
    let finalizers = volume.metadata.finalizers.iter().flatten();
    let held = finalizers.into_iter().any(|name| name.starts_with(FINALIZER_EXTERNAL_ATTACHER_PREFIX));
    let is_csi = volume.spec.as_ref().is_some_and(|spec| spec.csi.is_some());
    held && (is_terminating(volume) || !is_csi)
}

/// Whether a driver has come to this node, or calls it something else.
pub(super) fn node_helps(change: &Change<CSINode>) -> bool {
    let ids = |node: &CSINode| {
        let drivers = node.spec.drivers.iter();
        drivers.map(|driver| (driver.name.clone(), driver.node_id.clone())).collect::<Vec<_>>()
    };
    let Some(new) = change.new.as_deref() else { return false };
    change.old().is_none_or(|old| ids(old) != ids(new))
}

/// Index: attachments that have something to do, by driver.
pub(super) fn open_by_driver(attachment: &VolumeAttachment) -> Vec<String> {
    is_unsettled(attachment).then(|| attachment.spec.attacher.clone()).into_iter().collect()
}

/// Index: the same by volume.
pub(super) fn open_by_volume(attachment: &VolumeAttachment) -> Vec<String> {
    let open = is_unsettled(attachment);
    volume_name(attachment).filter(|_| open).map(str::to_owned).into_iter().collect()
}

/// Index: the same by node.
pub(super) fn open_by_node(attachment: &VolumeAttachment) -> Vec<String> {
    is_unsettled(attachment).then(|| attachment.spec.node_name.clone()).into_iter().collect()
}

/// Index: all attachments by volume.
pub(super) fn by_volume(attachment: &VolumeAttachment) -> Vec<String> {
    volume_name(attachment).map(str::to_owned).into_iter().collect()
}

/// Index: all attachments by driver.
pub(super) fn by_driver(attachment: &VolumeAttachment) -> Vec<String> {
    vec![attachment.spec.attacher.clone()]
}

/// Index: volumes that may have to be let go. One value for all: there are few.
pub(super) fn held(volume: &PersistentVolume) -> Vec<String> {
    volume_is_held(volume).then(String::new).into_iter().collect()
}
