//! Readiness of pods on a lost node: marks them as not ready, so that services and workloads stop counting them
//! long before they are evicted (upstream: MarkPodsNotReady).

use k8s_openapi::api::core::v1::{Node, Pod, PodCondition};
use kube::api::{Patch, PatchParams};
use orlop_client::api::Api;
use serde_json::{Value, json};

use super::health::{Readiness, ready};
use super::lifecycle::{Lifecycle, NodeError};
use super::wanted::STOPPED;
use crate::workload::ready::is_ready;
use orlop_client::client::is_not_found;
use orlop_client::informer::{key_of, split_key};
use orlop_client::meta::whole_seconds;
use orlop_client::pods::INDEX_NODE;
use orlop_client::recorder::EventType;

/// Whether the node has stopped reporting its status, and with it that of its pods. If a node never reported, its
/// pods are not marked: the creator of such a manual node reports for its pods too.
pub fn are_orphaned(node: &Node) -> bool {
    let stopped = ready(node).and_then(|condition| condition.reason.as_deref()) == Some(STOPPED);
    stopped && Readiness::of(node) == Readiness::Unknown
}

/// Marks every ready pod of the node as not ready. Tries all pods and returns the first error.
///
/// # Errors
/// A pod could not be written; the next sync of the node retries it.
pub(super) async fn mark_not_ready(this: &Lifecycle, node: &str) -> Result<(), NodeError> {
    let mut failed = None;
    for pod in this.pods.each_by_index(INDEX_NODE, node).filter(|pod| is_ready(pod)) {
        let key = key_of(pod.as_ref());
        let (namespace, name) = split_key(&key);
        let api: Api<Pod> = Api::namespaced(this.client.clone(), namespace);
        let patch = unready(&pod, this.clock.now());
        match api.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
            Ok(_) => this.events.event(pod.as_ref(), EventType::Warning, "NodeNotReady", "Node is not ready"),
            Err(error) if is_not_found(&error) => {}
            Err(cause) => failed = failed.or(Some(NodeError::Pod { key, cause })),
        }
    }
    failed.map_or(Ok(()), Err)
}

/// Sets the Ready condition to False, only for the version that was read: the patch replaces the whole list of
/// conditions.
fn unready(pod: &Pod, now: jiff::Timestamp) -> Value {
    let mut conditions: Vec<PodCondition> =
        pod.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    for condition in conditions.iter_mut().filter(|condition| condition.type_ == "Ready") {
        condition.status = "False".to_owned();
        condition.last_transition_time = Some(whole_seconds(now));
    }
    json!({
        "metadata": {"uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version},
        "status": {"conditions": conditions},
    })
}
