//! Nodes, and the pods on them. Updated incrementally: the cost of a change is that of the pod, not of the cluster. A pod is
//! counted on its selected node immediately, before the server confirms it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::api::storage::v1::{CSINode, VolumeAttachment};

use super::amounts::Amounts;
use super::disks::Disks;
use super::host_ports::HostPorts;
use super::inline_disks::InlineDisks;
use super::pod::PodFacts;
use super::terms::Labels;
use super::volumes::Volumes;

/// The scheduler's data of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeFacts {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: Labels,
    /// Its taints.
    pub taints: Vec<Taint>,
    /// Whether it is cordoned.
    pub unschedulable: bool,
    /// Its allocatable resources.
    pub allocatable: Amounts,
}

impl NodeFacts {
    /// Reads a node.
    pub fn of(node: &Node) -> Self {
        let spec = node.spec.as_ref();
        Self {
            name: node.metadata.name.clone().unwrap_or_default(),
            labels: node.metadata.labels.clone().unwrap_or_default(),
            taints: spec.and_then(|spec| spec.taints.clone()).unwrap_or_default(),
            unschedulable: spec.and_then(|spec| spec.unschedulable).unwrap_or(false),
            allocatable: Amounts::read(node.status.as_ref().and_then(|status| status.allocatable.as_ref())),
        }
    }
}

/// A node with its pods.
#[derive(Clone, Debug, Default)]
pub struct NodeState {
    /// The node.
    pub facts: Arc<NodeFacts>,
    /// Its pods by key.
    pub pods: BTreeMap<Arc<str>, Arc<PodFacts>>,
    /// The sum of their requests.
    pub used: Amounts,
    /// Their host ports.
    pub ports: HostPorts,
    /// Their inline disks.
    pub inline_disks: InlineDisks,
}

impl NodeState {
    /// Adds a pod that is not there.
    pub fn insert(&mut self, pod: Arc<PodFacts>) {
        self.used.add(&pod.requests);
        self.ports.add(&pod.ports);
        self.inline_disks.add(&pod.disks);
        self.pods.insert(Arc::clone(&pod.key), pod);
    }

    fn remove(&mut self, key: &str) {
        let Some(pod) = self.pods.remove(key) else { return };
        self.used.take(&pod.requests);
        self.ports.take(&pod.ports);
        self.inline_disks.take(&pod.disks);
    }
}

/// The node of a pod.
struct Placed {
    node: String,
    facts: Arc<PodFacts>,
    /// The server has not confirmed it yet.
    assumed: bool,
}

/// The effect of a pod event on other pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// No effect.
    Nothing,
    /// The pod was added to the node.
    Came,
    /// The pod changed: it may request less, or be finished.
    Changed,
}

/// The nodes and the pods on them.
#[derive(Default)]
pub struct Cluster {
    nodes: BTreeMap<String, NodeState>,
    /// Pods whose node does not exist, either not yet or no longer.
    strays: BTreeMap<String, BTreeMap<Arc<str>, Arc<PodFacts>>>,
    pods: HashMap<Arc<str>, Placed>,
    /// Keys of the pods that use a claim.
    users: HashMap<String, BTreeSet<Arc<str>>>,
    /// Pods with anti-affinity, by key.
    repelling: BTreeMap<Arc<str>, Arc<PodFacts>>,
    /// Labels of namespaces.
    namespaces: HashMap<String, Labels>,
    /// The disks of the nodes. Pods are reported to it only here, where they are added and removed.
    disks: Disks,
}

impl Cluster {
    /// Adds or updates a node. True if something relevant to the scheduler changed.
    pub fn put_node(&mut self, facts: NodeFacts) -> bool {
        match self.nodes.get_mut(&facts.name) {
            Some(known) if *known.facts == facts => false,
            Some(known) => {
                known.facts = Arc::new(facts);
                true
            }
            None => {
                let mut state = NodeState::default();
                let strays = self.strays.remove(&facts.name).unwrap_or_default();
                strays.into_values().for_each(|pod| state.insert(pod));
                let name = facts.name.clone();
                state.facts = Arc::new(facts);
                self.nodes.insert(name, state);
                true
            }
        }
    }

