//! The task of one pod: it tracks the containers, asks [`decide`](super::decide) for the next action, and
//! performs it. Exits are detected by watching the processes. After a restart of the agent, the task monitors the
//! running containers and starts none until the agent requests the pod again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use orlop_client::recorder::EventType;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::DropGuard;

use super::container_run;
use super::decide::{ContainerProgress, ContainerRef, InitContainer, NextAction, RestartPolicy, next};
use super::env::{Sources, environment};
use super::launch_spec::RunRecord;
use super::plan::{self, pod_dir};
use super::probe::ProbeResult;
use super::shared::RuntimeContext;
use super::status::{ContainerView, status};
use crate::runtime::{PodPath, PodState, records};
use crate::volume::PodKey;

mod monitor;
mod termination;

/// Retry delay of a container whose environment cannot be resolved (upstream: the next sync of the pod).
const CONFIG_RETRY: Duration = Duration::from_secs(5);

/// The record of a pod on disk: `pod.json` beside its containers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct PodRecord {
    pub(super) pod: Pod,
    pub(super) paths: Vec<PodPath>,
    /// When the pod was first started here.
    pub(super) since: Timestamp,
    /// Why it failed although no container did.
    pub(super) failure: Option<(String, String)>,
}

/// A message to the task of a pod.
pub(super) enum PodMessage {
    /// Start the pod with these volumes.
    Start(Arc<Pod>, Vec<PodPath>),
    /// Stop the pod.
    Stop(Duration, oneshot::Sender<Result<(), String>>),
    /// A start has succeeded or failed.
    Started(ContainerRef, u32, Result<RunRecord, StartError>),
    /// A container has exited.
    Ended(ContainerRef, u32, Result<RunRecord, String>),
    /// The postStart hook has succeeded or failed.
    Hooked(ContainerRef, u32, Result<(), String>),
    /// The result of a probe has changed.
    Probed(ContainerRef, u32, ProbeResult),
}

/// Why a container could not be started.
pub(super) struct StartError {
    reason: &'static str,
    message: String,
}

struct ContainerSlot {
    container: Container,
    /// The last run; `before` is the one before it.
    run: Option<(u32, RunRecord)>,
    before: Option<(u32, RunRecord)>,
    /// A start is in progress.
    is_starting: bool,
    /// The number of consecutive runs that ended.
    ends: u32,
    /// When its back-off expires.
    not_before: Option<Instant>,
    waiting: Option<(String, String)>,
    is_started: bool,
    is_ready: bool,
    /// Stops its probes, or its postStart hook, on drop.
    probes: Option<DropGuard>,
}

impl ContainerSlot {
    fn new(container: &Container) -> Self {
        Self {
            container: container.clone(),
            run: None,
            before: None,
            is_starting: false,
            ends: 0,
            not_before: None,
            waiting: None,
            is_started: false,
            is_ready: false,
            probes: None,
        }
    }

    fn now(&self) -> ContainerProgress {
        match (&self.run, self.is_starting) {
            (_, true) => ContainerProgress::Busy,
            (None, false) => ContainerProgress::New,
            (Some((_, attempt)), false) => {
                attempt.end.as_ref().map_or(ContainerProgress::Busy, |end| ContainerProgress::Ended(end.code))
            }
        }
    }

    fn is_running(&self) -> bool {
        self.run.as_ref().is_some_and(|(_, attempt)| attempt.end.is_none())
    }
}

/// The task of a pod.
pub(super) struct PodTask {
    shared: Arc<RuntimeContext>,
    record: PodRecord,
    key: PodKey,
    init: Vec<ContainerSlot>,
    main: Vec<ContainerSlot>,
    /// The agent has requested the pod since its start.
    is_wanted: bool,
    has_ended: bool,
    state: watch::Sender<PodState>,
    own: mpsc::UnboundedSender<PodMessage>,
    /// Messages that arrived while containers were being stopped.
    late: VecDeque<PodMessage>,
}

