//! Publishes the machine: the Node, its status and its Lease (upstream: pkg/kubelet/kubelet_node_status.go,
//! pkg/kubelet/nodestatus, pkg/kubelet/nodelease).
//!
//! * [`machine`] reads the machine, [`address`] detects its address; [`conditions`] (with the thresholds of
//!   [`eviction`](crate::eviction)) and [`node_object`] compute the objects to write, and are pure.
//! * `lease` renews the Lease. This file creates the Node, watches it, and writes its status: immediately when a
//!   change concerns other components, otherwise when the machine has changed, and at least every five minutes.
//!
//! This module implements the node's part of the attach/detach handshake: it writes the volumes in use, and
//! passes every version of the Node from the server to the volume manager, with the volumes that this version
//! lists as in use (I7). A Node that is deleted while the agent runs is not created again, as with the kubelet:
//! the agent logs it, continues with the cached Node, and registers again at its next start. The Node stays when
//! the agent ends.

pub mod address;
pub mod conditions;
mod error;
mod lease;
pub mod machine;
pub mod node_object;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, ObjectReference};
use kube::Client;
use kube::api::{Patch, PatchParams, PostParams};
use orlop_apimachinery::clock::{Backoff, Clock};
use orlop_client::api::Api;
use orlop_client::client::{Lines, is_already_exists, is_conflict, is_not_found};
use orlop_client::informer::Informer;
use orlop_client::recorder::{EventType, Recorder};
use orlop_client::watcher::Selection;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::conditions::{PressureSignals, Pressures};
pub use self::error::NodeStatusError;
use self::lease::LeaseController;
use self::machine::Machine;
use self::node_object::NodeInfo;
use crate::config::NodeConfig;
use orlop_volume::crash_points;

/// The longest interval between two writes of the status. Upstream: nodeStatusReportFrequency.
const REPORT_EVERY: Duration = Duration::from_secs(300);
/// The number of immediate attempts to write the status. Upstream: nodeStatusUpdateRetry.
const TRIES: u32 = 5;
/// The time limit for reading the machine: its disk may hang.
const READ_WITHIN: Duration = Duration::from_secs(5);

/// Called with every version of the node's own Node, in order, and with the volumes that this version lists as in
/// use.
pub type NodeHandler = Arc<dyn Fn(&Node, &BTreeSet<String>) + Send + Sync>;

/// The inputs of node registration.
pub struct Inputs {
    /// Settings.
    pub config: Arc<NodeConfig>,
    /// Client of the API server.
    pub client: Client,
    /// The requests and watches of the client, cancelled when the server is reachable again after an outage.
    pub lines: Lines,
    /// Host and port of the API server, used to detect the node's own address; none when the server runs in this
    /// process.
    pub server: Option<(String, u16)>,
    /// Port of the log server; none without one.
    pub log_port: Option<u16>,
    /// Unique names of the attachable volumes in use.
    pub in_use: watch::Receiver<BTreeSet<String>>,
    /// The reasons why the node is not ready; empty when it is.
    pub problems: watch::Receiver<Vec<String>>,
    /// Receives every version of the Node.
    pub seen: NodeHandler,
    /// Recorder of events, with component `kubelet`.
    pub events: Recorder,
    /// Wall-clock time.
    pub clock: Clock,
}

/// Registers the node and maintains its status until `shutdown`. `node` always has the newest version of the
/// node's own Node; none before registration, and after the Node was deleted.
pub async fn run(inputs: Inputs, node: watch::Sender<Option<Arc<Node>>>, shutdown: CancellationToken) {
    let config = Arc::clone(&inputs.config);
    let keeper = LeaseController::new(
        inputs.client.clone(),
        &config.name,
        config.lease,
        inputs.clock,
        inputs.lines.clone(),
    );
    let renewing = keeper.run(node.subscribe());
    let own = Informer::<Node>::new();
    let selected = Selection::fields(&format!("metadata.name={}", config.name));
    let following = own.run_selected(Api::all(inputs.client.clone()), selected, shutdown.clone());
    let reporter = Reporter {
        api: Api::all(inputs.client.clone()),
        pressures: Pressures::default(),
        machine: None,
        reading: None,
        reported_at: None,
        target: None,
        inputs,
        node,
    };
    let all = async { tokio::join!(renewing, following, reporter.run(own.clone())) };
    tokio::select! {
        () = shutdown.cancelled() => {}
        _ = all => {}
    }
}

