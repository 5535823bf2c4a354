//! The lifecycle of one pod: request its volumes, wait for them, start it and report its status; then stop it,
//! release its volumes, wait until they are released, write the last status, and delete the object. The shutdown
//! (`termination`) is the same for every cause; only the reported status differs.

mod termination;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{HostIP, Node, Pod, PodIP};
use orlop_apimachinery::clock::Backoff;
use orlop_client::pods::is_finished;
use orlop_client::recorder::EventType;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::active_deadline;
use super::context::{ObservedPod, WorkerContext};
use super::empty_dir_limit;
use super::facts::{PodFacts, PodFailure, PodStage};
use super::recycler;
use super::status_writer::StatusWriter;
use crate::config::RuntimeKind;
use crate::runtime::{PodPath, PodState};
use crate::volumes::PodVolumes;

/// How long to wait for volumes before the event (upstream: podAttachAndMountTimeout).
const COMPLAIN_AFTER: Duration = Duration::from_secs(123);
/// First and longest delay after a failure of the runtime or the server.
const WAITS: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(122));
/// Reason of pods whose volumes exceed the attachment limit of the node (upstream:
/// VolumeAttachmentLimitExceeded).
const LIMIT: &str = "VolumeAttachmentLimitExceeded";

/// Why a pod ends.
#[derive(Clone, Debug)]
pub(super) enum EndReason {
    /// It is being deleted, or is deleted.
    Asked,
    /// The API server reports a terminal phase.
    Reported,
    /// Its containers have ended.
    Finished,
    /// The node rejects it.
    Refused(PodFailure),
    /// It is evicted.
    Evicted(PodFailure),
    /// It exceeded its deadline.
    Late,
}

/// The reason to end that the API server reports for a pod.
fn over(seen: &ObservedPod) -> Option<EndReason> {
    let Some(pod) = seen.pod.as_ref().filter(|_| !seen.is_gone) else { return Some(EndReason::Asked) };
    if pod.metadata.deletion_timestamp.is_some() {
        return Some(EndReason::Asked);
    }
    is_finished(pod).then_some(EndReason::Reported)
}

/// Waits until the API server reports such a reason.
async fn ends(seen: &mut watch::Receiver<ObservedPod>) -> EndReason {
    loop {
        if let Some(end) = over(&seen.borrow_and_update()) {
            return end;
        }
        if seen.changed().await.is_err() {
            // The sender is dropped: the agent shuts down.
            return std::future::pending().await;
        }
    }
}

async fn changed<T>(receiver: Option<&mut watch::Receiver<T>>) {
    match receiver {
        Some(receiver) => {
            if receiver.changed().await.is_err() {
                std::future::pending().await
            }
        }
        None => std::future::pending().await,
    }
}

/// Waits until an emptyDir of the pod exceeds its limit.
async fn too_much(shared: &WorkerContext, uid: &str, pod: &Pod) -> PodFailure {
    if empty_dir_limit::limited(pod).is_empty() {
        return std::future::pending().await;
    }
    loop {
        tokio::time::sleep(empty_dir_limit::LOOK_EVERY).await;
        if let Some(verdict) = empty_dir_limit::broken(shared, uid, pod).await {
            return verdict;
        }
    }
}

/// The address of a node.
fn address_of(node: &Node) -> Option<String> {
    let addresses = node.status.as_ref()?.addresses.as_ref()?;
    addresses.iter().find(|address| address.type_ == "InternalIP").map(|address| address.address.clone())
}

/// The pod with its addresses: its status may not have them yet, and its containers may refer to them.
fn with_address(pod: &Arc<Pod>, address: Option<String>) -> Arc<Pod> {
    let has_one =
        pod.status.as_ref().is_some_and(|status| status.pod_ip.is_some() && status.host_ip.is_some());
    let Some(address) = address.filter(|_| !has_one) else { return Arc::clone(pod) };
    let mut pod = Pod::clone(pod);
    let status = pod.status.get_or_insert_default();
    status.host_ips.get_or_insert_with(|| vec![HostIP { ip: address.clone() }]);
    status.pod_ips.get_or_insert_with(|| vec![PodIP { ip: address.clone() }]);
    status.host_ip.get_or_insert_with(|| address.clone());
    status.pod_ip.get_or_insert(address);
    Arc::new(pod)
}