impl PodTask {
    /// A pod with its records on disk.
    pub(super) fn new(
        shared: Arc<RuntimeContext>,
        record: PodRecord,
        state: watch::Sender<PodState>,
        own: mpsc::UnboundedSender<PodMessage>,
    ) -> Self {
        let key = PodKey::of(&record.pod);
        let spec = record.pod.spec.clone().unwrap_or_default();
        let dir = pod_dir(&shared.settings.paths, &key.uid);
        let slot = |container: &Container| {
            let mut slot = ContainerSlot::new(container);
            match container_run::runs(&dir.join(&container.name)) {
                Ok(runs) => {
                    let mut runs = runs.into_iter();
                    slot.run = runs.next();
                    slot.before = runs.next();
                }
                Err(error) => {
                    tracing::warn!(pod = %key, "runs of container {} cannot be read: {error}", container.name)
                }
            }
            // The report of the start is lost with the earlier agent: the program counts as started unless its supervisor
            // recorded otherwise.
            if let Some((_, attempt)) = &mut slot.run
                && attempt.end.is_none()
                && attempt.started_at.is_none()
            {
                attempt.started_at = Some(Timestamp::now());
            }
            slot
        };
        let init = spec.init_containers.iter().flatten().map(slot).collect();
        let main = spec.containers.iter().map(slot).collect();
        Self {
            shared,
            record,
            key,
            init,
            main,
            is_wanted: false,
            has_ended: false,
            state,
            own,
            late: VecDeque::new(),
        }
    }

    /// Runs until the pod is stopped.
    pub(super) async fn run(mut self, mut messages: mpsc::UnboundedReceiver<PodMessage>) {
        for which in self.all() {
            if self.slot(which).is_running() {
                self.follow(which, false);
            }
        }
        loop {
            let wake = self.go_on(&mut messages).await;
            self.publish(false);
            let message = match (self.late.pop_front(), wake) {
                (Some(message), _) => Some(message),
                (None, Some(at)) => match tokio::time::timeout_at(at, messages.recv()).await {
                    Ok(message) => message,
                    Err(_) => continue,
                },
                (None, None) => messages.recv().await,
            };
            match message {
                Some(PodMessage::Stop(grace, reply)) => {
                    let result = self.stop(grace, &mut messages).await;
                    let is_over = result.is_ok();
                    // The caller may be gone; the state has the result.
                    let _ = reply.send(result);
                    if is_over {
                        return;
                    }
                }
                Some(message) => self.hear(message),
                None => return,
            }
        }
    }

    fn all(&self) -> Vec<ContainerRef> {
        let init = (0..self.init.len()).map(ContainerRef::Init);
        init.chain((0..self.main.len()).map(ContainerRef::Main)).collect()
    }

    fn slot(&self, which: ContainerRef) -> &ContainerSlot {
        match which {
            ContainerRef::Init(index) => &self.init[index],
            ContainerRef::Main(index) => &self.main[index],
        }
    }

    fn slot_mut(&mut self, which: ContainerRef) -> &mut ContainerSlot {
        match which {
            ContainerRef::Init(index) => &mut self.init[index],
            ContainerRef::Main(index) => &mut self.main[index],
        }
    }

    fn dir(&self, which: ContainerRef) -> std::path::PathBuf {
        pod_dir(&self.shared.settings.paths, &self.key.uid).join(&self.slot(which).container.name)
    }

    fn hear(&mut self, message: PodMessage) {
        match message {
            PodMessage::Start(pod, paths) => {
                self.is_wanted = true;
                self.record.pod = Pod::clone(&pod);
                self.record.paths = paths;
            }
            PodMessage::Started(which, restart, Ok(attempt)) => {
                let slot = self.slot_mut(which);
                slot.is_starting = false;
                slot.waiting = None;
                if let Some(last) = slot.run.take() {
                    slot.before = Some(last);
                }
                let is_over = attempt.end.is_some();
                slot.run = Some((restart, attempt));
                let name = slot.container.name.clone();
                if is_over {
                    self.ended(which);
                } else {
                    self.event(EventType::Normal, "Started", format!("Started container {name}"));
                    self.follow(which, true);
                }
            }
            PodMessage::Started(which, _, Err(refused)) => {
                let slot = self.slot_mut(which);
                slot.is_starting = false;
                slot.not_before = Some(Instant::now() + CONFIG_RETRY);
                slot.waiting = Some((refused.reason.to_owned(), refused.message.clone()));
                self.event(EventType::Warning, "Failed", format!("Error: {}", refused.message));
            }
            PodMessage::Ended(which, restart, result) => {
                if self.slot(which).run.as_ref().is_none_or(|(now, _)| *now != restart) {
                    return;
                }
                match result {
                    Ok(attempt) => {
                        self.slot_mut(which).run = Some((restart, attempt));
                        self.ended(which);
                    }
                    Err(why) => tracing::error!(pod = %self.key, "{why}"),
                }
            }
            PodMessage::Hooked(which, restart, result) => self.hooked(which, restart, result),
            PodMessage::Probed(which, restart, verdict) => self.probed(which, restart, verdict),
            // Handled in `run`.
            PodMessage::Stop(..) => {}
        }
    }

