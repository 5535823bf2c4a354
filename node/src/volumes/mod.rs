//! The volume manager: ensures that exactly the volumes of this node's pods are mounted. It is independent of
//! volume types, which plugins implement.
//!
//! Reading order. Desired state: `desired_state`, filled by `populator`. Actual state: `actual_state`, recovered
//! by `reconstruct`. Decisions: `decide` (pure), with `resize` for sizes. When `volumesAttached` is reliable:
//! `volumes_in_use`. Execution: `manager`, `handlers`, `reconciler`, `operations`, `expand`, `attachment`,
//! `events`. All state: `manager_state`. Reports: `pod_volumes`. Unknown directories: `orphans`, `quarantine`;
//! `survey` inspects the disk without an agent.
//!
//! One operation runs on a volume at a time, in its own task: a call that hangs delays only its volume (I12). A
//! failed operation is retried after 500 ms, doubling up to 2 min 2 s, or when a relevant input changes.
//!
//! Upstream: pkg/kubelet/volumemanager.

mod actual_state;
mod attach_error;
mod attachment;
mod decide;
mod desired_state;
mod events;
mod expand;
mod fs_group;
mod handlers;
mod manager;
mod manager_state;
mod operations;
mod orphans;
mod pod_volumes;
mod populator;
mod quarantine;
mod reconciler;
mod reconstruct;
mod resize;
mod survey;
#[cfg(test)]
mod tests;
mod volumes_in_use;

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use fs_group::{OwnershipRequest, VolumeOwnership};
pub use orphans::{Finding, OrphanOutcome};
pub use pod_volumes::{Pending, PodVolumes, Waiting, left_words};
pub use quarantine::{Quarantined, list as quarantined, purge};
pub use reconstruct::ReconstructError;
pub use survey::{LeftVolume, Remains, Survey};

use crate::host::Host;
use crate::plugin::{Place, Plugins};
use manager::Manager;

/// The UID of a pod.
type Uid = Arc<str>;

/// A handle to the volume manager. Clones share it.
#[derive(Clone)]
pub struct Volumes {
    manager: Arc<Manager>,
}

impl Volumes {
    /// Scans the disk and starts the manager. When this returns, [`in_use`](Self::in_use) contains everything that an
    /// earlier agent may have left mounted. `shutdown` stops all work.
    ///
    /// # Errors
    /// The existing mounts cannot be determined; nothing was started.
    pub async fn start(
        host: Host,
        plugins: Plugins,
        ownership: Arc<dyn VolumeOwnership>,
        shutdown: CancellationToken,
    ) -> Result<Self, ReconstructError> {
        let found = reconstruct::find(&host, &plugins).await?;
        let manager = Arc::new(Manager::new(host, plugins, ownership, found, shutdown));
        manager.start();
        Ok(Self { manager })
    }

    /// Requests the volumes of a pod, again after every change of the pod: some volumes show its labels and
    /// annotations, and new containers may use more volumes. Cheap when nothing relevant has changed.
    pub fn want(&self, pod: Arc<Pod>) {
        self.manager.want(pod);
    }

    /// Keeps everything that is mounted for a pod until it is released: its containers still run, but the API server
    /// no longer has the pod. Call it before [`synced`](Self::synced).
    pub fn hold(&self, uid: &str) {
        self.manager.hold(uid);
    }

    /// Releases the volumes of a pod of which no container runs any more.
    pub fn release(&self, uid: &str) {
        self.manager.release(uid);
    }

    /// The state of the volumes of a pod. For an unknown pod it is `Released`.
    pub fn state(&self, uid: &str) -> watch::Receiver<PodVolumes> {
        self.manager.pod_state(uid)
    }

    /// `node.status.volumesInUse`: the caller writes it to the Node whenever it differs from the server's, one write
    /// at a time.
    pub fn in_use(&self) -> watch::Receiver<BTreeSet<String>> {
        self.manager.in_use()
    }

    /// Passes a version of the Node, from a watch or from the response to a write; `reported_in_use` is its
    /// `status.volumesInUse`. Outdated versions are ignored.
    pub fn node_seen(&self, node: &Node, reported_in_use: &BTreeSet<String>) {
        self.manager.node_seen(node, reported_in_use);
    }

    /// Reports that all pods of this node are known: [`want`](Self::want) or [`hold`](Self::hold) was called for each
    /// pod whose volumes must stay. Before this, and before the Node was read, nothing is unmounted.
    pub fn synced(&self) {
        self.manager.synced();
    }

    /// Sets up a volume of a pod again because its content has changed (a ConfigMap, an expiring token).
    pub fn refresh(&self, place: &Place) {
        self.manager.refresh(place);
    }

    /// Cleans up directories of unknown pods, which are neither requested nor held and have no mounts. Therefore
    /// [`want`](Self::want) must be called before a directory is created for a pod, also for pods without volumes.
    /// With `dry_run`, nothing is changed and the findings describe what would be done; without it, nothing happens
    /// before unmounting is allowed.
    pub async fn gc(&self, dry_run: bool) -> Vec<Finding> {
        self.manager.gc(dry_run).await
    }

    /// Waits until all tasks have ended, after `shutdown` is cancelled.
    pub async fn ended(&self) {
        self.manager.ended().await;
    }
}
