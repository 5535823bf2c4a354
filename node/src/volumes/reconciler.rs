//! Processes one key at a time: resolves the volumes of a pod, or decides the next step for a volume, starts the
//! operation, and stores its result.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use orlop_client::names::reason;
use orlop_client::recorder::EventType::Warning;
use orlop_client::worker::panic_text;
use tokio::time::Instant;

use super::Uid;
use super::actual_state::{Operation, OperationFailure, OperationOutcome};
use super::decide::{Decision, MountState as Presence, VolumeRefusal, decide};
use super::events;
use super::fs_group::fs_group;
use super::manager::{Key, Manager};
use super::manager_state::ManagerState;
use super::operations::{OperationError, OperationInput, OperationResult};
use super::populator::{self, PopulateError, ResolvedVolume, VolumeUses};
use super::resize;
use crate::plugin::Outcome;
use crate::volume::PodKey;

/// The maximum number of concurrent lookups for one pod.
const MAX_LOOKUPS: usize = 16;
/// Interval of the event about a volume that is not attached. Upstream: the timeout of WaitForAttach.
const ATTACH_PATIENCE: Duration = Duration::from_secs(600);
/// How often a waiting volume is checked for whether it needs an attachment at all.
const ATTACH_LOOK: Duration = Duration::from_secs(2);

impl Manager {
    /// Looks up the volumes of a pod, if a lookup is due.
    pub(super) fn look_up(self: &Arc<Self>, uid: &Uid) {
        let Some(pod) = self.state().desired.begin_lookup(uid, Instant::now()) else { return };
        let (this, uid) = (Arc::clone(self), uid.clone());
        self.spawn(async move {
            let failed = AssertUnwindSafe(this.resolve_all(&uid, &pod)).catch_unwind().await;
            let failed = failed.unwrap_or_else(|panic| {
                let message = format!("the lookup of its volumes panicked: {}", panic_text(panic.as_ref()));
                tracing::error!(pod = %PodKey::of(&pod), message);
                Some(message)
            });
            this.looked_up(&uid, failed);
        });
    }

    /// Resolves the volumes of a pod. Returns the last error.
    async fn resolve_all(&self, uid: &Uid, pod: &Pod) -> Option<String> {
        let uses = VolumeUses::of(pod);
        let uses = &uses;
        let lookups = populator::used_volumes(pod, uses).into_iter().cloned().map(|volume| async move {
            let found =
                populator::resolve(&self.host, &self.plugins, &self.objects, pod, &volume, uses).await;
            (volume.name, found)
        });
        let mut lookups = std::pin::pin!(stream::iter(lookups).buffer_unordered(MAX_LOOKUPS));
        let mut failed = None;
        while let Some((name, found)) = lookups.next().await {
            if let Err(error) = &found {
                failed = Some(error.to_string());
            }
            self.found(uid, &name, found);
        }
        failed
    }

    fn found(&self, uid: &Uid, name: &str, found: Result<ResolvedVolume, PopulateError>) {
        let mut state = self.state();
        let unique = state.desired.resolved(uid, name, found.map_err(|error| error.to_string()));
        if let Some(unique) = unique {
            state.learn(&unique);
            self.queue.add(Key::Volume(unique));
            self.publish(&mut state);
        }
        self.report(&state, uid);
    }

    fn looked_up(&self, uid: &Uid, failed: Option<String>) {
        let mut state = self.state();
        let Some(pod) = state.desired.get_mut(uid) else { return };
        pod.resolving = false;
        let now = Instant::now();
        match failed {
            None => pod.failure = None,
            Some(message) if !pod.due => {
                let failure = OperationFailure::after(pod.failure.as_ref(), message, now);
                self.queue.add_after(Key::Pod(uid.clone()), failure.until - now);
                (pod.failure, pod.due) = (Some(failure), true);
            }
            Some(_) => {}
        }
        if pod.due && pod.failure.is_none() {
            self.queue.add(Key::Pod(uid.clone()));
        }
        // Reconsider the mounts that were kept because the pod was not fully resolved.
        self.wake_pod(&state, uid);
    }

    /// Decides the next step for a volume and starts it.
    pub(super) fn look_at(self: &Arc<Self>, unique: &Arc<str>) {
        let now = Instant::now();
        let mut state = self.state();
        self.review(&mut state, unique);
        let Some(facts) = state.facts(unique, now) else { return };
        let decision = decide(&facts);
        if decision != Decision::WaitForAttach
            && let Some(volume) = state.actual.get_mut(unique)
        {
            (volume.waits_since, volume.attachment) = (None, None);
        }
        let (operation, refusal) = match decision {
            Decision::Rest => return,
            Decision::WaitUntil(until) => {
                return self.queue.add_after(Key::Volume(Arc::clone(unique)), until - now);
            }
            Decision::WaitForAttach => return self.wait_for_attach(&mut state, unique, now),
            Decision::Forget => {
                state.actual.volumes.remove(unique);
                return self.publish(&mut state);
            }
            Decision::Refuse(uid, refusal) => (Operation::Refuse(uid), Some(refusal)),
            Decision::TearDown(uid) => (Operation::TearDown(uid), None),
            Decision::MountDevice(uid) => {
                return self.begin(&mut state, unique, Operation::MountDevice, Some(&uid));
            }
            Decision::UnmountDevice => (Operation::UnmountDevice, None),
            Decision::SetUp(uid) => (Operation::SetUp(uid), None),
            Decision::Refresh(uid) => (Operation::Refresh(uid), None),
            Decision::Expand(uid) => (Operation::Expand(uid), None),
        };
        let uid = operation.uid().cloned();
        match (refusal, uid) {
            (Some(refusal), Some(uid)) => self.refuse(&mut state, unique, &uid, &refusal, now),
            (_, uid) => self.begin(&mut state, unique, operation, uid.as_ref()),
        }
    }

