//! Detects lost nodes, taints nodes, and evicts pods (upstream: pkg/controller/nodelifecycle and
//! pkg/controller/tainteviction).
//!
//! * [`health`] measures the time since a node's last heartbeat: its Lease or its status.
//! * [`wanted`] computes the desired conditions, taints and labels of a Node. [`zones`] limits the rate of
//!   evictions from lost nodes.
//! * [`known`] stores the state of both for all nodes; [`nodes`] is the controller that writes; [`pods`] marks
//!   pods of lost nodes.
//! * [`eviction`] is a separate controller: it deletes pods that do not tolerate a taint, after their toleration
//!   time.
//!
//! Each node has one timer, and no periodic scan covers all nodes. A node is declared lost only if the controller
//! ran and the server responded for the whole grace period: after a start, a pause of the process or an outage of
//! the server, every node's grace period starts again.

pub mod eviction;
pub mod health;
pub mod lifecycle;
pub mod node_states;
pub mod nodes;
pub mod pods;
pub mod pulse;
pub mod wanted;
pub mod zones;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::{BoxFuture, join3};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use orlop_client::api::Api;
use tokio::time::Instant;

use self::health::Grace;
use self::lifecycle::Lifecycle;
use self::node_states::{NodeStates, Wake};
use self::pulse::Pulse;
use self::zones::{EvictionRates, Zones};
use crate::context::{Context, ControllerError};
use orlop_client::informer::{Change, Informer, Registration};
use orlop_client::names::{COMPONENT_NODE, NAMESPACE_NODE_LEASE, controller};
use orlop_client::pods::{index_by_node, node_name};
use orlop_client::queue::WorkQueue;
use orlop_client::recorder::{EventType, reference};
use orlop_client::worker;

/// Number of nodes processed concurrently. Upstream: nodeUpdateWorkerSize.
const WORKERS: usize = 8;

/// Runs the node lifecycle controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        let options = &context.options;
        let grace =
            Grace { monitor: options.node_monitor_grace_period, startup: options.node_startup_grace_period };
        let pace = EvictionRates {
            rate: options.node_eviction_rate,
            secondary_rate: options.secondary_node_eviction_rate,
            large: options.large_cluster_size_threshold,
            threshold: options.unhealthy_zone_threshold,
        };
        let leases = Informer::<Lease>::new();
        let api = Api::namespaced(context.informers.client(), NAMESPACE_NODE_LEASE);
        let (running, end) = (leases.clone(), context.shutdown.clone());
        let following = tokio::spawn(async move { running.run(api, end).await });
        let this = Arc::new(Lifecycle {
            client: context.client.clone(),
            clock: context.clock,
            events: context.recorder(COMPONENT_NODE),
            nodes: context.informers.nodes(),
            pods: context.informers.pods(),
            leases,
            known: NodeStates::new(grace, Zones::new(pace)),
            pulse: Pulse::new(options.node_monitor_period),
            only_with_lease: !options.monitor_nodes_without_lease,
            queue: WorkQueue::new(options.rate_limit),
            started: AtomicBool::new(false),
        });
        index_by_node(&this.pods);
        let _registrations = register(&this);
        let synced = join3(this.nodes.synced(), this.pods.synced(), this.leases.synced());
        if context.ready(synced).await {
            this.known.forgive_all(Instant::now());
            this.pulse.beat(Instant::now());
            this.started.store(true, Ordering::Relaxed);
            let pulse = async {
                tokio::select! {
                    () = context.shutdown.cancelled() => {}
                    () = this.pulse.run() => {}
                }
            };
            let working = worker::run_until(
                &context.shutdown,
                &this.queue,
                WORKERS,
                context.syncs::<Node, _>(controller::NODE_LIFECYCLE),
                |name: String| {
                    let this = &this;
                    async move { this.sync(&name).await }
                },
            );
            tokio::join!(pulse, working);
        }
        following.abort();
        Ok(())
    })
}

/// Registers the handlers that queue the names of changed nodes.
fn register(this: &Arc<Lifecycle>) -> (Registration, Registration, Registration) {
    let (of_nodes, of_leases, of_pods) = (Arc::clone(this), Arc::clone(this), Arc::clone(this));
    (
        this.nodes.add_handler(move |change| node_changed(&of_nodes, change)),
        this.leases.add_handler(move |change| {
            let Some(lease) = &change.new else { return };
            let time = lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref()).map(|time| time.0);
            let name = lease.metadata.name.as_deref().unwrap_or_default();
            let is_first = !of_leases.known.has_renewed(name);
            // The first renewal starts a grace period that can expire.
            if of_leases.known.renewed(name, time, Instant::now()) && is_first {
                of_leases.queue.add(name.to_owned());
            }
        }),
        this.pods.add_handler(move |change| pod_changed(&of_pods, change)),
    )
}

fn node_changed(this: &Lifecycle, change: &Change<Node>) {
    let (name, now) = (&**change.key(), Instant::now());
    let wake = match &change.new {
        Some(node) => {
            let (is_new, wake) = this.known.node(name, node, now);
            // Nodes that existed before this controller started are not new.
            if is_new && this.started.load(Ordering::Relaxed) {
                tell(this, node, "RegisteredNode", format!("Registered Node {name} in Controller"));
            }
            wake
        }
        None => {
            if let Some(node) = change.old() {
                tell(this, node, "RemovingNode", format!("Removing Node {name} from Controller"));
            }
            this.known.gone(name, now)
        }
    };
    match wake {
        Wake::One => {}
        Wake::These(names) => names.into_iter().for_each(|name| this.queue.add(name)),
    }
    this.queue.add(name.to_owned());
}

fn tell(this: &Lifecycle, node: &Node, reason: &str, what: String) {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    this.events.event_for(reference(node), EventType::Normal, reason, format!("Node {name} event: {what}"));
}

/// A pod that is assigned to a node with unknown readiness must be marked like the node's other pods.
fn pod_changed(this: &Lifecycle, change: &Change<Pod>) {
    let Some(node) = change.new.as_deref().and_then(node_name) else { return };
    let came = || change.old().is_none_or(|old| node_name(old) != Some(node));
    if this.known.is_unknown(node) && came() {
        this.queue.add(node.to_owned());
    }
}
