//! The actual state: the nodes of attached volumes, the volumes that a node uses, and the volumes that its status must list. Only
//! this module depends on how the state is indexed.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use tokio::time::Instant;

use super::volume::{Key, Spec};
use orlop_client::meta::annotation;
use orlop_client::names::{ANN_FORCE_DETACH_AFTER, TAINT_OUT_OF_SERVICE};

/// Since when an attached volume is unwanted, on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Since {
    pub(super) at: Instant,
    pub(super) wall: Timestamp,
}

/// A volume on a node.
#[derive(Clone, Debug, Default)]
pub(super) struct Attached {
    /// The attacher confirmed it. Without confirmation, the volume may or may not be attached.
    pub(super) confirmed: bool,
    /// Its VolumeAttachment was requested and the cache has not shown it yet, so it may exist.
    pub(super) asked: bool,
    /// Since when it is unwanted.
    pub(super) unwanted: Option<Since>,
}

#[derive(Debug, Default)]
struct Volume {
    spec: Option<Arc<Spec>>,
    /// By node name. Nearly always one entry; a map with one entry needs the memory of eleven.
    nodes: Vec<(Arc<str>, Attached)>,
}

impl Volume {
    /// The index of the node, or the index at which to insert it.
    fn find(&self, node: &str) -> Result<usize, usize> {
        self.nodes.binary_search_by(|(name, _)| (**name).cmp(node))
    }
}

/// The fields of a Node object that matter for detaching.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeFacts {
    /// The Node exists and its condition Ready is True.
    pub(super) healthy: bool,
    /// The Node exists.
    pub(super) exists: bool,
    /// The node has the taint, with any value or effect; readiness does not matter.
    pub(super) out_of_service: bool,
    /// Its annotation [`ANN_FORCE_DETACH_AFTER`].
    pub(super) force_after: Option<Box<str>>,
}

impl NodeFacts {
    // Tests: AD-071, AD-075
    pub(super) fn of(node: &Node) -> Self {
        let conditions =
            node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
        Self {
            healthy: conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True"),
            exists: true,
            out_of_service: taints.iter().any(|taint| taint.key == TAINT_OUT_OF_SERVICE),
            force_after: annotation(node, ANN_FORCE_DETACH_AFTER).map(Into::into),
        }
    }
}

/// A node.
#[derive(Debug, Default)]
pub(super) struct NodeState {
    pub(super) facts: NodeFacts,
    /// Version of the object that the facts and `in_use` are from.
    pub(super) version: u64,
    volumes: BTreeSet<Arc<str>>,
    in_use: HashSet<Arc<str>>,
    /// Volumes on the list of the node that it may have begun to use, because it has not reported since.
    assumed: HashSet<Arc<str>>,
    listed: BTreeSet<Arc<str>>,
    unwritten: bool,
}

/// The actual state.
#[derive(Debug, Default)]
pub(super) struct Actual {
    volumes: HashMap<Arc<str>, Volume>,
    nodes: HashMap<Arc<str>, NodeState>,
}

impl Actual {
    /// The volume on the node, if it is or may be there.
    pub(super) fn get(&self, key: &Key) -> Option<&Attached> {
        let volume = self.volumes.get(&key.volume)?;
        volume.find(&key.node).ok().map(|at| &volume.nodes[at].1)
    }

    /// Like `get`, to record since when the volume is unwanted.
    pub(super) fn get_mut(&mut self, key: &Key) -> Option<&mut Attached> {
        let volume = self.volumes.get_mut(&key.volume)?;
        volume.find(&key.node).ok().map(|at| &mut volume.nodes[at].1)
    }

    /// The nodes where the volume is or may be.
    pub(super) fn nodes_of(&self, volume: &str) -> impl Iterator<Item = (&Arc<str>, &Attached)> {
        self.volumes
            .get(volume)
            .into_iter()
            .flat_map(|volume| volume.nodes.iter().map(|(node, state)| (node, state)))
    }

    /// The properties of a volume that is attached somewhere.
    pub(super) fn spec(&self, volume: &str) -> Option<&Arc<Spec>> {
        self.volumes.get(volume)?.spec.as_ref()
    }

    /// Adds the properties of a volume that was known only by name.
    pub(super) fn learn(&mut self, spec: &Arc<Spec>) {
        if let Some(volume) = self.volumes.get_mut(&spec.unique) {
            volume.spec.get_or_insert_with(|| Arc::clone(spec));
        }
    }

    /// The volume is on the node, or may be there.
    pub(super) fn put(&mut self, key: &Key, spec: Option<&Arc<Spec>>, confirmed: bool) {
        let volume = self.volumes.entry(Arc::clone(&key.volume)).or_default();
        if volume.spec.is_none() {
            volume.spec = spec.map(Arc::clone);
        }
        match volume.find(&key.node) {
            Ok(at) => volume.nodes[at].1.confirmed = confirmed,
            Err(at) => {
                let state = Attached { confirmed, asked: false, unwanted: None };
                volume.nodes.insert(at, (Arc::clone(&key.node), state));
            }
        }
        self.nodes.entry(Arc::clone(&key.node)).or_default().volumes.insert(Arc::clone(&key.volume));
    }

    /// The volume is not on the node.
    pub(super) fn remove(&mut self, key: &Key) {
        self.unlist(key);
        if let Some(volume) = self.volumes.get_mut(&key.volume) {
            if let Ok(at) = volume.find(&key.node) {
                volume.nodes.remove(at);
            }
            if volume.nodes.is_empty() {
                self.volumes.remove(&key.volume);
            }
        }
        if let Some(node) = self.nodes.get_mut(&key.node) {
            node.volumes.remove(&key.volume);
            node.assumed.remove(&key.volume);
        }
        self.tidy(&key.node);
    }

