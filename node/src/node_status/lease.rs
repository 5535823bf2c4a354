//! The Lease of a node: its heartbeat, small enough for a write every ten seconds (upstream:
//! component-helpers/apimachinery/lease, pkg/kubelet/nodelease).

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, OwnerReference};
use kube::Client;
use kube::api::PostParams;
use kube::core::ObjectMeta;
use orlop_apimachinery::clock::{Backoff, Clock};
use orlop_client::api::Api;
use orlop_client::client::{Lines, is_already_exists, is_conflict, is_not_found};
use orlop_client::names::NAMESPACE_NODE_LEASE;
use tokio::sync::watch;

use super::error::NodeStatusError;

/// The number of immediate retries after a conflict.
const TRIES: u32 = 5;

/// The next version of the Lease. Its owner reference deletes it with the Node.
fn renewal(base: Option<&Lease>, name: &str, node_uid: &str, lasts: Duration, now: Timestamp) -> Lease {
    let seconds = i32::try_from(lasts.as_secs()).unwrap_or(i32::MAX).max(1);
    let mut lease = base.cloned().unwrap_or_else(|| Lease {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(NAMESPACE_NODE_LEASE.to_owned()),
            ..ObjectMeta::default()
        },
        spec: None,
    });
    lease.metadata.owner_references = Some(vec![OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: name.to_owned(),
        uid: node_uid.to_owned(),
        ..OwnerReference::default()
    }]);
    let spec: &mut LeaseSpec = lease.spec.get_or_insert_default();
    spec.holder_identity = Some(name.to_owned());
    spec.lease_duration_seconds = Some(seconds);
    spec.renew_time = Some(MicroTime(now));
    lease
}

/// Renews the Lease of one node.
pub(super) struct LeaseController {
    name: String,
    api: Api<Lease>,
    lasts: Duration,
    clock: Clock,
    /// The requests and watches that were started while the server may have been unreachable.
    lines: Lines,
    /// The Lease as last written. It has no other writer, so it is not read before each renewal.
    latest: Option<Lease>,
}

impl LeaseController {
    pub(super) fn new(client: Client, name: &str, lasts: Duration, clock: Clock, lines: Lines) -> Self {
        let api = Api::namespaced(client, NAMESPACE_NODE_LEASE);
        Self { name: name.to_owned(), api, lasts, clock, lines, latest: None }
    }

    /// Renews four times per duration while the Node exists; ends when the future is dropped.
    pub(super) async fn run(mut self, mut node: watch::Receiver<Option<Arc<Node>>>) {
        let period = self.lasts / 4;
        let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(7).min(period));
        let mut failures = 0_u32;
        loop {
            let uid = node.borrow_and_update().as_ref().and_then(|node| node.metadata.uid.clone());
            let Some(uid) = uid else {
                self.latest = None;
                if node.changed().await.is_err() {
                    return;
                }
                continue;
            };
            // A request that gets no answer is retried over another connection.
            let outcome = tokio::time::timeout(period, self.renew(&uid)).await;
            let outcome = outcome.unwrap_or(Err(NodeStatusError::NoAnswer { what: "renew the Lease" }));
            let pause = match outcome {
                Ok(()) => {
                    if failures > 0 {
                        tracing::info!(failures, "the Lease of this node is renewed again");
                        // Open watches may hang on a dead connection (upstream's kubelet also closes all connections after failures).
                        self.lines.cut();
                    }
                    failures = 0;
                    backoff.reset();
                    // Jitter, so that nodes that started together spread out.
                    period.mul_f64(1.0 + 0.04 * rand::random::<f64>())
                }
                Err(error) => {
                    failures = failures.saturating_add(1);
                    if failures == 1 {
                        tracing::warn!(%error, "the Lease of this node is not renewed, will be tried until it is");
                    }
                    self.latest = None;
                    backoff.advance()
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    async fn renew(&mut self, uid: &str) -> Result<(), NodeStatusError> {
        let failed = |cause| NodeStatusError::Request { what: "renew the Lease", cause };
        let mut result = Ok(());
        for _ in 0..TRIES {
            let base = match self.latest.take() {
                Some(lease) => Some(lease),
                None => self.api.get_opt(&self.name).await.map_err(failed)?,
            };
            let lease = renewal(base.as_ref(), &self.name, uid, self.lasts, self.clock.now());
            let written = match base {
                Some(_) => self.api.replace(&self.name, &PostParams::default(), &lease).await,
                None => self.api.create(&PostParams::default(), &lease).await,
            };
            match written {
                Ok(lease) => {
                    self.latest = Some(lease);
                    return Ok(());
                }
                // Another client wrote, created or deleted it: it is read again.
                Err(cause) if is_conflict(&cause) || is_already_exists(&cause) || is_not_found(&cause) => {
                    result = Err(failed(cause));
                }
                Err(cause) => return Err(failed(cause)),
            }
        }
        result
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn lease_is_created_or_renewed() {
        let now = "2026-01-01T00:00:00.25Z".parse().unwrap();
        let new = renewal(None, "n", "u", Duration::from_secs(40), now);
        let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]);
        assert_eq!(
            json!(new.metadata),
            json!({"name": "n", "namespace": "kube-node-lease", "ownerReferences": owner})
        );
        let spec = json!(new.spec);
        assert_eq!((&spec["holderIdentity"], &spec["leaseDurationSeconds"]), (&json!("n"), &json!(40)));
        assert_eq!(new.spec.as_ref().unwrap().renew_time, Some(MicroTime(now)));
        let base = Lease {
            metadata: ObjectMeta { resource_version: Some("7".into()), ..new.metadata.clone() },
            spec: Some(LeaseSpec { lease_transitions: Some(3), ..LeaseSpec::default() }),
        };
        let next = renewal(Some(&base), "n", "another", Duration::from_millis(1), now);
        assert_eq!(next.metadata.resource_version.as_deref(), Some("7"));
        assert_eq!(next.metadata.owner_references.unwrap()[0].uid, "another");
        let spec = next.spec.unwrap();
        assert_eq!((spec.lease_transitions, spec.lease_duration_seconds), (Some(3), Some(1)));
    }
}