    /// Counts a run that ended.
    fn ended(&mut self, which: ContainerRef) {
        let rule = self.shared.back_off;
        let slot = self.slot_mut(which);
        slot.probes = None;
        (slot.is_started, slot.is_ready) = (false, false);
        let Some((_, attempt)) = &slot.run else { return };
        let Some(end) = &attempt.end else { return };
        let lasted = attempt
            .started_at
            .map_or(Duration::ZERO, |at| Duration::try_from(end.at.duration_since(at)).unwrap_or_default());
        if lasted >= rule.reset {
            slot.ends = 0;
        }
        slot.not_before = Some(Instant::now() + rule.after(slot.ends));
        slot.ends += 1;
        if end.reason == "StartError" {
            let text = format!("Error: {}", end.message);
            self.event(EventType::Warning, "Failed", text);
        }
    }

    fn grace(&self) -> Duration {
        let seconds = self.record.pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
        Duration::from_secs(seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(30))
    }

    /// Performs the next action; returns when to wake up.
    async fn go_on(&mut self, messages: &mut mpsc::UnboundedReceiver<PodMessage>) -> Option<Instant> {
        if !self.is_wanted || self.has_ended {
            return None;
        }
        if self.record.failure.is_some() {
            self.has_ended = true;
            return None;
        }
        let policy = self.record.pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref());
        let of_init = |slot: &ContainerSlot| match plan::is_sidecar(&slot.container) {
            true => InitContainer::Sidecar { now: slot.now(), is_started: slot.is_started },
            false => InitContainer::Once(slot.now()),
        };
        let init: Vec<InitContainer> = self.init.iter().map(of_init).collect();
        let main: Vec<ContainerProgress> = self.main.iter().map(ContainerSlot::now).collect();
        let due = match next(RestartPolicy::of(policy), &init, &main) {
            NextAction::Done if self.all().into_iter().any(|which| self.slot(which).is_starting) => {
                return None;
            }
            NextAction::Done => {
                if let Err(why) = self.end_all(moment(self.grace()), messages).await {
                    tracing::error!(pod = %self.key, "{why}");
                    return Some(Instant::now() + CONFIG_RETRY);
                }
                self.has_ended = true;
                return None;
            }
            NextAction::Start(due) => due,
        };
        let deadline = self.deadline();
        if deadline.is_some_and(|at| at <= Instant::now()) {
            self.out_of_time(messages).await;
            return None;
        }
        let mut wake = deadline;
        for which in due {
            match self.slot(which).not_before.filter(|at| *at > Instant::now()) {
                Some(at) => {
                    self.hold_back(which);
                    wake = Some(wake.map_or(at, |wake| wake.min(at)));
                }
                None => self.begin(which),
            }
        }
        wake
    }

    /// The deadline of the pod.
    fn deadline(&self) -> Option<Instant> {
        let seconds = self.record.pod.spec.as_ref()?.active_deadline_seconds?;
        let since = self.record.pod.status.as_ref().and_then(|status| status.start_time.as_ref());
        let since = since.map_or(self.record.since, |time| time.0);
        let gone = Duration::try_from(Timestamp::now().duration_since(since)).unwrap_or_default();
        let left = Duration::from_secs(u64::try_from(seconds).unwrap_or_default()).saturating_sub(gone);
        Some(moment(left))
    }

    async fn out_of_time(&mut self, messages: &mut mpsc::UnboundedReceiver<PodMessage>) {
        let message = "Pod was active on the node longer than the specified deadline".to_owned();
        self.event(EventType::Normal, "DeadlineExceeded", message.clone());
        self.record.failure = Some(("DeadlineExceeded".to_owned(), message));
        self.save();
        if let Err(why) = self.end_all(moment(self.grace()), messages).await {
            tracing::error!(pod = %self.key, "{why}");
        }
        self.has_ended = true;
    }

    fn save(&self) {
        let file = pod_dir(&self.shared.settings.paths, &self.key.uid).join("pod.json");
        if let Err(error) = records::write(&file, &self.record) {
            tracing::error!(pod = %self.key, "{}: {error}", file.display());
        }
    }

    /// Starts the back-off of a failed container.
    fn hold_back(&mut self, which: ContainerRef) {
        let rule = self.shared.back_off;
        let key = self.key.clone();
        let slot = self.slot_mut(which);
        if slot.waiting.is_some() {
            return;
        }
        let wait = rule.after(slot.ends.saturating_sub(1));
        let name = slot.container.name.clone();
        let pod = format!("{}_{}({})", key.name, key.namespace, key.uid);
        let text = format!("back-off {} restarting failed container={name} pod={pod}", in_words(wait));
        slot.waiting = Some(("CrashLoopBackOff".to_owned(), text));
        let text = format!("Back-off restarting failed container {name} in pod {pod}");
        self.event(EventType::Warning, "BackOff", text);
    }

    /// Starts a container in the background.
    fn begin(&mut self, which: ContainerRef) {
        let slot = self.slot_mut(which);
        slot.is_starting = true;
        let restart = slot.run.as_ref().map_or(0, |(last, _)| last + 1);
        let container = slot.container.clone();
        let (shared, record, own) = (self.shared.clone(), self.record.clone(), self.own.clone());
        tokio::spawn(async move {
            let result = start(&shared, &record, &container, restart).await;
            // If the task has ended, the record on disk has the same information.
            let _ = own.send(PodMessage::Started(which, restart, result));
        });
    }

    fn publish(&self, is_stopped: bool) {
        let statuses = |slots: &[ContainerSlot], is_init: bool| {
            slots
                .iter()
                .map(|slot| {
                    let seen = ContainerView {
                        uid: &self.key.uid,
                        is_init: is_init && !plan::is_sidecar(&slot.container),
                        has_init: !self.init.is_empty(),
                        run: slot.run.as_ref(),
                        before: slot.before.as_ref(),
                        waiting: slot.waiting.as_ref(),
                        is_started: slot.is_started,
                        is_ready: slot.is_ready,
                    };
                    status(&slot.container, &seen)
                })
                .collect()
        };
        let state = PodState {
            init: statuses(&self.init, true),
            containers: statuses(&self.main, false),
            ended: self.has_ended || is_stopped,
            failure: self.record.failure.clone(),
        };
        self.state.send_if_modified(|now| {
            let is_new = *now != state;
            *now = state;
            is_new
        });
    }

    fn event(&self, type_: EventType, reason: &str, text: String) {
        if let Some(events) = &self.shared.events {
            events.event(&self.record.pod, type_, reason, text);
        }
    }
}

