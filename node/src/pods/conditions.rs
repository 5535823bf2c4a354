//! The pod conditions that the node writes (upstream: pkg/kubelet/status/generate.go). Pure.

use std::collections::HashMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodCondition, PodStatus};

use super::facts::seconds;
use super::phase::{Phase, by_name};

/// A condition without its timestamps.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ConditionUpdate {
    type_: &'static str,
    is_true: bool,
    reason: Option<&'static str>,
    message: Option<String>,
}

fn yes(type_: &'static str) -> ConditionUpdate {
    ConditionUpdate { type_, is_true: true, reason: None, message: None }
}

fn no(type_: &'static str, reason: &'static str, message: Option<String>) -> ConditionUpdate {
    ConditionUpdate {
        type_,
        is_true: false,
        reason: Some(reason),
        message: message.filter(|text| !text.is_empty()),
    }
}

/// All conditions of a pod with this `status`; conditions of other writers are preserved. `can_start`: the
/// volumes are mounted and the runtime has started the pod.
pub(super) fn conditions(
    pod: &Pod,
    status: &PodStatus,
    phase: Phase,
    can_start: bool,
    now: Timestamp,
) -> Vec<PodCondition> {
    let mut list = status.conditions.clone().unwrap_or_default();
    let ready = containers_ready(pod, status, phase);
    let can_start = ConditionUpdate { is_true: can_start, ..yes("PodReadyToStartContainers") };
    let mut said = vec![can_start, initialized(pod, status, phase), pod_ready(pod, &list, &ready), ready];
    if !list.iter().any(|condition| condition.type_ == "PodScheduled") {
        said.push(yes("PodScheduled"));
    }
    for said in said {
        set(&mut list, said, pod.metadata.generation, now);
    }
    list
}

/// Sets the condition of a pod that the node evicts (upstream: DisruptionTarget, TerminationByKubelet).
pub(super) fn driven_off(list: &mut Vec<PodCondition>, why: &str, generation: Option<i64>, now: Timestamp) {
    let said = ConditionUpdate {
        message: Some(why.to_owned()),
        reason: Some("TerminationByKubelet"),
        ..yes("DisruptionTarget")
    };
    set(list, said, generation, now);
}

fn set(list: &mut Vec<PodCondition>, said: ConditionUpdate, generation: Option<i64>, now: Timestamp) {
    let status = if said.is_true { "True" } else { "False" };
    let known = list.iter_mut().find(|condition| condition.type_ == said.type_);
    let since = known.as_ref().filter(|known| known.status == status);
    let since = since.and_then(|known| known.last_transition_time.clone());
    let condition = PodCondition {
        type_: said.type_.to_owned(),
        status: status.to_owned(),
        reason: said.reason.map(str::to_owned),
        message: said.message,
        last_probe_time: None,
        last_transition_time: since.or_else(|| Some(seconds(now))),
        observed_generation: generation,
    };
    match known {
        Some(known) => *known = condition,
        None => list.push(condition),
    }
}

/// Names of the containers without a status, and of those that are not `good`.
fn sorted_out<'a>(
    containers: impl IntoIterator<Item = &'a Container>,
    statuses: &[ContainerStatus],
    good: impl Fn(&Container, &ContainerStatus) -> bool,
) -> (Vec<&'a str>, Vec<&'a str>) {
    let statuses = by_name(statuses);
    let (mut unknown, mut bad) = (Vec::new(), Vec::new());
    for container in containers {
        match statuses.get(container.name.as_str()) {
            None => unknown.push(container.name.as_str()),
            Some(status) if !good(container, status) => bad.push(container.name.as_str()),
            Some(_) => {}
        }
    }
    (unknown, bad)
}

/// Whether a container of `initContainers` is a sidecar, which runs as long as the pod does.
fn is_sidecar(init: &Container) -> bool {
    init.restart_policy.as_deref() == Some("Always")
}

