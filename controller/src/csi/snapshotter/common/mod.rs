//! The snapshot controller: informers, the events that queue keys, and the state collected for a sync. Decisions are in
//! [`super::binding`], writes in `steps`. Only requests that the server refused are retried after a delay: everything that a
//! snapshot waits for (class, claim, volume, content) queues it.

use std::fmt;
use std::sync::Arc;

use futures::future::{BoxFuture, join5};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::Client;

use super::binding::{self, Facts};
use super::error::SnapshotError;
use super::{bound_content, is_ready, wanted_content};
use crate::context::{Context, ControllerError};
use crate::snapshot::{GROUP, VolumeSnapshot, VolumeSnapshotClass, VolumeSnapshotContent};
use orlop_apimachinery::clock::Clock;
use orlop_client::failing::{Syncs, Target, target};
use orlop_client::informer::{Change, Informer, Registration, key_of};
use orlop_client::meta::{annotation, has_finalizer, is_terminating};
use orlop_client::names::{
    ANN_DEFAULT_SNAPSHOT_CLASS, COMPONENT_SNAPSHOT, FINALIZER_SNAPSHOT_CLAIM, controller,
};
use orlop_client::packed_object::PackedObject;
use orlop_client::queue::WorkQueue;
use orlop_client::recorder::Recorder;
use orlop_client::worker;
use orlop_volume::csi::handle;

/// Upstream: `--worker-threads`.
const WORKERS: usize = 10;
/// More steps per sync than any snapshot needs.
const STEPS: usize = 12;

/// Index of snapshots by the key of the claim that they are taken from.
const INDEX_CLAIM: &str = "snapshot-claim";
/// Index of snapshots that are not ready by their class; the empty name for those without one.
const INDEX_CLASS: &str = "snapshot-class";
/// Index of snapshots by the name of their content.
const INDEX_CONTENT: &str = "snapshot-content";
/// Index of claims without a volume by the key of the snapshot that they are restored from.
const INDEX_RESTORES: &str = "snapshot-restores";

/// A key of the work queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    /// Bind it, or remove its finalizers.
    Snapshot(String),
    /// Add its finalizer.
    Content(String),
    /// Remove its finalizer when none of its snapshots is in progress.
    Claim(String),
}

impl Key {
    fn target(&self) -> Option<Target> {
        Some(match self {
            Key::Snapshot(key) => target::<VolumeSnapshot>(key),
            Key::Content(key) => target::<VolumeSnapshotContent>(key),
            Key::Claim(key) => target::<PersistentVolumeClaim>(key),
        })
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Snapshot(key) => write!(f, "snapshot {key}"),
            Key::Content(key) => write!(f, "content {key}"),
            Key::Claim(key) => write!(f, "claim {key}"),
        }
    }
}

/// Runs the controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        let queue = WorkQueue::new(context.options.rate_limit);
        let this = Common {
            client: context.client.clone(),
            clock: context.clock,
            recorder: context.recorder(COMPONENT_SNAPSHOT),
            snapshots: context.informers.of(),
            contents: context.informers.of(),
            classes: context.informers.of(),
            claims: context.informers.claims(),
            volumes: context.informers.volumes(),
        };
        this.add_indexes();
        let _handlers = this.handlers(&queue);
        let synced = join5(
            this.snapshots.synced(),
            this.contents.synced(),
            this.classes.synced(),
            this.claims.synced(),
            this.volumes.synced(),
        );
        if !context.ready(synced).await {
            return Ok(());
        }
        worker::run_until(
            &context.shutdown,
            &queue,
            WORKERS,
            Syncs::with(controller::SNAPSHOT, &context.failing, Key::target),
            |key| this.sync(key),
        )
        .await;
        Ok(())
    })
}

pub(super) struct Common {
    pub(super) client: Client,
    pub(super) clock: Clock,
    pub(super) recorder: Recorder,
    snapshots: Informer<VolumeSnapshot>,
    contents: Informer<VolumeSnapshotContent>,
    classes: Informer<VolumeSnapshotClass>,
    claims: Informer<PersistentVolumeClaim>,
    volumes: Informer<PersistentVolume>,
}

