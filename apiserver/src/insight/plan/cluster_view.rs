//! The objects of one revision, as a verb reads them. What was read is remembered: the commit rests on it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use orlop_store::{Guard, Record, Snapshot};
use serde::Deserialize;

use super::model::PlanRefusal;
use crate::dispatch;
use crate::encode::stored;
use crate::insight::ObjectTarget;
use crate::projection::Projection;
use crate::registry::{Kind, by_resource};
use orlop_api::object::Object;

/// The objects of one revision.
pub(crate) struct ClusterView<'a> {
    snapshot: &'a Snapshot<Projection>,
    read: RefCell<Read>,
}

/// What was read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Read {
    /// Keys that were asked for, and the revision that was there.
    pub(crate) keys: BTreeMap<String, Option<u64>>,
    /// Prefixes of which everything was looked at.
    pub(crate) ranges: BTreeSet<String>,
}

impl Read {
    /// What must still be so when the plan is carried out.
    pub(crate) fn guards(&self, snapshot: &Snapshot<Projection>) -> Vec<Guard> {
        let keys = self.keys.keys().map(|key| Guard::key(snapshot, key));
        let ranges = self.ranges.iter().map(|prefix| Guard::range(snapshot, prefix));
        keys.chain(ranges).collect()
    }

    /// A key that was not found as it was then, or was found only one of both times.
    pub(crate) fn changed_since<'a>(&'a self, then: &'a Self) -> Option<&'a str> {
        let differs = |(key, at): &(&String, &Option<u64>)| then.keys.get(*key) != Some(*at);
        let here = self.keys.iter().find(differs);
        let there = then.keys.iter().find(|(key, _)| !self.keys.contains_key(*key));
        here.or(there).map(|(key, _)| key.as_str())
    }
}

impl<'a> ClusterView<'a> {
    /// The objects of a snapshot.
    pub(crate) fn new(snapshot: &'a Snapshot<Projection>) -> Self {
        ClusterView { snapshot, read: RefCell::default() }
    }

    /// What was read up to now.
    pub(crate) fn into_read(self) -> Read {
        self.read.into_inner()
    }

    /// One object.
    pub(crate) fn get(&self, kind: &dyn Kind, namespace: &str, name: &str) -> Option<Object> {
        let key = dispatch::key(kind, namespace, name);
        let record = self.snapshot.get(&key);
        self.read.borrow_mut().keys.insert(key, record.map(|record| record.mod_revision.0));
        record.map(|record| stored::decode_as(kind, record))
    }

    /// The object that a verb is for.
    pub(crate) fn target(&self, target: &ObjectTarget) -> Result<Object, PlanRefusal> {
        let namespace = target.namespace.as_deref().unwrap_or_default();
        self.get(&*target.kind, namespace, &target.name).ok_or(PlanRefusal::Missing)
    }

    /// The objects of a namespace (`""`: of all) whose records `wanted` lets through. All of them together are read:
    /// one that comes later changes the answer.
    pub(crate) fn list(
        &self,
        kind: &dyn Kind,
        namespace: &str,
        wanted: impl Fn(&Record<Projection>) -> bool,
    ) -> Vec<Object> {
        let prefix = dispatch::prefix(kind, namespace);
        let mut read = self.read.borrow_mut();
        let mut found = Vec::new();
        for record in self.snapshot.range(&prefix, None).filter(|record| wanted(record)) {
            read.keys.insert(record.key.as_str().to_owned(), Some(record.mod_revision.0));
            found.push(stored::decode_as(kind, record));
        }
        read.ranges.insert(prefix);
        found
    }

    /// The same for what is only told and never done (`impact`): nothing rests on it.
    pub(crate) fn glance(
        &self,
        kind: &dyn Kind,
        namespace: &str,
        wanted: impl Fn(&Record<Projection>) -> bool,
    ) -> Vec<Object> {
        let prefix = dispatch::prefix(kind, namespace);
        let records = self.snapshot.range(&prefix, None).filter(|record| wanted(record));
        records.map(|record| stored::decode_as(kind, record)).collect()
    }
}

/// Whether the stored bytes have this text somewhere: a quick look before an object is taken apart.
pub(crate) fn mentions(record: &Record<Projection>, text: &str) -> bool {
    std::str::from_utf8(&record.value).is_ok_and(|value| value.contains(text))
}

/// The uids of the owners of a stored object. Nothing else of it is kept: all objects are looked at for this.
pub(crate) fn owners(record: &Record<Projection>) -> Vec<String> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Stored {
        metadata: Metadata,
    }
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Metadata {
        owner_references: Vec<Owner>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Owner {
        uid: String,
    }
    if !mentions(record, "\"ownerReferences\"") {
        return Vec::new();
    }
    let stored: Stored = serde_json::from_slice(&record.value).unwrap_or_default();
    stored.metadata.owner_references.into_iter().map(|owner| owner.uid).collect()
}

/// A kind that orlop brings.
pub(crate) fn kind(group: &str, plural: &str) -> &'static dyn Kind {
    by_resource(group, "v1", plural).expect("the verbs name kinds of the registry alone")
}

/// PersistentVolumes.
pub(crate) fn volumes() -> &'static dyn Kind {
    kind("", "persistentvolumes")
}

/// PersistentVolumeClaims.
pub(crate) fn claims() -> &'static dyn Kind {
    kind("", "persistentvolumeclaims")
}

/// Pods.
pub(crate) fn pods() -> &'static dyn Kind {
    kind("", "pods")
}

/// Nodes.
pub(crate) fn nodes() -> &'static dyn Kind {
    kind("", "nodes")
}

/// VolumeAttachments.
pub(crate) fn attachments() -> &'static dyn Kind {
    kind("storage.k8s.io", "volumeattachments")
}
