//! Recycler pods, which empty a volume ([`crate::scrub`]), without a container runtime or for a directory of this machine: the
//! agent deletes the files itself, and reports the result as that of the container. [`run`] returns only when the last
//! file is processed: the volume must not change hands while the agent deletes (I8).

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStatus, Pod,
};
use orlop_client::recorder::EventType;
use tokio_util::sync::CancellationToken;

use super::active_deadline;
use super::context::WorkerContext;
use super::facts::{PodFailure, seconds};
use crate::config::RuntimeKind;
use crate::runtime::{PodPath, PodState};
use crate::scrub;
use crate::volume::PodKey;

/// Whether the agent itself does the work of this pod.
pub(super) fn is_ours(shared: &WorkerContext, pod: &Pod) -> bool {
    // With a runtime, the agent still empties hostPath volumes: a container would also erase mounts below the directory, and could
    // erase any directory of the machine.
    let is_host_path = |pod: &Pod| {
        let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
        volumes.iter().any(|volume| volume.host_path.is_some())
    };
    scrub::is_recycler(pod) && (shared.host.config.runtime == RuntimeKind::None || is_host_path(pod))
}

/// Empties the volume. `begun` is when the pod arrived on the node. `cancel` stops the deletion; what is already
/// deleted is lost.
pub(super) async fn run(
    shared: &WorkerContext,
    pod: &Arc<Pod>,
    paths: &[PodPath],
    begun: Timestamp,
    cancel: CancellationToken,
) -> PodState {
    let started = shared.host.clock.now();
    let outcome = empty(shared, pod, paths, begun, cancel).await;
    let (code, failure) = match outcome {
        Ok(entries) => {
            tracing::info!(pod = %PodKey::of(pod), entries, "the volume is empty");
            (0, None)
        }
        Err(failure) => (1, Some(failure)),
    };
    let terminated = ContainerStateTerminated {
        exit_code: code,
        reason: Some(if code == 0 { "Completed" } else { "Error" }.to_owned()),
        started_at: Some(seconds(started)),
        finished_at: Some(seconds(shared.host.clock.now())),
        ..ContainerStateTerminated::default()
    };
    let state = ContainerState { terminated: Some(terminated), ..ContainerState::default() };
    PodState { containers: containers(pod, &state, false), ended: true, failure, ..PodState::default() }
}

async fn empty(
    shared: &WorkerContext,
    pod: &Pod,
    paths: &[PodPath],
    begun: Timestamp,
    cancel: CancellationToken,
) -> Result<u64, (String, String)> {
    let failed = |why: String| ("RecycleFailed".to_owned(), why);
    let host = &shared.host;
    if host.config.is_virtual {
        return Err(failed("a virtual node has no volume to empty: nothing was deleted".to_owned()));
    }
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    // A token of the pod may be among them; the recycler has one other volume.
    let is_its = |path: &&PodPath| {
        volumes.iter().any(|volume| volume.name == path.volume && volume.projected.is_none())
    };
    let dir = paths.iter().find(is_its).map(|path| path.path.clone());
    let dir = dir.ok_or_else(|| failed("the pod has no volume".to_owned()))?;
    let left = active_deadline::left(pod, begun, host.clock.now());
    let key = PodKey::of(pod);
    let roots = &host.config.host_path_roots;
    let root = host.paths.root();
    let scrubbing = scrub::run(&host.client, &host.mounts, root, roots, &key, &dir, cancel.clone());
    tokio::pin!(scrubbing);
    let (outcome, is_late) = tokio::select! {
        outcome = &mut scrubbing => (outcome, false),
        () = active_deadline::over(left) => {
            cancel.cancel();
            (scrubbing.await, true)
        }
    };
    match outcome {
        Ok(scrubbed) => Ok(scrubbed.entries),
        Err(_) if is_late => {
            let PodFailure { reason, message } = active_deadline::verdict();
            host.events.event(pod, EventType::Normal, &reason, message.as_str());
            Err((reason, message))
        }
        Err(error) => Err(failed(error.to_string())),
    }
}

/// The state of the pod while its volume is being emptied.
pub(super) fn running(pod: &Pod, now: Timestamp) -> PodState {
    let running = ContainerStateRunning { started_at: Some(seconds(now)) };
    let state = ContainerState { running: Some(running), ..ContainerState::default() };
    PodState { containers: containers(pod, &state, true), ..PodState::default() }
}

fn containers(pod: &Pod, state: &ContainerState, ready: bool) -> Vec<ContainerStatus> {
    let spec = pod.spec.iter().flat_map(|spec| &spec.containers);
    spec.map(|container| ContainerStatus {
        name: container.name.clone(),
        image: container.image.clone().unwrap_or_default(),
        ready,
        started: Some(ready),
        state: Some(state.clone()),
        ..ContainerStatus::default()
    })
    .collect()
}