/// The objects after the last step.
pub(super) struct SnapshotObjects {
    pub(super) snapshot: VolumeSnapshot,
    pub(super) content: Option<VolumeSnapshotContent>,
    pub(super) claim: Option<Arc<PersistentVolumeClaim>>,
}

/// The claim that a snapshot is taken from.
fn claim_of(snapshot: &VolumeSnapshot) -> Option<String> {
    let name = snapshot.spec.source.persistent_volume_claim_name.as_deref()?;
    Some(format!("{}/{name}", snapshot.metadata.namespace.as_deref().unwrap_or_default()))
}

/// The snapshot that a claim without a volume is restored from.
fn restored_from(claim: &PersistentVolumeClaim) -> Option<String> {
    let is_pending = claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Pending");
    let source = claim.spec.as_ref()?.data_source.as_ref().filter(|_| is_pending)?;
    let is_snapshot = source.kind == "VolumeSnapshot" && source.api_group.as_deref() == Some(GROUP);
    let namespace = claim.metadata.namespace.as_deref().unwrap_or_default();
    is_snapshot.then(|| format!("{namespace}/{}", source.name))
}

impl Common {
    fn add_indexes(&self) {
        self.snapshots.add_index(INDEX_CLAIM, |snapshot| claim_of(snapshot).into_iter().collect());
        self.snapshots.add_index(INDEX_CONTENT, |snapshot| vec![wanted_content(snapshot)]);
        self.snapshots.add_index(INDEX_CLASS, |snapshot| {
            let class = snapshot.spec.volume_snapshot_class_name.clone().unwrap_or_default();
            if is_ready(snapshot) { Vec::new() } else { vec![class] }
        });
        self.claims.add_index(INDEX_RESTORES, |claim| restored_from(claim).into_iter().collect());
    }

    /// Registers the handlers that map events to keys.
    fn handlers(&self, queue: &WorkQueue<Key>) -> Vec<Registration> {
        let of_snapshots = self.snapshots.add_handler({
            let queue = queue.clone();
            move |change: &Change<VolumeSnapshot>| {
                queue.add(Key::Snapshot(change.key().to_string()));
                let last = change.new.as_ref().or_else(|| change.old());
                let is_over = change.is_gone() || change.new.as_deref().is_some_and(is_ready);
                let claim = last.filter(|_| is_over).and_then(|snapshot| claim_of(snapshot));
                claim.into_iter().for_each(|claim| queue.add(Key::Claim(claim)));
            }
        });
        let of_contents = self.contents.add_handler({
            let (queue, snapshots) = (queue.clone(), self.snapshots.clone());
            move |change: &Change<VolumeSnapshotContent>| {
                queue.add(Key::Content(change.key().to_string()));
                if let Some(content) = change.new.as_ref().or_else(|| change.old()) {
                    let reference = &content.spec.volume_snapshot_ref;
                    if let (Some(namespace), Some(name)) = (&reference.namespace, &reference.name) {
                        queue.add(Key::Snapshot(format!("{namespace}/{name}")));
                    }
                }
                wake(&queue, &snapshots, INDEX_CONTENT, change.key());
            }
        });
        let of_classes = self.classes.add_handler({
            let (queue, snapshots) = (queue.clone(), self.snapshots.clone());
            move |change: &Change<VolumeSnapshotClass>| {
                wake(&queue, &snapshots, INDEX_CLASS, change.key());
                if change.new.as_deref().is_some_and(is_default)
                    || change.old().is_some_and(|old| is_default(old))
                {
                    wake(&queue, &snapshots, INDEX_CLASS, "");
                }
            }
        });
        let of_claims = self.claims.add_handler({
            let (queue, snapshots) = (queue.clone(), self.snapshots.clone());
            move |change: &Change<PersistentVolumeClaim>| {
                let is_held =
                    change.new.as_deref().is_some_and(|claim| has_finalizer(claim, FINALIZER_SNAPSHOT_CLAIM));
                if is_held && change.is_new() {
                    queue.add(Key::Claim(change.key().to_string()));
                }
                wake(&queue, &snapshots, INDEX_CLAIM, change.key());
                change.left(INDEX_RESTORES).for_each(|key| queue.add(Key::Snapshot(key.to_owned())));
            }
        });
        let of_volumes = self.volumes.add_handler({
            let (queue, snapshots) = (queue.clone(), self.snapshots.clone());
            move |change: &Change<PersistentVolume>| {
                if let Some(claim) = change.new.as_deref().and_then(handle::claim_key) {
                    wake(&queue, &snapshots, INDEX_CLAIM, &claim);
                }
            }
        });
        vec![of_snapshots, of_contents, of_classes, of_claims, of_volumes]
    }

