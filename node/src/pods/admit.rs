//! Decides whether the node admits a pod that is bound to it (upstream: pkg/kubelet/lifecycle/predicate.go,
//! canAdmitPod). The scheduler makes the same checks, but not for a pod that was bound by hand or before the node
//! changed. Controllers handle taints.

use parking_lot::Mutex;
use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Node, Pod};
use orlop_volume::affinity::pod_accepts_node;

use super::facts::PodFailure;

/// Maximum number of volumes of a pod. The agent compares the volumes of all pods after each mount, and a pod can be as
/// large as a request.
const MAX_VOLUMES: usize = 500;

/// UIDs of the pods that the node has admitted and that have not ended.
#[derive(Default)]
pub(super) struct Admitted(Mutex<BTreeSet<String>>);

impl Admitted {
    /// Admits a pod that already runs, without any check.
    pub(super) fn keep(&self, uid: &str) {
        self.0.lock().insert(uid.to_owned());
    }

    /// Removes a pod that has ended.
    pub(super) fn remove(&self, uid: &str) {
        self.0.lock().remove(uid);
    }

    /// Admits a pod, if it fits.
    ///
    /// # Errors
    /// The pod does not fit; it fails with this reason.
    pub(super) fn admit(&self, pod: &Pod, node: &Node, max_pods: u32) -> Result<(), PodFailure> {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let mut admitted = self.0.lock();
        if admitted.contains(uid) {
            return Ok(());
        }
        fits(pod, node, admitted.len(), max_pods)?;
        admitted.insert(uid.to_owned());
        Ok(())
    }
}

/// Decides whether a node with `pods` pods admits another one. Pure.
fn fits(pod: &Pod, node: &Node, pods: usize, max_pods: u32) -> Result<(), PodFailure> {
    let verdict = |reason: &str, why: String| PodFailure {
        reason: reason.to_owned(),
        message: format!("Pod was rejected: {why}"),
    };
    if pods >= usize::try_from(max_pods).unwrap_or(usize::MAX) {
        let why = format!(
            "Node didn't have enough resource: pods, requested: 1, used: {pods}, capacity: {max_pods}"
        );
        return Err(verdict("OutOfpods", why));
    }
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()).count();
    if volumes > MAX_VOLUMES {
        let why =
            format!("it has {volumes} volumes, and a node mounts at most {MAX_VOLUMES} volumes of a pod");
        return Err(verdict("UnexpectedAdmissionError", why));
    }
    let labels = node.metadata.labels.clone().unwrap_or_default();
    if !pod_accepts_node(pod, &labels, node.metadata.name.as_deref().unwrap_or_default()) {
        let why = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector";
        return Err(verdict("NodeAffinity", why.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn pod(uid: &str, selector: serde_json::Value) -> Pod {
        serde_json::from_value(
            json!({"metadata": {"uid": uid}, "spec": {"containers": [], "nodeSelector": selector}}),
        )
        .unwrap()
    }

    #[test]
    fn pod_that_does_not_fit_is_rejected() {
        let node: Node =
            serde_json::from_value(json!({"metadata": {"name": "n", "labels": {"disk": "ssd"}}})).unwrap();
        let admitted = Admitted::default();
        admitted.keep("old");
        for (name, uid, selector, expected) in [
            ("other label", "a", json!({"disk": "hdd"}), Some("NodeAffinity")),
            ("fits", "b", json!({"disk": "ssd"}), None),
            ("the same again", "b", json!({"disk": "ssd"}), None),
            ("one too many", "c", json!({}), Some("OutOfpods")),
            ("runs already", "old", json!({"disk": "hdd"}), None),
        ] {
            let found = admitted.admit(&pod(uid, selector), &node, 2).err().map(|verdict| verdict.reason);
            assert_eq!(found.as_deref(), expected, "{name}");
        }
        let many = |volumes: usize| -> Pod {
            let volumes = vec![json!({"name": "v", "emptyDir": {}}); volumes];
            let spec = json!({"containers": [], "volumes": volumes});
            serde_json::from_value(json!({"metadata": {"uid": "many"}, "spec": spec})).unwrap()
        };
        let rejected = admitted.admit(&many(MAX_VOLUMES + 1), &node, 9).unwrap_err();
        assert_eq!(rejected.reason, "UnexpectedAdmissionError");
        assert!(rejected.message.contains("it has 501 volumes"), "{}", rejected.message);
        assert_eq!(admitted.admit(&many(MAX_VOLUMES), &node, 9), Ok(()));
        admitted.remove("many");
        admitted.remove("old");
        assert_eq!(admitted.admit(&pod("c", json!({})), &node, 2), Ok(()));
    }
}
