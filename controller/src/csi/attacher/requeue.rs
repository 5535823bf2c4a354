//! Which changes queue which attachments. The controller's own writes about a failed attempt queue nothing, so that the key
//! keeps its backoff.

use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::{CSINode, VolumeAttachment};

use super::decide::{is_unsettled, volume_name};
use orlop_client::informer::Change;
use orlop_client::meta::is_terminating;
use orlop_client::names::{ANN_CSI_NODE_ID, FINALIZER_EXTERNAL_ATTACHER_PREFIX};
use orlop_volume::csi::handle::attacher_finalizer;

/// Whether a changed attachment needs a sync.
pub(super) fn attachment_matters(change: &Change<VolumeAttachment>) -> bool {
    let Some(new) = change.new.as_deref().filter(|new| is_unsettled(new)) else { return false };
    match change.old() {
        None => true,
        Some(old) => change.replaced() || without_marks(old) != without_marks(new),
    }
}

/// The attachment without the fields that the attacher writes before and after an attempt.
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
    // A server may return an empty status or none.
    bare.status = bare.status.filter(|status| *status != Default::default());
    bare
}

/// Whether attachments that wait for this volume may be able to continue.
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

/// Whether this volume has an attacher's finalizer that may have to be removed.
pub(super) fn volume_is_held(volume: &PersistentVolume) -> bool {
    let finalizers = volume.metadata.finalizers.iter().flatten();
    let held = finalizers.into_iter().any(|name| name.starts_with(FINALIZER_EXTERNAL_ATTACHER_PREFIX));
    let is_csi = volume.spec.as_ref().is_some_and(|spec| spec.csi.is_some());
    held && (is_terminating(volume) || !is_csi)
}

/// Whether a driver was added to this node, or changed its node id.
pub(super) fn node_helps(change: &Change<CSINode>) -> bool {
    let ids = |node: &CSINode| {
        let drivers = node.spec.drivers.iter();
        drivers.map(|driver| (driver.name.clone(), driver.node_id.clone())).collect::<Vec<_>>()
    };
    let Some(new) = change.new.as_deref() else { return false };
    change.old().is_none_or(|old| ids(old) != ids(new))
}

/// Index: attachments with unfinished work, by driver.
pub(super) fn open_by_driver(attachment: &VolumeAttachment) -> Vec<String> {
    is_unsettled(attachment).then(|| attachment.spec.attacher.clone()).into_iter().collect()
}

/// Index: attachments with unfinished work, by volume.
pub(super) fn open_by_volume(attachment: &VolumeAttachment) -> Vec<String> {
    let open = is_unsettled(attachment);
    volume_name(attachment).filter(|_| open).map(str::to_owned).into_iter().collect()
}

/// Index: attachments with unfinished work, by node.
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

/// Index: volumes with an attacher's finalizer that may have to be removed. One value for all: there are few.
pub(super) fn held(volume: &PersistentVolume) -> Vec<String> {
    volume_is_held(volume).then(String::new).into_iter().collect()
}