    async fn sync(&self, key: Key) -> Result<(), SnapshotError> {
        match key {
            Key::Snapshot(key) => self.sync_snapshot(&key).await,
            Key::Content(key) => self.hold_content(&key).await,
            Key::Claim(key) => self.free_claim(&key).await,
        }
    }

    async fn sync_snapshot(&self, key: &str) -> Result<(), SnapshotError> {
        let Some(cached) = self.snapshots.get(key) else { return Ok(()) };
        let mut held = SnapshotObjects { snapshot: (*cached).clone(), content: None, claim: None };
        held.content = self.find_content(&held.snapshot).await?;
        for _ in 0..STEPS {
            let facts = self.facts(key, &held);
            let step = binding::next(&facts);
            held.claim = facts.claim;
            if !self.apply(key, &mut held, step).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The content of a snapshot. The cache may lack one that was just created; where its absence would lead to an action, it is
    /// read from the server.
    async fn find_content(
        &self,
        snapshot: &VolumeSnapshot,
    ) -> Result<Option<VolumeSnapshotContent>, SnapshotError> {
        let name = wanted_content(snapshot);
        if let Some(content) = self.contents.get(&name) {
            return Ok(Some((*content).clone()));
        }
        if !is_terminating(snapshot) && bound_content(snapshot).is_none() {
            return Ok(None);
        }
        self.live_content(&name).await
    }

    fn facts<'a>(&self, key: &str, held: &'a SnapshotObjects) -> Facts<'a> {
        let snapshot = &held.snapshot;
        let class =
            snapshot.spec.volume_snapshot_class_name.as_deref().and_then(|name| self.classes.get(name));
        let is_open = held.content.is_none() && !is_terminating(snapshot);
        let needs_default = is_open && snapshot.spec.volume_snapshot_class_name.is_none();
        let classes = if needs_default { self.classes.kept() } else { Vec::new() };
        let defaults = classes.iter().map(PackedObject::get);
        let claim = match &held.claim {
            Some(claim) => Some(Arc::clone(claim)),
            None => claim_of(snapshot).and_then(|key| self.claims.get(&key)),
        };
        let volume = claim.as_ref().and_then(|claim| claim.spec.as_ref()?.volume_name.as_deref());
        Facts {
            snapshot,
            content: held.content.as_ref(),
            class,
            defaults: defaults.filter(|class| is_default(class)).collect(),
            volume: volume.filter(|_| is_open).and_then(|name| self.volumes.get(name)),
            claim,
            is_being_restored: is_terminating(snapshot) && self.claims.has_indexed(INDEX_RESTORES, key),
        }
    }

    async fn hold_content(&self, key: &str) -> Result<(), SnapshotError> {
        let Some(content) = self.contents.get(key) else { return Ok(()) };
        let is_bound = content.spec.volume_snapshot_ref.uid.as_deref().is_some_and(|uid| !uid.is_empty());
        if !is_bound || is_terminating(content.as_ref()) {
            return Ok(());
        }
        self.protect_content(&content).await
    }

    async fn free_claim(&self, key: &str) -> Result<(), SnapshotError> {
        let Some(claim) = self.claims.get(key) else { return Ok(()) };
        if !binding::is_claim_free(&claim, &self.snapshots.by_index(INDEX_CLAIM, key)) {
            return Ok(());
        }
        self.release_claim(&claim).await
    }
}

fn is_default(class: &VolumeSnapshotClass) -> bool {
    annotation(class, ANN_DEFAULT_SNAPSHOT_CLASS) == Some("true")
}

fn wake(queue: &WorkQueue<Key>, snapshots: &Informer<VolumeSnapshot>, index: &str, value: &str) {
    for snapshot in snapshots.each_by_index(index, value) {
        queue.add(Key::Snapshot(key_of(snapshot.as_ref())));
    }
}

#[cfg(test)]
mod tests;
