//! The phase of a pod (upstream: pkg/kubelet/kubelet_pods.go, getPhase). Pure.

use std::collections::HashMap;

use k8s_openapi::api::core::v1::{Container, ContainerState, ContainerStatus, Pod};

/// The phase of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Pending,
    Running,
    Succeeded,
    Failed,
}

impl Phase {
    /// The phase with this name; an unknown name is `Pending`.
    pub(super) fn read(name: &str) -> Self {
        match name {
            "Running" => Self::Running,
            "Succeeded" => Self::Succeeded,
            "Failed" => Self::Failed,
            _ => Self::Pending,
        }
    }

    /// The name in the API.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }
}

/// The state of a container as far as the phase depends on it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ContainerPhase {
    Unknown,
    Waiting,
    Running,
    /// Terminated, or waiting for the next run.
    Stopped {
        well: bool,
    },
}

fn of(status: Option<&ContainerStatus>) -> ContainerPhase {
    let Some(status) = status else { return ContainerPhase::Unknown };
    let Some(state) = &status.state else { return ContainerPhase::Unknown };
    if state.running.is_some() {
        return ContainerPhase::Running;
    }
    if let Some(terminated) = &state.terminated {
        return ContainerPhase::Stopped { well: terminated.exit_code == 0 };
    }
    match (&state.waiting, status.last_state.as_ref().and_then(|last| last.terminated.as_ref())) {
        // Upstream does not count it as succeeded, whatever the exit code of its last run.
        (Some(_), Some(_)) => ContainerPhase::Stopped { well: false },
        (Some(_), None) => ContainerPhase::Waiting,
        (None, _) => ContainerPhase::Unknown,
    }
}

/// Container statuses by their name. Of several with one name, the first one counts.
pub(super) fn by_name(statuses: &[ContainerStatus]) -> HashMap<&str, &ContainerStatus> {
    statuses.iter().rev().map(|status| (status.name.as_str(), status)).collect()
}

/// Returns the phase of a pod with these container statuses. `may_end`: no container is started again, whatever
/// the restart policy.
pub(super) fn phase_of(
    pod: &Pod,
    init: &[ContainerStatus],
    main: &[ContainerStatus],
    may_end: bool,
) -> Phase {
    let Some(spec) = &pod.spec else { return Phase::Pending };
    let policy = spec.restart_policy.as_deref().unwrap_or("Always");
    let (init_by_name, main_by_name) = (by_name(init), by_name(main));
    let (mut pending_init, mut failed_init) = (0, 0);
    let is_sidecar = |container: &&Container| container.restart_policy.as_deref() == Some("Always");
    for container in spec.init_containers.iter().flatten().filter(|container| !is_sidecar(container)) {
        let status = init_by_name.get(container.name.as_str()).copied();
        let last = status.and_then(|status| status.last_state.as_ref()?.terminated.as_ref());
        match of(status) {
            ContainerPhase::Stopped { well: true } => {}
            ContainerPhase::Stopped { well: false } => {
                // Between two runs, the last one counts.
                let between = status.is_some_and(|s| s.state.as_ref().is_some_and(|s| s.waiting.is_some()));
                if !between || last.is_some_and(|last| last.exit_code != 0) {
                    failed_init += 1;
                }
            }
            ContainerPhase::Unknown | ContainerPhase::Waiting | ContainerPhase::Running => pending_init += 1,
        }
    }
    let (mut unknown, mut waiting, mut running, mut stopped, mut well) = (0, 0, 0, 0, 0);
    let mut pending_sidecars = 0;
    for container in spec.init_containers.iter().flatten().filter(is_sidecar) {
        let status = init_by_name.get(container.name.as_str()).copied();
        match of(status) {
            ContainerPhase::Unknown => (unknown, pending_sidecars) = (unknown + 1, pending_sidecars + 1),
            ContainerPhase::Waiting => (waiting, pending_sidecars) = (waiting + 1, pending_sidecars + 1),
            ContainerPhase::Running => {
                running += 1;
                pending_sidecars += usize::from(status.is_none_or(|status| status.started != Some(true)));
            }
            // The exit code of a sidecar does not affect the phase of the pod.
            ContainerPhase::Stopped { .. } => {}
        }
    }
    let has_begun = main.iter().any(|status| {
        let begun = |state: &Option<ContainerState>| {
            state.as_ref().is_some_and(|state| state.running.is_some() || state.terminated.is_some())
        };
        begun(&status.state) || begun(&status.last_state)
    });
    for container in &spec.containers {
        match of(main_by_name.get(container.name.as_str()).copied()) {
            ContainerPhase::Unknown => unknown += 1,
            ContainerPhase::Waiting => waiting += 1,
            ContainerPhase::Running => running += 1,
            ContainerPhase::Stopped { well: is_well } => {
                stopped += 1;
                well += usize::from(is_well);
            }
        }
    }
    if failed_init > 0 && policy == "Never" {
        return Phase::Failed;
    }
    if pending_init > 0 || (pending_sidecars > 0 && !has_begun) || waiting > 0 || unknown > 0 {
        return Phase::Pending;
    }
    if running > 0 {
        return Phase::Running;
    }
    if stopped == 0 {
        return Phase::Pending;
    }
    match (may_end || policy != "Always", stopped == well) {
        (false, _) => Phase::Running,
        (true, true) => Phase::Succeeded,
        (true, false) if may_end || policy == "Never" => Phase::Failed,
        (true, false) => Phase::Running,
    }
}
