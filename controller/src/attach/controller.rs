//! The state machine: checks one volume on one node at a time, decides, and applies the effects in memory. The requests are in
//! [`steps`](super::steps).

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::{CSIDriver, StorageClass, VolumeAttachment};
use kube::Client;
use tokio::time::Instant;

use super::actual::NodeFacts;
use super::attachment::{View, stamp};
use super::desired::PodRef;
use super::events;
use super::node_status::{self, Writers, volumes_in_use};
use super::operation::{FailureCause, OperationKind, Phase};
use super::reconcile::{self, Decision, Failed, Force};
use super::state::{AttachState, Caches, Settings};
use super::volume::{Key, Spec, digest_of_name};
use crate::context::Context;
use orlop_apimachinery::clock::Clock;
use orlop_client::informer::Change;
use orlop_client::meta::annotation;
use orlop_client::names::{
    ANN_CONTROLLER_MANAGED_ATTACH, ANN_FORCE_DETACH_AFTER, COMPONENT_ATTACH_DETACH, reason,
};
use orlop_client::pods;
use orlop_client::queue::WorkQueue;
use orlop_client::recorder::{EventType, Recorder};
use orlop_volume::csi::handle::of_unique_name;

/// Maximum number of pods that get an event about a volume. A node runs fewer, and each event names the pods on the other nodes.
const EVENTS: usize = 250;

/// The number of volumes after which the verification yields to other tasks.
const TURN: usize = 256;

/// The controller.
pub(super) struct Controller {
    pub(super) client: Client,
    pub(super) caches: Caches,
    pub(super) settings: Settings,
    pub(super) clock: Clock,
    pub(super) recorder: Recorder,
    pub(super) writers: Writers,
    /// Pods to check.
    pub(super) pods: WorkQueue<Arc<str>>,
    /// Volumes on nodes to check.
    pub(super) keys: WorkQueue<Key>,
    /// Nodes whose status must be written.
    pub(super) reports: WorkQueue<Arc<str>>,
    state: Mutex<AttachState>,
}

/// The result of a check.
pub(super) enum Step {
    /// Nothing to do now; the time of the forced detach that the VolumeAttachment must show, if known.
    Rest(Shown),
    /// Requests of an attach.
    Attach(Arc<Spec>),
    /// Requests of a detach.
    Detach(Option<Force>),
}

/// The annotation of the VolumeAttachment about a forced detach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// Unchanged.
    Same,
    /// None.
    Nothing,
    /// This time.
    At(String),
}

impl Controller {
    pub(super) fn new(context: &Context, settings: Settings) -> Self {
        Self {
            client: context.client.clone(),
            caches: Caches::of(context),
            settings,
            clock: context.clock,
            recorder: context.recorder(COMPONENT_ATTACH_DETACH),
            writers: Writers::default(),
            pods: WorkQueue::new(context.options.rate_limit),
            keys: WorkQueue::new(context.options.rate_limit),
            reports: WorkQueue::new(context.options.rate_limit),
            state: Mutex::default(),
        }
    }

