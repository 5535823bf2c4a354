//! Pods of a node that was lost are not ready: services and workloads stop counting on them long before they are driven off
//! (upstream: MarkPodsNotReady).

use k8s_openapi::api::core::v1::{Node, Pod, PodCondition};
use kube::api::{Patch, PatchParams};
use orlop_client::api::Api;
use serde_json::{Value, json};

use super::health::{Readiness, ready};
use super::lifecycle::{Lifecycle, NodeError};
use super::wanted::{STOPPED, whole_seconds};
use crate::workload::ready::is_ready;
use orlop_client::client::is_not_found;
use orlop_client::informer::{key_of, split_key};
use orlop_client::pods::INDEX_NODE;
use orlop_client::recorder::EventType;

/// The node has stopped to say how it is, so nobody speaks for its pods. One that never spoke does not have its pods marked: whoever made it
/// by hand speaks for them too.
pub fn are_orphaned(node: &Node) -> bool {
    let stopped = ready(node).and_then(|condition| condition.reason.as_deref()) == Some(STOPPED);
    stopped && Readiness::of(node) == Readiness::Unknown
}

/// Takes the readiness off every ready pod of the node. All are tried, the first failure is told.
///
/// # Errors
/// A pod could not be written; the next look at the node comes to it again.
pub(super) async fn mark_not_ready(this: &Lifecycle, node: &str) -> Result<(), NodeError> {
    let mut failed = None;
    for pod in this.pods.by_index(INDEX_NODE, node).iter().filter(|pod| is_ready(pod)) {
        let key = key_of(pod.as_ref());
        let (namespace, name) = split_key(&key);
        let api: Api<Pod> = Api::namespaced(this.client.clone(), namespace);
        let patch = unready(pod, this.clock.now());
        match api.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
            Ok(_) => this.events.event(pod.as_ref(), EventType::Warning, "NodeNotReady", "Node is not ready"),
            Err(error) if is_not_found(&error) => {}
            Err(cause) => failed = failed.or(Some(NodeError::Pod { key, cause })),
        }
    }
    failed.map_or(Ok(()), Err)
}

/// The condition Ready is False, for exactly the version that was looked at: the list of conditions is replaced as a whole.
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