    /// Recomputes the capabilities of a volume. They may be known only after the lookup: drivers report some of them,
    /// and cluster objects others.
    fn review(&self, state: &mut ManagerState, unique: &Arc<str>) {
        let Some(volume) = state.actual.get(unique) else { return };
        let here = volume.device == Presence::Mounted
            || volume.mounts.values().any(|mount| mount.state == Presence::Mounted);
        let changed = state.desired.review(unique, |wanted| {
            let mut now = wanted.plugin.abilities(&self.host, &wanted.spec);
            if here {
                // While the volume is mounted, it keeps the capability: the controller may detach it only after the unmount.
                now.attach = wanted.abilities.attach;
            }
            now
        });
        if changed {
            state.learn(unique);
            self.publish(state);
        }
    }

    fn wait_for_attach(self: &Arc<Self>, state: &mut ManagerState, unique: &Arc<str>, now: Instant) {
        let Some(volume) = state.actual.get_mut(unique) else { return };
        if volume.attachment.is_none() {
            volume.attachment = self.watch_attachment(unique);
        }
        let since = *volume.waits_since.get_or_insert(now);
        let left = (since + ATTACH_PATIENCE).saturating_duration_since(now);
        if !left.is_zero() {
            return self.queue.add_after(Key::Volume(Arc::clone(unique)), left.min(ATTACH_LOOK));
        }
        volume.waits_since = Some(now);
        self.queue.add_after(Key::Volume(Arc::clone(unique)), ATTACH_PATIENCE);
        for (_, pod, wanted) in state.desired.of_volume(unique) {
            let text = events::not_attached(wanted.spec.dir_name(), &self.host.config.name);
            self.host.events.event(&*pod.pod, Warning, reason::FAILED_ATTACH_VOLUME, text);
        }
    }

    fn refuse(
        &self,
        state: &mut ManagerState,
        unique: &Arc<str>,
        uid: &Uid,
        refusal: &VolumeRefusal,
        now: Instant,
    ) {
        let Some((pod, wanted)) = state
            .desired
            .get(uid)
            .and_then(|pod| Some((Arc::clone(&pod.pod), Arc::clone(pod.volume(unique)?))))
        else {
            return;
        };
        let text = match refusal {
            VolumeRefusal::Check(text) => text.clone(),
            VolumeRefusal::InUse => {
                let in_use =
                    "volume uses the ReadWriteOncePod access mode and is already in use by another pod";
                events::about("MountVolume.SetUp failed", wanted.spec.dir_name(), in_use)
            }
        };
        let reason = if wanted.spec.block { reason::FAILED_MAP_VOLUME } else { reason::FAILED_MOUNT };
        self.host.events.event(&*pod, Warning, reason, text.clone());
        let Some(volume) = state.actual.get_mut(unique) else { return };
        volume.begin(Operation::Refuse(uid.clone()), None);
        volume.end(OperationOutcome::Failed(Outcome::Final, text), now);
        self.queue.add(Key::Volume(Arc::clone(unique)));
        self.report(state, uid);
    }

    fn begin(
        self: &Arc<Self>,
        state: &mut ManagerState,
        unique: &Arc<str>,
        operation: Operation,
        uid: Option<&Uid>,
    ) {
        let pod = uid.and_then(|uid| {
            let pod = state.desired.get(uid)?;
            Some((Arc::clone(&pod.pod), Arc::clone(pod.volume(unique)?), pod.version))
        });
        let Some(volume) = state.actual.get(unique) else { return };
        let others = volume
            .mounts
            .iter()
            .filter(|(other, mount)| Some(*other) != uid && (mount.old || mount.state == Presence::Mounted));
        let first =
            others.map(|(other, _)| other).min_by_key(|other| state.desired.get(other).map(|pod| pod.order));
        let other = first.map(|other| state.desired.get(other).and_then(|pod| fs_group(&pod.pod)));
        let mount = uid.and_then(|uid| volume.mounts.get(uid));
        let place = match &pod {
            Some((_, wanted, _)) => Some(wanted.place.clone()),
            None => mount.map(|mount| mount.place.clone()),
        };
        let version = pod.as_ref().map(|(_, _, version)| *version).unwrap_or_default();
        let job = OperationInput {
            unique: Arc::clone(unique),
            operation: operation.clone(),
            plugin: volume.plugin.clone(),
            volume_name: volume.volume_name.clone(),
            known_size: mount.and_then(|mount| mount.size.clone()),
            online: mount.is_some_and(|mount| mount.state == Presence::Mounted),
            pod: pod.map(|(pod, wanted, _)| (pod, wanted)),
            place: place.clone(),
            other,
        };
        let Some(volume) = state.actual.get_mut(unique) else { return };
        if let (Operation::Refresh(uid), true) = (&operation, job.pod.is_some())
            && let Some(mount) = volume.mounts.get_mut(uid)
        {
            // A later change needs another refresh.
            mount.stale = false;
        }
        if let Some(uid) = uid {
            // The refusal no longer applies.
            volume.failures.remove(&Operation::Refuse(uid.clone()));
        }
        volume.begin(operation, place.as_ref());
        let this = Arc::clone(self);
        self.spawn(async move {
            let outcome = match AssertUnwindSafe(this.perform(&job)).catch_unwind().await {
                Ok(outcome) => outcome,
                Err(panic) => {
                    let message = format!("the plugin panicked: {}", panic_text(panic.as_ref()));
                    tracing::error!(volume = &*job.unique, operation = ?job.operation, message);
                    Err(OperationError { outcome: Outcome::Uncertain, message, goes_on: false })
                }
            };
            this.finish(&job, version, outcome);
        });
    }

