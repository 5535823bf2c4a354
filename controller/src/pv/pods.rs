//! The relation of pods to claims and volumes: the pods that a delayed claim waits for, and those that still use
//! a volume. Pure.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use orlop_client::names::reason;
use orlop_client::pods::{is_terminated, node_name};
use orlop_volume::object;

/// Reason and message of the event on a claim whose class waits for a pod. `pods` are those that use the claim.
// Tests: OWN-WFFC-1, OWN-WFFC-2, OWN-WFFC-3, OWN-WFFC-4, OWN-WFFC-10
pub fn what_it_waits_for(pods: impl IntoIterator<Item = Arc<Pod>>) -> (&'static str, String) {
    let unscheduled: Vec<String> = pods
        .into_iter()
        .filter(|pod| !is_terminated(pod) && node_name(pod).is_none())
        .map(|pod| object::name(&pod.metadata).to_owned())
        .collect();
    let message = match unscheduled.as_slice() {
        [] => {
            let message = "waiting for first consumer to be created before binding".to_owned();
            return (reason::WAIT_FOR_FIRST_CONSUMER, message);
        }
        [one] => format!("waiting for pod {one} to be scheduled"),
        several => format!("waiting for pods {} to be scheduled", several.join(",")),
    };
    (reason::WAIT_FOR_POD_SCHEDULED, message)
}

/// Whether a change of a pod is relevant to its claims and volumes: it got a node, or it ended. Its volumes never change.
pub fn matters(old: &Pod, new: &Pod) -> bool {
    node_name(old) != node_name(new) || is_terminated(old) != is_terminated(new)
}

/// `namespace/name` of the pods that have not finished, sorted: they may still write to the volume.
// Tests: PV-6-11, PV-6-12, OWN-REC-19
pub fn users(pods: impl IntoIterator<Item = Arc<Pod>>) -> Vec<String> {
    let mut keys: Vec<String> = pods
        .into_iter()
        .filter(|pod| !is_terminated(pod))
        .map(|pod| orlop_client::informer::key_of(pod.as_ref()))
        .collect();
    keys.sort();
    keys
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn only_node_and_end_of_a_pod_matter() {
        let pod = |node: Value, status: Value| -> Pod {
            let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [], "nodeName": node}, "status": status});
            serde_json::from_value(pod).unwrap()
        };
        let running = || pod(json!("n"), json!({"phase": "Running"}));
        let table = [
            ("placed", pod(json!(null), json!({})), running(), true),
            ("ended", running(), pod(json!("n"), json!({"phase": "Succeeded"})), true),
            ("started", pod(json!("n"), json!({"phase": "Pending"})), running(), false),
            ("reported", running(), pod(json!("n"), json!({"phase": "Running", "podIP": "10.0.0.1"})), false),
        ];
        for (name, old, new, wanted) in table {
            assert_eq!(matters(&old, &new), wanted, "{name}");
        }
    }
}
