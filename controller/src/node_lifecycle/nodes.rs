//! Sync of one node, step by step: the conditions of a lost node, then taints and labels, then pods. Every write
//! is conditional on the version that was read, and the watch queues the node again after the write.

use std::collections::BTreeMap;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use orlop_client::api::Api;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::health::Readiness;
use super::lifecycle::{Lifecycle, NodeError};
use super::node_states::NodeHealth;
use super::{pods, wanted};
use orlop_client::client::{is_not_found, status_of};
use orlop_client::names::NAMESPACE_NODE_LEASE;
use orlop_client::recorder::{EventType, reference};

impl Lifecycle {
    /// Syncs one node once.
    ///
    /// # Errors
    /// A request failed. Completed writes remain, and the next sync continues from there.
    pub(super) async fn sync(&self, name: &str) -> Result<(), NodeError> {
        let Some(node) = self.nodes.get(name) else { return Ok(()) };
        let now = Instant::now();
        if self.pulse.is_late(now) {
            tracing::info!("this process was paused: the grace period of every node starts again");
            self.known.forgive_all(now);
            self.pulse.beat(now);
        }
        match self.known.verdict(name, now) {
            NodeHealth::Fine(left) => self.queue.add_after(name.to_owned(), left),
            NodeHealth::Lost if self.is_exempt(name) => {}
            NodeHealth::Lost => {
                if let Some(conditions) = wanted::lost(&node, self.clock.now()) {
                    return self.declare_lost(name, &node, json!(conditions)).await;
                }
            }
        }
        if self.taint(name, &node, now).await? {
            return Ok(());
        }
        if pods::are_orphaned(&node) {
            pods::mark_not_ready(self, name).await?;
        }
        Ok(())
    }

    /// Whether the node is exempt: it has no Lease because it was created manually, and such nodes are never declared
    /// lost.
    fn is_exempt(&self, name: &str) -> bool {
        let has_lease = || self.leases.get_kept(&format!("{NAMESPACE_NODE_LEASE}/{name}")).is_some();
        self.only_with_lease && !self.known.has_renewed(name) && !has_lease()
    }

    /// Sets the conditions of a silent node to Unknown, unless the server has a newer Lease: the watch may be behind.
    async fn declare_lost(&self, name: &str, node: &Node, conditions: Value) -> Result<(), NodeError> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), NAMESPACE_NODE_LEASE);
        let lease = leases.get_opt(name).await.map_err(|cause| {
            self.unanswered(&cause);
            NodeError::Lease { name: name.to_owned(), cause }
        })?;
        let renewed = lease.and_then(|lease| lease.spec?.renew_time).map(|time| time.0);
        if self.known.renewed(name, renewed, Instant::now()) {
            self.queue.add(name.to_owned());
            return Ok(());
        }
        let patch = json!({"metadata": this_version(node), "status": {"conditions": conditions}});
        let api: Api<Node> = Api::all(self.client.clone());
        match api.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
            Ok(_) => {}
            Err(error) if is_not_found(&error) => return Ok(()),
            Err(cause) => {
                self.unanswered(&cause);
                return Err(NodeError::Conditions { name: name.to_owned(), cause });
            }
        }
        // If the process ends here, its successor finds the conditions and continues with taints and pods.
        tracing::warn!(node = name, "the node is lost: nothing was heard of it for the grace period");
        if Readiness::of(node) == Readiness::Ready {
            let message = format!("Node {name} status is now: NodeNotReady");
            self.events.event_for(reference(node), EventType::Normal, "NodeNotReady", message);
        }
        Ok(())
    }

    /// A server that does not respond has accepted no Lease renewals either.
    fn unanswered(&self, cause: &kube::Error) {
        if status_of(cause).is_none() {
            self.known.forgive_all(Instant::now());
        }
    }

    /// Updates taints and labels. Returns true if something was written; the watch then queues the node again.
    async fn taint(&self, name: &str, node: &Node, now: Instant) -> Result<bool, NodeError> {
        let permit = self.known.permit(name, wanted::awaits_eviction(node), now);
        if let Some(again) = permit.again {
            self.queue.add_after(name.to_owned(), again);
        }
        let taints = wanted::retainted(node, permit.eviction, self.clock.now());
        let labels = wanted::relabeled(node);
        if taints.is_none() && labels.is_empty() {
            return Ok(false);
        }
        let patch = spec_patch(node, taints.map(|taints| json!(taints)), &labels);
        let api: Api<Node> = Api::all(self.client.clone());
        match api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
            Ok(_) => Ok(true),
            Err(error) if is_not_found(&error) => Ok(true),
            Err(cause) => Err(NodeError::Taints { name: name.to_owned(), cause }),
        }
    }
}

fn this_version(node: &Node) -> Value {
    json!({"uid": node.metadata.uid, "resourceVersion": node.metadata.resource_version})
}

fn spec_patch(node: &Node, taints: Option<Value>, labels: &BTreeMap<String, String>) -> Value {
    let mut patch = json!({"metadata": this_version(node)});
    if let Some(taints) = taints {
        let none = taints.as_array().is_some_and(Vec::is_empty);
        patch["spec"] = json!({"taints": if none { Value::Null } else { taints }});
    }
    if !labels.is_empty() {
        patch["metadata"]["labels"] = json!(labels);
    }
    patch
}