struct Reporter {
    inputs: Inputs,
    api: Api<Node>,
    node: watch::Sender<Option<Arc<Node>>>,
    pressures: Pressures,
    /// The last values of the machine.
    machine: Option<Machine>,
    /// A read that did not finish in time and still runs.
    reading: Option<JoinHandle<Machine>>,
    reported_at: Option<Instant>,
    /// The server's address.
    target: Option<SocketAddr>,
}

impl Reporter {
    async fn run(mut self, own: Informer<Node>) {
        self.event("Starting", "Starting kubelet.");
        self.target = address::resolve(self.inputs.server.as_ref()).await;
        self.register().await;
        let changed = Arc::new(Notify::new());
        let notify = Arc::clone(&changed);
        let _registration = own.add_handler(move |_| notify.notify_one());
        let name = self.inputs.config.name.clone();
        let period = self.inputs.config.status_period;
        let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(7).min(period));
        let mut failing = false;
        loop {
            // Marked before the read, so that a change during the read triggers another one.
            self.inputs.in_use.mark_unchanged();
            self.inputs.problems.mark_unchanged();
            let outcome = self.report().await;
            if let Err(error) = &outcome
                && !failing
            {
                tracing::warn!(%error, "the status of this node is not written, will be tried until it is");
            }
            failing = outcome.is_err();
            let pause = if failing { backoff.advance() } else { period };
            if !failing {
                backoff.reset();
            }
            let next = tokio::time::sleep(pause);
            tokio::pin!(next);
            loop {
                tokio::select! {
                    () = &mut next => break,
                    // The sender is dropped only when the agent ends, which also drops this future.
                    Ok(()) = self.inputs.in_use.changed() => break,
                    Ok(()) = self.inputs.problems.changed() => break,
                    () = changed.notified() => match own.get(&name) {
                        Some(node) => self.learn(node),
                        None if own.has_synced() => self.lose(),
                        None => {}
                    },
                }
            }
        }
    }

    /// Creates the Node, or updates the existing one; retries until it succeeds.
    async fn register(&mut self) {
        let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(7));
        let mut failing = false;
        loop {
            let facts = self.facts(None).await.0;
            let what = "register the node";
            let attempt =
                tokio::time::timeout(self.inputs.config.status_period, self.try_register(&facts)).await;
            match attempt.unwrap_or(Err(NodeStatusError::NoAnswer { what })) {
                Ok(node) => {
                    tracing::info!(node = self.inputs.config.name, "the node is registered");
                    return self.learn(Arc::new(node));
                }
                Err(error) if !failing => {
                    tracing::warn!(%error, "the node is not registered, will be tried until it is")
                }
                Err(error) => tracing::debug!(%error, "the node is not registered"),
            }
            failing = true;
            tokio::time::sleep(backoff.advance()).await;
        }
    }

    async fn try_register(&self, facts: &NodeInfo) -> Result<Node, NodeStatusError> {
        let failed = |cause| NodeStatusError::Request { what: "register the node", cause };
        let initial = node_object::initial(&self.inputs.config, facts);
        match self.api.create(&PostParams::default(), &initial).await {
            Err(error) if is_already_exists(&error) => {}
            outcome => return outcome.map_err(failed),
        }
        let name = &self.inputs.config.name;
        let existing = self.api.get(name).await.map_err(failed)?;
        let Some(patch) = node_object::reconciled(&existing, &initial) else { return Ok(existing) };
        self.api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.map_err(failed)
    }

    /// Writes the status if it has changed, or if the last write is too old.
    async fn report(&mut self) -> Result<(), NodeStatusError> {
        let within = self.inputs.config.status_period;
        let what = "write the status of the node";
        for attempt in 0..TRIES {
            let latest = self.node.borrow().clone();
            let Some(latest) = latest else { return Ok(()) };
            let latest = if attempt == 0 {
                latest
            } else {
                // Another client has written: the version from the watch may be stale.
                let live = tokio::time::timeout(within, self.api.get_opt(&self.inputs.config.name)).await;
                match live.map_err(|_| NodeStatusError::NoAnswer { what })? {
                    Ok(Some(node)) => Arc::new(node),
                    Ok(None) => {
                        self.lose();
                        return Ok(());
                    }
                    Err(cause) => return Err(NodeStatusError::Request { what, cause }),
                }
            };
            let (facts, events) = self.facts(Some(&latest)).await;
            let old = latest.status.clone().unwrap_or_default();
            let new = node_object::status(&old, &self.inputs.config, &facts);
            let due = self.reported_at.is_none_or(|at| at.elapsed() >= REPORT_EVERY);
            if !due && !node_object::has_changed(&old, &new) {
                return Ok(());
            }
            let patch = node_object::status_patch(&latest, &new);
            let (parameters, patch) = (PatchParams::default(), Patch::Merge(&patch));
            let writing = self.api.patch_status(&self.inputs.config.name, &parameters, &patch);
            let step = format!("status of node with {} volumes in use", facts.in_use.len());
            crash_points::reached(&format!("before {step}"), "");
            let written = tokio::time::timeout(within, writing).await;
            crash_points::reached(&format!("after {step}"), "");
            match written.map_err(|_| NodeStatusError::NoAnswer { what })? {
                Ok(node) => {
                    self.reported_at = Some(Instant::now());
                    let name = &self.inputs.config.name;
                    for event in events {
                        self.event(event, &format!("Node {name} status is now: {event}"));
                    }
                    self.learn(Arc::new(node));
                    return Ok(());
                }
                Err(error) if is_conflict(&error) => {}
                Err(error) if is_not_found(&error) => {
                    self.lose();
                    return Ok(());
                }
                Err(cause) => return Err(NodeStatusError::Request { what, cause }),
            }
        }
        // Every attempt conflicted; the next report tries again.
        Err(NodeStatusError::NoAnswer { what })
    }

    /// Reads the machine, and falls back to the last values when that takes too long. A read that hangs is not
    /// started a second time before it has returned, and later reports do not wait for it.
    async fn read_machine(&mut self) {
        let (mut reading, patience) = match self.reading.take() {
            Some(reading) => (reading, Duration::ZERO),
            None => {
                let root = self.inputs.config.root_dir.clone();
                let read = move || Machine::read(Path::new("/"), &root);
                (tokio::task::spawn_blocking(read), READ_WITHIN)
            }
        };
        match tokio::time::timeout(patience, &mut reading).await {
            Ok(Ok(machine)) => self.machine = Some(machine),
            Ok(Err(error)) => tracing::error!(%error, "reading about the machine failed"),
            Err(_) => {
                tracing::warn!(
                    "the machine cannot be read in time: does the disk of the agent's directory hang?"
                );
                self.reading = Some(reading);
            }
        }
    }

    /// The current facts, and the reasons of events for changes.
    async fn facts(&mut self, old: Option<&Node>) -> (NodeInfo, Vec<&'static str>) {
        self.read_machine().await;
        let machine = self.machine.clone().unwrap_or_default();
        let signs = self
            .pressures
            .observe(PressureSignals::of(&machine, &self.inputs.config.thresholds), Instant::now());
        let old = old.and_then(|node| node.status.as_ref()?.conditions.as_deref()).unwrap_or_default();
        let problems = self.inputs.problems.borrow().clone();
        let (conditions, events) = conditions::conditions(old, signs, &problems, self.inputs.clock.now());
        let address = address::internal(self.inputs.config.address, self.target);
        let in_use = self.inputs.in_use.borrow().clone();
        (NodeInfo { machine, address, port: self.inputs.log_port, conditions, in_use }, events)
    }

    /// Processes a version of the Node. Older versions, which the watch may still deliver, are ignored.
    fn learn(&self, node: Arc<Node>) {
        let is_news = match &*self.node.borrow() {
            Some(known) if known.metadata.uid == node.metadata.uid => version(known) < version(&node),
            Some(_) | None => true,
        };
        if is_news {
            self.node.send_replace(Some(Arc::clone(&node)));
            (self.inputs.seen)(&node, &node_object::reported(&node));
        }
    }

    fn lose(&self) {
        if self.node.send_replace(None).is_some() {
            let name = &self.inputs.config.name;
            tracing::warn!(node = name, "the Node was deleted; restart this agent to register it again");
        }
    }

    /// Records an event about the node. Its involved object has the node's name as UID, as with the kubelet, so
    /// events can be found before the Node exists.
    fn event(&self, reason: &str, message: &str) {
        let name = Some(self.inputs.config.name.clone());
        let kind = Some("Node".to_owned());
        let node = ObjectReference { kind, name: name.clone(), uid: name, ..ObjectReference::default() };
        self.inputs.events.event_for(node, EventType::Normal, reason, message);
    }
}

fn version(node: &Node) -> Option<u64> {
    node.metadata.resource_version.as_deref()?.parse().ok()
}
