//! The view of the cluster for one query: the informers' caches, and the objects that were read for it.

use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::{
    CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment, VolumeAttributesClass,
};

use crate::cluster_view::{ClusterView, Settings};
use crate::facts::{FactTable, Facts};
use crate::node::volume_limits;
use crate::volume_limits::VolumeLimits;
use orlop_client::informer::{Informer, Registration};
use orlop_client::informers::Informers;
use orlop_client::pods::{INDEX_CLAIM, INDEX_NODE, index_by_claim, index_by_node};
use orlop_controller::snapshot::{VolumeSnapshot, VolumeSnapshotContent};

/// Index of attachments by volume name.
const BY_VOLUME: &str = "why-volume";
/// Index of attachments by node name.
const BY_NODE: &str = "why-node";
/// Index of reported capacities by class.
const BY_CLASS: &str = "why-class";
/// Index of CSINodes by driver.
const BY_DRIVER: &str = "why-driver";

/// Objects read for one query, of kinds that are not watched for queries alone.
#[derive(Default)]
pub(super) struct FetchedObjects {
    pub(super) events: Vec<Event>,
    pub(super) snapshots: Vec<Arc<VolumeSnapshot>>,
    pub(super) contents: Vec<Arc<VolumeSnapshotContent>>,
}

/// The informers that run from the first query on.
pub(super) struct Live {
    pub(super) claims: Informer<PersistentVolumeClaim>,
    pub(super) volumes: Informer<PersistentVolume>,
    pub(super) classes: Informer<StorageClass>,
    pub(super) pods: Informer<Pod>,
    pub(super) nodes: Informer<Node>,
    pub(super) csi_nodes: Informer<CSINode>,
    pub(super) drivers: Informer<CSIDriver>,
    pub(super) attachments: Informer<VolumeAttachment>,
    pub(super) attributes_classes: Informer<VolumeAttributesClass>,
    pub(super) capacities: Informer<CSIStorageCapacity>,
    pub(super) facts: Arc<RwLock<FactTable>>,
    pub(super) _following: Option<Registration>,
}

impl Live {
    pub(super) async fn start(informers: Informers) -> Arc<Self> {
        let mut live = Self {
            claims: informers.claims(),
            volumes: informers.volumes(),
            classes: informers.classes(),
            pods: informers.pods(),
            nodes: informers.nodes(),
            csi_nodes: informers.of(),
            drivers: informers.of(),
            attachments: informers.of(),
            attributes_classes: informers.attributes_classes(),
            capacities: informers.of(),
            facts: Arc::default(),
            _following: None,
        };
        index_by_claim(&live.pods);
        index_by_node(&live.pods);
        live.attachments
            .add_index(BY_VOLUME, |one| one.spec.source.persistent_volume_name.clone().into_iter().collect());
        live.attachments.add_index(BY_NODE, |one| vec![one.spec.node_name.clone()]);
        live.capacities.add_index(BY_CLASS, |one| vec![one.storage_class_name.clone()]);
        live.csi_nodes
            .add_index(BY_DRIVER, |node| node.spec.drivers.iter().map(|one| one.name.clone()).collect());
        let (volumes, facts) = (live.volumes.clone(), Arc::clone(&live.facts));
        // Adding the handler delivers and decodes all cached objects.
        let following = tokio::task::spawn_blocking(move || {
            volumes.add_handler(move |change| {
                let mut facts = facts.write();
                match &change.new {
                    Some(volume) => facts.put(change.key(), volume),
                    None => facts.remove(change.key()),
                }
            })
        });
        match following.await {
            Ok(following) => live._following = Some(following),
            Err(error) => tracing::error!(%error, "volumes cannot be followed, explanations know none"),
        }
        Arc::new(live)
    }

    pub(super) async fn synced(&self) {
        tokio::join!(
            self.claims.synced(),
            self.volumes.synced(),
            self.classes.synced(),
            self.pods.synced(),
            self.nodes.synced(),
            self.csi_nodes.synced(),
            self.drivers.synced(),
            self.attachments.synced(),
            self.attributes_classes.synced(),
            self.capacities.synced(),
        );
    }
}

/// The view of the cluster for one query.
///
/// When the query has ended, nothing is found any more: the explanation, which runs in a thread of its own, then ends soon.
pub(super) struct View {
    pub(super) live: Arc<Live>,
    pub(super) settings: Settings,
    pub(super) now: Timestamp,
    pub(super) around: FetchedObjects,
    pub(super) ended: Arc<AtomicBool>,
    // Read once per query: each claim of a pod may ask for them.
    pub(super) nodes: OnceLock<Vec<Arc<Node>>>,
    pub(super) classes: OnceLock<Vec<Arc<StorageClass>>>,
    pub(super) limits: Mutex<HashMap<String, Arc<VolumeLimits>>>,
}

