//! A [`ClusterView`] of JSON objects: for tests, and for a capture of a stopped server.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::{
    CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment, VolumeAttributesClass,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use orlop_client::api::{Json as _, Object};
use serde_json::Value;

use super::cluster_view::{ClusterView, Settings, newest_first};
use super::facts::{FactTable, Facts};
use super::node::volume_limits;
use super::subject::Subject;
use super::volume_limits::VolumeLimits;
use orlop_client::informer::{key_of, split_key};
use orlop_client::pods;
use orlop_controller::snapshot::{VolumeSnapshot, VolumeSnapshotContent};

type ByKey<K> = BTreeMap<String, Arc<K>>;

/// Objects by kind and key.
#[derive(Debug)]
pub struct Table {
    now: Timestamp,
    /// The settings of the controllers.
    pub settings: Settings,
    claims: ByKey<PersistentVolumeClaim>,
    volumes: ByKey<PersistentVolume>,
    facts: FactTable,
    classes: ByKey<StorageClass>,
    pods: ByKey<Pod>,
    nodes: ByKey<Node>,
    csi_nodes: ByKey<CSINode>,
    drivers: ByKey<CSIDriver>,
    attachments: ByKey<VolumeAttachment>,
    attributes_classes: ByKey<VolumeAttributesClass>,
    capacities: ByKey<CSIStorageCapacity>,
    snapshots: ByKey<VolumeSnapshot>,
    contents: ByKey<VolumeSnapshotContent>,
    others: BTreeMap<(String, String), Value>,
    events: Vec<Event>,
    /// The facts are being read.
    #[cfg(test)]
    reads_facts: std::cell::Cell<bool>,
}

fn read<K: Object>(into: &mut ByKey<K>, object: &Value) -> serde_json::Result<()> {
    let object = K::from_value(object)?;
    into.insert(key_of(&object), Arc::new(object));
    Ok(())
}

fn in_namespace<K>(all: &ByKey<K>, namespace: &str, most: usize) -> Vec<Arc<K>> {
    let is_in = |key: &str| split_key(key).0 == namespace;
    all.iter().filter(|(key, _)| is_in(key)).take(most).map(|(_, object)| Arc::clone(object)).collect()
}

impl Table {
    /// An empty view at this time.
    pub fn at(now: Timestamp) -> Self {
        Self {
            now,
            settings: Settings::default(),
            claims: ByKey::new(),
            volumes: ByKey::new(),
            facts: FactTable::default(),
            classes: ByKey::new(),
            pods: ByKey::new(),
            nodes: ByKey::new(),
            csi_nodes: ByKey::new(),
            drivers: ByKey::new(),
            attachments: ByKey::new(),
            attributes_classes: ByKey::new(),
            capacities: ByKey::new(),
            snapshots: ByKey::new(),
            contents: ByKey::new(),
            others: BTreeMap::new(),
            events: Vec::new(),
            #[cfg(test)]
            reads_facts: std::cell::Cell::default(),
        }
    }

    /// Inserts an object, replacing the one with its kind and key. Kinds without rules can only be explained
    /// themselves.
    ///
    /// # Errors
    /// The object cannot be decoded as its kind.
    pub fn put(&mut self, object: Value) -> serde_json::Result<()> {
        let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        match kind.as_str() {
            "PersistentVolumeClaim" => read(&mut self.claims, &object),
            "PersistentVolume" => {
                let volume = PersistentVolume::from_value(&object)?;
                let name: Arc<str> = key_of(&volume).into();
                self.facts.put(&name, &volume);
                self.volumes.insert(name.to_string(), Arc::new(volume));
                Ok(())
            }
            "StorageClass" => read(&mut self.classes, &object),
            "Pod" => read(&mut self.pods, &object),
            "Node" => read(&mut self.nodes, &object),
            "CSINode" => read(&mut self.csi_nodes, &object),
            "CSIDriver" => read(&mut self.drivers, &object),
            "VolumeAttachment" => read(&mut self.attachments, &object),
            "Event" => {
                self.events.push(Event::from_value(&object)?);
                newest_first(&mut self.events);
                Ok(())
            }
            "VolumeAttributesClass" => read(&mut self.attributes_classes, &object),
            "CSIStorageCapacity" => read(&mut self.capacities, &object),
            "VolumeSnapshot" => read(&mut self.snapshots, &object),
            "VolumeSnapshotContent" => read(&mut self.contents, &object),
            _ => {
                let meta: ObjectMeta =
                    serde_json::from_value(object.get("metadata").cloned().unwrap_or_default())?;
                let (namespace, name) = (meta.namespace.unwrap_or_default(), meta.name.unwrap_or_default());
                let key = if namespace.is_empty() { name } else { format!("{namespace}/{name}") };
                self.others.insert((format!("{}s", kind.to_lowercase()), key), object);
                Ok(())
            }
        }
    }

