//! The table of pods: a summary of a pod's state in a few words.
//!
//! Upstream: pkg/printers/internalversion, `printPod`.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as api;
use serde_json::{Value, json};

use super::cells;
use crate::kind::Column;
use crate::object::Object;

/// The columns.
pub(super) const COLUMNS: &[Column] = &[
    cells::NAME,
    cells::text("Ready", "Containers that are ready, of all that keep running."),
    cells::text("Status", "The phase of the pod, or the reason that it does not run."),
    cells::text("Restarts", "How often containers were restarted, and when last."),
    cells::AGE,
    cells::wide("IP", "First address of the pod."),
    cells::wide("Node", "Node that the pod runs on."),
    cells::wide("Nominated Node", "Node where lower-priority pods are preempted for the pod."),
    cells::wide("Readiness Gates", "Readiness gates that are open, of all."),
];

/// The summary of a pod's state.
#[derive(Debug, PartialEq, Eq)]
struct Summary {
    status: String,
    ready: usize,
    total: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
}

/// The cells.
pub(super) fn cells(object: &Object, now: Timestamp) -> Vec<Value> {
    let pod = object.typed::<api::Pod>().unwrap_or_default();
    let summary = summarize(&pod);
    let restarts = match summary.last_restart {
        Some(time) if summary.restarts != 0 => {
            format!("{} ({} ago)", summary.restarts, cells::ago(time, now))
        }
        Some(_) | None => summary.restarts.to_string(),
    };
    let first_ip =
        object.at(&["status", "podIPs"]).and_then(|ips| ips.get(0)).and_then(|ip| ip["ip"].as_str());
    vec![
        cells::name(object),
        format!("{}/{}", summary.ready, summary.total).into(),
        summary.status.into(),
        restarts.into(),
        cells::age(object, now),
        cells::or(first_ip.unwrap_or_default(), "<none>").into(),
        cells::or(object.str_at(&["spec", "nodeName"]), "<none>").into(),
        cells::or(object.str_at(&["status", "nominatedNodeName"]), "<none>").into(),
        gates(&pod).into(),
    ]
}

/// The `conditions` of the row of a finished pod.
pub(super) fn row_conditions(object: &Object) -> Option<Value> {
    let phase = object.str_at(&["status", "phase"]);
    let message = match phase {
        "Succeeded" => "The pod has completed successfully.",
        "Failed" => "The pod failed.",
        _ => return None,
    };
    Some(json!([{"type": "Completed", "status": "True", "reason": phase, "message": message}]))
}

fn gates(pod: &api::Pod) -> String {
    let gates = pod.spec.as_ref().and_then(|spec| spec.readiness_gates.as_deref()).unwrap_or_default();
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let is_true = |condition: &&api::PodCondition| condition.status == "True";
    let true_types: BTreeSet<&str> =
        conditions(pod).iter().filter(is_true).map(|condition| condition.type_.as_str()).collect();
    let open = gates.iter().filter(|gate| true_types.contains(gate.condition_type.as_str())).count();
    format!("{open}/{}", gates.len())
}

fn conditions(pod: &api::Pod) -> &[api::PodCondition] {
    pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default()
}

fn is_true(pod: &api::Pod, kind: &str) -> bool {
    conditions(pod).iter().any(|condition| condition.type_ == kind && condition.status == "True")
}