fn names(unknown: &[&str], bad: &[&str], what: &str) -> String {
    let mut parts = Vec::new();
    if !unknown.is_empty() {
        parts.push(format!("containers with unknown status: [{}]", unknown.join(" ")));
    }
    if !bad.is_empty() {
        parts.push(format!("containers with {what} status: [{}]", bad.join(" ")));
    }
    parts.join(", ")
}

fn containers_ready(pod: &Pod, status: &PodStatus, phase: Phase) -> ConditionUpdate {
    const TYPE: &str = "ContainersReady";
    if phase == Phase::Failed {
        return no(TYPE, "PodFailed", None);
    }
    let Some(statuses) = &status.container_statuses else {
        return no(TYPE, "UnknownContainerStatuses", None);
    };
    let of_spec = pod.spec.as_ref();
    let init = of_spec.and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default();
    let containers = of_spec.map(|spec| spec.containers.as_slice()).unwrap_or_default();
    let ready = |_: &Container, status: &ContainerStatus| status.ready;
    let of_init = status.init_container_statuses.as_deref().unwrap_or_default();
    let (mut unknown, mut unready) = sorted_out(init.iter().filter(|one| is_sidecar(one)), of_init, ready);
    let (unknown_main, unready_main) = sorted_out(containers, statuses, ready);
    unknown.extend(unknown_main);
    unready.extend(unready_main);
    if phase == Phase::Succeeded && unknown.is_empty() {
        return no(TYPE, "PodCompleted", None);
    }
    let message = names(&unknown, &unready, "unready");
    if message.is_empty() { yes(TYPE) } else { no(TYPE, "ContainersNotReady", Some(message)) }
}

fn pod_ready(pod: &Pod, conditions: &[PodCondition], containers: &ConditionUpdate) -> ConditionUpdate {
    const TYPE: &str = "Ready";
    if !containers.is_true {
        return ConditionUpdate { type_: TYPE, ..containers.clone() };
    }
    let gates = pod.spec.as_ref().and_then(|spec| spec.readiness_gates.as_deref()).unwrap_or_default();
    // Of several conditions of one type, the first one counts.
    let by_type: HashMap<&str, &PodCondition> =
        conditions.iter().rev().map(|condition| (condition.type_.as_str(), condition)).collect();
    let mut missing = Vec::new();
    for gate in gates {
        let name = &gate.condition_type;
        match by_type.get(name.as_str()) {
            None => missing
                .push(format!("corresponding condition of pod readiness gate {name:?} does not exist.")),
            Some(condition) if condition.status != "True" => missing.push(format!(
                "the status of pod readiness gate {name:?} is not \"True\", but {}",
                condition.status
            )),
            Some(_) => {}
        }
    }
    if missing.is_empty() { yes(TYPE) } else { no(TYPE, "ReadinessGatesNotReady", Some(missing.join(", "))) }
}

fn initialized(pod: &Pod, status: &PodStatus, phase: Phase) -> ConditionUpdate {
    const TYPE: &str = "Initialized";
    let spec = pod.spec.as_ref();
    let containers = spec.and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default();
    let statuses = status.init_container_statuses.as_deref().unwrap_or_default();
    if status.container_statuses.is_none() && !containers.is_empty() {
        return no(TYPE, "UnknownContainerStatuses", None);
    }
    let (unknown, unready) =
        sorted_out(containers, statuses, |container, status| match is_sidecar(container) {
            true => status.started == Some(true),
            false => status.ready,
        });
    if phase == Phase::Succeeded && unknown.is_empty() {
        return ConditionUpdate { reason: Some("PodCompleted"), ..yes(TYPE) };
    }
    // A main container that has started proves it.
    let has_begun = |status: &ContainerStatus| {
        status.state.as_ref().is_some_and(|state| state.running.is_some() || state.terminated.is_some())
    };
    if status.container_statuses.iter().flatten().any(has_begun) {
        return yes(TYPE);
    }
    let message = names(&unknown, &unready, "incomplete");
    if message.is_empty() { yes(TYPE) } else { no(TYPE, "ContainersNotInitialized", Some(message)) }
}