pub(super) struct Worker {
    shared: Arc<WorkerContext>,
    uid: String,
    seen: watch::Receiver<ObservedPod>,
    reporter: StatusWriter,
    /// When this agent first saw the pod.
    begun: Timestamp,
    verdict: Option<PodFailure>,
    /// The state of a pod whose work the agent does itself.
    own: Option<PodState>,
}

impl Worker {
    /// Runs a pod from its current state to its end.
    pub(super) async fn life(shared: Arc<WorkerContext>, uid: String, seen: watch::Receiver<ObservedPod>) {
        let (reporter, writing) = StatusWriter::new(shared.host.client.clone(), seen.clone());
        let begun = shared.host.clock.now();
        let worker = Worker { shared, uid, seen, reporter, begun, verdict: None, own: None };
        tokio::select! {
            biased;
            () = worker.run() => {}
            () = async { writing.await; std::future::pending().await } => {}
        }
    }

    async fn run(mut self) {
        // A worker waits most of the time: boxed futures free the memory of each phase when it ends.
        let end = self.live().await;
        Box::pin(self.end(end)).await;
        Box::pin(self.depart()).await;
        self.shared.runtime.forget(&self.uid).await;
    }

    fn pod(&self) -> Option<Arc<Pod>> {
        self.seen.borrow().pod.clone()
    }

    fn state(&self) -> Option<PodState> {
        let own = || self.own.clone();
        self.shared.runtime.state(&self.uid).map(|state| state.borrow().clone()).or_else(own)
    }

    fn now(&self) -> Timestamp {
        self.shared.host.clock.now()
    }

    /// The time until the deadline of the pod.
    fn time_left(&self, pod: &Pod) -> Option<Duration> {
        active_deadline::left(pod, self.begun, self.now())
    }

    fn tell(&self, stage: PodStage) {
        let address = self.shared.node.borrow().as_deref().and_then(address_of);
        let verdict = self.verdict.clone();
        self.reporter.tell(PodFacts { stage, state: self.state(), verdict, address, now: self.now() });
    }

    fn event(&self, type_: EventType, reason: &str, message: impl Into<String>) {
        if let Some(pod) = self.pod() {
            self.shared.host.events.event(&*pod, type_, reason, message);
        }
    }

    /// Runs the pod until something ends it.
    async fn live(&mut self) -> EndReason {
        if let Some(end) = over(&self.seen.borrow()) {
            return end;
        }
        if let Err(end) = Box::pin(self.admit()).await {
            return end;
        }
        loop {
            let (pod, paths) = match Box::pin(self.mounted()).await {
                Ok(ready) => ready,
                Err(end) => return end,
            };
            if recycler::is_ours(&self.shared, &pod) {
                return Box::pin(self.scrub(&pod, paths)).await;
            }
            if let Err(end) = Box::pin(self.start(&pod, paths)).await {
                return end;
            }
            if let Some(end) = self.attend(&pod).await {
                return end;
            }
        }
    }

    /// Waits for the Node and admits the pod.
    async fn admit(&mut self) -> Result<(), EndReason> {
        let mut node = self.shared.node.clone();
        loop {
            let known = node.borrow_and_update().clone();
            if let (Some(known), Some(pod)) = (known, self.pod()) {
                let max = self.shared.host.config.max_pods;
                return self.shared.admitted.admit(&pod, &known, max).map_err(EndReason::Refused);
            }
            tokio::select! {
                () = changed(Some(&mut node)) => {}
                end = ends(&mut self.seen) => return Err(end),
            }
        }
    }

    /// Requests the volumes and waits for them.
    async fn mounted(&mut self) -> Result<(Arc<Pod>, Vec<PodPath>), EndReason> {
        let mut complain_at = Instant::now() + COMPLAIN_AFTER;
        loop {
            let seen = self.seen.borrow_and_update().clone();
            if let Some(end) = over(&seen) {
                return Err(end);
            }
            let Some(pod) = seen.pod else { return Err(EndReason::Asked) };
            self.shared.volumes.want(Arc::clone(&pod));
            let mut volumes = self.shared.volumes.state(&self.uid);
            let now = volumes.borrow_and_update().clone();
            let waiting = match now {
                PodVolumes::Ready(paths) => return Ok((pod, paths)),
                PodVolumes::Waiting(waiting) if waiting.limit.is_some() => {
                    // Waiting does not help: the pod needs another node.
                    let message = format!(
                        "Pod was rejected: Node has reached its volume attachment limit, rejecting pod. {waiting}"
                    );
                    return Err(EndReason::Refused(PodFailure { reason: LIMIT.to_owned(), message }));
                }
                PodVolumes::Waiting(waiting) => Some(waiting),
                PodVolumes::Releasing(_) | PodVolumes::Released => None,
            };
            self.tell(PodStage::Making);
            let left = self.time_left(&pod);
            tokio::select! {
                // The sender is dropped only after a release, which has not happened.
                () = changed(Some(&mut volumes)) => {}
                () = changed(Some(&mut self.seen)) => {}
                () = active_deadline::over(left) => return Err(EndReason::Late),
                () = tokio::time::sleep_until(complain_at) => {
                    complain_at = Instant::now() + COMPLAIN_AFTER;
                    if let Some(waiting) = waiting {
                        let text = format!("Unable to attach or mount volumes: {waiting}");
                        self.event(EventType::Warning, "FailedMount", text);
                    }
                }
            }
        }
    }