    /// The state of the controller. Its lock is never held across an await point.
    pub(super) fn state(&self) -> MutexGuard<'_, AttachState> {
        self.state.lock()
    }

    /// Checks a volume on a node and applies everything that needs no request.
    pub(super) fn look(&self, key: &Key) -> Step {
        let mut state = self.state();
        loop {
            if state.forget(key) {
                return Step::Rest(Shown::Same);
            }
            let now = Instant::now();
            state.note_unwanted(key, now, self.clock.now());
            let facts = state.facts(key, &self.caches, &self.settings, now);
            let decision = reconcile::decide(&facts);
            match decision {
                Decision::Rest => return Step::Rest(Shown::Same),
                Decision::Keep => return Step::Rest(Shown::Nothing),
                Decision::WaitUntil(at) => {
                    self.keys.add_after(key.clone(), at.saturating_duration_since(now));
                    return Step::Rest(Shown::Same);
                }
                Decision::WaitForNode { deadline: None } => return Step::Rest(Shown::Nothing),
                Decision::WaitForNode { deadline: Some(deadline) } => {
                    self.keys.add_after(key.clone(), deadline.saturating_duration_since(now));
                    let at = state.forced_at(key, deadline).map(stamp);
                    return Step::Rest(at.map_or(Shown::Same, Shown::At));
                }
                Decision::Lost => {
                    tracing::info!(volume = %key.volume, node = %key.node, "the volume is not attached any more");
                    let others = state.others(key);
                    match facts.view {
                        // No driver has confirmed the detach: the volume may be attached, and is not listed.
                        View::There(_) => {
                            state.actual.put(key, None, false);
                            state.actual.unlist(key);
                        }
                        View::Absent | View::NotNeeded => state.actual.remove(key),
                    }
                    // If a user deletes the VolumeAttachment, it is not created again immediately.
                    state.operations.delay(key, OperationKind::Attach, FailureCause::Request, now);
                    self.reports.add(Arc::clone(&key.node));
                    others.into_iter().for_each(|other| self.keys.add(other));
                }
                Decision::HolderFirst => {
                    state.holders(key, &self.caches).into_iter().for_each(|holder| self.keys.add(holder));
                    return Step::Rest(Shown::Same);
                }
                Decision::Refuse => {
                    self.refuse(&mut state, key, now);
                    return Step::Rest(Shown::Same);
                }
                Decision::Attach => {
                    let Some(wanted) = state.desired.get(key) else { return Step::Rest(Shown::Same) };
                    let (spec, pods) =
                        (Arc::clone(&wanted.spec), wanted.pods().take(EVENTS).cloned().collect());
                    state.operations.begin(key, OperationKind::Attach, Some(Arc::clone(&spec)), pods, now);
                    return Step::Attach(spec);
                }
                Decision::Detach { force } => {
                    let spec = state.spec(&key.volume).cloned();
                    state.operations.begin(key, OperationKind::Detach, spec, Vec::new(), now);
                    return Step::Detach(force);
                }
                Decision::Succeeded => self.succeeded(&mut state, key),
                Decision::Failed(failed) => self.failed(&mut state, key, &failed, now),
            }
        }
    }

    fn succeeded(&self, state: &mut AttachState, key: &Key) {
        let others = state.others(key);
        let Some(operation) = state.operations.succeed(key) else { return };
        match operation.kind {
            OperationKind::Attach => {
                state.actual.put(key, operation.spec.as_ref(), true);
                state.actual.list(key);
                let title = operation.spec.as_ref().map_or(&*key.volume, |spec| &spec.title);
                for pod in &operation.pods {
                    let text = events::attached(title);
                    events::tell(
                        &self.recorder,
                        pod,
                        EventType::Normal,
                        reason::SUCCESSFUL_ATTACH_VOLUME,
                        text,
                    );
                }
            }
            // The list may contain it again if the node reported that it uses it.
            OperationKind::Detach => state.actual.remove(key),
        }
        self.reports.add(Arc::clone(&key.node));
        others.into_iter().for_each(|other| self.keys.add(other));
    }

    fn failed(&self, state: &mut AttachState, key: &Key, failed: &Failed, now: Instant) {
        let driver = of_unique_name(&key.volume).map_or("unknown", |(driver, _)| driver);
        let text = match failed {
            Failed::Answer(message) => message.clone(),
            Failed::Leaving => "volume attachment is being deleted".to_owned(),
            Failed::TakenAway => "volume attachment was deleted before the volume was attached".to_owned(),
            Failed::Timeout => {
                let handle = of_unique_name(&key.volume).map_or(&*key.volume, |(_, handle)| handle);
                format!(
                    "timed out waiting for external-attacher of {driver} CSI driver to attach volume {handle}"
                )
            }
            Failed::GivenUp => String::new(),
        };
        self.fail(state, key, failed.cause(), &text, now);
    }

    /// The operation failed after the attacher was called, or may have been called: the location of the volume is unknown.
    pub(super) fn fail(
        &self,
        state: &mut AttachState,
        key: &Key,
        cause: FailureCause,
        text: &str,
        now: Instant,
    ) {
        let others = state.others(key);
        let Some(operation) = state.operations.fail(key, cause, now) else { return };
        state.actual.put(key, operation.spec.as_ref(), false);
        if let Some(attached) = state.actual.get_mut(key).filter(|_| operation.asked && !operation.seen) {
            attached.asked = true;
        }
        if state.actual.unlist(key) {
            self.reports.add(Arc::clone(&key.node));
        }
        tracing::debug!(volume = %key.volume, node = %key.node, kind = ?operation.kind, error = text, "failed");
        if operation.kind == OperationKind::Attach && !text.is_empty() {
            let title = operation.spec.as_ref().map_or(&*key.volume, |spec| &spec.title);
            for pod in &operation.pods {
                let text = events::attach_failed(title, text);
                events::tell(&self.recorder, pod, EventType::Warning, reason::FAILED_ATTACH_VOLUME, text);
            }
        }
        others.into_iter().for_each(|other| self.keys.add(other));
    }

    /// Records an event on the pods, once, that another node has the volume.
    fn refuse(&self, state: &mut AttachState, key: &Key, now: Instant) {
        if state.desired.get(key).is_none_or(|wanted| wanted.refusal_told) {
            return;
        }
        let holders = state.holders(key, &self.caches);
        let users = state.pods_on(&holders);
        let held: Vec<_> =
            holders.iter().map(|holder| state.held(holder, &self.caches, &self.settings, now)).collect();
        let Some(wanted) = state.desired.get_mut(key) else { return };
        wanted.refusal_told = true;
        let title = &wanted.spec.title;
        // The texts list the pods that use the volume, and are the same for all pods of a namespace.
        let mut written: BTreeMap<&str, [String; 2]> = BTreeMap::new();
        for pod in wanted.pods().take(EVENTS) {
            let texts = written.entry(&pod.namespace).or_insert_with(|| {
                [events::refused(title, &pod.namespace, &users), events::held(title, &pod.namespace, &held)]
            });
            for text in texts.clone() {
                events::tell(&self.recorder, pod, EventType::Warning, reason::FAILED_ATTACH_VOLUME, text);
            }
        }
    }

    /// Pods of other nodes that wait for this volume.
    pub(super) fn waiting_pods(&self, key: &Key) -> Vec<Arc<PodRef>> {
        let state = self.state();
        state.pods_on(&state.others(key)).into_iter().take(EVENTS).collect()
    }

    /// Checks the attached volumes of the node that are unwanted there.
    pub(super) fn wake_unwanted(&self, node: &Arc<str>) {
        let state = self.state();
        let keys = state
            .actual
            .volumes_on(node)
            .map(|volume| Key { volume: Arc::clone(volume), node: Arc::clone(node) });
        keys.filter(|key| state.desired.get(key).is_none()).for_each(|key| self.keys.add(key));
    }

    /// A node changed.
    pub(super) fn on_node(&self, change: &Change<Node>) {
        let name = change.key();
        let mut newly_managed = false;
        {
            let mut state = self.state();
            let version = change.kept().and_then(|kept| kept.version()).unwrap_or(u64::MAX);
            let changed = match (change.new.as_deref(), change.old()) {
                (Some(node), _) => {
                    if !state.started && change.is_new() {
                        node_status::adopt_node(&mut state, name, node);
                    }
                    if annotation(node, ANN_CONTROLLER_MANAGED_ATTACH).is_some() {
                        newly_managed = state.desired.manage(name) && state.started;
                    }
                    let fresh = change.is_new() || change.replaced();
                    if state.started && fresh && !state.actual.is_listed_as(name, &node_status::listed(node))
                    {
                        state.actual.set_unwritten(name);
                        self.reports.add(Arc::clone(name));
                    }
                    state.actual.saw_node(name, NodeFacts::of(node), version, volumes_in_use(node))
                }
                // The volumes that it used in its last known version are still in use.
                (None, Some(last)) => {
                    state.desired.drop_node(name);
                    state.actual.saw_node(name, NodeFacts::default(), version, volumes_in_use(last))
                }
                (None, None) => false,
            };
            if !changed && !newly_managed {
                return;
            }
        }
        self.wake_unwanted(name);
        if newly_managed {
            for pod in self.caches.pods.indexed_keys(pods::INDEX_NODE, name, "") {
                self.pods.add(pod);
            }
        }
    }

    /// A VolumeAttachment changed: the keys that wait for it are checked immediately.
    pub(super) fn on_attachment(&self, change: &Change<VolumeAttachment>) {
        let Some(digest) = digest_of_name(change.key()) else { return };
        let mut state = self.state();
        let Some(key) = state.by_digest(&digest).cloned() else { return };
        if let Some(operation) = state.operations.get_mut(&key) {
            operation.seen = true;
            // The object was deleted, even if another one now has its name.
            operation.gone |= operation.phase == Phase::Waiting && change.gone_uid().is_some();
        }
        if let Some(attached) = state.actual.get_mut(&key) {
            attached.asked = false;
        }
        let others = state.others(&key);
        drop(state);
        self.keys.add(key);
        others.into_iter().for_each(|other| self.keys.add(other));
    }

    /// A driver changed. If it now requires or no longer requires attachments, its volumes are decided again, which is rare.
    pub(super) fn on_driver(&self, change: &Change<CSIDriver>) {
        let attaches =
            |driver: Option<&CSIDriver>| driver.and_then(|d| d.spec.attach_required) != Some(false);
        if !self.state().started || attaches(change.new.as_deref()) == attaches(change.old().map(Arc::as_ref))
        {
            return;
        }
        for pod in self.caches.pods.kept() {
            self.pods.add(Arc::clone(pod.key()));
        }
    }

    /// A class changed: the time of pending forced detaches may change.
    pub(super) fn on_class(&self, change: &Change<StorageClass>) {
        let asks = |class: Option<&StorageClass>| {
            class.and_then(|c| annotation(c, ANN_FORCE_DETACH_AFTER).map(str::to_owned))
        };
        if asks(change.new.as_deref()) == asks(change.old().map(Arc::as_ref)) {
            return;
        }
        let state = self.state();
        let unwanted = state.actual.all().filter(|(_, attached)| attached.unwanted.is_some());
        unwanted.for_each(|(key, _)| self.keys.add(key));
    }

    /// Checks every volume that is not where it should be, or whose VolumeAttachment does not report it as attached. A safety net
    /// for missed events: it walks over all volumes, and normally finds nothing.
    pub(super) async fn verify(&self) {
        let (mut rest, mut confirmed) = (Vec::new(), Vec::new());
        {
            let state = self.state();
            for (key, attached) in state.actual.all() {
                let settled = attached.confirmed && attached.unwanted.is_none();
                if settled { confirmed.push(key) } else { rest.push(key) }
            }
        }
        let is_fine = |key: &Key| {
            let attachment = self.caches.attachment(key);
            of_unique_name(&key.volume).is_none()
                || matches!(View::of(attachment.as_deref()), View::There(there) if there.attached)
        };
        for (number, key) in confirmed.into_iter().enumerate() {
            if number % TURN == TURN - 1 {
                tokio::task::yield_now().await;
            }
            if !is_fine(&key) {
                rest.push(key);
            }
        }
        rest.into_iter().for_each(|key| self.keys.add(key));
    }
}
