//! The running controller: two queues, the stores, the operations, and the events that fill the queues.
//!
//! Decisions about claims are made one after the other, in queue order; only their writes overlap, up to
//! `AT_ONCE` at a time, because a write waits for the disk. A chosen volume is reserved until its write is
//! answered (`reservation.rs`), so two claims never compete for one volume. A claim and a volume may be synced
//! concurrently. Long operations (deleting, recycling, provisioning) run in the operation map and do not block
//! the workers.
//!
//! Start order: the informers list volumes and claims completely, the stores are filled, everything is queued,
//! and only then do the workers start. With a partial list of volumes, a claim could be bound to the wrong one or
//! become Lost permanently.

use std::sync::{Arc, Weak};

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use tokio_util::sync::CancellationToken;

use super::binder::Binder;
use super::error::{SyncError, chain};
use super::host_path::HostPath;
use super::nfs::Nfs;
use super::plugin::Plugins;
use super::{pods, requeue, resync};
use crate::context::{Context, ControllerError};
use crate::options::Options;
use orlop_client::informer::{Change, Registration};
use orlop_client::names;
use orlop_client::pods::is_terminated;
use orlop_client::worker;
use orlop_volume::object::{claim_key, claim_ref, reference_key, volume_name};
use orlop_volume::recycle::{PodRecipe, RecipeError};

/// Concurrent writes of claims, and as many of volumes. More does not help: the server commits concurrent writes
/// to the disk together, and this many keep the disk busy.
const AT_ONCE: usize = 32;

/// Runs the controller until shutdown.
///
/// # Errors
/// A recycler pod template that cannot be used.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        let plugins =
            standard_plugins(&context.options).map_err(|error| ControllerError(error.to_string()))?;
        let shutdown = context.shutdown.clone();
        Binder::new(&context, plugins, names::migrated_driver).run(shutdown).await;
        Ok(())
    })
}

/// The built-in plugins: hostPath and NFS.
pub(super) fn standard_plugins(options: &Options) -> Result<Plugins, RecipeError> {
    let recipe = PodRecipe::new(&options.recycler_hostpath)?;
    let host_path =
        HostPath::new(recipe, options.enable_hostpath_provisioner, options.host_path_roots.clone());
    let nfs = Nfs::new(PodRecipe::new(&options.recycler_nfs)?);
    Ok(Plugins::new(vec![Arc::new(host_path), Arc::new(nfs)]))
}

