//! The actual state when the controller starts: a volume in a node's status is attached; a VolumeAttachment that no status lists
//! may be attached. Unwanted volumes are then detached as usual.

use std::sync::Arc;

use k8s_openapi::api::storage::v1::VolumeAttachment;

use super::controller::Controller;
use super::state::AttachState;
use super::volume::{Key, Spec};

impl Controller {
    /// Adds VolumeAttachments. Those without a PersistentVolume, or whose volume does not exist, are ignored.
    // Tests: AD-089, AD-091, AD-092, AD-093, AD-094, AD-096
    pub(super) fn adopt_attachments(&self, state: &mut AttachState) {
        for kept in self.caches.attachments.kept() {
            let Some((key, spec)) = self.adopted(&kept.get()) else { continue };
            let spec = Arc::new(spec);
            if state.actual.get(&key).is_none() {
                state.actual.put(&key, Some(&spec), false);
                state.track(&key);
            }
            state.actual.learn(&spec);
        }
    }

    fn adopted(&self, attachment: &VolumeAttachment) -> Option<(Key, Spec)> {
        let volume = attachment.spec.source.persistent_volume_name.as_deref()?;
        let spec = Spec::of_volume(self.caches.volumes.get(volume)?.as_ref())?;
        if !spec.driver().is_some_and(|driver| self.caches.attaches(driver)) {
            return None;
        }
        let node = attachment.spec.node_name.as_str();
        Some((Key { volume: Arc::clone(&spec.unique), node: node.into() }, spec))
    }

    /// Queues every volume of every node once.
    pub(super) fn queue_all(&self) {
        let state = self.state();
        let mut keys: Vec<Key> = state.actual.all().map(|(key, _)| key).collect();
        drop(state);
        keys.sort();
        keys.into_iter().for_each(|key| self.keys.add(key));
    }
}
