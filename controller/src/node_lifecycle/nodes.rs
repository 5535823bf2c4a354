//! Looks at one node and does what has to be done, one thing after the other: what is lost is declared lost, then taints and labels,
//! then its pods. Every write is made for the version that was looked at, and the watch brings the node here again after it.

use std::collections::BTreeMap;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use orlop_client::api::Api;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::health::Readiness;
use super::known::NodeHealth;
use super::lifecycle::{Lifecycle, NodeError};
use super::{pods, wanted};
use orlop_client::client::{is_not_found, status_of};
use orlop_client::names::NAMESPACE_NODE_LEASE;
use orlop_client::recorder::{EventType, reference};

impl Lifecycle {
    /// One look at one node.
    ///
    /// # Errors
    /// A request failed. What was written holds, and the next look goes on from there.
    pub(super) async fn sync(&self, name: &str) -> Result<(), NodeError> {
        let Some(node) = self.nodes.get(name) else { return Ok(()) };
        let now = Instant::now();
        if self.pulse.is_late(now) {
            tracing::info!("this process stood still for a while: every node gets its whole time again");
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

    /// It is made by hand, and such nodes are left alone.
    fn is_exempt(&self, name: &str) -> bool {
        let has_lease = || self.leases.get_kept(&format!("{NAMESPACE_NODE_LEASE}/{name}")).is_some();
        self.only_with_lease && !self.known.has_renewed(name) && !has_lease()
    }

    /// Writes that nothing is known of a node, if the server itself has heard nothing either: the watch may be behind.
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
        // If the process ends here, the next one finds the conditions and goes on with taints and pods.
        tracing::warn!(node = name, "the node is lost: nothing was heard of it for the grace period");
        if Readiness::of(node) == Readiness::Ready {
            let message = format!("Node {name} status is now: NodeNotReady");
            self.events.event_for(reference(node), EventType::Normal, "NodeNotReady", message);
        }
        Ok(())
    }

    /// A server that does not answer has taken no Lease either.
    fn unanswered(&self, cause: &kube::Error) {
        if status_of(cause).is_none() {
            self.known.forgive_all(Instant::now());
        }
    }

    /// Brings taints and labels into line. True if something was written, and the watch will bring the node here again.
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
