//! The engine's view of the cluster: objects by kind and key, the facts of all volumes, the events of the object
//! in question, and the time. Answers come from caches; nothing here waits.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::{
    CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment, VolumeAttributesClass,
};

use super::facts::Facts;
use super::model::Reference;
use super::volume_limits::VolumeLimits;
use orlop_controller::snapshot::{VolumeSnapshot, VolumeSnapshotContent};

/// Settings of the controllers that affect answers.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Dynamic provisioning is enabled.
    pub dynamic_provisioning: bool,
    /// The plugin `kubernetes.io/host-path` provisions volumes.
    pub host_path_provisioner: bool,
    /// Time until a volume is force-detached from an unhealthy node; `None` disables force-detach.
    pub force_detach_after: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            dynamic_provisioning: true,
            host_path_provisioner: false,
            force_detach_after: Some(Duration::from_secs(360)),
        }
    }
}

/// The state of the cluster.
pub trait ClusterView {
    /// The current time.
    fn now(&self) -> Timestamp;
    /// The settings of the controllers.
    fn settings(&self) -> Settings;
    /// The claim with this key (`namespace/name`).
    fn claim(&self, key: &str) -> Option<Arc<PersistentVolumeClaim>>;
    /// The volume with this name.
    fn volume(&self, name: &str) -> Option<Arc<PersistentVolume>>;
    /// Calls `each` with the facts of every volume.
    fn facts(&self, each: &mut dyn FnMut(&Facts));
    /// The class with this name.
    fn class(&self, name: &str) -> Option<Arc<StorageClass>>;
    /// All classes.
    fn classes(&self) -> Vec<Arc<StorageClass>>;
    /// The pods that use a claim.
    fn pods_of_claim(&self, key: &str) -> Vec<Arc<Pod>>;
    /// The pods of a node.
    fn pods_on_node(&self, node: &str) -> Vec<Arc<Pod>>;
    /// At most this number of pods of a namespace, by name.
    fn pods_in_namespace(&self, namespace: &str, most: usize) -> Vec<Arc<Pod>>;
    /// At most this number of claims of a namespace, by name.
    fn claims_in_namespace(&self, namespace: &str, most: usize) -> Vec<Arc<PersistentVolumeClaim>>;
    /// The node with this name.
    fn node(&self, name: &str) -> Option<Arc<Node>>;
    /// All nodes.
    fn nodes(&self) -> Vec<Arc<Node>>;
    /// The CSINode with this name.
    fn csi_node(&self, name: &str) -> Option<Arc<CSINode>>;
    /// The nodes on which a driver is registered.
    fn nodes_with_driver(&self, driver: &str) -> Vec<String>;
    /// The driver with this name.
    fn driver(&self, name: &str) -> Option<Arc<CSIDriver>>;
    /// The attachments of a volume.
    fn attachments_of_volume(&self, volume: &str) -> Vec<Arc<VolumeAttachment>>;
    /// The attachments of a node.
    fn attachments_on_node(&self, node: &str) -> Vec<Arc<VolumeAttachment>>;
    /// The volume attributes class with this name.
    fn attributes_class(&self, name: &str) -> Option<Arc<VolumeAttributesClass>>;
    /// The capacities that drivers report for a storage class.
    fn capacities(&self, class: &str) -> Vec<Arc<CSIStorageCapacity>>;
    /// The snapshot with this namespace and name.
    fn snapshot(&self, namespace: &str, name: &str) -> Option<Arc<VolumeSnapshot>>;
    /// The content of a snapshot.
    fn content(&self, name: &str) -> Option<Arc<VolumeSnapshotContent>>;
    /// The events of the object in question and of the objects that it waits for, the newest first.
    fn events(&self) -> &[Event];

    /// The newest event of an object with one of these reasons.
    fn event(&self, of: &Reference, reasons: &[&str]) -> Option<&Event> {
        self.events().iter().find(|event| is_about(event, of, reasons))
    }

    /// The volumes on a node by driver.
    fn volume_limits(&self, node: &str) -> Arc<VolumeLimits>;

    /// Whether a driver is installed: it has a CSIDriver object, or it is registered on a node.
    fn has_driver(&self, name: &str) -> bool {
        self.driver(name).is_some() || !self.nodes_with_driver(name).is_empty()
    }
}

/// Whether an event is about the object and has one of these reasons.
pub fn is_about(event: &Event, of: &Reference, reasons: &[&str]) -> bool {
    let (object, reason) = (&event.involved_object, event.reason.as_deref());
    // Events outlive their objects: an event of this name may belong to an earlier object.
    let same = match (&object.uid, &of.uid) {
        (Some(involved), Some(uid)) => involved.is_empty() || involved == uid,
        (Some(_) | None, Some(_) | None) => true,
    };
    same && object.kind.as_ref() == Some(&of.kind)
        && object.name.as_ref() == Some(&of.name)
        && reasons.iter().any(|wanted| reason == Some(*wanted))
}

/// When an event was last seen.
pub fn seen(event: &Event) -> Option<Timestamp> {
    let series =
        event.series.as_ref().and_then(|series| series.last_observed_time.as_ref()).map(|time| time.0);
    let last = event.last_timestamp.as_ref().map(|time| time.0);
    let first = event.event_time.as_ref().map(|time| time.0);
    let made = event.metadata.creation_timestamp.as_ref().map(|time| time.0);
    series.max(last).or(first).or(made)
}

/// Sorts events, the newest first.
pub fn newest_first(events: &mut [Event]) {
    events.sort_by_key(|event| std::cmp::Reverse(seen(event)));
}
