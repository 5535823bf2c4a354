//! The volumes that a Node's status lists: those attached and those in use.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;

use super::state::AttachState;
use super::volume::Key;

/// One writer of `status.volumesAttached` per node at a time.
#[derive(Default)]
pub(super) struct Writers(Mutex<HashMap<Arc<str>, Arc<tokio::sync::Mutex<()>>>>);

impl Writers {
    pub(super) fn of(&self, node: &Arc<str>) -> Arc<tokio::sync::Mutex<()>> {
        let mut writers = self.0.lock();
        Arc::clone(writers.entry(Arc::clone(node)).or_default())
    }

    pub(super) fn done(&self, node: &Arc<str>) {
        let mut writers = self.0.lock();
        // This reference and the map's: no other task waits.
        if writers.get(node).is_some_and(|writer| Arc::strong_count(writer) <= 2) {
            writers.remove(node);
        }
    }
}

/// Adds the volumes that the status of a node lists. VolumeAttachments and pods provide their specs.
// Tests: AD-086, AD-087, AD-088, AD-095
pub(super) fn adopt_node(state: &mut AttachState, name: &Arc<str>, node: &Node) {
    for volume in listed(node) {
        let key = Key { volume: volume.into(), node: Arc::clone(name) };
        state.actual.put(&key, None, true);
        state.actual.adopt_listed(&key);
        state.track(&key);
    }
}

/// Names of `status.volumesAttached`.
pub(super) fn listed(node: &Node) -> Vec<&str> {
    let attached = node.status.as_ref().and_then(|status| status.volumes_attached.as_deref());
    attached.unwrap_or_default().iter().map(|volume| volume.name.as_str()).collect()
}

/// `status.volumesInUse`.
pub(super) fn volumes_in_use(node: &Node) -> &[String] {
    node.status.as_ref().and_then(|status| status.volumes_in_use.as_deref()).unwrap_or_default()
}
