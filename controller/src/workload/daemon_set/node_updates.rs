//! Decides which DaemonSets a changed node concerns. A deleted node concerns none: the pod garbage collector deletes its
//! pods, and this queues their DaemonSets. Upstream: syncNodeUpdate.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Pod;
use kube::Resource;
use orlop_client::informer::Informer;
use orlop_client::pods::node_name;

use super::placement::Fit;
use crate::workload::owned::controller_of;

/// Name of the index of the pods of DaemonSets. Its values are those of [`on_node`].
pub const INDEX_ON_NODE: &str = "daemon-set-on-node";

/// Adds [`INDEX_ON_NODE`].
pub fn index_by_set_and_node(pods: &Informer<Pod>) {
    pods.add_index(INDEX_ON_NODE, |pod| value_of(pod).into_iter().collect());
}

fn value_of(pod: &Pod) -> Option<String> {
    let owner = controller_of(&pod.metadata).filter(|owner| owner.kind == DaemonSet::kind(&()))?;
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    Some(on_node(node_name(pod)?, &format!("{namespace}/{}", owner.name)))
}

/// The value of the pods on this node of the DaemonSet with this key.
pub fn on_node(node: &str, set: &str) -> String {
    [node, "/", set].concat()
}

/// Whether a DaemonSet must be synced because of a node. `has_pod`: a pod of it is assigned to the node.
pub fn must_sync(fit: Fit, has_pod: bool, misscheduled: i32) -> bool {
    match (fit, has_pod) {
        (Fit::Runs, false) | (Fit::Never, true) => true,
        // A misscheduled pod may be on a suitable node again.
        (Fit::Runs | Fit::Stays, true) => misscheduled > 0,
        (Fit::Stays | Fit::Never, false) => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_are_indexed_by_node_and_set() {
        let pod = |kind: &str, node: &str| -> Pod {
            let owner =
                json!({"apiVersion": "apps/v1", "kind": kind, "name": "d", "uid": "u", "controller": true});
            serde_json::from_value(
                json!({"metadata": {"namespace": "ns", "name": "p", "ownerReferences": [owner]},
                "spec": {"nodeName": node, "containers": []}}),
            )
            .unwrap()
        };
        let pods = Informer::new();
        index_by_set_and_node(&pods);
        for (kind, node, wanted) in
            [("DaemonSet", "a", true), ("ReplicaSet", "a", false), ("DaemonSet", "b", false)]
        {
            pods.apply(pod(kind, node));
            assert_eq!(pods.has_indexed(INDEX_ON_NODE, &on_node("a", "ns/d")), wanted, "{kind} {node}");
        }
    }

    #[test]
    fn node_concerns_sets_whose_pods_change() {
        // Name, suitability of the node, whether a pod is there, misscheduled pods, whether to sync.
        let table = [
            ("1 ctl-ds-node-selector: a pod is missing", Fit::Runs, false, 0, true),
            ("2 the pod is there", Fit::Runs, true, 0, false),
            ("3 the pod was misscheduled", Fit::Runs, true, 1, true),
            ("4 the pod stays", Fit::Stays, true, 0, false),
            ("5 no pod is created", Fit::Stays, false, 1, false),
            ("6 ctl-ds-node-selector: the pod is deleted", Fit::Never, true, 0, true),
            ("7 another node", Fit::Never, false, 1, false),
        ];
        for (name, fit, has_pod, misscheduled, wanted) in table {
            assert_eq!(must_sync(fit, has_pod, misscheduled), wanted, "{name}");
        }
    }
}
