//! Creates and deletes the volumes of claims with CSI drivers (upstream: the external-provisioner sidecar). Only reachable
//! drivers are served; a claim of another driver waits for a sidecar elsewhere.
//!
//! * `decide`: the next action, as named situations. `request`, `topology`, `source`: the request to the driver. [`intent`]: the
//!   same as a note on the claim, written before the driver is called, so that nothing is forgotten (I9). `volume`: the response
//!   as an object. `finalizers`. All pure. `seal`: proves that a note is our own.
//! * `prepare`, `create`, `save`, `note`, `delete`: the effects. `sources`: finalizers on the sources of clones and restores.
//!   `capacity`: free capacity, for the scheduler. `attempts`: failures and their backoff.

mod attempts;
mod capacity;
mod cluster;
mod create;
mod decide;
mod delete;
mod finalizers;
pub mod intent;
mod note;
mod prepare;
mod request;
mod save;
mod seal;
mod size;
mod source;
mod sources;
#[cfg(test)]
mod tests;
mod topology;
mod volume;

pub use source::Content;
pub use topology::{Requirement, Term};

use parking_lot::{Mutex, MutexGuard};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{CSIPersistentVolumeSource, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{StorageClass, VolumeAttachment, VolumeAttributesClass};
use kube::Client;
use orlop_client::api::Api;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use self::attempts::Attempts;
use self::cluster::Segments;
use self::intent::Noted;
use self::seal::{SealError, Seals};
use self::source::RequestedSource;
use crate::context::{Context, ControllerError};
use crate::options::Options;
use orlop_client::informer::{Change, Informer, Registration, split_key};
use orlop_client::meta::{annotation, has_finalizer, is_terminating};
use orlop_client::names::{
    ANN_BETA_STORAGE_CLASS, ANN_CREATE_REQUEST, FINALIZER_CLONING, FINALIZER_PROVISIONING, controller,
};
use orlop_client::queue::WorkQueue;
use orlop_client::recorder::{EventSink, Recorder};
use orlop_client::worker;
use orlop_csi::drivers::Drivers;
use orlop_volume::csi::handle;
use orlop_volume::translate;

/// Index of claims without a volume, by their driver; includes claims whose driver was called already.
const OPEN_BY_DRIVER: &str = "csi-open-by-driver";
/// Index of claims without a volume, by their class.
const OPEN_BY_CLASS: &str = "csi-open-by-class";
/// Index of claims without a volume, by the key of the claim that they clone.
const CLONES: &str = "csi-clones";
/// Index of claims without a volume, by the key of the snapshot that they restore.
const RESTORES: &str = "csi-restores";
/// Index of volumes by driver and handle.
const BY_HANDLE: &str = "csi-handle";
/// Index of attachments by the name of their volume.
const ATTACHED: &str = "csi-attached-volume";

/// The delay after a write conflict. The winning change normally queues the key; this is for when it does not.
const AGAIN: Duration = Duration::from_millis(200);

/// Syncs that may have begun. Most of them wait for a permit of their driver, so that a hanging driver does not delay the
/// others (I12).
const BEGUN: usize = 1 << 20;

/// Why a sync is not finished. All of them are retried.
#[derive(Debug, thiserror::Error)]
enum ProvisionError {
    #[error("cannot note on claim {claim} what its driver is to be asked for: {cause}")]
    Note { claim: String, cause: kube::Error },
    #[error("cannot take the note off claim {claim}: {cause}")]
    Settle { claim: String, cause: kube::Error },
    #[error("cannot read claim {claim}: {cause}")]
    ReadClaim { claim: String, cause: kube::Error },
    #[error("cannot read volume {volume}: {cause}")]
    ReadVolume { volume: String, cause: kube::Error },
    #[error("cannot write the finalizers of volume {volume}: {cause}")]
    Finalizers { volume: String, cause: kube::Error },
    #[error("cannot delete the object of volume {volume}, which its driver has deleted: {cause}")]
    DeleteObject { volume: String, cause: kube::Error },
    #[error("cannot write the finalizers of {source_key}, of which volumes are made: {cause}")]
    Source { source_key: String, cause: kube::Error },
    #[error(transparent)]
    Seal(#[from] SealError),
}

/// Runs the controller.
struct Provisioner {
    client: Client,
    options: Arc<Options>,
    drivers: Drivers,
    events: EventSink,
    claims: Informer<PersistentVolumeClaim>,
    volumes: Informer<PersistentVolume>,
    classes: Informer<StorageClass>,
    attributes: Informer<VolumeAttributesClass>,
    attachments: Informer<VolumeAttachment>,
    segments: Segments,
    capacity_changed: Notify,
    /// Keys of claims.
    claim_queue: WorkQueue<String>,
    /// Names of volumes.
    volume_queue: WorkQueue<String>,
    /// Sources of clones and restores.
    source_queue: WorkQueue<String>,
    attempts: Attempts,
    seals: Seals,
    /// `--csi-worker-threads` permits for each driver, separately for creation and deletion.
    turns: [Mutex<HashMap<String, Arc<Semaphore>>>; 2],
    memory: Mutex<RecentActions>,
    recorders: Mutex<HashMap<String, Recorder>>,
}

/// The kind of call to a driver.
#[derive(Clone, Copy)]
enum DriverCall {
    Create,
    Delete,
}

/// Actions of this process that the caches may not show yet.
#[derive(Default)]
struct RecentActions {
    /// Version of the last write, by claim key: an older one in the cache is stale.
    written: HashMap<String, u64>,
    /// Claims whose volume is saved, by UID.
    saved: HashMap<String, Instant>,
    /// Volumes that are being saved, by driver and handle.
    handles: HashMap<String, String>,
}

/// The controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        let mut changes = context.drivers.changes();
        // Without a driver there is nothing to do, and nothing is watched.
        while context.drivers.all().is_empty() {
            tokio::select! {
                () = context.shutdown.cancelled() => return Ok(()),
                changed = changes.changed() => if changed.is_err() { return Ok(()) },
            }
        }
        let this = Arc::new(Provisioner::new(&context));
        if !context.ready(this.synced()).await {
            return Ok(());
        }
        let handlers = this.attach();
        let name = controller::CSI_PROVISIONER;
        let claims = worker::run_in_order(
            &this.claim_queue,
            BEGUN,
            context.syncs::<PersistentVolumeClaim, _>(name),
            |key| {
                let this = Arc::clone(&this);
                async move { this.sync_claim(key).await }
            },
        );
        let volumes = worker::run_in_order(
            &this.volume_queue,
            BEGUN,
            context.syncs::<PersistentVolume, _>(name),
            |key| {
                let this = Arc::clone(&this);
                async move { this.sync_volume(key).await }
            },
        );
        let sources =
            worker::run(&this.source_queue, 1, context.other_syncs(name), |key| this.sync_source(key));
        let drivers = async {
            while changes.changed().await.is_ok() {
                this.drivers_changed();
            }
        };
        tokio::select! {
            () = context.shutdown.cancelled() => {}
            _ = async { tokio::join!(claims, volumes, sources, drivers) } => {}
            () = this.sweep_snapshots() => {}
            () = this.publish_capacity() => {}
        }
        drop(handlers);
        Ok(())
    })
}

