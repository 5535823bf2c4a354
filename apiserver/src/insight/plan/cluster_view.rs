//! Read access to the objects of one revision for a verb. Records all reads, which become guards of the commit.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use orlop_store::{Guard, Record, Snapshot};
use serde::Deserialize;

use super::model::PlanRefusal;
use super::stoppable::Stop;
use crate::dispatch;
use crate::encode::stored;
use crate::insight::ObjectTarget;
use crate::projection::Projection;
use crate::registry::{Kind, by_resource};
use orlop_api::object::Object;
use orlop_api::status::ApiError;

/// The objects of one revision.
pub(crate) struct ClusterView<'a> {
    snapshot: &'a Snapshot<Projection>,
    read: RefCell<Read>,
    /// The error of the first object that cannot be read.
    unreadable: RefCell<Option<ApiError>>,
    stop: Stop,
}

/// The target in a snapshot. Not recorded as a read.
///
/// # Errors
/// The target exists, but cannot be read.
pub(super) fn object_of(
    snapshot: &Snapshot<Projection>,
    target: &ObjectTarget,
) -> Result<Option<Object>, ApiError> {
    snapshot.get(&target.key()).map(|record| stored::decode_as(&*target.kind, record)).transpose()
}

/// The recorded reads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Read {
    /// The keys that were read and the revision of each record, if it existed.
    pub(crate) keys: BTreeMap<String, Option<u64>>,
    /// The prefixes that were listed.
    pub(crate) ranges: BTreeSet<String>,
}

impl Read {
    /// The conditions that must still hold when the plan is committed.
    pub(crate) fn guards(&self, snapshot: &Snapshot<Projection>) -> Vec<Guard> {
        // A list covers its records.
        let is_listed = |key: &&String| self.ranges.iter().any(|prefix| key.starts_with(prefix.as_str()));
        let keys = self.keys.keys().filter(|key| !is_listed(key)).map(|key| Guard::key(snapshot, key));
        let ranges = self.ranges.iter().map(|prefix| Guard::range(snapshot, prefix));
        keys.chain(ranges).collect()
    }

    /// The first key whose record differs between the two reads, or that only one of them has.
    pub(crate) fn changed_since<'a>(&'a self, then: &'a Self) -> Option<&'a str> {
        let differs = |(key, at): &(&String, &Option<u64>)| then.keys.get(*key) != Some(*at);
        let here = self.keys.iter().find(differs);
        let there = then.keys.iter().find(|(key, _)| !self.keys.contains_key(*key));
        here.or(there).map(|(key, _)| key.as_str())
    }
}

impl<'a> ClusterView<'a> {
    /// Creates a view of a snapshot.
    pub(crate) fn new(snapshot: &'a Snapshot<Projection>) -> Self {
        ClusterView {
            snapshot,
            read: RefCell::default(),
            unreadable: RefCell::default(),
            stop: Stop::default(),
        }
    }

    /// Ends all scans when a stop is requested. What was read is not complete then.
    pub(super) fn until(mut self, stop: Stop) -> Self {
        self.stop = stop;
        self
    }

    /// The error of the first object that was skipped because it cannot be read. A plan without it may be wrong.
    pub(super) fn unreadable(&self) -> Option<ApiError> {
        self.unreadable.borrow().clone()
    }

    fn decode(&self, kind: &dyn Kind, record: &Record<Projection>) -> Option<Object> {
        match stored::decode_as(kind, record) {
            Ok(object) => Some(object),
            Err(error) => {
                self.unreadable.borrow_mut().get_or_insert(error);
                None
            }
        }
    }

    /// Returns the recorded reads.
    pub(crate) fn into_read(self) -> Read {
        self.read.into_inner()
    }

    /// Reads one object.
    pub(crate) fn get(&self, kind: &dyn Kind, namespace: &str, name: &str) -> Option<Object> {
        let key = dispatch::key(kind, namespace, name);
        let record = self.snapshot.get(&key);
        self.read.borrow_mut().keys.insert(key, record.map(|record| record.mod_revision.0));
        self.decode(kind, record?)
    }

    /// Reads the target of a verb.
    pub(crate) fn target(&self, target: &ObjectTarget) -> Result<Object, PlanRefusal> {
        let namespace = target.namespace.as_deref().unwrap_or_default();
        self.get(&*target.kind, namespace, &target.name).ok_or(PlanRefusal::Missing)
    }

    /// Lists the objects of a namespace (`""`: all namespaces) whose records match `wanted`. Records a read of the
    /// whole list, because a later object would change the result.
    pub(crate) fn list(
        &self,
        kind: &dyn Kind,
        namespace: &str,
        wanted: impl Fn(&Record<Projection>) -> bool,
    ) -> Vec<Object> {
        let prefix = dispatch::prefix(kind, namespace);
        let mut read = self.read.borrow_mut();
        let mut found = Vec::new();
        let records = self.snapshot.range(&prefix, None).take_while(|_| !self.stop.is_requested());
        // An unreadable record may match.
        for record in records.filter(|record| !record.is_whole() || wanted(record)) {
            read.keys.insert(record.key.as_str().to_owned(), Some(record.mod_revision.0));
            found.extend(self.decode(kind, record));
        }
        read.ranges.insert(prefix);
        found
    }

    /// Like `list`, but records no reads, and decodes one object at a time. Only for plans that are never committed (`impact`).
    pub(super) fn glance(
        &self,
        kind: &dyn Kind,
        namespace: &str,
        wanted: impl Fn(&Record<Projection>) -> bool,
    ) -> impl Iterator<Item = Object> {
        let records = self.records(kind, namespace).filter(move |record| wanted(record));
        records.filter_map(move |record| self.decode(kind, &record))
    }

    /// The readable records of a namespace (`""`: all namespaces). Records no reads.
    pub(super) fn records(
        &self,
        kind: &dyn Kind,
        namespace: &str,
    ) -> impl Iterator<Item = Arc<Record<Projection>>> {
        let prefix = dispatch::prefix(kind, namespace);
        // Pointers, because the range borrows the prefix.
        let records: Vec<Arc<Record<Projection>>> = self.snapshot.range(&prefix, None).cloned().collect();
        records.into_iter().take_while(|_| !self.stop.is_requested()).filter(|record| {
            let error = stored::readable(record).err();
            let is_readable = error.is_none();
            if let Some(error) = error {
                self.unreadable.borrow_mut().get_or_insert(error);
            }
            is_readable
        })
    }
}

/// Whether the stored bytes contain a text: a cheap check before decoding an object.
pub(crate) fn mentions(record: &Record<Projection>, text: &str) -> bool {
    std::str::from_utf8(&record.value).is_ok_and(|value| value.contains(text))
}

/// The uids of the owners of a stored object. Decodes nothing else, because this runs for all objects.
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

/// A built-in kind.
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
