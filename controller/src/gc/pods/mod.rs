//! Pod GC: every 20 s, removes pods that no other component would end. The steps and their order are upstream's.
//!
//! Polling is deliberate: the conditions (too many finished pods, nodes that stay missing) do not arrive as
//! events.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::{BoxFuture, join};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use orlop_client::api::Api;
use serde_json::json;

use crate::context::{Context, ControllerError};
use orlop_apimachinery::clock::Clock;
use orlop_client::client::{is_conflict, is_not_found};
use orlop_client::informer::{Informer, key_of};
use orlop_client::meta::is_terminating;
use orlop_client::names::{TAINT_OUT_OF_SERVICE, condition};
use orlop_client::packed_object::PackedObject;
use orlop_client::pods::{is_finished, node_name, phase};
use orlop_client::queue::WorkQueue;

/// Time between two rounds.
const PERIOD: Duration = Duration::from_secs(20);
/// The number of pods after which a round yields to other tasks.
const TURN: usize = 256;
/// How long a node must be missing before its pods count as orphaned.
const QUARANTINE: Duration = Duration::from_secs(40);

/// Why a pod was not removed; the next round tries again.
#[derive(Debug, thiserror::Error)]
pub enum PodGcError {
    /// The phase could not be written.
    #[error("cannot mark pod {key} as failed: {cause}")]
    Mark {
        /// The pod.
        key: String,
        /// Why.
        cause: kube::Error,
    },
    /// The deletion was refused.
    #[error("cannot delete pod {key}: {cause}")]
    Delete {
        /// The pod.
        key: String,
        /// Why.
        cause: kube::Error,
    },
}

/// A pod that a step may remove. Decoded only for its removal: very many pods may have finished.
#[derive(Debug)]
pub struct Candidate {
    kept: PackedObject<Pod>,
    node: Option<String>,
    is_living: bool,
    is_terminating: bool,
    is_evicted: bool,
    created: Option<Timestamp>,
}

impl Candidate {
    /// The candidate for a cached pod and its decoded form.
    pub fn of(kept: PackedObject<Pod>, pod: &Pod) -> Self {
        let reason = pod.status.as_ref().and_then(|status| status.reason.as_deref());
        Self {
            kept,
            node: node_name(pod).map(str::to_owned),
            is_living: is_living(pod),
            is_terminating: is_terminating(pod),
            is_evicted: phase(pod) == "Failed" && reason == Some("Evicted"),
            created: created(pod),
        }
    }

    /// `namespace/name`
    pub fn key(&self) -> &str {
        self.kept.key()
    }
}

/// Finished pods above the threshold: evicted pods first, then the oldest. A threshold of 0 or less disables the
/// limit.
pub fn surplus(pods: &[Candidate], threshold: i32) -> Vec<&Candidate> {
    let Ok(keep) = usize::try_from(threshold) else { return Vec::new() };
    if keep == 0 {
        return Vec::new();
    }
    let mut finished: Vec<&Candidate> = pods.iter().filter(|pod| !pod.is_living).collect();
    finished.sort_by(|a, b| {
        let place = |pod: &Candidate| (!pod.is_evicted, pod.created);
        place(a).cmp(&place(b)).then_with(|| a.key().cmp(b.key()))
    });
    finished.truncate(finished.len().saturating_sub(keep));
    finished
}

/// Whether the pod has not finished. Every phase other than the active ones counts as finished.
fn is_living(pod: &Pod) -> bool {
    matches!(phase(pod), "" | "Pending" | "Running" | "Unknown")
}

/// Whether a terminating pod is on a node that is not ready and tainted out-of-service.
pub fn is_stuck(pod: &Pod, node: Option<&Node>) -> bool {
    let Some(node) = node.filter(|_| is_terminating(pod)) else { return false };
    let ready = node.status.iter().flat_map(|s| s.conditions.iter().flatten());
    let ready = ready.into_iter().any(|c| c.type_ == "Ready" && c.status == "True");
    let taints = node.spec.iter().flat_map(|s| s.taints.iter().flatten());
    let out_of_service = taints.into_iter().any(|t| t.key == TAINT_OUT_OF_SERVICE);
    !ready && out_of_service
}

/// Whether a terminating pod was never assigned to a node, so that no kubelet will end it.
pub fn never_scheduled(pod: &Candidate) -> bool {
    pod.is_terminating && pod.node.is_none()
}

fn created(pod: &Pod) -> Option<Timestamp> {
    pod.metadata.creation_timestamp.as_ref().map(|t| t.0)
}

/// The controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        let this = PodGc {
            client: context.client.clone(),
            clock: context.clock,
            threshold: context.options.terminated_pod_gc_threshold,
            pods: context.informers.pods(),
            nodes: context.informers.nodes(),
            missing: WorkQueue::default(),
        };
        if !context.ready(join(this.pods.synced(), this.nodes.synced())).await {
            return Ok(());
        }
        loop {
            tokio::select! {
                () = context.shutdown.cancelled() => return Ok(()),
                () = this.round() => {}
            }
            tokio::select! {
                () = context.shutdown.cancelled() => return Ok(()),
                () = tokio::time::sleep(PERIOD) => {}
            }
        }
    })
}

struct PodGc {
    client: Client,
    clock: Clock,
    threshold: i32,
    pods: Informer<Pod>,
    nodes: Informer<Node>,
    /// Names of nodes that pods refer to and the cache lacks, in quarantine.
    missing: WorkQueue<String>,
}