    fn finish(
        self: &Arc<Self>,
        job: &OperationInput,
        version: u64,
        outcome: Result<OperationResult, OperationError>,
    ) {
        let now = Instant::now();
        if let Err(trouble) = &outcome {
            let failed = (&*job.unique, &trouble.message);
            tracing::debug!(volume = failed.0, operation = ?job.operation, why = failed.1, outcome = ?trouble.outcome, "failed");
            if let Some((pod, wanted)) = &job.pod
                && let Some((reason, text)) = events::failure(&job.operation, wanted, &trouble.message)
            {
                self.host.events.event(&**pod, Warning, reason, text);
            }
        }
        let mut state = self.state();
        let Some(volume) = state.actual.get_mut(&job.unique) else { return };
        let (end, brought) = match outcome {
            Ok(brought) => (OperationOutcome::Done, brought),
            Err(trouble) => {
                if let (true, Operation::Expand(uid)) = (trouble.goes_on, &job.operation) {
                    volume.unexpanded.insert(uid.clone());
                }
                if let Operation::Refresh(uid) = &job.operation
                    && let Some(mount) = volume.mounts.get_mut(uid)
                {
                    mount.stale = true;
                }
                (OperationOutcome::Failed(trouble.outcome, trouble.message), OperationResult::default())
            }
        };
        let done = end == OperationOutcome::Done;
        if let OperationOutcome::Failed(_, why) = &end
            && volume.failures.get(&job.operation).is_none_or(|last| last.message != *why)
        {
            let pod = job.pod.as_ref().map(|(pod, _)| PodKey::of(pod).to_string());
            let pod = pod.or_else(|| job.operation.uid().map(|uid| uid.to_string()));
            tracing::warn!(
                volume = &*job.unique,
                pod,
                "{}, will be tried until it is done: {why}",
                job.operation.words()
            );
        }
        volume.end(end, now);
        match &job.operation {
            Operation::SetUp(uid) | Operation::Refresh(uid) if done => {
                let set_up = matches!(job.operation, Operation::SetUp(_));
                if let Some(mount) = volume.mounts.get_mut(uid) {
                    (mount.version, mount.set_up_at) = (version, Some(now));
                    if set_up {
                        mount.old = false;
                        mount.size =
                            job.pod.as_ref().and_then(|(_, wanted)| resize::known_size(&wanted.spec));
                    }
                }
            }
            Operation::TearDown(_)
            | Operation::SetUp(_)
            | Operation::Refresh(_)
            | Operation::Expand(_)
            | Operation::Refuse(_)
            | Operation::MountDevice
            | Operation::UnmountDevice => {}
        }
        if let Some((claim, size)) = brought.claim {
            volume.mounts.values_mut().for_each(|mount| mount.size = Some(size.clone()));
            state.desired.refreshed(&job.unique, &Arc::new(claim));
        }
        self.queue.add(Key::Volume(Arc::clone(&job.unique)));
        if job.plugin.is_none() || state.actual.riddles().next().is_some() {
            // The result may have resolved what blocked other volumes.
            state.actual.volumes.keys().for_each(|unique| self.queue.add(Key::Volume(Arc::clone(unique))));
        }
        self.publish(&mut state);
        let wanting = state.desired.of_volume(&job.unique).map(|(uid, _, _)| uid.clone());
        let of_operation = job.operation.uid().cloned();
        let pods: BTreeSet<Uid> = wanting.chain(of_operation.clone()).collect();
        pods.iter().for_each(|uid| self.report(&state, uid));
        // The last mount of a released pod is gone, or was never made.
        if let Some(uid) = of_operation.filter(|uid| state.desired.get(uid).is_none()) {
            self.wake_pod(&state, &uid);
            if !state.knows(&uid) {
                self.tidy(&mut state, &uid);
            }
        }
    }
}
