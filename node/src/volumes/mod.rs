//! The volume manager: sees to it that the volumes of this node's pods are mounted where the pods find them, and nothing else is.
//! It knows no kind of volumes; plugins do.
//!
//! Reading order. What should be: `desired_state`, made by `populator`. What is: `actual_state`, found again by `reconstruct`. What to do: `decide`
//! (pure), with `resize` for sizes. When `volumesAttached` may be believed: `volumes_in_use`. How it is done: `manager`, `handlers`, `reconciler`,
//! `operations`, `expand`, `attachment`, `events`. All that is known: `manager_state`. What is told: `pod_volumes`. What nobody knows: `orphans`, `quarantine`;
//! `survey` looks without being the agent.
//!
//! One operation runs on a volume at a time, in a task of its own: a call that hangs holds up its volume and no other (I12).
//! A failed operation is tried again after 500 ms, doubling up to 2 min 2 s, or when something that matters changes.
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
pub use orphans::{Fate, Finding};
pub use pod_volumes::{Pending, PodVolumes, Waiting, left_words};
pub use quarantine::{Quarantined, list as quarantined, purge};
pub use reconstruct::ReconstructError;
pub use survey::{Left, LeftVolume, Survey};

use crate::host::Host;
use crate::plugin::{Place, Plugins};
use manager::Manager;

/// UID of a pod.
type Uid = Arc<str>;

/// The volume manager. Clones share it.
#[derive(Clone)]
pub struct Volumes {
    manager: Arc<Manager>,
}

impl Volumes {
    /// Looks at what is on disk, and begins. When this returns [`in_use`](Self::in_use) holds everything that an agent before this one
    /// may have left mounted. All work ends with `shutdown`, where it waits.
    ///
    /// # Errors
    /// What is mounted cannot be known; nothing was begun.
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

    /// A pod wants its volumes, if it has any, or has changed: labels and annotations are shown by some volumes, and new containers may use more of
    /// them. Cheap when nothing of that is so.
    pub fn want(&self, pod: Arc<Pod>) {
        self.manager.want(pod);
    }

    /// What is on this node for a pod stays as it is until it is released: something of it still runs, and the pod is not known to the
    /// API any more. To be called before [`synced`](Self::synced).
    pub fn hold(&self, uid: &str) {
        self.manager.hold(uid);
    }

    /// Nothing of the pod runs any more: its volumes are taken away.
    pub fn release(&self, uid: &str) {
        self.manager.release(uid);
    }

    /// How the volumes of a pod are. A pod that nobody knows has released them.
    pub fn state(&self, uid: &str) -> watch::Receiver<PodVolumes> {
        self.manager.pod_state(uid)
    }

    /// `node.status.volumesInUse`: to be written to the Node whenever it differs from what is there, one write after the other.
    pub fn in_use(&self) -> watch::Receiver<BTreeSet<String>> {
        self.manager.in_use()
    }

    /// A version of the Node, from a watch or the answer to a write; `reported_in_use` is its `status.volumesInUse`. Versions older than
    /// one that was seen are passed over.
    pub fn node_seen(&self, node: &Node, reported_in_use: &BTreeSet<String>) {
        self.manager.node_seen(node, reported_in_use);
    }

    /// All pods of this node are known: [`want`](Self::want) or [`hold`](Self::hold) was called for each whose volumes have to stay. Before
    /// this, and before the Node was seen, nothing is unmounted.
    pub fn synced(&self) {
        self.manager.synced();
    }

    /// What a volume of a pod shows has changed (a ConfigMap, a token that runs out): it is set up again.
    pub fn refresh(&self, place: &Place) {
        self.manager.refresh(place);
    }

    /// Looks after directories of pods that nobody knows: those that are neither wanted nor held, and have nothing mounted. So
    /// [`want`](Self::want) comes before anything else makes a directory for a pod, also for pods without volumes. With `dry_run` nothing is
    /// touched and the findings say what would be done. Without it nothing is looked at before something may be unmounted.
    pub async fn gc(&self, dry_run: bool) -> Vec<Finding> {
        self.manager.gc(dry_run).await
    }

    /// Ends when nothing runs any more, after `shutdown` was cancelled.
    pub async fn ended(&self) {
        self.manager.ended().await;
    }
}
