//! What the agent tells of its machine: the Node, its status and its Lease (upstream: pkg/kubelet/kubelet_node_status.go,
//! pkg/kubelet/nodestatus, pkg/kubelet/nodelease).
//!
//! * [`machine`] reads the machine, [`address`] finds its address; [`conditions`] (with the thresholds of [`eviction`](crate::eviction)) and [`node_object`] make of it what is written, and are pure.
//! * `lease` renews the Lease. This file makes the Node, follows it, and writes its status: at once when something has changed that
//!   others wait for, else when the machine shows something new, else every five minutes.
//!
//! The handshake about volumes goes through here: what is in use is written, and whoever mounts is told of every version of the Node that
//! the server has, with what that version says is in use (I7). A Node that is deleted while the agent runs stays deleted, as with the
//! kubelet: the agent says so, goes on with what it has, and registers again at its next start. At the end of the agent nothing is removed.

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
use crate::crash_points;

/// The longest time between two writes of the status. Upstream: nodeStatusReportFrequency.
const REPORT_EVERY: Duration = Duration::from_secs(300);
/// Attempts to write the status that follow each other at once. Upstream: nodeStatusUpdateRetry.
const TRIES: u32 = 5;
/// The longest that the machine may take to tell about itself: its disk may hang.
const READ_WITHIN: Duration = Duration::from_secs(5);

/// Told of every version of the own Node that this agent sees, in order, and of what that version says is in use.
pub type NodeHandler = Arc<dyn Fn(&Node, &BTreeSet<String>) + Send + Sync>;

/// What the registration is given.
pub struct Inputs {
    /// Settings.
    pub config: Arc<NodeConfig>,
    /// Reaches the API server.
    pub client: Client,
    /// What it has begun; given up when the server is heard again after a silence.
    pub lines: Lines,
    /// Host and port of the API server, to find the own address by; none where it is this process.
    pub server: Option<(String, u16)>,
    /// Where logs are served; none if they are not.
    pub log_port: Option<u16>,
    /// Unique names of attachable volumes that are in use.
    pub in_use: watch::Receiver<BTreeSet<String>>,
    /// Why the node is not ready, in words; empty when it is.
    pub problems: watch::Receiver<Vec<String>>,
    /// Who is told of the Node.
    pub seen: NodeHandler,
    /// Takes events, as component `kubelet`.
    pub events: Recorder,
    /// Wall-clock time.
    pub clock: Clock,
}

/// Registers the node and tells about it until `shutdown`. `node` always has the newest version of the own Node; none before it is
/// registered, and when it was deleted.
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
    /// What the machine said last.
    machine: Option<Machine>,
    /// It is being asked, and has not answered in time.
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
            // Taken before the look, so that what changes during it is looked at again.
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
                    // The other side is gone only when the agent ends, which drops this.
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

    /// Makes the Node, or brings the one that is there into line; again and again until it is done.
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

    /// Writes the status if it says something new, or if the last time is long ago.
    async fn report(&mut self) -> Result<(), NodeStatusError> {
        let within = self.inputs.config.status_period;
        let what = "write the status of the node";
        for attempt in 0..TRIES {
            let latest = self.node.borrow().clone();
            let Some(latest) = latest else { return Ok(()) };
            let latest = if attempt == 0 {
                latest
            } else {
                // Somebody else wrote: what the watch has may be older than that.
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
        // Whoever writes that often leaves no room; the next look tries again.
        Err(NodeStatusError::NoAnswer { what })
    }

    /// Asks the machine, and goes on with what it said last if it takes too long. One that hangs is not asked a second time before it
    /// has answered, and nobody waits for it again.
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
                    "the machine does not tell about itself: does the disk of the agent's directory hang?"
                );
                self.reading = Some(reading);
            }
        }
    }

    /// What is told now, and the reasons of events that tell of changes.
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

    /// A version of the Node was seen. Older ones, which the watch may still bring, are passed over.
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
            tracing::warn!(node = name, "the Node was deleted; start this agent again to register it anew");
        }
    }

    /// An event about the node. Its UID is the name, as the kubelet's: events can be found before there is a Node.
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
