//! The labels and taints of all nodes. Each node is read once per change and not once per DaemonSet: a cluster may have hundreds of
//! both.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use orlop_client::informer::Change;
use parking_lot::RwLock;

use crate::scheduler::cluster::NodeFacts;

/// The nodes by name.
#[derive(Debug, Default)]
pub struct NodeTable(RwLock<BTreeMap<Arc<str>, Arc<NodeFacts>>>);

impl NodeTable {
    /// Records a change. Returns whether it may concern DaemonSets: they depend on the labels and taints of a node. A deleted node
    /// concerns none.
    pub fn apply(&self, change: &Change<Node>) -> bool {
        self.put(change.key(), change.new.as_deref()) || !change.is_gone() && change.replaced()
    }

    /// Records the node with this name, `None` if it is deleted. Returns whether its labels or taints are new.
    pub(super) fn put(&self, name: &Arc<str>, node: Option<&Node>) -> bool {
        let Some(node) = node else {
            self.0.write().remove(name);
            return false;
        };
        let facts = facts_of(node);
        let mut nodes = self.0.write();
        if nodes.get(name).is_some_and(|known| **known == facts) {
            return false;
        }
        nodes.insert(Arc::clone(name), Arc::new(facts));
        true
    }

    /// A node.
    pub fn get(&self, name: &str) -> Option<Arc<NodeFacts>> {
        self.0.read().get(name).map(Arc::clone)
    }

    /// All nodes, by name.
    pub fn all(&self) -> Vec<Arc<NodeFacts>> {
        self.0.read().values().map(Arc::clone).collect()
    }
}

/// The name, the labels and the taints of a node. The scheduler checks the resources.
fn facts_of(node: &Node) -> NodeFacts {
    let spec = node.spec.as_ref();
    NodeFacts {
        name: node.metadata.name.clone().unwrap_or_default(),
        labels: node.metadata.labels.clone().unwrap_or_default(),
        taints: spec.and_then(|spec| spec.taints.clone()).unwrap_or_default(),
        ..NodeFacts::default()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn labels_and_taints_are_relevant() {
        let node = |labels: Value, taints: Value, status: Value| -> Node {
            let node = json!({"metadata": {"name": "n", "labels": labels}, "spec": {"taints": taints}, "status": status});
            serde_json::from_value(node).unwrap()
        };
        let taint = json!([{"key": "k", "effect": "NoSchedule"}]);
        let table = NodeTable::default();
        let mut seen = Vec::new();
        for node in [
            Some(node(json!({}), json!([]), json!({}))),
            Some(node(json!({}), json!([]), json!({"allocatable": {"cpu": "1"}}))),
            Some(node(json!({"a": "b"}), json!([]), json!({}))),
            Some(node(json!({"a": "b"}), taint, json!({}))),
            None,
            Some(node(json!({}), json!([]), json!({}))),
        ] {
            seen.push(table.put(&"n".into(), node.as_ref()));
            assert_eq!(table.get("n").is_some(), node.is_some());
            assert_eq!(table.all().len(), usize::from(node.is_some()));
        }
        assert_eq!(seen, [true, false, true, true, false, true]);
    }
}
