//! Nodes, and the pods that take room there. Kept by single changes: a pod that comes or goes costs what that pod has, not
//! the size of the cluster. A pod that was given a node is counted there at once, long before the server says so.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::api::storage::v1::{CSINode, VolumeAttachment};

use super::amounts::Amounts;
use super::disks::Disks;
use super::pod::PodFacts;
use super::terms::Labels;
use super::volumes::Volumes;

/// What the scheduler keeps of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeFacts {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: Labels,
    /// Whom it keeps away.
    pub taints: Vec<Taint>,
    /// Somebody closed it.
    pub unschedulable: bool,
    /// What it has for pods.
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
    /// What they take.
    pub used: Amounts,
}

/// Where a pod is.
struct Placed {
    node: String,
    facts: Arc<PodFacts>,
    /// The server has not said so yet.
    assumed: bool,
}

/// What the server's word about a pod on a node means to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// Nothing.
    Nothing,
    /// The pod is there now.
    Came,
    /// It is another one to them: it may take less, or count no more.
    Changed,
}

/// The nodes and the pods on them.
#[derive(Default)]
pub struct Cluster {
    nodes: BTreeMap<String, NodeState>,
    /// Pods whose node does not exist: it may still come, or it went.
    strays: BTreeMap<String, BTreeMap<Arc<str>, Arc<PodFacts>>>,
    pods: HashMap<Arc<str>, Placed>,
    /// Keys of the pods that use a claim.
    users: HashMap<String, BTreeSet<Arc<str>>>,
    /// Pods that keep others away, by key.
    repelling: BTreeMap<Arc<str>, Arc<PodFacts>>,
    /// Labels of namespaces.
    namespaces: HashMap<String, Labels>,
    /// The disks of the nodes. What pods have to do with them is told here alone, where pods come and go.
    disks: Disks,
}

impl Cluster {
    /// Takes up a node. True if something changed that the scheduler looks at.
    pub fn put_node(&mut self, facts: NodeFacts) -> bool {
        match self.nodes.get_mut(&facts.name) {
            Some(known) if *known.facts == facts => false,
            Some(known) => {
                known.facts = Arc::new(facts);
                true
            }
            None => {
                let mut state = NodeState::default();
                for (key, pod) in self.strays.remove(&facts.name).unwrap_or_default() {
                    state.used.add(&pod.requests);
                    state.pods.insert(key, pod);
                }
                let name = facts.name.clone();
                state.facts = Arc::new(facts);
                self.nodes.insert(name, state);
                true
            }
        }
    }

    /// A node is gone. Its pods are kept until they go too.
    pub fn remove_node(&mut self, name: &str) {
        if let Some(state) = self.nodes.remove(name)
            && !state.pods.is_empty()
        {
            self.strays.insert(name.to_owned(), state.pods);
        }
    }

    /// The server says that a pod is on a node.
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

    /// This scheduler gave the pod a node.
    pub fn assume(&mut self, facts: Arc<PodFacts>, node: &str) {
        self.place(facts, node, true);
    }

    /// The pod did not get there after all. What the server said meanwhile stays.
    pub fn forget(&mut self, key: &str, uid: &str) {
        if self.pods.get(key).is_some_and(|placed| placed.assumed && placed.facts.uid == uid) {
            self.remove_pod(key);
        }
    }

    /// The pod is counted on a node, whether the server has said so or not.
    pub fn is_placed(&self, key: &str) -> bool {
        self.pods.contains_key(key)
    }

    /// A pod is gone, or over. True if it was on a node.
    pub fn remove_pod(&mut self, key: &str) -> bool {
        let Some(Placed { node, facts, .. }) = self.pods.remove(key) else { return false };
        if let Some(state) = self.nodes.get_mut(&node) {
            if state.pods.remove(key).is_some() {
                state.used.take(&facts.requests);
            }
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
        // First what comes, then what goes: claims that stay need not be looked at again.
        self.disks.pod_came(&facts.claims, node);
        self.remove_pod(&facts.key);
        let key = Arc::clone(&facts.key);
        match self.nodes.get_mut(node) {
            Some(state) => {
                state.used.add(&facts.requests);
                state.pods.insert(Arc::clone(&key), Arc::clone(&facts));
            }
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

    /// Notes an attachment, see [`Disks::put_attachment`].
    pub fn put_attachment(&mut self, name: &str, attachment: Option<&VolumeAttachment>) {
        self.disks.put_attachment(name, attachment);
    }

    /// Notes how many disks a node takes, see [`Disks::put_csi_node`].
    pub fn put_csi_node(&mut self, name: &str, node: Option<&CSINode>) -> bool {
        self.disks.put_csi_node(name, node)
    }

    /// Counts the disks as `volumes` has them now. Until then those of what has just changed may be missing.
    pub fn settle_disks(&mut self, volumes: &mut Volumes) {
        self.disks.settle(volumes);
    }

    /// The disks of the nodes.
    pub fn disks(&self) -> &Disks {
        &self.disks
    }

    /// Notes the labels of a namespace; none when it is gone. True if they changed.
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

    /// Pods that keep others away, with the node they are on.
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
    fn pods_are_counted_once_wherever_the_news_come_from() {
        let mut cluster = Cluster::default();
        assert!(cluster.put_node(node("n")) && !cluster.put_node(node("n")));
        cluster.put_node(node("m"));
        cluster.assume(Arc::new(pod("p", 2)), "n");
        assert_eq!(used(&cluster, "n"), (1, Quantity::from_integer(2)));
        assert!(cluster.is_placed("ns/p") && cluster.is_claim_used("ns/c"));
        assert_eq!(cluster.put_pod(pod("p", 2), "n"), News::Came, "the server says so");
        assert_eq!(cluster.put_pod(pod("p", 2), "n"), News::Nothing, "and again");
        assert_eq!(cluster.put_pod(pod("p", 1), "n"), News::Changed, "it was made smaller");
        assert_eq!(cluster.put_pod(pod("p", 2), "n"), News::Changed);
        cluster.forget("ns/p", "p");
        assert_eq!(used(&cluster, "n"), (1, Quantity::from_integer(2)), "what the server said stays");
        assert_eq!(cluster.put_pod(pod("p", 3), "m"), News::Came, "somebody else gave it another node");
        assert_eq!(used(&cluster, "n"), (0, Quantity::ZERO));
        assert_eq!(used(&cluster, "m"), (1, Quantity::from_integer(3)));
        assert!(cluster.remove_pod("ns/p") && !cluster.remove_pod("ns/p"));
        assert_eq!(used(&cluster, "m"), (0, Quantity::ZERO));
        assert!(!cluster.is_claim_used("ns/c"));
    }

    #[test]
    fn a_pod_may_be_known_before_its_node_and_after_it() {
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
    fn an_assumed_pod_that_was_forgotten_takes_nothing() {
        let mut cluster = Cluster::default();
        cluster.put_node(node("n"));
        cluster.assume(Arc::new(pod("p", 2)), "n");
        cluster.forget("ns/p", "p");
        assert_eq!(used(&cluster, "n"), (0, Quantity::ZERO));
    }
}
