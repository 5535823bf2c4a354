//! The nodes where a claim may be used: the one that the scheduler chose, or those where its pod may run.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};

use orlop_client::names;
use orlop_client::pods;
use orlop_volume::affinity::{accepts_node, term_matches};
use orlop_volume::object::{self, annotation};

use super::cluster_view::ClusterView;
use super::facts::NodeLabels;

/// The labels of nodes.
pub type Labels = BTreeMap<String, String>;

/// The nodes where the pod of a claim may run.
#[derive(Clone, Debug, Default)]
pub struct AllowedNodes {
    /// The names of the nodes.
    pub nodes: Vec<String>,
    /// The labels of the nodes.
    pub labels: Vec<Labels>,
    /// The union of the labels of the nodes.
    pub held: NodeLabels,
    /// The purpose of the nodes, for messages: `pod x` or `the selected node`.
    pub subject: String,
    /// The pod, if it has no node yet.
    pub pod: Option<Arc<Pod>>,
}

impl AllowedNodes {
    /// Where a claim must be usable if its class waits for a pod: on the node that the scheduler chose, else where
    /// its pod may run. `None` if there is no pod yet.
    pub fn of(world: &dyn ClusterView, claim: &PersistentVolumeClaim) -> Option<Self> {
        if let Some(chosen) = annotation(&claim.metadata, names::ANN_SELECTED_NODE) {
            let nodes: Vec<_> = world.node(chosen).into_iter().collect();
            return Some(Self::among(&nodes, "the selected node".to_owned()));
        }
        let pods = world.pods_of_claim(&object::claim_key(claim));
        let pod = pods.iter().find(|pod| !pods::is_terminated(pod))?;
        let nodes: Vec<_> = world.nodes().into_iter().filter(|node| may_run(pod, node)).collect();
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let found = Self::among(&nodes, format!("pod {name}"));
        Some(Self { pod: pods::node_name(pod).is_none().then(|| Arc::clone(pod)), ..found })
    }

    fn among(nodes: &[Arc<Node>], subject: String) -> Self {
        let name = |node: &Arc<Node>| node.metadata.name.clone().unwrap_or_default();
        let labels = |node: &Arc<Node>| node.metadata.labels.clone().unwrap_or_default();
        let mut held = NodeLabels::new();
        for (key, value) in nodes.iter().flat_map(|node| node.metadata.labels.iter().flatten()) {
            held.entry(key.clone()).or_default().insert(value.clone());
        }
        Self {
            held,
            nodes: nodes.iter().map(name).collect(),
            labels: nodes.iter().map(labels).collect(),
            subject,
            pod: None,
        }
    }

    pub(crate) fn accept(&self, volume: &PersistentVolume) -> bool {
        self.labels.iter().any(|labels| accepts_node(volume, labels))
    }
}

/// Whether the pod's node name, node selector and required node affinity allow this node.
pub fn may_run(pod: &Pod, node: &Node) -> bool {
    let Some(spec) = &pod.spec else { return true };
    let (name, empty) = (node.metadata.name.as_deref().unwrap_or_default(), Labels::new());
    if let Some(chosen) = pods::node_name(pod) {
        return chosen == name;
    }
    let labels = node.metadata.labels.as_ref().unwrap_or(&empty);
    let selected = spec.node_selector.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    let required = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required =
        required.and_then(|node| node.required_during_scheduling_ignored_during_execution.as_ref());
    selected
        && required.is_none_or(|required| {
            required.node_selector_terms.iter().any(|term| term_matches(term, labels, name))
        })
}

/// The node that the scheduler chose for a claim.
pub(crate) fn chosen_node(claim: &PersistentVolumeClaim) -> Option<&str> {
    annotation(&claim.metadata, names::ANN_SELECTED_NODE)
}