impl PodGc {
    async fn round(&self) {
        let mut pods = Vec::new();
        for (number, kept) in self.pods.kept().into_iter().enumerate() {
            if number % TURN == TURN - 1 {
                tokio::task::yield_now().await;
            }
            let pod = kept.get();
            if self.may_go(&pod) {
                pods.push(Candidate::of(kept, &pod));
            }
        }
        for pod in surplus(&pods, self.threshold) {
            self.remove(&pod.kept.get(), None).await;
        }
        for candidate in pods.iter().filter(|pod| pod.is_terminating) {
            let node = candidate.node.as_deref().and_then(|name| self.nodes.get(name));
            let pod = candidate.kept.get();
            if is_stuck(&pod, node.as_deref()) {
                self.remove(&pod, None).await;
            }
            tokio::task::consume_budget().await;
        }
        let gone = self.gone_nodes(&pods).await;
        for pod in pods.iter().filter(|pod| pod.node.as_ref().is_some_and(|name| gone.contains(name))) {
            self.remove(&pod.kept.get(), Some(self.orphaned())).await;
        }
        for pod in pods.iter().filter(|pod| never_scheduled(pod)) {
            self.remove(&pod.kept.get(), None).await;
        }
    }

    /// Whether any step may remove the pod. Most pods are skipped here; they are decoded one at a time.
    fn may_go(&self, pod: &Pod) -> bool {
        let on_a_known_node = node_name(pod).is_none_or(|name| self.nodes.get_kept(name).is_some());
        !is_living(pod) || is_terminating(pod) || !on_a_known_node
    }

    /// Nodes that pods refer to, that were missing for the whole quarantine, and that the server does not know
    /// either.
    async fn gone_nodes(&self, pods: &[Candidate]) -> BTreeSet<String> {
        let named: BTreeSet<&str> = pods.iter().filter_map(|pod| pod.node.as_deref()).collect();
        for name in named.into_iter().filter(|name| self.nodes.get_kept(name).is_none()) {
            self.missing.add_after(name.to_owned(), QUARANTINE);
        }
        let api: Api<Node> = Api::all(self.client.clone());
        let mut gone = BTreeSet::new();
        while let Some(name) = self.missing.try_get() {
            self.missing.done(&name);
            if self.nodes.get(&name).is_some() {
                continue;
            }
            match api.get_metadata_opt(&name).await {
                Ok(None) => {
                    gone.insert(name);
                }
                Ok(Some(_)) => {}
                // Unknown: the pods stay, and the next round puts the node back into quarantine.
                Err(error) => tracing::warn!(node = name, %error, "cannot see whether the node exists"),
            }
        }
        gone
    }

    fn orphaned(&self) -> PodCondition {
        PodCondition {
            type_: condition::DISRUPTION_TARGET.to_owned(),
            status: "True".to_owned(),
            reason: Some(condition::DELETION_BY_POD_GC.to_owned()),
            message: Some("PodGC: node no longer exists".to_owned()),
            last_transition_time: Some(Time(
                Timestamp::from_second(self.clock.now().as_second()).unwrap_or(Timestamp::UNIX_EPOCH),
            )),
            ..PodCondition::default()
        }
    }

    async fn remove(&self, pod: &Pod, why: Option<PodCondition>) {
        match self.mark_and_delete(pod, why).await {
            Ok(()) => tracing::info!(pod = key_of(pod), "pod removed by the pod GC"),
            Err(error) => tracing::warn!(%error, "pod GC"),
        }
    }

    /// Two writes. After the first the pod is Failed and still exists; the next round finds it again and finishes.
    async fn mark_and_delete(&self, pod: &Pod, why: Option<PodCondition>) -> Result<(), PodGcError> {
        let key = key_of(pod);
        let (namespace, name) = orlop_client::informer::split_key(&key);
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        if !is_finished(pod) {
            let patch = failed_patch(pod, why);
            match api.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
                Ok(_) => {}
                Err(error) if is_not_found(&error) => return Ok(()),
                Err(cause) => return Err(PodGcError::Mark { key, cause }),
            }
        }
        let this_one = Preconditions { uid: pod.metadata.uid.clone(), resource_version: None };
        let parameters = DeleteParams::default().grace_period(0).preconditions(this_one);
        match api.delete(name, &parameters).await {
            Ok(_) => Ok(()),
            // Deleted, or replaced by another pod of the same name.
            Err(error) if is_not_found(&error) || is_conflict(&error) => Ok(()),
            Err(cause) => Err(PodGcError::Delete { key, cause }),
        }
    }
}

/// Phase Failed and the condition, conditional on the observed version: the list of conditions is replaced as a
/// whole.
fn failed_patch(pod: &Pod, why: Option<PodCondition>) -> serde_json::Value {
    let mut patch = json!({
        "metadata": {"uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version},
        "status": {"phase": "Failed"},
    });
    if let Some(why) = why {
        let known = pod.status.as_ref().and_then(|s| s.conditions.clone()).unwrap_or_default();
        let mut conditions: Vec<PodCondition> = known.into_iter().filter(|c| c.type_ != why.type_).collect();
        conditions.push(why);
        patch["status"]["conditions"] = json!(conditions);
    }
    patch
}

#[cfg(test)]
mod tests;