impl Provisioner {
    fn new(context: &Context) -> Self {
        let informers = &context.informers;
        let limit = context.options.rate_limit;
        let this = Provisioner {
            client: context.client.clone(),
            options: Arc::clone(&context.options),
            drivers: context.drivers.clone(),
            events: context.events.clone(),
            claims: informers.claims(),
            volumes: informers.volumes(),
            classes: informers.classes(),
            attributes: informers.attributes_classes(),
            attachments: informers.of(),
            segments: Segments::new(informers.nodes(), informers.of()),
            capacity_changed: Notify::new(),
            claim_queue: WorkQueue::new(limit),
            volume_queue: WorkQueue::new(limit),
            source_queue: WorkQueue::new(limit),
            attempts: Attempts::default(),
            seals: Seals::new(context.client.clone()),
            turns: Default::default(),
            memory: Mutex::default(),
            recorders: Mutex::default(),
        };
        this.claims.add_index(OPEN_BY_DRIVER, |claim| {
            let open = is_open(claim) || has_finalizer(claim, FINALIZER_PROVISIONING);
            decide::driver_of(claim).filter(|_| open).into_iter().collect()
        });
        this.claims.add_index(OPEN_BY_CLASS, |claim| {
            if is_open(claim) { vec![class_name(claim).to_owned()] } else { Vec::new() }
        });
        this.claims.add_index(CLONES, |claim| match source::asked(claim) {
            Ok(RequestedSource::Claim(name)) if is_open(claim) => vec![sibling(claim, name)],
            _ => Vec::new(),
        });
        this.claims.add_index(RESTORES, |claim| match source::asked(claim) {
            Ok(RequestedSource::Snapshot(name)) if is_open(claim) => vec![sibling(claim, name)],
            _ => Vec::new(),
        });
        this.volumes.add_index(BY_HANDLE, |volume| {
            let csi = source_of(volume);
            csi.map(|csi| handle::unique_name(&csi.driver, &csi.volume_handle)).into_iter().collect()
        });
        this.attachments.add_index(ATTACHED, |attachment| {
            attachment.spec.source.persistent_volume_name.clone().into_iter().collect()
        });
        this
    }

