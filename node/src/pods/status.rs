//! Computes the status of a pod from the facts on this node (upstream: pkg/kubelet/kubelet_pods.go,
//! generateAPIPodStatus; pkg/kubelet/status, TerminatePod). Pure. Fields of other writers are preserved:
//! `qosClass`, and conditions that are not named here. A terminal phase never changes.

use std::collections::{HashMap, HashSet};

use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus, HostIP, Pod,
    PodIP, PodStatus, ResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use orlop_client::pods::phase;
use serde_json::{Value, json};

use super::conditions;
use super::empty_dir_limit::EVICTED;
use super::facts::{PodFacts, PodFailure, PodStage, seconds};
use super::phase::{Phase, phase_of};

/// The complete new status of a pod whose current status is `pod.status`.
pub(super) fn status(pod: &Pod, facts: &PodFacts) -> PodStatus {
    let old = pod.status.clone().unwrap_or_default();
    let (init, containers) = statuses(pod, &old, facts);
    let current = Phase::read(phase(pod));
    let failure = facts.state.as_ref().and_then(|state| state.failure.as_ref());
    let verdict = facts.verdict.clone().or_else(|| {
        failure.map(|(reason, message)| PodFailure { reason: reason.clone(), message: message.clone() })
    });
    let ended = facts.state.as_ref().is_some_and(|state| state.ended);
    let runs = facts.state.is_some() && !ended;
    // A pod that is being stopped may end only when it has stopped, unless its containers ended by themselves.
    let may_end = facts.stage == PodStage::Over || (facts.stage == PodStage::Running && ended);
    let phase = match (current, &verdict) {
        (Phase::Succeeded | Phase::Failed, _) => current,
        // An evicted pod fails only when its containers have stopped: a client that waits for the end of the pod may
        // then take its volumes (upstream: the status manager lets no phase be terminal while containers may run).
        (_, Some(_)) if facts.stage == PodStage::Over || !runs => Phase::Failed,
        (Phase::Pending | Phase::Running, _) => {
            let found = phase_of(pod, &init, &containers, may_end);
            match (facts.stage, found) {
                // A pod that did not end by itself has failed.
                (PodStage::Over, Phase::Pending | Phase::Running) => Phase::Failed,
                (PodStage::Over, Phase::Succeeded | Phase::Failed) => found,
                // The containers end because the pod is being deleted: the terminal phase is reported when everything is
                // released.
                (PodStage::Stopping, Phase::Succeeded | Phase::Failed) => current,
                (PodStage::Making | PodStage::Running | PodStage::Stopping, _) => found,
            }
        }
    };
    let mut new = old.clone();
    new.phase = Some(phase.as_str().to_owned());
    if let Some(verdict) = verdict
        && phase == Phase::Failed
        && old.reason.is_none()
    {
        (new.reason, new.message) = (Some(verdict.reason), Some(verdict.message));
    }
    new.observed_generation = pod.metadata.generation.or(old.observed_generation);
    new.start_time = old.start_time.clone().or_else(|| Some(seconds(facts.now)));
    if let Some(address) = &facts.address {
        new.host_ip = Some(address.clone());
        new.host_ips = Some(vec![HostIP { ip: address.clone() }]);
        // Every container uses the host network.
        if facts.stage == PodStage::Running && facts.state.is_some() && new.pod_ip.is_none() {
            new.pod_ip = Some(address.clone());
            new.pod_ips = Some(vec![PodIP { ip: address.clone() }]);
        }
    }
    new.init_container_statuses = Some(init).filter(|list| !list.is_empty());
    new.container_statuses = Some(containers).filter(|list| !list.is_empty());
    let can_start = facts.stage == PodStage::Running && facts.state.is_some() && !ended;
    let mut list = conditions::conditions(pod, &new, phase, can_start, facts.now);
    if let Some(verdict) = facts.verdict.as_ref().filter(|verdict| verdict.reason == EVICTED) {
        conditions::driven_off(&mut list, &verdict.message, pod.metadata.generation, facts.now);
    }
    new.conditions = Some(list);
    new
}