/// Starts one run of a container.
async fn start(
    shared: &RuntimeContext,
    record: &PodRecord,
    container: &Container,
    restart: u32,
) -> Result<RunRecord, StartError> {
    let wrong = |message| StartError { reason: "CreateContainerConfigError", message };
    let namespace = record.pod.metadata.namespace.as_deref().unwrap_or_default();
    let mut sources = Sources::new(shared.client.clone(), namespace);
    let env = environment(&mut sources, &record.pod, container).await.map_err(wrong)?;
    let plan =
        plan::plan(&shared.settings, &record.pod, container, restart, &record.paths, env).map_err(wrong)?;
    container_run::start(plan).await.map_err(|message| StartError { reason: "CreateContainerError", message })
}

/// The instant after a duration, which may be too long for the clock to represent.
fn moment(after: Duration) -> Instant {
    Instant::now() + after.min(Duration::from_secs(365 * 24 * 3600))
}

/// Formats a duration like upstream: `10s`, `2m40s`.
fn in_words(wait: Duration) -> String {
    let seconds = wait.as_secs();
    match (seconds / 60, seconds % 60) {
        (0, 0) => format!("{}ms", wait.as_millis()),
        (0, seconds) => format!("{seconds}s"),
        (minutes, seconds) => format!("{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_formatted_like_upstream() {
        for (ms, want) in [(10_000, "10s"), (160_000, "2m40s"), (300_000, "5m0s"), (50, "50ms")] {
            assert_eq!(in_words(Duration::from_millis(ms)), want);
        }
        assert!(moment(Duration::MAX) > Instant::now());
    }
}
