//! Decides which DaemonSets a changed node concerns. A deleted node concerns none: the pod garbage collector deletes its
//! pods, and this queues their DaemonSets. Upstream: syncNodeUpdate.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Resource;
use orlop_client::informer::{Change, Informer, key_of};
use orlop_client::pods::INDEX_NODE;
use std::collections::HashSet;

use super::placement::{Fit, Placement, new_pod};
use crate::scheduler::cluster::NodeFacts;
use crate::workload::owned::controller_of;

/// Whether the change may concern DaemonSets. They depend on the labels and taints of a node.
pub fn is_relevant(change: &Change<Node>) -> bool {
    let Some(new) = change.new.as_deref() else { return false };
    let Some(old) = change.old().filter(|_| !change.replaced()) else { return true };
    let (old, new) = (NodeFacts::of(old), NodeFacts::of(new));
    old.labels != new.labels || old.taints != new.taints
}

/// Whether a DaemonSet must be synced because of a node. `has_pod`: a pod of it is assigned to the node.
fn must_sync(fit: Fit, has_pod: bool, misscheduled: i32) -> bool {
    match (fit, has_pod) {
        (Fit::Runs, false) | (Fit::Never, true) => true,
        // A misscheduled pod may be on a suitable node again.
        (Fit::Runs | Fit::Stays, true) => misscheduled > 0,
        (Fit::Stays | Fit::Never, false) => false,
    }
}

/// The keys of the DaemonSets that must be synced because of this node. `pods` needs the index [`INDEX_NODE`].
pub fn concerned(node: &Node, sets: &Informer<DaemonSet>, pods: &Informer<Pod>) -> Vec<String> {
    let facts = NodeFacts::of(node);
    let owner_key = |pod: &Pod| {
        let owner = controller_of(&pod.metadata).filter(|owner| owner.kind == DaemonSet::kind(&()))?;
        Some(format!("{}/{}", pod.metadata.namespace.as_deref().unwrap_or_default(), owner.name))
    };
    let with_pods: HashSet<String> =
        pods.each_by_index(INDEX_NODE, &facts.name).filter_map(|pod| owner_key(&pod)).collect();
    let must_sync = |set: &DaemonSet| {
        let pod = new_pod(set, "");
        let misscheduled = set.status.as_ref().map_or(0, |status| status.number_misscheduled);
        must_sync(Placement::of(&pod).on(&facts), with_pods.contains(&key_of(set)), misscheduled)
    };
    let all = sets.kept();
    all.iter().map(|kept| kept.get()).filter(|set| must_sync(set)).map(|set| key_of(set.as_ref())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