    async fn synced(&self) {
        tokio::join!(
            self.claims.synced(),
            self.volumes.synced(),
            self.classes.synced(),
            self.attributes.synced(),
            self.attachments.synced(),
            self.segments.synced(),
        );
    }

    /// Registers the handlers that fill the queues from changes. Existing objects are delivered first.
    fn attach(self: &Arc<Self>) -> Vec<Registration> {
        let this = Arc::clone(self);
        let claims = self.claims.add_handler(move |change| this.claim_changed(change));
        let this = Arc::clone(self);
        let volumes = self.volumes.add_handler(move |change| this.volume_changed(change));
        let this = Arc::clone(self);
        let classes = self.classes.add_handler(move |change: &Change<StorageClass>| {
            let waiting = this.claims.each_by_index(OPEN_BY_CLASS, change.key());
            waiting.for_each(|claim| this.claim_queue.add(orlop_client::informer::key_of(claim.as_ref())));
            this.capacity_changed.notify_one();
        });
        let this = Arc::clone(self);
        let attachments = self.attachments.add_handler(move |change: &Change<VolumeAttachment>| {
            if change.is_gone()
                && let Some(name) =
                    change.old().and_then(|old| old.spec.source.persistent_volume_name.clone())
            {
                this.look_at_volume_again(&name);
            }
        });
        let mut all = vec![claims, volumes, classes, attachments];
        let this = Arc::clone(self);
        all.extend(self.segments.attach(move || this.capacity_changed.notify_one()));
        all
    }

    fn claim_changed(&self, change: &Change<PersistentVolumeClaim>) {
        if let Some(uid) = change.gone_uid() {
            let uid = uid.to_string();
            self.attempts.forget(&uid);
            let mut memory = self.memory();
            memory.saved.remove(&uid);
            memory.written.remove(&**change.key());
        }
        change.left(CLONES).for_each(|key| self.source_queue.add(sources::claim_key(key)));
        change.left(RESTORES).for_each(|key| self.source_queue.add(sources::snapshot_key(key)));
        let Some(claim) = &change.new else { return };
        let open = is_open(claim) && decide::driver_of(claim).is_some();
        if open
            || annotation(claim.as_ref(), ANN_CREATE_REQUEST).is_some()
            || has_finalizer(claim.as_ref(), FINALIZER_PROVISIONING)
        {
            self.claim_queue.add(change.key().to_string());
        }
        if is_terminating(claim.as_ref()) && has_finalizer(claim.as_ref(), FINALIZER_CLONING) {
            self.source_queue.add(sources::claim_key(change.key()));
        }
        let phase = |claim: &Arc<PersistentVolumeClaim>| {
            claim.status.as_ref().and_then(|status| status.phase.clone())
        };
        if !self.claims.has_indexed(CLONES, change.key())
            || change.old().is_some_and(|old| phase(old) == phase(claim))
        {
            return;
        }
        // Its clones may have waited for this change.
        for waiting in self.claims.each_by_index(CLONES, change.key()) {
            self.attempts.hurry(waiting.metadata.uid.as_deref().unwrap_or_default());
            self.claim_queue.add(orlop_client::informer::key_of(waiting.as_ref()));
        }
    }

