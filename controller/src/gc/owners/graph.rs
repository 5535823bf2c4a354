//! The ownership graph, by UID, and the work items that follow from a change. No I/O.
//!
//! Links are stored by the owner's UID whether or not the owner has been observed, so an owner that appears later
//! finds its dependents. Nearly all objects have no dependents, no owners and are not terminating: for these the
//! graph stores only UID, kind and key, and shares the key with the informer that delivered it.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;

use crate::gc::discovery::Served;
use orlop_client::informer::split_key;
use orlop_client::meta::{has_finalizer, is_terminating};
use orlop_client::names::{FINALIZER_FOREGROUND, FINALIZER_ORPHAN};
use orlop_client::small_set::Few;
use orlop_client::uid::Uid;

/// A work item.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Work {
    /// The object with this UID may have to be deleted, or may finish a foreground deletion.
    Delete(Uid),
    /// The object with this UID is being deleted and orphans its dependents.
    Orphan(Uid),
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
    /// `namespace/name`, or `name` for a cluster-scoped object.
    pub key: Arc<str>,
    /// Its UID.
    pub uid: Uid,
    /// Its owners and deletion state, if it has any.
    pub state: Option<Box<OwnerState>>,
}

/// The state in which objects with owners or a deletion differ from all others.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OwnerState {
    /// Its owners.
    pub owners: Vec<OwnerReference>,
    /// It is being deleted.
    pub terminating: bool,
    /// It is being deleted and waits for its dependents.
    pub foreground: bool,
    /// It is being deleted and orphans its dependents.
    pub orphaning: bool,
}

/// The state of an object without owners that is not being deleted.
static ALONE: OwnerState =
    OwnerState { owners: Vec::new(), terminating: false, foreground: false, orphaning: false };

impl Node {
    /// The node of an object; `None` for an object without UID.
    pub fn of<K: Resource>(kind: &Arc<Served>, key: &Arc<str>, object: &K) -> Option<Self> {
        let meta = object.meta();
        let terminating = is_terminating(object);
        let state = OwnerState {
            owners: meta.owner_references.clone().unwrap_or_default(),
            terminating,
            foreground: terminating && has_finalizer(object, FINALIZER_FOREGROUND),
            orphaning: terminating && has_finalizer(object, FINALIZER_ORPHAN),
        };
        Some(Self {
            kind: Arc::clone(kind),
            key: Arc::clone(key),
            uid: Uid::from(meta.uid.as_deref()?),
            state: (state != ALONE).then(|| Box::new(state)),
        })
    }

    /// Its owners and deletion state.
    pub fn state(&self) -> &OwnerState {
        self.state.as_deref().unwrap_or(&ALONE)
    }

    /// The namespace; empty for a cluster-scoped object.
    pub fn namespace(&self) -> &str {
        split_key(&self.key).0
    }

    /// Its name.
    pub fn name(&self) -> &str {
        split_key(&self.key).1
    }

    /// Whether `reference`, found on an object in `namespace`, names the actual location of this object.
    pub fn is_meant_by(&self, reference: &OwnerReference, namespace: &str) -> bool {
        let (group, _) = group_of(&reference.api_version);
        group == self.kind.resource.group
            && reference.kind == self.kind.resource.kind
            && reference.name == self.name()
            && (self.namespace().is_empty() || self.namespace() == namespace)
    }

    fn owner(&self, uid: &str) -> Option<&OwnerReference> {
        self.state().owners.iter().find(|o| o.uid == uid)
    }

    /// Its owners by UID. An object may have very many.
    fn owners(&self) -> HashMap<&str, Ownership> {
        let mut owners: HashMap<&str, Ownership> = HashMap::new();
        for reference in &self.state().owners {
            let known = owners.entry(reference.uid.as_str()).or_default();
            known.blocks |= reference.block_owner_deletion == Some(true);
        }
        owners
    }
}

/// All references of an object to one owner.
#[derive(Debug, Default)]
struct Ownership {
    /// One of them blocks the foreground deletion of the owner.
    blocks: bool,
}

