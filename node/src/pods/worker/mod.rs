//! The life of one pod: want its volumes, wait for them, start it, tell how it is; then stop it, let its volumes go, wait until they are
//! gone, say the last word, and let the object go. The way back (`termination`) is the same whatever ends the pod; only what is told differs.

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

/// How long volumes are waited for before people are told (upstream: podAttachAndMountTimeout).
const COMPLAIN_AFTER: Duration = Duration::from_secs(123);
/// First and longest wait after a failure of the runtime or the server.
const WAITS: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(122));
/// Reason of pods for which the node has no room to attach (upstream: VolumeAttachmentLimitExceeded).
const LIMIT: &str = "VolumeAttachmentLimitExceeded";

/// Why a life ends.
#[derive(Clone, Debug)]
pub(super) enum EndReason {
    /// It is being deleted, or is gone.
    Asked,
    /// The API says that it is over.
    Told,
    /// Its containers have ended.
    Finished,
    /// The node does not take it.
    Refused(PodFailure),
    /// It is driven off.
    Evicted(PodFailure),
    /// It took too long.
    Late,
}

/// What the API says about the end of a pod.
fn over(seen: &ObservedPod) -> Option<EndReason> {
    let Some(pod) = seen.pod.as_ref().filter(|_| !seen.is_gone) else { return Some(EndReason::Asked) };
    if pod.metadata.deletion_timestamp.is_some() {
        return Some(EndReason::Asked);
    }
    is_finished(pod).then_some(EndReason::Told)
}

/// Waits for it.
async fn ends(seen: &mut watch::Receiver<ObservedPod>) -> EndReason {
    loop {
        if let Some(end) = over(&seen.borrow_and_update()) {
            return end;
        }
        if seen.changed().await.is_err() {
            // The desk is gone: the agent ends.
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

/// Waits until an emptyDir of the pod is over its limit.
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

/// The pod with its addresses: its status may not have them yet, and its containers may ask for them.
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
    /// Since when it is here, as far as this agent knows.
    begun: Timestamp,
    verdict: Option<PodFailure>,
    /// What is told of a pod whose work the agent does itself.
    own: Option<PodState>,
}

impl Worker {
    /// A whole life, or what is left of it.
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
        // Most of a life is rest: the room that other parts of it need is taken when they begin, and given back.
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

    /// How long it may be here from now on.
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

    /// Until something ends it.
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

    /// Before the Node is known nobody is taken.
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

    /// Wants the volumes and waits for them.
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
                    // Waiting does not help: somebody else has to decide where it goes.
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
                // Its sender goes when the pod was released, and it is not.
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

    /// Gives it to the runtime, until that has taken it.
    async fn start(&mut self, pod: &Arc<Pod>, paths: Vec<PodPath>) -> Result<(), EndReason> {
        let runtime = Arc::clone(&self.shared.runtime);
        let address = self.shared.node.borrow().as_deref().and_then(address_of);
        let addressed = with_address(pod, address);
        let mut waits = Backoff::new(WAITS.0, WAITS.1);
        let mut told = String::new();
        loop {
            let left = self.time_left(pod);
            let started = tokio::select! {
                started = runtime.start(Arc::clone(&addressed), paths.clone()) => started,
                end = ends(&mut self.seen) => return Err(end),
                () = active_deadline::over(left) => return Err(EndReason::Late),
            };
            let Err(error) = started else { return Ok(()) };
            let why = error.to_string();
            if told != why {
                tracing::warn!("{why}; will be tried again");
                told = why;
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

    /// Empties the volume that the pod is made for. Nobody goes on before that has ended.
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

    /// Tells how it is while it runs. None: it changed, or the runtime has lost it, and it has to be started again.
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
            // Where processes run, their runtime sees to it: it tells what became of each.
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