    fn volume_changed(&self, change: &Change<PersistentVolume>) {
        if let Some(uid) = change.gone_uid() {
            self.attempts.forget(&uid.to_string());
        }
        let Some(volume) = &change.new else { return };
        if let Some(csi) = source_of(volume) {
            // The cache has it now.
            self.memory().handles.remove(&handle::unique_name(&csi.driver, &csi.volume_handle));
        }
        if decide::volume(volume, |driver| self.serves(driver)) != decide::VolumeSituation::Nothing {
            self.volume_queue.add(change.key().to_string());
        }
    }

    /// A driver appeared or changed its capabilities: everything that may wait for it is queued.
    fn drivers_changed(&self) {
        for driver in self.drivers.all() {
            for claim in self.claims.each_by_index(OPEN_BY_DRIVER, driver.name()) {
                self.attempts.hurry(claim.metadata.uid.as_deref().unwrap_or_default());
                self.claim_queue.add(orlop_client::informer::key_of(claim.as_ref()));
            }
        }
        for volume in self.volumes.kept() {
            self.look_at_volume_again(volume.key());
        }
        self.capacity_changed.notify_one();
    }

    fn look_at_volume_again(&self, name: &str) {
        let Some(volume) = self.volumes.get(name) else { return };
        if decide::volume(&volume, |driver| self.serves(driver)) != decide::VolumeSituation::Nothing {
            self.attempts.hurry(volume.metadata.uid.as_deref().unwrap_or_default());
            self.volume_queue.add(name.to_owned());
        }
    }

    fn serves(&self, driver: &str) -> bool {
        self.drivers.get(driver).is_some()
    }

    /// Waits for a permit to call a driver once more. The permit is released when the returned value is dropped.
    async fn turn(&self, what: DriverCall, driver: &str) -> Option<OwnedSemaphorePermit> {
        let semaphore = {
            let mut turns = self.turns[what as usize].lock();
            let new = || Arc::new(Semaphore::new(self.options.csi_worker_threads.max(1)));
            Arc::clone(turns.entry(driver.to_owned()).or_insert_with(new))
        };
        // Never closed.
        semaphore.acquire_owned().await.ok()
    }

    /// Events carry the driver's name, as those of its sidecar would.
    fn recorder(&self, driver: &str) -> Recorder {
        let mut recorders = self.recorders.lock();
        recorders.entry(driver.to_owned()).or_insert_with(|| self.events.recorder(driver)).clone()
    }

    fn memory(&self) -> MutexGuard<'_, RecentActions> {
        self.memory.lock()
    }

    fn claims_api(&self, key: &str) -> Api<PersistentVolumeClaim> {
        Api::namespaced(self.client.clone(), split_key(key).0)
    }

    fn volumes_api(&self) -> Api<PersistentVolume> {
        Api::all(self.client.clone())
    }
}

/// The CSI source of a volume; for a migrated volume, the translated one.
fn source_of(volume: &PersistentVolume) -> Option<Cow<'_, CSIPersistentVolumeSource>> {
    if let Some(csi) = handle::source(volume) {
        return Some(Cow::Borrowed(csi));
    }
    translate::driver_of(volume)?;
    translate::to_csi(volume)?.spec?.csi.map(Cow::Owned)
}

/// Whether a claim has no volume.
fn is_open(claim: &PersistentVolumeClaim) -> bool {
    decide::named_volume(claim).is_empty()
}

/// The class of a claim: the old annotation if it is present, else the field.
fn class_name(claim: &PersistentVolumeClaim) -> &str {
    let field = || claim.spec.as_ref()?.storage_class_name.as_deref();
    annotation(claim, ANN_BETA_STORAGE_CLASS).or_else(field).unwrap_or_default()
}

/// The key of an object in the namespace of a claim.
fn sibling(claim: &PersistentVolumeClaim, name: &str) -> String {
    format!("{}/{name}", claim.metadata.namespace.as_deref().unwrap_or_default())
}

/// A resource version as a number, as this server's are.
fn version(of: &kube::core::ObjectMeta) -> u64 {
    of.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or(0)
}

/// Whether a claim carries exactly this intent.
fn carries(claim: &PersistentVolumeClaim, intent: &intent::Intent) -> bool {
    matches!(intent::noted(claim), Noted::Intent(noted) if *noted == *intent)
}