/// Statuses of init containers and containers: what the runtime reports, else the last reported status, else
/// waiting.
fn statuses(pod: &Pod, old: &PodStatus, facts: &PodFacts) -> (Vec<ContainerStatus>, Vec<ContainerStatus>) {
    let none = Vec::new();
    let spec = pod.spec.as_ref();
    let init_spec = spec.and_then(|spec| spec.init_containers.as_ref()).unwrap_or(&none);
    let main_spec = spec.map_or(&none, |spec| &spec.containers);
    let (mut init, mut main) = (Vec::new(), Vec::new());
    if let Some(state) = facts.state.as_ref().filter(|state| !state.containers.is_empty()) {
        (init, main) = (state.init.clone(), state.containers.clone());
        init.iter_mut().chain(&mut main).for_each(whole_seconds);
        report_resources(init_spec, &mut init);
        report_resources(main_spec, &mut main);
    } else if facts.stage != PodStage::Making {
        init = old.init_container_statuses.clone().unwrap_or_default();
        main = old.container_statuses.clone().unwrap_or_default();
    }
    let has_failed = facts.verdict.is_some() || Phase::read(phase(pod)) == Phase::Failed;
    if has_failed && main.is_empty() {
        // The pod was rejected before any container was created.
        return (init, main);
    }
    let reason = if init_spec.is_empty() { "ContainerCreating" } else { "PodInitializing" };
    let complete = |containers: &[Container], list: &mut Vec<ContainerStatus>| {
        let mut known: HashSet<&str> = list.iter().map(|status| status.name.as_str()).collect();
        let missing = containers.iter().filter(|container| known.insert(&container.name));
        let missing: Vec<_> = missing.map(|container| waiting(container, reason)).collect();
        list.extend(missing);
    };
    complete(init_spec, &mut init);
    complete(main_spec, &mut main);
    if facts.stage == PodStage::Over {
        settle(init_spec.is_empty(), &mut init, &mut main);
    }
    (init, main)
}

/// Reports the resources of the spec as allocated and as in effect: a runtime of this agent limits no resources, so
/// a resize is complete when the agent sees it. The API server resizes only containers whose resources are reported.
fn report_resources(containers: &[Container], list: &mut [ContainerStatus]) {
    let by_name: HashMap<&str, &Container> =
        containers.iter().map(|container| (container.name.as_str(), container)).collect();
    for status in list.iter_mut().filter(|status| has_begun(status)) {
        let Some(container) = by_name.get(status.name.as_str()) else { continue };
        let resources = container.resources.clone().unwrap_or_default();
        status.allocated_resources = resources.requests.clone();
        status.resources = Some(ResourceRequirements { claims: None, ..resources });
    }
}

/// Truncates times to whole seconds, as the API server stores them; otherwise every report would be a change.
fn whole_seconds(status: &mut ContainerStatus) {
    let cut = |time: &mut Option<Time>| *time = time.take().map(|time| seconds(time.0));
    for state in [&mut status.state, &mut status.last_state].into_iter().flatten() {
        if let Some(running) = &mut state.running {
            cut(&mut running.started_at);
        }
        if let Some(terminated) = &mut state.terminated {
            cut(&mut terminated.started_at);
            cut(&mut terminated.finished_at);
        }
    }
}

fn waiting(container: &Container, reason: &str) -> ContainerStatus {
    let waiting = ContainerStateWaiting { reason: Some(reason.to_owned()), message: None };
    ContainerStatus {
        name: container.name.clone(),
        image: container.image.clone().unwrap_or_default(),
        ready: false,
        started: Some(false),
        state: Some(ContainerState { waiting: Some(waiting), ..ContainerState::default() }),
        ..ContainerStatus::default()
    }
}

/// Marks containers without an exit as lost (upstream: TerminatePod).
fn settle(no_init: bool, init: &mut [ContainerStatus], main: &mut [ContainerStatus]) {
    if no_init || main.iter().any(has_begun) {
        main.iter_mut().for_each(lose);
    }
    // Init containers after the last one that has started never ran.
    if let Some(last) = init.iter().rposition(has_begun) {
        init.iter_mut().take(last + 1).for_each(lose);
    }
}

/// Whether the container runs, or has run before.
fn has_begun(status: &ContainerStatus) -> bool {
    let has_last = status.last_state.as_ref().is_some_and(|last| last.terminated.is_some());
    has_last || status.state.as_ref().is_none_or(|state| state.waiting.is_none())
}

fn lose(status: &mut ContainerStatus) {
    if status.state.as_ref().is_some_and(|state| state.terminated.is_some()) {
        return;
    }
    let terminated = ContainerStateTerminated {
        reason: Some("ContainerStatusUnknown".to_owned()),
        message: Some("The container could not be located when the pod was terminated".to_owned()),
        exit_code: 137,
        ..ContainerStateTerminated::default()
    };
    status.state = Some(ContainerState { terminated: Some(terminated), ..ContainerState::default() });
    (status.ready, status.started) = (false, Some(false));
}

/// The patch that changes the status of the pod to `new`; `None` when it is equal. Conditional on this version of
/// this pod.
pub(super) fn patch(pod: &Pod, new: &PodStatus) -> Option<Value> {
    if pod.status.as_ref() == Some(new) {
        return None;
    }
    Some(json!({
        "metadata": {"uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version},
        "status": {
            "phase": new.phase,
            "reason": new.reason,
            "message": new.message,
            "observedGeneration": new.observed_generation,
            "startTime": new.start_time,
            "hostIP": new.host_ip,
            "hostIPs": new.host_ips,
            "podIP": new.pod_ip,
            "podIPs": new.pod_ips,
            "conditions": new.conditions,
            "initContainerStatuses": new.init_container_statuses,
            "containerStatuses": new.container_statuses,
        },
    }))
}