/// Ends a query when it is dropped.
pub(super) struct Ended(pub(super) Arc<AtomicBool>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl View {
    pub(super) fn new(live: Arc<Live>, settings: Settings, around: FetchedObjects) -> Self {
        Self {
            live,
            settings,
            now: Timestamp::now(),
            around,
            ended: Arc::default(),
            nodes: OnceLock::new(),
            classes: OnceLock::new(),
            limits: Mutex::default(),
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    pub(super) fn read<T: Default>(&self, read: impl FnOnce(&Live) -> T) -> T {
        if self.has_ended() { T::default() } else { read(&self.live) }
    }
}

impl ClusterView for View {
    fn now(&self) -> Timestamp {
        self.now
    }

    fn settings(&self) -> Settings {
        self.settings
    }

    fn claim(&self, key: &str) -> Option<Arc<PersistentVolumeClaim>> {
        self.read(|live| live.claims.get(key))
    }

    fn volume(&self, name: &str) -> Option<Arc<PersistentVolume>> {
        self.read(|live| live.volumes.get(name))
    }

    fn facts(&self, each: &mut dyn FnMut(&Facts)) {
        self.live.facts.read().all().take_while(|_| !self.has_ended()).for_each(each);
    }

    fn class(&self, name: &str) -> Option<Arc<StorageClass>> {
        self.read(|live| live.classes.get(name))
    }

    fn classes(&self) -> Vec<Arc<StorageClass>> {
        self.classes.get_or_init(|| self.read(|live| live.classes.list())).clone()
    }

    fn pods_of_claim(&self, key: &str) -> Vec<Arc<Pod>> {
        self.read(|live| live.pods.by_index(INDEX_CLAIM, key))
    }

    fn pods_on_node(&self, node: &str) -> Vec<Arc<Pod>> {
        self.read(|live| live.pods.by_index(INDEX_NODE, node))
    }

    fn pods_in_namespace(&self, namespace: &str, most: usize) -> Vec<Arc<Pod>> {
        self.read(|live| live.pods.in_namespace(namespace, most))
    }

    fn claims_in_namespace(&self, namespace: &str, most: usize) -> Vec<Arc<PersistentVolumeClaim>> {
        self.read(|live| live.claims.in_namespace(namespace, most))
    }

    fn node(&self, name: &str) -> Option<Arc<Node>> {
        self.read(|live| live.nodes.get(name))
    }

    fn nodes(&self) -> Vec<Arc<Node>> {
        self.nodes.get_or_init(|| self.read(|live| live.nodes.list())).clone()
    }

    fn csi_node(&self, name: &str) -> Option<Arc<CSINode>> {
        self.read(|live| live.csi_nodes.get(name))
    }

    fn nodes_with_driver(&self, driver: &str) -> Vec<String> {
        let nodes = self.read(|live| live.csi_nodes.by_index(BY_DRIVER, driver));
        nodes.iter().filter_map(|node| node.metadata.name.clone()).collect()
    }

    fn driver(&self, name: &str) -> Option<Arc<CSIDriver>> {
        self.read(|live| live.drivers.get(name))
    }

    fn attachments_of_volume(&self, volume: &str) -> Vec<Arc<VolumeAttachment>> {
        self.read(|live| live.attachments.by_index(BY_VOLUME, volume))
    }

    fn attachments_on_node(&self, node: &str) -> Vec<Arc<VolumeAttachment>> {
        self.read(|live| live.attachments.by_index(BY_NODE, node))
    }

    fn attributes_class(&self, name: &str) -> Option<Arc<VolumeAttributesClass>> {
        self.read(|live| live.attributes_classes.get(name))
    }

    fn capacities(&self, class: &str) -> Vec<Arc<CSIStorageCapacity>> {
        self.read(|live| live.capacities.by_index(BY_CLASS, class))
    }

    fn snapshot(&self, namespace: &str, name: &str) -> Option<Arc<VolumeSnapshot>> {
        let is = |one: &&Arc<VolumeSnapshot>| {
            (one.metadata.namespace.as_deref(), one.metadata.name.as_deref()) == (Some(namespace), Some(name))
        };
        self.around.snapshots.iter().find(is).cloned()
    }

    fn content(&self, name: &str) -> Option<Arc<VolumeSnapshotContent>> {
        self.around.contents.iter().find(|one| one.metadata.name.as_deref() == Some(name)).cloned()
    }

    fn events(&self) -> &[Event] {
        &self.around.events
    }

    fn volume_limits(&self, node: &str) -> Arc<VolumeLimits> {
        if let Some(known) = self.limits.lock().get(node) {
            return Arc::clone(known);
        }
        let limits = Arc::new(volume_limits(self, node));
        self.limits.lock().insert(node.to_owned(), Arc::clone(&limits));
        limits
    }
}
