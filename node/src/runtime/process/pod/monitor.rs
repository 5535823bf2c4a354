//! Monitors a running container: waits for its exit, runs its postStart hook, and then its probes.

use std::time::Duration;

use k8s_openapi::api::core::v1::Container;
use orlop_client::recorder::EventType;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::super::decide::ContainerRef;
use super::super::launch_spec::{Program, RunRecord};
use super::super::probe::{self, ProbeResult};
use super::super::{container_run, hook, plan};
use super::{PodMessage, PodTask, moment};

/// Timeout of a postStart hook; upstream has none.
const POST_START: Duration = Duration::from_secs(3600);

impl PodTask {
    /// Waits for the end of a run in the background and probes it in the meantime. `is_new`: the container was just
    /// started, and its postStart hook runs first. After a restart of the agent it is unknown whether the hook has
    /// completed; the hook is not run again.
    pub(super) fn follow(&mut self, which: ContainerRef, is_new: bool) {
        let dir = self.dir(which);
        let Some((restart, attempt)) = self.slot(which).run.clone() else { return };
        let own = self.own.clone();
        let to_watch = attempt.clone();
        tokio::spawn(async move {
            let result = container_run::ended(&dir, restart, &to_watch).await;
            // If the task has ended, the record on disk has the same information.
            let _ = own.send(PodMessage::Ended(which, restart, result));
        });
        let container = &self.slot(which).container;
        let hook = container.lifecycle.as_ref().and_then(|hooks| hooks.post_start.clone());
        match hook.filter(|_| is_new && self.is_wanted) {
            None => self.probe(which),
            Some(handler) => {
                let target = self.target(container, &attempt);
                let (container, own) = (container.clone(), self.own.clone());
                let token = CancellationToken::new();
                let guard = token.clone().drop_guard();
                tokio::spawn(token.run_until_cancelled_owned(async move {
                    let result = hook::run(&handler, &container, &target, POST_START).await;
                    let _ = own.send(PodMessage::Hooked(which, restart, result));
                }));
                self.slot_mut(which).probes = Some(guard);
            }
        }
    }

    /// Starts the probes of a container. Init containers have none.
    fn probe(&mut self, which: ContainerRef) {
        let slot = self.slot(which);
        let Some((restart, attempt)) = slot.run.clone() else { return };
        if matches!(which, ContainerRef::Init(_)) && !plan::is_sidecar(&slot.container) {
            return;
        }
        let own = self.own.clone();
        let tell = move |verdict| own.send(PodMessage::Probed(which, restart, verdict)).is_ok();
        let (verdict, guard) = probe::start(&slot.container, self.target(&slot.container, &attempt), tell);
        let slot = self.slot_mut(which);
        (slot.is_started, slot.is_ready) = (verdict.is_started, verdict.is_ready);
        slot.probes = guard;
    }

    pub(super) fn target(&self, container: &Container, attempt: &RunRecord) -> probe::JoinTarget {
        probe::JoinTarget {
            launcher: self.shared.settings.launcher.clone(),
            attempt: attempt.clone(),
            program: self.program(container),
        }
    }

    /// Handles the result of a postStart hook. A container whose hook fails is stopped.
    pub(super) fn hooked(&mut self, which: ContainerRef, restart: u32, result: Result<(), String>) {
        if self.slot(which).run.as_ref().is_none_or(|(now, attempt)| *now != restart || attempt.end.is_some())
        {
            return;
        }
        self.slot_mut(which).probes = None;
        let Err(why) = result else { return self.probe(which) };
        self.event(EventType::Warning, "FailedPostStartHook", format!("PostStartHook failed: {why}"));
        let name = &self.slot(which).container.name;
        self.event(
            EventType::Normal,
            "Killing",
            format!("Stopping container {name}: its postStart hook failed"),
        );
        self.end_beside(which, self.grace());
    }

    /// Stops a container in the background.
    fn end_beside(&self, which: ContainerRef, grace: Duration) {
        let (until, limit) = watch::channel(moment(grace));
        let ending = self.end_one(which, limit, Vec::new());
        let key = self.key.clone();
        tokio::spawn(async move {
            if let Some(Err(error)) = ending.await {
                tracing::error!(pod = %key, "{error}");
            }
            drop(until);
        });
    }

    /// The identity of a program that joins the container. Its environment consists only of the literal values in the
    /// pod.
    fn program(&self, container: &Container) -> Program {
        let plain = container.env.iter().flatten();
        let env = plain.filter_map(|one| Some((one.name.clone(), one.value.clone()?))).collect();
        plan::program(&self.record.pod, container, env).unwrap_or_default()
    }

    pub(super) fn probed(&mut self, which: ContainerRef, restart: u32, verdict: ProbeResult) {
        if self.slot(which).run.as_ref().is_none_or(|(now, _)| *now != restart) {
            return;
        }
        let slot = self.slot_mut(which);
        (slot.is_started, slot.is_ready) = (verdict.is_started, verdict.is_ready && verdict.failed.is_none());
        let Some(why) = verdict.failed else { return };
        slot.probes = None;
        let name = slot.container.name.clone();
        self.event(EventType::Warning, "Unhealthy", why.clone());
        self.event(
            EventType::Normal,
            "Killing",
            format!("Container {name} failed {}, will be restarted", verdict.probe),
        );
        self.end_beside(which, verdict.grace.unwrap_or_else(|| self.grace()));
    }
}