    /// The object with this resource and key, to be explained.
    pub fn subject(&self, resource: &str, key: &str) -> Option<Subject> {
        match resource {
            "persistentvolumeclaims" => self.claims.get(key).cloned().map(Subject::Claim),
            "persistentvolumes" => self.volumes.get(key).cloned().map(Subject::Volume),
            "pods" => self.pods.get(key).cloned().map(Subject::Pod),
            "nodes" => self.nodes.get(key).cloned().map(Subject::Node),
            "volumeattachments" => self.attachments.get(key).cloned().map(Subject::Attachment),
            _ => {
                let object = self.others.get(&(resource.to_owned(), key.to_owned()))?;
                Subject::other(resource, object.clone()).ok()
            }
        }
    }
}

impl ClusterView for Table {
    fn volume_limits(&self, node: &str) -> Arc<VolumeLimits> {
        Arc::new(volume_limits(self, node))
    }

    fn now(&self) -> Timestamp {
        self.now
    }

    fn settings(&self) -> Settings {
        self.settings
    }

    fn claim(&self, key: &str) -> Option<Arc<PersistentVolumeClaim>> {
        self.claims.get(key).cloned()
    }

    fn volume(&self, name: &str) -> Option<Arc<PersistentVolume>> {
        #[cfg(test)]
        assert!(!self.reads_facts.get(), "a volume is decoded while the facts are locked");
        self.volumes.get(name).cloned()
    }

    fn facts(&self, each: &mut dyn FnMut(&Facts)) {
        #[cfg(test)]
        self.reads_facts.set(true);
        self.facts.all().for_each(each);
        #[cfg(test)]
        self.reads_facts.set(false);
    }

    fn class(&self, name: &str) -> Option<Arc<StorageClass>> {
        self.classes.get(name).cloned()
    }

    fn classes(&self) -> Vec<Arc<StorageClass>> {
        self.classes.values().cloned().collect()
    }

    fn pods_of_claim(&self, key: &str) -> Vec<Arc<Pod>> {
        self.pods.values().filter(|pod| pods::claim_keys(pod).iter().any(|one| one == key)).cloned().collect()
    }

    fn pods_on_node(&self, node: &str) -> Vec<Arc<Pod>> {
        self.pods.values().filter(|pod| pods::node_name(pod) == Some(node)).cloned().collect()
    }

    fn pods_in_namespace(&self, namespace: &str, most: usize) -> Vec<Arc<Pod>> {
        in_namespace(&self.pods, namespace, most)
    }

    fn claims_in_namespace(&self, namespace: &str, most: usize) -> Vec<Arc<PersistentVolumeClaim>> {
        in_namespace(&self.claims, namespace, most)
    }

    fn node(&self, name: &str) -> Option<Arc<Node>> {
        self.nodes.get(name).cloned()
    }

    fn nodes(&self) -> Vec<Arc<Node>> {
        self.nodes.values().cloned().collect()
    }

    fn csi_node(&self, name: &str) -> Option<Arc<CSINode>> {
        self.csi_nodes.get(name).cloned()
    }

    fn nodes_with_driver(&self, driver: &str) -> Vec<String> {
        let has = |node: &CSINode| node.spec.drivers.iter().any(|one| one.name == driver);
        self.csi_nodes.iter().filter(|(_, node)| has(node)).map(|(name, _)| name.clone()).collect()
    }

    fn driver(&self, name: &str) -> Option<Arc<CSIDriver>> {
        self.drivers.get(name).cloned()
    }

    fn attachments_of_volume(&self, volume: &str) -> Vec<Arc<VolumeAttachment>> {
        let of = |one: &VolumeAttachment| one.spec.source.persistent_volume_name.as_deref() == Some(volume);
        self.attachments.values().filter(|one| of(one)).cloned().collect()
    }

    fn attachments_on_node(&self, node: &str) -> Vec<Arc<VolumeAttachment>> {
        self.attachments.values().filter(|one| one.spec.node_name == node).cloned().collect()
    }

    fn attributes_class(&self, name: &str) -> Option<Arc<VolumeAttributesClass>> {
        self.attributes_classes.get(name).cloned()
    }

    fn capacities(&self, class: &str) -> Vec<Arc<CSIStorageCapacity>> {
        self.capacities.values().filter(|one| one.storage_class_name == class).cloned().collect()
    }

    fn snapshot(&self, namespace: &str, name: &str) -> Option<Arc<VolumeSnapshot>> {
        self.snapshots.get(&format!("{namespace}/{name}")).cloned()
    }

    fn content(&self, name: &str) -> Option<Arc<VolumeSnapshotContent>> {
        self.contents.get(name).cloned()
    }

    fn events(&self) -> &[Event] {
        &self.events
    }
}