/// Splits an apiVersion into group and version.
pub fn group_of(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// The ownership graph.
#[derive(Debug, Default)]
pub struct Graph {
    nodes: HashMap<Uid, Node>,
    /// Dependents, by UID of the owner.
    dependents: HashMap<Uid, Few<Uid>>,
    /// Those of them that block a foreground deletion of the owner.
    blocking: HashMap<Uid, Few<Uid>>,
}

impl Graph {
    /// The object with this UID, if it has been observed.
    pub fn node(&self, uid: &Uid) -> Option<&Node> {
        self.nodes.get(uid)
    }

    /// The objects that refer to this UID as an owner.
    pub fn dependents(&self, uid: &Uid) -> impl Iterator<Item = &Node> {
        self.dependents.get(uid).into_iter().flatten().filter_map(|dependent| self.nodes.get(dependent))
    }

    /// The dependents that block a foreground deletion of their owner.
    pub fn blocking(&self, uid: &Uid) -> impl Iterator<Item = &Node> {
        self.blocking.get(uid).into_iter().flatten().filter_map(|dependent| self.nodes.get(dependent))
    }

    /// Records that an object was created or changed.
    pub fn observe(&mut self, node: Node) -> Vec<Work> {
        let uid = node.uid.clone();
        let old = self.nodes.insert(uid.clone(), node.clone());
        let mut work = Vec::new();
        let (before, now) = (old.as_ref().map(Node::owners).unwrap_or_default(), node.owners());
        for reference in node.state().owners.iter().filter(|o| !before.contains_key(o.uid.as_str())) {
            let owner = Uid::from(reference.uid.as_str());
            let doubtful = match self.nodes.get(&owner) {
                None => true,
                Some(owner) => owner.state().foreground || !owner.is_meant_by(reference, node.namespace()),
            };
            self.dependents.entry(owner).or_default().insert(uid.clone());
            if doubtful {
                work.push(Work::Delete(uid.clone()));
            }
        }
        for reference in old.iter().flat_map(|o| &o.state().owners) {
            let owner = Uid::from(reference.uid.as_str());
            let left = now.get(reference.uid.as_str());
            if left.is_none() {
                unlink(&mut self.dependents, &owner, &uid);
            }
            let unblocked =
                reference.block_owner_deletion == Some(true) && !left.is_some_and(|left| left.blocks);
            if unblocked && self.nodes.contains_key(&owner) {
                work.push(Work::Delete(owner));
            }
        }
        let blocks = |owners: &HashMap<&str, Ownership>, owner: &str| {
            owners.get(owner).is_some_and(|ownership| ownership.blocks)
        };
        for owner in now.keys().filter(|owner| blocks(&now, owner) && !blocks(&before, owner)) {
            self.blocking.entry(Uid::from(*owner)).or_default().insert(uid.clone());
        }
        for owner in before.keys().filter(|owner| blocks(&before, owner) && !blocks(&now, owner)) {
            unlink(&mut self.blocking, &Uid::from(*owner), &uid);
        }
        if old.is_none() && self.dependents.contains_key(&uid) {
            let text = uid.to_string();
            let misled = |d: &&Node| d.owner(&text).is_some_and(|r| !node.is_meant_by(r, d.namespace()));
            work.extend(self.dependents(&uid).filter(misled).map(|d| Work::Delete(d.uid.clone())));
        }
        if node.state().orphaning && !old.as_ref().is_some_and(|o| o.state().orphaning) {
            work.push(Work::Orphan(uid));
        } else if node.state().foreground && !old.as_ref().is_some_and(|o| o.state().foreground) {
            work.extend(self.dependents(&uid).map(|d| Work::Delete(d.uid.clone())));
            work.push(Work::Delete(uid));
        }
        work
    }

    /// Records that an object was deleted.
    pub fn forget(&mut self, uid: &Uid) -> Vec<Work> {
        let Some(node) = self.nodes.remove(uid) else { return Vec::new() };
        let mut work: Vec<Work> = self.dependents(uid).map(|d| Work::Delete(d.uid.clone())).collect();
        for reference in &node.state().owners {
            let owner = Uid::from(reference.uid.as_str());
            unlink(&mut self.dependents, &owner, uid);
            unlink(&mut self.blocking, &owner, uid);
            if self.nodes.get(&owner).is_some_and(|owner| owner.state().foreground) {
                work.push(Work::Delete(owner));
            }
        }
        work
    }
}

fn unlink(of_owners: &mut HashMap<Uid, Few<Uid>>, owner: &Uid, dependent: &Uid) {
    if let Some(set) = of_owners.get_mut(owner) {
        set.remove(dependent);
        if set.is_empty() {
            of_owners.remove(owner);
        }
    }
}
