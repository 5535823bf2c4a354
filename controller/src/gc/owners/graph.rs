//! Who owns whom, by UID, and what a change gives reason to look at. No I/O.
//!
//! Links are kept by the owner's UID whether or not the owner was seen, so an owner that shows up later finds its
//! dependents.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;

use crate::gc::discovery::Served;
use crate::meta::{has_finalizer, is_terminating};
use crate::names::{FINALIZER_FOREGROUND, FINALIZER_ORPHAN};

/// Something to look at.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Work {
    /// The object of this UID may have to be deleted, or may finish a foreground deletion.
    Delete(String),
    /// The object of this UID is being deleted and leaves its dependents behind.
    Orphan(String),
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Work::Delete(uid) => write!(f, "delete {uid}"),
            Work::Orphan(uid) => write!(f, "orphan {uid}"),
        }
    }
}

/// An object as the graph knows it.
#[derive(Debug, Clone)]
pub struct Node {
    /// Its kind.
    pub kind: Arc<Served>,
    /// Empty for a cluster-scoped object.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its owners.
    pub owners: Vec<OwnerReference>,
    /// It is being deleted.
    pub terminating: bool,
    /// It is being deleted and waits for its dependents.
    pub foreground: bool,
    /// It is being deleted and its dependents are to be left behind.
    pub orphaning: bool,
}

impl Node {
    /// The node of an object; none without a UID.
    pub fn of<K: Resource>(kind: &Arc<Served>, object: &K) -> Option<Self> {
        let meta = object.meta();
        let terminating = is_terminating(object);
        Some(Self {
            kind: Arc::clone(kind),
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone()?,
            uid: meta.uid.clone()?,
            owners: meta.owner_references.clone().unwrap_or_default(),
            terminating,
            foreground: terminating && has_finalizer(object, FINALIZER_FOREGROUND),
            orphaning: terminating && has_finalizer(object, FINALIZER_ORPHAN),
        })
    }

    /// The reference, made by an object in `namespace`, says where this object really is.
    pub fn is_meant_by(&self, reference: &OwnerReference, namespace: &str) -> bool {
        let (group, _) = group_of(&reference.api_version);
        group == self.kind.resource.group
            && reference.kind == self.kind.resource.kind
            && reference.name == self.name
            && (self.namespace.is_empty() || self.namespace == namespace)
    }

    fn owner(&self, uid: &str) -> Option<&OwnerReference> {
        self.owners.iter().find(|o| o.uid == uid)
    }

    fn blocks(&self, owner: &str) -> bool {
        self.owners.iter().any(|o| o.uid == owner && o.block_owner_deletion == Some(true))
    }
}

/// Splits an apiVersion into group and version.
pub fn group_of(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// The graph.
#[derive(Debug, Default)]
pub struct Graph {
    nodes: HashMap<String, Node>,
    /// By UID of the owner.
    dependents: HashMap<String, BTreeSet<String>>,
}

impl Graph {
    /// The object of this UID, if it was seen.
    pub fn node(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    /// What refers to this UID as an owner.
    pub fn dependents(&self, uid: &str) -> impl Iterator<Item = &Node> {
        self.dependents.get(uid).into_iter().flatten().filter_map(|dependent| self.nodes.get(dependent))
    }

    /// Dependents that an owner's foreground deletion has to wait for.
    pub fn blocking(&self, uid: &str) -> impl Iterator<Item = &Node> {
        self.dependents(uid).filter(move |node| node.blocks(uid))
    }

    /// An object was created or changed.
    pub fn observe(&mut self, node: Node) -> Vec<Work> {
        let uid = node.uid.clone();
        let old = self.nodes.insert(uid.clone(), node.clone());
        let mut work = Vec::new();
        let known = |owner: &str| old.as_ref().and_then(|o| o.owner(owner));
        for reference in node.owners.iter().filter(|o| known(&o.uid).is_none()) {
            self.dependents.entry(reference.uid.clone()).or_default().insert(uid.clone());
            let doubtful = match self.nodes.get(&reference.uid) {
                None => true,
                Some(owner) => owner.foreground || !owner.is_meant_by(reference, &node.namespace),
            };
            if doubtful {
                work.push(Work::Delete(uid.clone()));
            }
        }
        for reference in old.iter().flat_map(|o| &o.owners) {
            let still = node.owner(&reference.uid);
            if still.is_none() {
                self.unlink(&reference.uid, &uid);
            }
            let unblocked = reference.block_owner_deletion == Some(true) && !node.blocks(&reference.uid);
            if unblocked && self.nodes.contains_key(&reference.uid) {
                work.push(Work::Delete(reference.uid.clone()));
            }
        }
        if old.is_none() {
            let misled = |d: &&Node| d.owner(&uid).is_some_and(|r| !node.is_meant_by(r, &d.namespace));
            work.extend(self.dependents(&uid).filter(misled).map(|d| Work::Delete(d.uid.clone())));
        }
        if node.orphaning && !old.as_ref().is_some_and(|o| o.orphaning) {
            work.push(Work::Orphan(uid));
        } else if node.foreground && !old.as_ref().is_some_and(|o| o.foreground) {
            work.extend(self.dependents(&uid).map(|d| Work::Delete(d.uid.clone())));
            work.push(Work::Delete(uid));
        }
        work
    }

    /// An object is gone.
    pub fn forget(&mut self, uid: &str) -> Vec<Work> {
        let Some(node) = self.nodes.remove(uid) else { return Vec::new() };
        let mut work: Vec<Work> = self.dependents(uid).map(|d| Work::Delete(d.uid.clone())).collect();
        for reference in &node.owners {
            self.unlink(&reference.uid, uid);
            if self.nodes.get(&reference.uid).is_some_and(|owner| owner.foreground) {
                work.push(Work::Delete(reference.uid.clone()));
            }
        }
        work
    }

    fn unlink(&mut self, owner: &str, dependent: &str) {
        if let Some(set) = self.dependents.get_mut(owner) {
            set.remove(dependent);
            if set.is_empty() {
                self.dependents.remove(owner);
            }
        }
    }
}