    /// Removes a node. Its pods stay until they are removed too.
    pub fn remove_node(&mut self, name: &str) {
        if let Some(state) = self.nodes.remove(name)
            && !state.pods.is_empty()
        {
            self.strays.insert(name.to_owned(), state.pods);
        }
    }

    /// The server reports a pod on a node.
    pub fn put_pod(&mut self, facts: PodFacts, node: &str) -> News {
        let news = match self.pods.get(&facts.key) {
            Some(known) if known.assumed || known.node != node || known.facts.uid != facts.uid => News::Came,
            None => News::Came,
            Some(known) => {
                let same = known.facts.labels == facts.labels
                    && known.facts.requests == facts.requests
                    && known.facts.terminating == facts.terminating;
                if same { News::Nothing } else { News::Changed }
            }
        };
        self.place(Arc::new(facts), node, false);
        news
    }

    /// This scheduler selected a node for the pod.
    pub fn assume(&mut self, facts: Arc<PodFacts>, node: &str) {
        self.place(facts, node, true);
    }

    /// The assumption failed. A state that the server reported in the meantime stays.
    pub fn forget(&mut self, key: &str, uid: &str) {
        if self.pods.get(key).is_some_and(|placed| placed.assumed && placed.facts.uid == uid) {
            self.remove_pod(key);
        }
    }

    /// Whether the pod is counted on a node, confirmed by the server or not.
    pub fn is_placed(&self, key: &str) -> bool {
        self.pods.contains_key(key)
    }

    /// The pod was deleted, or has finished. True if it was on a node.
    pub fn remove_pod(&mut self, key: &str) -> bool {
        let Some(Placed { node, facts, .. }) = self.pods.remove(key) else { return false };
        if let Some(state) = self.nodes.get_mut(&node) {
            state.remove(key);
        } else if let Some(strays) = self.strays.get_mut(&node) {
            strays.remove(key);
            if strays.is_empty() {
                self.strays.remove(&node);
            }
        }
        for claim in &facts.claims {
            if let Some(users) = self.users.get_mut(claim) {
                users.remove(key);
                if users.is_empty() {
                    self.users.remove(claim);
                }
            }
        }
        self.repelling.remove(key);
        self.disks.pod_left(&facts.claims, &node);
        true
    }

    fn place(&mut self, facts: Arc<PodFacts>, node: &str, assumed: bool) {
        // Added before the old ones are removed: unchanged claims need no new lookup.
        self.disks.pod_came(&facts.claims, node);
        self.remove_pod(&facts.key);
        let key = Arc::clone(&facts.key);
        match self.nodes.get_mut(node) {
            Some(state) => state.insert(Arc::clone(&facts)),
            None => {
                let strays = self.strays.entry(node.to_owned()).or_default();
                strays.insert(Arc::clone(&key), Arc::clone(&facts));
            }
        }
        for claim in &facts.claims {
            self.users.entry(claim.clone()).or_default().insert(Arc::clone(&key));
        }
        if !facts.anti_affinity.is_empty() {
            self.repelling.insert(Arc::clone(&key), Arc::clone(&facts));
        }
        self.pods.insert(key, Placed { node: node.to_owned(), facts, assumed });
    }

    /// Records an attachment, see [`Disks::put_attachment`].
    pub fn put_attachment(&mut self, name: &str, attachment: Option<&VolumeAttachment>) {
        self.disks.put_attachment(name, attachment);
    }

    /// Records the volume limits of a node, see [`Disks::put_csi_node`].
    pub fn put_csi_node(&mut self, name: &str, node: Option<&CSINode>) -> bool {
        self.disks.put_csi_node(name, node)
    }

    /// Updates the disks from `volumes`. Until then recently changed ones may be missing.
    pub fn settle_disks(&mut self, volumes: &mut Volumes) {
        self.disks.settle(volumes);
    }

    /// The disks of the nodes.
    pub fn disks(&self) -> &Disks {
        &self.disks
    }

    /// Records the labels of a namespace; none when it is gone. True if they changed.
    pub fn put_namespace(&mut self, name: &str, labels: Option<&Labels>) -> bool {
        match labels {
            Some(labels) => self.namespaces.insert(name.to_owned(), labels.clone()).as_ref() != Some(labels),
            None => self.namespaces.remove(name).is_some(),
        }
    }

