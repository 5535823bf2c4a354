//! The termination of a pod: all main containers concurrently, then the sidecars, with their hooks and their
//! grace period.

use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use orlop_client::recorder::EventType;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::super::launch_spec::RunRecord;
use super::super::plan::{self, pod_dir};
use super::super::{container_run, hook};
use super::{ContainerRef, PodMessage, PodTask, moment};
use crate::runtime::records;

/// How long a stop waits at least for a container that is being started, because it cannot be killed yet.
const STARTS: Duration = Duration::from_secs(10);

impl PodTask {
    /// Stops one container after `others` have exited; `None` when it does not run.
    pub(super) fn end_one(
        &self,
        which: ContainerRef,
        until: watch::Receiver<Instant>,
        others: Vec<CancellationToken>,
    ) -> impl Future<Output = Option<Result<RunRecord, String>>> + use<> {
        let slot = self.slot(which);
        let dir = self.dir(which);
        let run = slot.run.clone().filter(|(_, attempt)| attempt.end.is_none());
        let container = slot.container.clone();
        let handler = container.lifecycle.as_ref().and_then(|hooks| hooks.pre_stop.clone());
        let target = run.as_ref().map(|(_, attempt)| self.target(&container, attempt));
        let (shared, pod) = (self.shared.clone(), self.record.pod.clone());
        let grace = until.borrow().saturating_duration_since(Instant::now());
        async move {
            let (restart, _) = run?;
            let before = async {
                // Like upstream: first the hook, then its turn.
                if let (Some(handler), Some(target), false) = (handler, target, grace.is_zero())
                    && let Err(why) = hook::run(&handler, &container, &target, grace).await
                    && let Some(events) = &shared.events
                {
                    let text = format!("PreStopHook failed: {why}");
                    events.event(&pod, EventType::Warning, "FailedPreStopHook", text);
                }
                for other in others {
                    other.cancelled().await;
                }
            };
            Some(container_run::kill(&dir, restart, before, until).await)
        }
    }

    /// Stops all containers: main containers concurrently, each sidecar when all later containers have exited.
    /// Messages are deferred, except that a stop with a shorter grace period applies immediately.
    pub(super) async fn end_all(
        &mut self,
        until: Instant,
        messages: &mut mpsc::UnboundedReceiver<PodMessage>,
    ) -> Result<(), String> {
        let running: Vec<ContainerRef> =
            self.all().into_iter().filter(|which| self.slot(*which).is_running()).collect();
        let (sooner, limit) = watch::channel(until);
        let mut ends = FuturesUnordered::new();
        let mut after: Vec<CancellationToken> = Vec::new();
        for which in running.into_iter().rev() {
            self.slot_mut(which).probes = None;
            let container = &self.slot(which).container;
            self.event(EventType::Normal, "Killing", format!("Stopping container {}", container.name));
            let is_last = matches!(which, ContainerRef::Init(_)) && plan::is_sidecar(container);
            let others = if is_last { after.clone() } else { Vec::new() };
            let ending = self.end_one(which, limit.clone(), others);
            let over = CancellationToken::new();
            after.push(over.clone());
            ends.push(async move {
                let end = ending.await;
                over.cancel();
                (which, end)
            });
        }
        let mut failed = Vec::new();
        loop {
            tokio::select! {
                biased;
                ended = ends.next() => match ended {
                    None => break,
                    Some((_, None)) => {}
                    Some((which, Some(Ok(attempt)))) => {
                        let slot = self.slot_mut(which);
                        slot.waiting = None;
                        (slot.is_started, slot.is_ready) = (false, false);
                        if let Some((_, run)) = &mut slot.run {
                            *run = attempt;
                        }
                        self.publish(false);
                    }
                    Some((which, Some(Err(why)))) => {
                        failed.push(format!("container {}: {why}", self.slot(which).container.name));
                    }
                },
                Some(message) = messages.recv() => {
                    if let PodMessage::Stop(grace, _) = &message {
                        let less = moment(*grace);
                        sooner.send_if_modified(|until| less < *until && { *until = less; true });
                    }
                    self.late.push_back(message);
                }
            }
        }
        if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
    }

    pub(super) async fn stop(
        &mut self,
        grace: Duration,
        messages: &mut mpsc::UnboundedReceiver<PodMessage>,
    ) -> Result<(), String> {
        self.is_wanted = false;
        let until = self.wait_for_starts(moment(grace), messages).await?;
        self.end_all(until, messages).await?;
        let dir = pod_dir(&self.shared.settings.paths, &self.key.uid);
        for which in self.all() {
            let slot = self.slot_mut(which);
            slot.waiting = None;
        }
        self.has_ended = true;
        remove(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        self.publish(true);
        Ok(())
    }

    /// Waits for containers that are being started, because only a started container can be killed. One that hangs
    /// counts as running, so that it is killed. Returns the deadline, which may be earlier now.
    async fn wait_for_starts(
        &mut self,
        mut until: Instant,
        messages: &mut mpsc::UnboundedReceiver<PodMessage>,
    ) -> Result<Instant, String> {
        let least = Instant::now() + STARTS;
        let is_starting = |task: &Self| task.all().into_iter().find(|which| task.slot(*which).is_starting);
        let mut asked = Vec::new();
        while is_starting(self).is_some() {
            let message = match self.late.pop_front() {
                Some(message) => Ok(Some(message)),
                None => tokio::time::timeout_at(until.max(least), messages.recv()).await,
            };
            match message {
                Ok(Some(PodMessage::Stop(grace, reply))) => {
                    until = until.min(moment(grace));
                    asked.push(PodMessage::Stop(grace, reply));
                }
                Ok(Some(message)) => self.hear(message),
                // Never happens: this task has a sender itself.
                Ok(None) => break,
                Err(_) => {
                    self.take_what_is_there();
                    break;
                }
            }
        }
        // Later stops are answered when all containers have exited, or retry the stop.
        self.late.extend(asked);
        match is_starting(self) {
            None => Ok(until),
            Some(which) => Err(format!("container {} is being started", self.slot(which).container.name)),
        }
    }

    fn take_what_is_there(&mut self) {
        for which in self.all() {
            let dir = self.dir(which);
            let slot = self.slot_mut(which);
            let known = slot.run.as_ref().map(|(restart, _)| *restart);
            let newest = container_run::runs(&dir).ok().and_then(|runs| runs.into_iter().next());
            if let Some(run) = newest.filter(|(restart, _)| slot.is_starting && Some(*restart) > known) {
                slot.is_starting = false;
                slot.before = slot.run.replace(run);
            }
        }
    }
}

/// Removes the records of a pod. A directory with a mount stays, which is an error.
fn remove(dir: &std::path::Path) -> std::io::Result<()> {
    for name in records::names(dir)? {
        let path = dir.join(&name);
        if !path.is_dir() {
            records::gone(std::fs::remove_file(&path))?;
            continue;
        }
        for inner in records::names(&path)? {
            let inner = path.join(inner);
            records::gone(if inner.is_dir() {
                std::fs::remove_dir(&inner)
            } else {
                std::fs::remove_file(&inner)
            })?;
        }
        records::gone(std::fs::remove_dir(&path))?;
    }
    records::gone(std::fs::remove_dir(dir))
}