    /// Starts the pod in the runtime, with retries.
    async fn start(&mut self, pod: &Arc<Pod>, paths: Vec<PodPath>) -> Result<(), EndReason> {
        let runtime = Arc::clone(&self.shared.runtime);
        let address = self.shared.node.borrow().as_deref().and_then(address_of);
        let addressed = with_address(pod, address);
        let mut waits = Backoff::new(WAITS.0, WAITS.1);
        let mut logged = String::new();
        loop {
            let left = self.time_left(pod);
            let started = tokio::select! {
                started = runtime.start(Arc::clone(&addressed), paths.clone()) => started,
                end = ends(&mut self.seen) => return Err(end),
                () = active_deadline::over(left) => return Err(EndReason::Late),
            };
            let Err(error) = started else { return Ok(()) };
            let why = error.to_string();
            if logged != why {
                tracing::warn!("{why}; will be tried again");
                logged = why;
            }
            self.tell(PodStage::Making);
            self.event(EventType::Warning, "FailedSync", format!("Error syncing pod, skipping: {error}"));
            let left = self.time_left(pod);
            tokio::select! {
                () = tokio::time::sleep(waits.advance()) => {}
                end = ends(&mut self.seen) => return Err(end),
                () = active_deadline::over(left) => return Err(EndReason::Late),
            }
        }
    }

    /// Empties the volume for which the recycler pod was created. Returns only when the deletion has ended.
    async fn scrub(&mut self, pod: &Arc<Pod>, paths: Vec<PodPath>) -> EndReason {
        self.own = Some(recycler::running(pod, self.now()));
        self.tell(PodStage::Running);
        let cancel = CancellationToken::new();
        let _end = cancel.clone().drop_guard();
        let shared = Arc::clone(&self.shared);
        let scrubbing = recycler::run(&shared, pod, &paths, self.begun, cancel.clone());
        tokio::pin!(scrubbing);
        let state = tokio::select! {
            state = &mut scrubbing => state,
            _ = ends(&mut self.seen) => {
                cancel.cancel();
                scrubbing.await
            }
        };
        self.own = Some(state);
        self.tell(PodStage::Running);
        over(&self.seen.borrow()).unwrap_or(EndReason::Finished)
    }

    /// Reports the status while the pod runs. `None`: the spec changed or the runtime lost the pod, which must be
    /// started again.
    async fn attend(&mut self, started: &Arc<Pod>) -> Option<EndReason> {
        let Some(mut state) = self.shared.runtime.state(&self.uid) else {
            tokio::time::sleep(WAITS.0).await;
            return None;
        };
        loop {
            let seen = self.seen.borrow_and_update().clone();
            if let Some(end) = over(&seen) {
                return Some(end);
            }
            let pod = seen.pod?;
            if pod.spec != started.spec {
                return None;
            }
            self.shared.volumes.want(Arc::clone(&pod));
            let ended = state.borrow_and_update().ended;
            self.tell(PodStage::Running);
            if ended {
                return Some(EndReason::Finished);
            }
            let shared = Arc::clone(&self.shared);
            // The process runtime enforces the deadline itself and reports the exit of each container.
            let left = match shared.host.config.runtime {
                RuntimeKind::None => self.time_left(&pod),
                RuntimeKind::Process => None,
            };
            tokio::select! {
                changed = state.changed() => if changed.is_err() { return None },
                () = changed(Some(&mut self.seen)) => {}
                verdict = Box::pin(too_much(&shared, &self.uid, &pod)) => return Some(EndReason::Evicted(verdict)),
                () = active_deadline::over(left) => return Some(EndReason::Late),
            }
        }
    }
}