    /// Whether the node may use the volume. True if this is unknown: see [`list`](Self::list).
    pub(super) fn in_use(&self, key: &Key) -> bool {
        let node = self.nodes.get(&key.node);
        node.is_some_and(|node| node.in_use.contains(&key.volume) || node.assumed.contains(&key.volume))
    }

    /// The node itself reported, in a newer version than the known one, that it uses the volume.
    pub(super) fn assume_in_use(&mut self, key: &Key) {
        self.nodes.entry(Arc::clone(&key.node)).or_default().assumed.insert(Arc::clone(&key.volume));
    }

    /// The node's status has to list the volume. From now on the node may use it, so it counts as in use until the next report
    /// of the node.
    pub(super) fn list(&mut self, key: &Key) {
        let node = self.nodes.entry(Arc::clone(&key.node)).or_default();
        if node.listed.insert(Arc::clone(&key.volume)) {
            node.unwritten = true;
            node.assumed.insert(Arc::clone(&key.volume));
        }
    }

    /// The node's status must no longer list the volume. False if it was not on the list.
    pub(super) fn unlist(&mut self, key: &Key) -> bool {
        let Some(node) = self.nodes.get_mut(&key.node) else { return false };
        let was = node.listed.remove(&key.volume);
        node.unwritten |= was;
        was
    }

    /// The list that must be written to the node's status, if it must be written.
    pub(super) fn take_unwritten(&mut self, node: &str) -> Option<Vec<Arc<str>>> {
        let node = self.nodes.get_mut(node)?;
        std::mem::take(&mut node.unwritten).then(|| node.listed.iter().cloned().collect())
    }

    /// The list could not be written, or its object was deleted.
    pub(super) fn set_unwritten(&mut self, node: &str) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.unwritten = true;
        }
    }

    /// The list was written, and this is the node's version right after the write. Volumes that it does not list as in use then are
    /// not in use.
    pub(super) fn written(&mut self, node: &str, list: &[Arc<str>], in_use: &[String]) {
        let Some(node) = self.nodes.get_mut(node) else { return };
        let in_use: HashSet<&str> = in_use.iter().map(String::as_str).collect();
        for volume in list.iter().filter(|volume| !in_use.contains(&***volume)) {
            node.assumed.remove(volume);
        }
    }

    /// Whether the list of a node equals that of its status.
    pub(super) fn is_listed_as(&self, node: &str, names: &[&str]) -> bool {
        let Some(node) = self.nodes.get(node) else { return names.is_empty() };
        node.listed.len() == names.len() && names.iter().all(|name| node.listed.contains(*name))
    }

    /// Adds the volumes that a status lists when the controller starts.
    pub(super) fn adopt_listed(&mut self, key: &Key) {
        self.nodes.entry(Arc::clone(&key.node)).or_default().listed.insert(Arc::clone(&key.volume));
    }

    /// Records the state of a Node object; `facts` without an object mean that it was deleted. Returns true if something changed
    /// that matters for detaching.
    pub(super) fn saw_node(
        &mut self,
        name: &Arc<str>,
        facts: NodeFacts,
        version: u64,
        in_use: &[String],
    ) -> bool {
        let node = self.nodes.entry(Arc::clone(name)).or_default();
        let same = node.facts == facts
            && node.assumed.is_empty()
            && node.in_use.len() == in_use.len()
            && in_use.iter().all(|name| node.in_use.contains(name.as_str()));
        node.version = version;
        if same {
            return false;
        }
        node.facts = facts;
        node.assumed.clear();
        node.in_use = in_use.iter().map(|name| Arc::from(name.as_str())).collect();
        self.tidy(name);
        true
    }

    /// The state of a node.
    pub(super) fn node(&self, name: &str) -> Option<&NodeState> {
        self.nodes.get(name)
    }

    /// Every volume that is or may be on the node.
    pub(super) fn volumes_on(&self, node: &str) -> impl Iterator<Item = &Arc<str>> {
        self.nodes.get(node).into_iter().flat_map(|node| &node.volumes)
    }

    /// Every volume on every node.
    pub(super) fn all(&self) -> impl Iterator<Item = (Key, &Attached)> {
        self.volumes.iter().flat_map(|(volume, state)| {
            let nodes = state.nodes.iter();
            nodes.map(|(node, attached)| {
                (Key { volume: Arc::clone(volume), node: Arc::clone(node) }, attached)
            })
        })
    }

    /// Removes a node that does not exist and has no volumes.
    fn tidy(&mut self, name: &str) {
        let empty =
            |node: &NodeState| !node.facts.exists && node.volumes.is_empty() && node.listed.is_empty();
        if self.nodes.get(name).is_some_and(empty) {
            self.nodes.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_of_a_node_cost_linear_time() {
        let node: Arc<str> = "n".into();
        orlop_apimachinery::thread_time::assert_linear(
            "volumes of a node",
            500,
            |count| {
                let list: Vec<Arc<str>> = (0..count).map(|n| format!("v{n}").into()).collect();
                let in_use: Vec<String> = list.iter().rev().map(|name| name.to_string()).collect();
                (list, in_use)
            },
            |(list, in_use)| {
                let mut actual = Actual::default();
                for volume in list {
                    actual.list(&Key { volume: Arc::clone(volume), node: Arc::clone(&node) });
                }
                actual.written("n", list, in_use);
                assert!(actual.in_use(&Key { volume: "v0".into(), node: Arc::clone(&node) }));
                actual.written("n", list, &[]);
                assert!(!actual.in_use(&Key { volume: "v0".into(), node: Arc::clone(&node) }));
            },
        );
    }
}
