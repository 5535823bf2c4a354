//! Explains why a volume is not attached, or not detached.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolume};
use k8s_openapi::api::storage::v1::{CSIDriver, VolumeAttachment};

use orlop_client::meta;
use orlop_client::names::{ANN_DETACH_NOT_BEFORE, ANN_FORCED_DETACH};

use super::cluster_view::ClusterView;
use super::model::{Cause, Code, Fix, Reference, Severity, Why};
use super::pod::is_attached;
use super::words;

/// Explains an attachment that is not being deleted.
pub fn explain(world: &dyn ClusterView, attachment: &Arc<VolumeAttachment>, why: &mut Why) {
    why.state = if is_attached(attachment) { "Attached" } else { "Attaching" }.to_owned();
    let (volume, node, driver) = parts(attachment);
    missing(world, attachment, why);
    if let Some(time) = meta::annotation(attachment.as_ref(), ANN_DETACH_NOT_BEFORE) {
        let message = format!(
            "No pod uses volume {volume} on node {node} any more, and the node is not ready: the volume will be detached by force at {time}."
        );
        let object = Reference::named::<Node>(None, node);
        why.push(Severity::Waiting, Cause::new(Code::ForcedDetach, message, vec![object]).until(Some(time)));
    } else {
        super::node::silence(world, node, why);
    }
    if is_attached(attachment) {
        let first = why.causes.first().map(|cause| format!(" {}", cause.message)).unwrap_or_default();
        why.summary = format!("Volume {volume} is attached to node {node} by {driver}.{first}");
        return;
    }
    let error =
        attachment.status.as_ref().and_then(|status| status.attach_error.as_ref()?.message.as_deref());
    match error {
        Some(error) => {
            let message = format!(
                "{driver} could not attach volume {volume} to node {node}: {}. It retries.",
                words::open(error)
            );
            why.push(Severity::Attention, Cause::new(Code::AttachFailed, message, Vec::new()));
        }
        None => {
            let message = format!("{driver} is attaching volume {volume} to node {node}.");
            why.push(Severity::Waiting, Cause::new(Code::AttachPending, message, Vec::new()));
        }
    }
}

/// Explains an attachment that is being deleted.
pub(super) fn leaving(world: &dyn ClusterView, attachment: &Arc<VolumeAttachment>, why: &mut Why) {
    let (volume, node, driver) = parts(attachment);
    missing(world, attachment, why);
    let forced = meta::annotation(attachment.as_ref(), ANN_FORCED_DETACH);
    let forced =
        forced.map(|said| format!(" The detach is forced: {}.", words::open(said))).unwrap_or_default();
    let error =
        attachment.status.as_ref().and_then(|status| status.detach_error.as_ref()?.message.as_deref());
    match error {
        Some(error) => {
            let message = format!(
                "{driver} could not detach volume {volume} from node {node}: {}. It retries.{forced}",
                words::open(error)
            );
            why.push(Severity::Attention, Cause::new(Code::DetachFailed, message, Vec::new()));
        }
        None => {
            let message = format!("{driver} is detaching volume {volume} from node {node}.{forced}");
            why.push(Severity::Waiting, Cause::new(Code::DetachPending, message, Vec::new()));
        }
    }
}

fn parts(attachment: &VolumeAttachment) -> (&str, &str, &str) {
    let spec = &attachment.spec;
    let volume = spec.source.persistent_volume_name.as_deref().unwrap_or("inline");
    (volume, &spec.node_name, &spec.attacher)
}

/// Adds causes for missing objects that the attachment refers to.
fn missing(world: &dyn ClusterView, attachment: &Arc<VolumeAttachment>, why: &mut Why) {
    let (volume, node, driver) = parts(attachment);
    if world.node(node).is_none() {
        let message = format!(
            "Node {node} does not exist any more, but volume {volume} is still recorded as attached to it. {driver} can detach it."
        );
        let object = Reference::named::<Node>(None, node);
        let target = Reference::to(attachment.as_ref());
        let command = format!("orlop attachment release {}", target.name);
        let means = "Detaches the volume from the deleted node, so that another node can use it.";
        let fix = Fix::plan(target, "release", serde_json::json!({}), command, means);
        let fix = Some(fix).filter(|_| attachment.metadata.deletion_timestamp.is_none());
        why.push(Severity::Attention, Cause::new(Code::NodeGone, message, vec![object]).fixed_by(fix));
    }
    let named = attachment.spec.source.persistent_volume_name.as_deref();
    if let Some(volume) = named
        && world.volume(volume).is_none()
    {
        let message =
            format!("Volume {volume} does not exist any more; without its object {driver} cannot detach it.");
        let object = Reference::named::<PersistentVolume>(None, volume);
        why.push(Severity::Attention, Cause::new(Code::VolumeGone, message, vec![object]));
    }
    if !world.has_driver(driver) {
        let message = format!(
            "The driver {driver} is not registered, so volume {volume} is neither attached nor detached. Install the driver."
        );
        let object = Reference::named::<CSIDriver>(None, driver);
        why.push(Severity::Attention, Cause::new(Code::DriverGone, message, vec![object]));
    }
}
