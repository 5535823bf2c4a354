//! The state of the controller of nodes, and its errors.

use std::sync::atomic::AtomicBool;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;

use super::known::Known;
use super::pulse::Pulse;
use orlop_apimachinery::clock::Clock;
use orlop_client::informer::Informer;
use orlop_client::queue::WorkQueue;
use orlop_client::recorder::Recorder;

/// What could not be done for a node; the queue tries again.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// Its Lease cannot be read, so nobody knows whether it is lost.
    #[error("cannot read the Lease of node {name}: {cause}")]
    Lease {
        /// The node.
        name: String,
        /// Why.
        cause: kube::Error,
    },
    /// Its conditions cannot be written.
    #[error("cannot write the conditions of node {name}: {cause}")]
    Conditions {
        /// The node.
        name: String,
        /// Why.
        cause: kube::Error,
    },
    /// Its taints and labels cannot be written.
    #[error("cannot write the taints and labels of node {name}: {cause}")]
    Taints {
        /// The node.
        name: String,
        /// Why.
        cause: kube::Error,
    },
    /// Some of its pods are not marked.
    #[error("cannot mark pod {key} of a lost node: {cause}")]
    Pod {
        /// The pod.
        key: String,
        /// Why.
        cause: kube::Error,
    },
}

/// The controller of nodes.
pub struct Lifecycle {
    pub(super) client: Client,
    pub(super) clock: Clock,
    pub(super) events: Recorder,
    pub(super) nodes: Informer<Node>,
    pub(super) pods: Informer<Pod>,
    /// Those of nodes alone.
    pub(super) leases: Informer<Lease>,
    pub(super) known: Known,
    pub(super) pulse: Pulse,
    /// Nodes without a Lease are never declared lost.
    pub(super) only_with_lease: bool,
    pub(super) queue: WorkQueue<String>,
    /// What was there at the start is known: what comes now is new.
    pub(super) started: AtomicBool,
}