    /// Labels of a namespace.
    pub fn namespace_labels(&self, name: &str) -> Option<&Labels> {
        self.namespaces.get(name)
    }

    /// The nodes by name.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = &NodeState> {
        self.nodes.values()
    }

    /// A node.
    pub fn node(&self, name: &str) -> Option<&NodeState> {
        self.nodes.get(name)
    }

    /// Whether a pod on a node uses this claim.
    pub fn is_claim_used(&self, claim: &str) -> bool {
        self.users.contains_key(claim)
    }

    /// Pods with anti-affinity, and their nodes.
    pub fn repelling(&self) -> impl Iterator<Item = (&PodFacts, &NodeFacts)> {
        self.repelling.values().filter_map(|pod| {
            let node = self.nodes.get(&self.pods.get(&pod.key)?.node)?;
            Some((pod.as_ref(), node.facts.as_ref()))
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use orlop_apimachinery::quantity::Quantity;
    use serde_json::json;

    use super::*;

    fn pod(name: &str, cpu: i64) -> PodFacts {
        PodFacts::of(
            &serde_json::from_value(json!({"metadata": {"namespace": "ns", "name": name, "uid": name},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu.to_string()}}}],
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}}))
            .unwrap(),
        )
    }

    fn node(name: &str) -> NodeFacts {
        NodeFacts { name: name.to_owned(), ..NodeFacts::default() }
    }

    fn used(cluster: &Cluster, node: &str) -> (usize, Quantity) {
        let state = cluster.node(node).unwrap();
        (state.pods.len(), state.used.of("cpu"))
    }

    #[test]
    fn pod_is_counted_once_in_any_order_of_events() {
        let mut cluster = Cluster::default();
        assert!(cluster.put_node(node("n")) && !cluster.put_node(node("n")));
        cluster.put_node(node("m"));
        cluster.assume(Arc::new(pod("p", 2)), "n");
        assert_eq!(used(&cluster, "n"), (1, Quantity::from_integer(2)));
        assert!(cluster.is_placed("ns/p") && cluster.is_claim_used("ns/c"));
        assert_eq!(cluster.put_pod(pod("p", 2), "n"), News::Came, "the server confirms it");
        assert_eq!(cluster.put_pod(pod("p", 2), "n"), News::Nothing, "and again");
        assert_eq!(cluster.put_pod(pod("p", 1), "n"), News::Changed, "it was made smaller");
        assert_eq!(cluster.put_pod(pod("p", 2), "n"), News::Changed);
        cluster.forget("ns/p", "p");
        assert_eq!(used(&cluster, "n"), (1, Quantity::from_integer(2)), "the server's state stays");
        assert_eq!(cluster.put_pod(pod("p", 3), "m"), News::Came, "another client selected another node");
        assert_eq!(used(&cluster, "n"), (0, Quantity::ZERO));
        assert_eq!(used(&cluster, "m"), (1, Quantity::from_integer(3)));
        assert!(cluster.remove_pod("ns/p") && !cluster.remove_pod("ns/p"));
        assert_eq!(used(&cluster, "m"), (0, Quantity::ZERO));
        assert!(!cluster.is_claim_used("ns/c"));
    }

    #[test]
    fn pod_may_arrive_before_its_node_and_outlive_it() {
        let mut cluster = Cluster::default();
        cluster.put_pod(pod("p", 2), "n");
        cluster.put_node(node("n"));
        assert_eq!(used(&cluster, "n"), (1, Quantity::from_integer(2)));
        cluster.remove_node("n");
        cluster.put_pod(pod("p", 2), "n");
        cluster.put_node(node("n"));
        assert_eq!(used(&cluster, "n"), (1, Quantity::from_integer(2)));
        cluster.remove_node("n");
        cluster.remove_pod("ns/p");
        cluster.put_node(node("n"));
        assert_eq!(used(&cluster, "n"), (0, Quantity::ZERO));
    }

    #[test]
    fn forgotten_assumption_uses_no_resources() {
        let mut cluster = Cluster::default();
        cluster.put_node(node("n"));
        cluster.assume(Arc::new(pod("p", 2)), "n");
        cluster.forget("ns/p", "p");
        assert_eq!(used(&cluster, "n"), (0, Quantity::ZERO));
    }
}
