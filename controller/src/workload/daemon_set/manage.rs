//! Decides which pods of a DaemonSet are missing, and which are surplus, finished or on the wrong node. Pure. Upstream:
//! podsShouldBeOnNode, getUnscheduledPodsWithoutNode.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Pod;
use tokio::time::Instant;

use super::backoff::FailedPods;
use super::placement::{Fit, target_node};
use super::strategy::{is_updated, min_ready_seconds, surge};
use crate::workload::ready::{is_available, is_ready};
use orlop_client::meta::is_terminating;
use orlop_client::names::reason;
use orlop_client::pods::{is_finished, node_name, phase};
use orlop_client::recorder::EventType;

/// The maximum number of pods that one sync creates, and that it deletes. Upstream: BurstReplicas.
pub const BURST: usize = 250;

/// The pods of a DaemonSet by node.
pub type PodsByNode = BTreeMap<String, Vec<Arc<Pod>>>;

/// The observed state from which the controller decides.
#[derive(Debug, Clone, Copy)]
pub struct DaemonInput<'a> {
    /// The DaemonSet.
    pub set: &'a DaemonSet,
    /// The hash of the revision of its template.
    pub hash: &'a str,
    /// All nodes.
    pub nodes: &'a BTreeMap<String, Fit>,
    /// The pods of the DaemonSet, see [`by_node`].
    pub pods: &'a PodsByNode,
    /// The current time.
    pub now: Timestamp,
}

/// Changes of pods.
#[derive(Debug, Default)]
pub struct PodChanges {
    /// The nodes on which a pod is created.
    pub create: Vec<String>,
    /// The pods that are deleted.
    pub delete: Vec<Arc<Pod>>,
}

impl PodChanges {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.create.is_empty() && self.delete.is_empty()
    }
}

/// An event to record.
#[derive(Debug, PartialEq, Eq)]
pub struct FinishedPodEvent {
    /// Its type.
    pub type_: EventType,
    /// Its reason.
    pub reason: &'static str,
    /// Its message.
    pub message: String,
}

/// The decision.
#[derive(Debug, Default)]
pub struct ManagePlan {
    /// The changes of pods.
    pub changes: PodChanges,
    /// Events about finished pods.
    pub events: Vec<FinishedPodEvent>,
    /// The time after which the next failed pod can be deleted.
    pub wait: Option<Duration>,
}

/// Groups pods by their node. Finished pods that are being deleted do not count: another component deletes them. Pods
/// without any node do not count either.
pub fn by_node(pods: &[Arc<Pod>]) -> PodsByNode {
    let mut found = PodsByNode::new();
    for pod in pods.iter().filter(|pod| !(is_finished(pod) && is_terminating(pod.as_ref()))) {
        if let Some(node) = target_node(pod) {
            found.entry(node.to_owned()).or_default().push(Arc::clone(pod));
        }
    }
    found
}

/// Sorts pods: those with an assigned node first, then by age, then by name.
pub fn oldest_first(pods: &mut [Arc<Pod>]) {
    pods.sort_by(|a, b| {
        let rank = |pod: &Pod| {
            let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
            (node_name(pod).is_none(), created)
        };
        rank(a).cmp(&rank(b)).then_with(|| a.metadata.name.cmp(&b.metadata.name))
    });
}

