//! Handlers of the volume manager's inputs: added, changed and deleted pods, versions of the Node, changed
//! claims.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use tokio::sync::watch;

use super::Uid;
use super::manager::{Key, Manager};
use super::manager_state::{ManagerState, NodeView};
use super::orphans::{self, CleanupMode, Finding};
use super::pod_volumes::PodVolumes;
use super::reconstruct;
use crate::plugin::Place;

impl Manager {
    pub(super) fn in_use(&self) -> watch::Receiver<BTreeSet<String>> {
        self.in_use.subscribe()
    }

    /// Adds or updates a pod.
    pub(super) fn want(&self, pod: Arc<Pod>) {
        let uid: Uid = pod.metadata.uid.as_deref().unwrap_or_default().into();
        let mut state = self.state();
        let before = state.desired.get(&uid).map(|pod| pod.claims.clone()).unwrap_or_default();
        if !state.desired.want(&uid, pod) {
            return;
        }
        state.old.remove(&uid);
        let claims = state.desired.get(&uid).map(|pod| pod.claims.clone()).unwrap_or_default();
        // Watched before they are read, so that no change is missed.
        claims.iter().for_each(|claim| self.claims.take(claim));
        before.iter().for_each(|claim| self.claims.give_back(claim));
        self.queue.add(Key::Pod(uid.clone()));
        self.wake_pod(&state, &uid);
        self.publish(&mut state);
        self.report(&state, &uid);
    }

    /// Keeps everything that is mounted for a pod until it is released.
    pub(super) fn hold(&self, uid: &str) {
        let mut state = self.state();
        state.held.insert(uid.into());
    }

    /// Releases the volumes of a pod.
    pub(super) fn release(self: &Arc<Self>, uid: &str) {
        let uid: Uid = uid.into();
        let mut state = self.state();
        let held = state.held.remove(&uid);
        let released = state.desired.release(&uid);
        if let Some(pod) = &released {
            pod.claims.iter().for_each(|claim| self.claims.give_back(claim));
            for (_, wanted) in pod.known() {
                if let Some(volume) = state.actual.get_mut(&wanted.unique) {
                    volume.forget_pod(&uid);
                }
                self.queue.add(Key::Volume(Arc::clone(&wanted.unique)));
            }
        }
        self.wake_pod(&state, &uid);
        self.publish(&mut state);
        self.report(&state, &uid);
        if (held || released.is_some()) && !state.knows(&uid) {
            self.tidy(&mut state, &uid);
        }
    }

    /// The state of the volumes of a pod.
    pub(super) fn pod_state(&self, uid: &str) -> watch::Receiver<PodVolumes> {
        let uid: Uid = uid.into();
        let mut state = self.state();
        let now = self.report_now(&state, &uid);
        if !state.knows(&uid) {
            return watch::channel(now).1;
        }
        let sender = state.reports.entry(uid).or_insert_with(|| watch::Sender::new(now.clone()));
        sender.send_if_modified(|known| std::mem::replace(known, now.clone()) != now);
        sender.subscribe()
    }

    /// Handles a version of the Node.
    pub(super) fn node_seen(self: &Arc<Self>, node: &Node, reported: &BTreeSet<String>) {
        let uid = node.metadata.uid.clone().unwrap_or_default();
        let version =
            node.metadata.resource_version.as_deref().and_then(|version| version.parse::<u64>().ok());
        let mut state = self.state();
        if let Some(known) = &state.node
            && known.uid == uid
            && version.zip(known.version).is_some_and(|(version, known)| version < known)
        {
            // Responses and watch events may arrive in any order.
            return;
        }
        let attached = node.status.iter().flat_map(|status| status.volumes_attached.iter().flatten());
        let attached = attached.map(|volume| volume.name.clone()).collect();
        let labels = node.metadata.labels.clone().unwrap_or_default();
        let first = state.node.is_none();
        state.node = Some(NodeView { uid, version, labels, attached });
        let needed = state.needed();
        state.listing.seen(reported, &needed);
        self.publish(&mut state);
        let all: Vec<Arc<str>> = state.actual.volumes.keys().cloned().collect();
        all.into_iter().for_each(|unique| self.queue.add(Key::Volume(unique)));
        self.report_all(&state);
        if first {
            self.begin_unmounting(&mut state);
        }
    }

    /// Handles that all pods of this node are known.
    pub(super) fn synced(self: &Arc<Self>) {
        let mut state = self.state();
        if !std::mem::replace(&mut state.synced, true) {
            self.begin_unmounting(&mut state);
        }
    }

    fn begin_unmounting(self: &Arc<Self>, state: &mut ManagerState) {
        if !state.may_unmount() {
            return;
        }
        let all: Vec<Arc<str>> = state.actual.volumes.keys().cloned().collect();
        all.into_iter().for_each(|unique| self.queue.add(Key::Volume(unique)));
        let unknown: Vec<Uid> = state.old.iter().filter(|uid| !state.knows(uid)).cloned().collect();
        unknown.iter().for_each(|uid| self.tidy(state, uid));
    }

    /// Marks the content of a mount as outdated.
    pub(super) fn refresh(&self, place: &Place) {
        let mut state = self.state();
        for (unique, volume) in &mut state.actual.volumes {
            for mount in volume.mounts.values_mut().filter(|mount| mount.place == *place) {
                mount.stale = true;
                self.queue.add(Key::Volume(Arc::clone(unique)));
            }
        }
    }

    /// Cleans up directories of unknown pods.
    pub(super) async fn gc(&self, dry_run: bool) -> Vec<Finding> {
        if !dry_run && !self.state().may_unmount() {
            return Vec::new();
        }
        let pods = self.host.paths.pods();
        let listed = tokio::task::spawn_blocking(move || reconstruct::names(&pods, true)).await;
        let Ok(Ok(uids)) = listed else { return Vec::new() };
        let zeal = if dry_run { CleanupMode::Look } else { CleanupMode::Quarantine };
        let mut findings = Vec::new();
        for uid in uids {
            if !self.state().knows(&uid) {
                findings.extend(orphans::treat(&self.host, &uid, zeal).await);
            }
        }
        findings
    }

    /// Cleans up the directory of a pod that has no mounts left.
    pub(super) fn tidy(self: &Arc<Self>, state: &mut ManagerState, uid: &Uid) {
        let zeal = if state.old.remove(uid) && state.may_unmount() {
            CleanupMode::Quarantine
        } else {
            CleanupMode::Tidy
        };
        let (this, uid) = (Arc::clone(self), uid.clone());
        self.spawn(async move {
            if this.state().knows(&uid) {
                return;
            }
            if let Some(finding) = orphans::treat(&this.host, &uid, zeal).await {
                tracing::debug!(uid = &*uid, fate = ?finding.fate, "the directory of a deleted pod");
            }
        });
    }

    pub(super) fn claim_changed(&self, key: &str) {
        let mut state = self.state();
        for uid in state.desired.of_claim(key) {
            if let Some(pod) = state.desired.get_mut(&uid) {
                pod.due = true;
                pod.failure = None;
            }
            self.queue.add(Key::Pod(uid));
        }
    }
}