fn summarize(pod: &api::Pod) -> Summary {
    let default_status = api::PodStatus::default();
    let status = pod.status.as_ref().unwrap_or(&default_status);
    let spec = pod.spec.as_ref();
    let phase = status.phase.as_deref().unwrap_or_default();
    let pod_reason = status.reason.as_deref().unwrap_or_default();
    let init_containers = spec.and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default();
    let restarting: BTreeSet<&str> = (init_containers.iter())
        .filter(|container| container.restart_policy.as_deref() == Some("Always"))
        .map(|container| container.name.as_str())
        .collect();
    let is_sidecar = |name: &str| restarting.contains(name);
    let sidecars = init_containers.iter().filter(|container| is_sidecar(&container.name)).count();
    let mut summary = Summary {
        status: cells::or(pod_reason, phase).to_owned(),
        ready: 0,
        total: spec.map_or(0, |spec| spec.containers.len()) + sidecars,
        restarts: 0,
        last_restart: None,
    };
    if conditions(pod).iter().any(|condition| {
        condition.type_ == "PodScheduled" && condition.reason.as_deref() == Some("SchedulingGated")
    }) {
        summary.status = "SchedulingGated".to_owned();
    }

    let mut initializing = false;
    let (mut sidecar_restarts, mut last_sidecar_restart) = (0, None);
    for (i, container) in status.init_container_statuses.iter().flatten().enumerate() {
        let ended = last_end(container);
        let sidecar = is_sidecar(&container.name);
        summary.restarts += i64::from(container.restart_count);
        summary.last_restart = summary.last_restart.max(ended);
        if sidecar {
            sidecar_restarts += i64::from(container.restart_count);
            last_sidecar_restart = last_sidecar_restart.max(ended);
        }
        if terminated(container).is_some_and(|end| end.exit_code == 0) {
            continue;
        }
        if sidecar && container.started == Some(true) {
            summary.ready += usize::from(container.ready);
            continue;
        }
        let step = match (terminated(container), waiting(container)) {
            (Some(end), _) => end_text(end),
            (None, Some(reason)) if reason != "PodInitializing" => reason.to_owned(),
            (None, _) => format!("{i}/{}", init_containers.len()),
        };
        summary.status = format!("Init:{step}");
        initializing = true;
        break;
    }

    if !initializing || is_true(pod, "Initialized") {
        (summary.restarts, summary.last_restart) = (sidecar_restarts, last_sidecar_restart);
        main_containers(pod, status, &mut summary);
    }

    if pod.metadata.deletion_timestamp.is_some() {
        if pod_reason == "NodeLost" {
            summary.status = "Unknown".to_owned();
        } else if !matches!(phase, "Succeeded" | "Failed") {
            summary.status = "Terminating".to_owned();
        }
    }
    summary
}

/// Adds the state of the containers after initialization. The first container's reason takes
/// precedence, so they are visited from last to first.
fn main_containers(pod: &api::Pod, status: &api::PodStatus, summary: &mut Summary) {
    let mut running = false;
    let mut failure = None;
    for container in status.container_statuses.iter().flatten().rev() {
        summary.restarts += i64::from(container.restart_count);
        summary.last_restart = summary.last_restart.max(last_end(container));
        let is_running = container.state.as_ref().is_some_and(|state| state.running.is_some());
        match (waiting(container), terminated(container)) {
            (Some(reason), _) => summary.status = reason.to_owned(),
            (None, Some(end)) => {
                summary.status = end_text(end);
                if end.exit_code != 0 {
                    failure = Some(summary.status.clone());
                }
            }
            (None, None) if container.ready && is_running => {
                running = true;
                summary.ready += 1;
            }
            (None, None) => {}
        }
    }
    if summary.status != "Completed" {
        return;
    }
    if running && is_true(pod, "Ready") {
        summary.status = "Running".to_owned();
    } else if let Some(failure) = failure {
        summary.status = failure;
    } else if running {
        summary.status = "NotReady".to_owned();
    }
}

fn terminated(container: &api::ContainerStatus) -> Option<&api::ContainerStateTerminated> {
    container.state.as_ref()?.terminated.as_ref()
}

/// The reason why a container waits, if it has one.
fn waiting(container: &api::ContainerStatus) -> Option<&str> {
    let reason = container.state.as_ref()?.waiting.as_ref()?.reason.as_deref()?;
    (!reason.is_empty()).then_some(reason)
}

/// The time at which the container last terminated before a restart.
fn last_end(container: &api::ContainerStatus) -> Option<Timestamp> {
    Some(container.last_state.as_ref()?.terminated.as_ref()?.finished_at.as_ref()?.0)
}

fn end_text(end: &api::ContainerStateTerminated) -> String {
    let signal = end.signal.unwrap_or_default();
    match end.reason.as_deref() {
        Some(reason) if !reason.is_empty() => reason.to_owned(),
        Some(_) | None if signal != 0 => format!("Signal:{signal}"),
        Some(_) | None => format!("ExitCode:{}", end.exit_code),
    }
}

#[cfg(test)]
mod tests;