impl Binder {
    /// Runs until `shutdown`.
    pub async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = self.caches_synced() => {}
        }
        self.fill_stores();
        // Attaching a handler delivers all cached objects: this is the initial sync.
        let handlers = self.attach();
        let claims = worker::run_in_order(&self.claims, AT_ONCE, self.claim_syncs.clone(), |key| {
            let this = Arc::clone(&self);
            async move { this.process_claim(key).await }
        });
        let volumes = worker::run_in_order(&self.volumes, AT_ONCE, self.volume_syncs.clone(), |key| {
            let this = Arc::clone(&self);
            async move { this.process_volume(key).await }
        });
        tokio::select! {
            () = shutdown.cancelled() => {}
            ((), ()) = async { tokio::join!(claims, volumes) } => {}
            () = self.resync_forever() => {}
        }
        drop(handlers);
        self.claims.shutdown();
        self.volumes.shutdown();
        if shutdown.is_cancelled() {
            self.operations.drained().await;
        }
    }

    pub(super) async fn caches_synced(&self) {
        tokio::join!(
            self.volume_cache.synced(),
            self.claim_cache.synced(),
            self.class_cache.synced(),
            self.pod_cache.synced(),
            self.node_cache.synced(),
        );
    }

    /// Fills the stores from the complete caches, before the first sync.
    pub(super) fn fill_stores(&self) {
        let mut stores = self.lock();
        for kept in self.volume_cache.kept() {
            let volume = kept.get();
            if let Err(error) = stores.volumes.offer(kept, &volume) {
                tracing::warn!(%error, "ignoring a volume");
            }
        }
        for kept in self.claim_cache.kept() {
            let claim = kept.get();
            if let Err(error) = stores.claims.offer(kept, &claim) {
                tracing::warn!(%error, "ignoring a claim");
            }
        }
    }

    fn attach(&self) -> [Registration; 4] {
        let (queue, this) = (self.claims.clone(), Weak::clone(&self.this));
        let on_claim = self.claim_cache.add_handler(move |change| {
            if let (Some(binder), Some(kept)) = (this.upgrade(), change.kept()) {
                binder.lock().claims.share(kept);
            }
            queue.add(change.key().to_string());
        });
        let (queue, this) = (self.volumes.clone(), Weak::clone(&self.this));
        let on_volume = self.volume_cache.add_handler(move |change| {
            if let (Some(binder), Some(kept)) = (this.upgrade(), change.kept()) {
                binder.lock().volumes.share(kept);
            }
            queue.add(change.key().to_string());
        });
        let this = Weak::clone(&self.this);
        let on_class = self.class_cache.add_handler(move |change| {
            if let Some(binder) = this.upgrade() {
                binder.class_changed(change);
            }
        });
        let this = Weak::clone(&self.this);
        let on_pod = self.pod_cache.add_handler(move |change| {
            if let Some(binder) = this.upgrade() {
                binder.pod_changed(change);
            }
        });
        [on_claim, on_volume, on_class, on_pod]
    }

    fn class_changed(&self, change: &Change<StorageClass>) {
        let old = change.old().map(Arc::as_ref);
        let keys = requeue::claims_for_class(&self.lock().claims, old, change.new.as_deref());
        keys.into_iter().for_each(|key| self.claims.add(key));
    }

    fn pod_changed(&self, change: &Change<Pod>) {
        let Some(pod) = change.new.as_ref().or_else(|| change.old()) else { return };
        // Most changes of a pod are of its status, and each of its claims would be read.
        if let (Some(old), Some(new)) = (change.old(), change.new.as_deref())
            && !change.replaced()
            && !pods::matters(old, new)
        {
            return;
        }
        let over = change.new.as_deref().is_none_or(is_terminated);
        let (claims, volumes) = {
            let stores = self.lock();
            let claims = requeue::claims_for_pod(&stores.claims, pod, |class| self.is_delayed(class));
            let volumes = if over { requeue::volumes_for_pod(&stores.volumes, pod) } else { Vec::new() };
            (claims, volumes)
        };
        claims.into_iter().for_each(|key| self.claims.add(key));
        volumes.into_iter().for_each(|name| self.volumes.add(name));
    }

    /// The safety net: periodically queues every object again, independent of events, including objects that only the
    /// controller's own stores still contain.
    async fn resync_forever(&self) {
        let mut ticks = tokio::time::interval(self.options.pv_claim_binder_sync_period);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        ticks.tick().await;
        loop {
            ticks.tick().await;
            self.resync();
        }
    }

    // === keys ===

    /// Syncs one claim.
    pub(super) async fn process_claim(&self, key: String) -> Result<(), SyncError> {
        let made = self.offers_made();
        let result = self.look_at_claim(&key).await;
        self.looked(&key, made, result.is_ok());
        tell("claim", &key, &result);
        result
    }

    async fn look_at_claim(&self, key: &str) -> Result<(), SyncError> {
        let Some(kept) = self.claim_cache.get_kept(key) else {
            self.forget_claim(key);
            return Ok(());
        };
        let claim = kept.get();
        if !self.store_claim(&kept, &claim)? {
            // The cached copy is older than the stored one. The event with the newer version queues the object again.
            return Ok(());
        }
        let volume = resync::volume_version(&self.lock(), &claim);
        self.sync_claim(Arc::clone(&claim)).await?;
        self.claim_was_looked_at(&kept, &claim, volume);
        Ok(())
    }

    /// Syncs one volume.
    pub(super) async fn process_volume(&self, name: String) -> Result<(), SyncError> {
        let result = self.look_at_volume(&name).await;
        tell("volume", &name, &result);
        result
    }

    async fn look_at_volume(&self, name: &str) -> Result<(), SyncError> {
        let Some(kept) = self.volume_cache.get_kept(name) else {
            self.forget_volume(name);
            return Ok(());
        };
        let volume = kept.get();
        if !self.store_volume(&kept, &volume)? {
            return Ok(());
        }
        let claim = resync::claim_version(&self.lock(), &volume);
        self.sync_volume(Arc::clone(&volume)).await?;
        self.volume_was_looked_at(&kept, &volume, claim);
        Ok(())
    }

    /// Handles the deletion of a claim: queues its volume.
    // Tests: PV-5-6, OWN-REC-5, OWN-REC-9
    pub(super) fn forget_claim(&self, key: &str) {
        let old = self.lock().claims.remove(key);
        if let Some(claim) = old {
            self.wake_volume_of(&claim);
        }
    }

    /// Queues the volume that a claim names and those that refer to it: the claim's deletion may have interrupted a
    /// bind.
    pub(super) fn wake_volume_of(&self, claim: &PersistentVolumeClaim) {
        if !volume_name(claim).is_empty() {
            self.volumes.add(volume_name(claim).to_owned());
        }
        self.wake_volumes_pointing_to(claim);
    }

    /// Queues the volumes that refer to a claim without being named by it.
    pub(super) fn wake_volumes_pointing_to(&self, claim: &PersistentVolumeClaim) {
        let pointing: Vec<String> = {
            let stores = self.lock();
            let key = claim_key(claim);
            let names = stores.volumes.index().names_pointing_to(&key);
            names.filter(|name| ***name != *volume_name(claim)).map(|name| name.to_string()).collect()
        };
        pointing.into_iter().for_each(|name| self.volumes.add(name));
    }

    /// Handles the deletion of a volume: queues its claim and the claims that name it.
    // Tests: PV-5-4, PV-5-7, OWN-LOST-1
    fn forget_volume(&self, name: &str) {
        let mut keys = Vec::new();
        {
            let mut stores = self.lock();
            let Some(volume) = stores.volumes.remove(name) else { return };
            keys.extend(claim_ref(&volume).map(reference_key));
            keys.extend(stores.claims.waiting().naming(name).map(|key| key.to_string()));
        }
        keys.into_iter().for_each(|key| self.claims.add(key));
    }
}

/// Logs a failed sync: a conflict at debug level, every other error at a visible level.
fn tell(what: &str, key: &str, result: &Result<(), SyncError>) {
    match result {
        Ok(()) => {}
        Err(error) if error.is_conflict() => {
            tracing::debug!(what, key, error = %chain(error), "conflict, retrying");
        }
        Err(error) => {
            tracing::warn!(what, key, error = %chain(error), "could not finish, will be tried again")
        }
    }
}
