//! State and errors of the node lifecycle controller.

use std::sync::atomic::AtomicBool;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;

use super::node_states::NodeStates;
use super::pulse::Pulse;
use orlop_apimachinery::clock::Clock;
use orlop_client::informer::Informer;
use orlop_client::queue::WorkQueue;
use orlop_client::recorder::Recorder;

/// Why the sync of a node failed; the queue retries.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The node's Lease cannot be read, so it is unknown whether the node is lost.
    #[error("cannot read the Lease of node {name}: {cause}")]
    Lease {
        /// The node.
        name: String,
        /// The API error.
        cause: kube::Error,
    },
    /// The node's conditions cannot be written.
    #[error("cannot write the conditions of node {name}: {cause}")]
    Conditions {
        /// The node.
        name: String,
        /// The API error.
        cause: kube::Error,
    },
    /// The node's taints and labels cannot be written.
    #[error("cannot write the taints and labels of node {name}: {cause}")]
    Taints {
        /// The node.
        name: String,
        /// The API error.
        cause: kube::Error,
    },
    /// Some pods of the node could not be marked as not ready.
    #[error("cannot mark pod {key} of a lost node: {cause}")]
    Pod {
        /// The pod.
        key: String,
        /// The API error.
        cause: kube::Error,
    },
}

/// The node lifecycle controller.
pub struct Lifecycle {
    pub(super) client: Client,
    pub(super) clock: Clock,
    pub(super) events: Recorder,
    pub(super) nodes: Informer<Node>,
    pub(super) pods: Informer<Pod>,
    /// Leases of nodes only.
    pub(super) leases: Informer<Lease>,
    pub(super) known: NodeStates,
    pub(super) pulse: Pulse,
    /// Whether nodes without a Lease are never declared lost.
    pub(super) only_with_lease: bool,
    pub(super) queue: WorkQueue<String>,
    /// Whether the initial nodes are known: nodes added later are new.
    pub(super) started: AtomicBool,
}