/// Decides the changes. Records the deletions of failed pods in `failed`; `at` is the current time.
pub fn manage(input: &DaemonInput<'_>, failed: &mut FailedPods, at: Instant) -> ManagePlan {
    let mut plan = ManagePlan::default();
    let surges = surge(input.set, 1) > 0;
    for (node, fit) in input.nodes {
        let pods = input.pods.get(node).map(Vec::as_slice).unwrap_or_default();
        match fit {
            Fit::Runs if pods.is_empty() => plan.changes.create.push(node.clone()),
            Fit::Never => delete_all(pods, &mut plan.changes),
            Fit::Runs | Fit::Stays => {
                let mut running = without_finished(input, node, pods, failed, at, &mut plan);
                oldest_first(&mut running);
                match surges {
                    true if running.is_empty() && *fit == Fit::Runs => plan.changes.create.push(node.clone()),
                    true => plan.changes.delete.extend(surplus_of_surge(input, running)),
                    false => plan.changes.delete.extend(running.into_iter().skip(1)),
                }
            }
        }
    }
    // The scheduler never assigns these pods, and the pod garbage collector deletes only assigned ones.
    let strays = input.pods.iter().filter(|(node, _)| !input.nodes.contains_key(*node));
    for (_, pods) in strays {
        let unassigned: Vec<_> = pods.iter().filter(|pod| node_name(pod).is_none()).cloned().collect();
        delete_all(&unassigned, &mut plan.changes);
    }
    plan
}

fn delete_all(pods: &[Arc<Pod>], changes: &mut PodChanges) {
    changes.delete.extend(pods.iter().filter(|pod| !is_terminating(pod.as_ref())).cloned());
}

/// The pods of a node that are neither being deleted nor finished. Finished pods are deleted, so that the next sync
/// replaces them. This sync reports and records only deletions that it performs; the next one continues.
fn without_finished(
    input: &DaemonInput<'_>,
    node: &str,
    pods: &[Arc<Pod>],
    failed: &mut FailedPods,
    at: Instant,
    plan: &mut ManagePlan,
) -> Vec<Arc<Pod>> {
    let mut running = Vec::new();
    for pod in pods.iter().filter(|pod| !is_terminating(pod.as_ref())) {
        let named = |field: &Option<String>| field.clone().unwrap_or_default();
        let key = format!("{}/{}", named(&pod.metadata.namespace), named(&pod.metadata.name));
        let is_full = plan.changes.delete.len() >= BURST;
        let event = match phase(pod) {
            "Failed" | "Succeeded" if is_full => continue,
            "Failed" => {
                // A kubelet may reject every pod, so the replacements must not follow each other without a delay.
                if let Err(wait) = failed.delete(&backoff_key(input.set, node), at) {
                    plan.wait = Some(plan.wait.map_or(wait, |known| known.min(wait)));
                    continue;
                }
                FinishedPodEvent {
                    type_: EventType::Warning,
                    reason: reason::FAILED_DAEMON_POD,
                    message: format!("Found failed daemon pod {key} on node {node}, will try to kill it"),
                }
            }
            "Succeeded" => FinishedPodEvent {
                type_: EventType::Normal,
                reason: reason::SUCCEEDED_DAEMON_POD,
                message: format!("Found succeeded daemon pod {key} on node {node}, will try to delete it"),
            },
            _ => {
                running.push(Arc::clone(pod));
                continue;
            }
        };
        plan.events.push(event);
        plan.changes.delete.push(Arc::clone(pod));
    }
    running
}

/// A change of the DaemonSet starts with the shortest delay.
fn backoff_key(set: &DaemonSet, node: &str) -> String {
    let observed = set.status.as_ref().and_then(|status| status.observed_generation).unwrap_or(0);
    format!("{}/{observed}/{node}", set.metadata.uid.as_deref().unwrap_or_default())
}

/// With surge, a node may have two pods: one that is ready and of an older template, and its replacement until that is
/// available. Returns the other ones.
fn surplus_of_surge(input: &DaemonInput<'_>, running: Vec<Arc<Pod>>) -> Vec<Arc<Pod>> {
    if running.len() <= 1 {
        return Vec::new();
    }
    let (mut new, mut old, mut surplus) = (None, None, Vec::new());
    for pod in running {
        let first = if is_updated(&pod, input.hash) { &mut new } else { &mut old };
        match first {
            Some(_) => surplus.push(pod),
            None => *first = Some(pod),
        }
    }
    if let (Some(new), Some(old)) = (new, old) {
        let is_replaced = is_available(&new, min_ready_seconds(input.set), input.now);
        if is_replaced || !is_ready(&old) {
            surplus.push(old);
        }
    }
    surplus
}
