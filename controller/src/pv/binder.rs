//! The state of the running controller. The impl blocks are in the other files of this folder.

use parking_lot::{Mutex, MutexGuard};
use std::sync::{Arc, Weak};

use k8s_openapi::api::core::v1::{Node, ObjectReference, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::Client;

use super::migration::MigratedDriver;
use super::plugin::Plugins;
use super::recycle::PodRunner;
use super::storage_users::StorageUsers;
use super::stores::Stores;
use crate::context::Context;
use crate::options::Options;
use orlop_client::failing::Syncs;
use orlop_client::informer::Informer;
use orlop_client::names;
use orlop_client::operations::Operations;
use orlop_client::pods::index_by_claim;
use orlop_client::queue::WorkQueue;
use orlop_client::recorder::{EventType, Recorder};
use orlop_volume::class;

/// Name of the index of classes that are marked as a default. Its only value is empty.
pub(super) const INDEX_DEFAULT: &str = "default";

/// The PersistentVolume controller. Its methods are in the files of this folder.
pub struct Binder {
    /// A weak reference to itself, for operations that outlive a sync.
    pub(super) this: Weak<Binder>,
    pub(super) client: Client,
    pub(super) options: Arc<Options>,
    pub(super) plugins: Plugins,
    pub(super) migrated: MigratedDriver,
    pub(super) pod_runner: PodRunner,
    pub(super) operations: Operations,
    /// Keys of claims to sync.
    pub(super) claims: WorkQueue<String>,
    pub(super) claim_syncs: Syncs<String>,
    /// Names of volumes to sync.
    pub(super) volumes: WorkQueue<String>,
    pub(super) volume_syncs: Syncs<String>,
    pub(super) stores: Mutex<Stores>,
    pub(super) storage_users: StorageUsers,
    recorder: Recorder,
    pub(super) volume_cache: Informer<PersistentVolume>,
    pub(super) claim_cache: Informer<PersistentVolumeClaim>,
    pub(super) class_cache: Informer<StorageClass>,
    pub(super) pod_cache: Informer<Pod>,
    pub(super) node_cache: Informer<Node>,
}

impl Binder {
    /// Creates a controller with empty stores.
    pub fn new(context: &Context, plugins: Plugins, migrated: MigratedDriver) -> Arc<Self> {
        let informers = &context.informers;
        let recorder = context.recorder(names::COMPONENT_PV);
        let pod_cache = informers.pods();
        index_by_claim(&pod_cache);
        let class_cache = informers.classes();
        class_cache.add_index(INDEX_DEFAULT, |class| {
            class::is_default(class).then(String::new).into_iter().collect()
        });
        let pod_runner = PodRunner::new(context.client.clone(), pod_cache.clone(), recorder.clone());
        Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            client: context.client.clone(),
            options: Arc::clone(&context.options),
            plugins,
            migrated,
            pod_runner,
            operations: Operations::new(context.shutdown.clone()),
            claims: WorkQueue::new(context.options.rate_limit),
            claim_syncs: context.syncs::<PersistentVolumeClaim, _>(names::controller::PV_BINDER),
            volume_syncs: context.syncs::<PersistentVolume, _>(names::controller::PV_BINDER),
            volumes: WorkQueue::new(context.options.rate_limit),
            stores: Mutex::default(),
            storage_users: StorageUsers::default(),
            recorder,
            volume_cache: informers.volumes(),
            claim_cache: informers.claims(),
            class_cache,
            pod_cache,
            node_cache: informers.nodes(),
        })
    }

    /// Locks the controller's own stores. Never held across an await.
    pub(super) fn lock(&self) -> MutexGuard<'_, Stores> {
        self.stores.lock()
    }

    /// A strong reference to itself, for operations that outlive a sync.
    pub(super) fn handle(&self) -> Arc<Self> {
        self.this.upgrade().expect("a sync runs on a controller that is alive")
    }

    // === events ===

    /// Records an event about an object that is not at hand.
    pub(super) fn event_about(&self, object: ObjectReference, type_: EventType, reason: &str, message: &str) {
        self.recorder.event_for(object, type_, reason, message);
    }

    pub(super) fn volume_event(
        &self,
        volume: &PersistentVolume,
        type_: EventType,
        reason: &str,
        message: &str,
    ) {
        self.recorder.event(volume, type_, reason, message);
    }

    pub(super) fn claim_event(
        &self,
        claim: &PersistentVolumeClaim,
        type_: EventType,
        reason: &str,
        message: &str,
    ) {
        self.recorder.event(claim, type_, reason, message);
    }
}
