//! The scheduler's data of a pod on a node, or about to be on one: its resources there, and its constraints on other pods.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::amounts::{self, Amounts};
use super::host_ports::HostPorts;
use super::inline_disks::InlineDisks;
use super::terms::{Labels, Term};
use orlop_client::informer::key_of;
use orlop_client::pods;

/// The required affinity terms, the required anti-affinity terms and the spread constraints that a pod may have, each.
pub const MAX_TERMS: usize = 100;

/// Upstream's scheduler name; pods with another one are ignored.
pub const SCHEDULER_NAME: &str = "default-scheduler";

/// The properties of a pod that matter to other pods.
#[derive(Clone, Debug)]
pub struct PodFacts {
    /// `namespace/name`.
    pub key: Arc<str>,
    /// Its namespace.
    pub namespace: String,
    /// Its UID.
    pub uid: String,
    /// Its labels.
    pub labels: Labels,
    /// Higher priorities are scheduled first.
    pub priority: i32,
    /// It is being deleted.
    pub terminating: bool,
    /// Its resource requests.
    pub requests: Amounts,
    /// Its host ports.
    pub ports: HostPorts,
    /// Keys of the claims that it names.
    pub claims: Vec<String>,
    /// Its inline disks.
    pub disks: InlineDisks,
    /// Its required affinity terms.
    pub affinity: Vec<Term>,
    /// Its required anti-affinity terms.
    pub anti_affinity: Vec<Term>,
}

impl PodFacts {
    /// Reads a pod.
    pub fn of(pod: &Pod) -> Self {
        let spec = pod.spec.as_ref();
        let namespace = pod.metadata.namespace.clone().unwrap_or_default();
        let labels = pod.metadata.labels.clone().unwrap_or_default();
        let affinity = spec.and_then(|spec| spec.affinity.as_ref());
        let with = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
        let with = with.and_then(|with| with.required_during_scheduling_ignored_during_execution.as_ref());
        let apart = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
        let apart =
            apart.and_then(|apart| apart.required_during_scheduling_ignored_during_execution.as_ref());
        let read = |term| Term::read(term, &namespace, &labels);
        Self {
            key: key_of(pod).into(),
            uid: pod.metadata.uid.clone().unwrap_or_default(),
            priority: spec.and_then(|spec| spec.priority).unwrap_or(0),
            terminating: pod.metadata.deletion_timestamp.is_some(),
            requests: amounts::requests_of(pod),
            ports: HostPorts::of(pod),
            claims: pods::claim_keys(pod),
            disks: InlineDisks::of(pod),
            // A pod with more terms is not scheduled here. If it was placed by others, the rest is ignored: each decision about
            // any pod reads the anti-affinity of all placed pods.
            affinity: with.into_iter().flatten().take(MAX_TERMS + 1).map(read).collect(),
            anti_affinity: apart.into_iter().flatten().take(MAX_TERMS + 1).map(read).collect(),
            namespace,
            labels,
        }
    }
}

/// Whether the pod waits for this scheduler: it has no node, names no other scheduler, is neither finished nor being deleted,
/// and has no scheduling gates.
pub fn waits_for_us(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let ours = spec.scheduler_name.as_deref().is_none_or(|name| name == SCHEDULER_NAME);
    let gated = spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty());
    ours && !gated
        && pods::node_name(pod).is_none()
        && pod.metadata.deletion_timestamp.is_none()
        && !pods::is_finished(pod)
}
