//! Explains the state of a node, its effect on pods and volumes, and how many more volumes the node accepts.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, Pod, Taint};
use k8s_openapi::api::storage::v1::CSIDriver;
use serde_json::json;

use orlop_client::names::TAINT_OUT_OF_SERVICE;
use orlop_client::pods;
use orlop_controller::node_lifecycle::health::{Readiness, ready};
use orlop_controller::scheduler::filter::taints::Tolerations;
use orlop_volume::object::volume_name;

use super::cluster_view::ClusterView;
use super::eligible_nodes::may_run;
use super::model::{Cause, Code, Fix, Reference, Severity, Why};
use super::volume_limits::VolumeLimits;
use super::words;

/// Explains a node that is not being deleted.
pub fn explain(world: &dyn ClusterView, node: &Arc<Node>, why: &mut Why) {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    why.state = match Readiness::of(node) {
        Readiness::Ready => "Ready",
        Readiness::NotReady => "NotReady",
        Readiness::Unknown => "Unknown",
        Readiness::Unsaid => "NotReported",
    }
    .to_owned();
    health(world, node, why);
    if node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true)) {
        let message = format!("Node {name} is cordoned and accepts no new pods until it is uncordoned.");
        let patch = json!({"spec": {"unschedulable": null}});
        let means = format!("Makes node {name} schedulable again.");
        let fix = Fix {
            command: format!("kubectl uncordon {name}"),
            ..Fix::merge(Reference::to(node.as_ref()), patch, means)
        };
        // Cordoning is intentional: there is no problem, and the state does not end by itself.
        why.push(Severity::Ok, Cause::new(Code::NodeCordoned, message, Vec::new()).fixed_by(Some(fix)));
    }
    let limits = world.volume_limits(name);
    for (driver, room) in limits.iter() {
        if let Some(limit) = room.limit
            && room.used.len() >= limit
        {
            let message = format!(
                "Driver {driver} supports {} on node {name}, and {} are in use: a pod that needs another volume must run on another node.",
                words::count(limit, "volume"),
                room.used.len()
            );
            let object = Reference::named::<CSIDriver>(None, driver);
            why.push(Severity::Waiting, Cause::new(Code::DriverFull, message, vec![object]));
        }
    }
    let room = limits.iter().map(|(driver, room)| match room.limit {
        Some(limit) => format!("{driver} {} of {limit}", room.used.len()),
        None => format!("{driver} {} (no limit)", room.used.len()),
    });
    let room: Vec<String> = room.collect();
    let room = if room.is_empty() { "no CSI driver".to_owned() } else { room.join(", ") };
    let pods = living(&world.pods_on_node(name)).len();
    let first = why.causes.first().map(|cause| format!(" {}", cause.message)).unwrap_or_default();
    why.summary =
        format!("Node {name} is {}, with {}; volumes: {room}.{first}", why.state, words::count(pods, "pod"));
}

/// Whether the node has the out-of-service taint.
pub(super) fn is_out_of_service(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    taints.iter().any(|taint| taint.key == TAINT_OUT_OF_SERVICE)
}

/// The command that marks a machine as down. It is shown as text only: the user must verify that the machine is
/// down, so the page offers no button.
pub(super) fn say_down(node: &str) -> String {
    format!("`kubectl taint node {node} {TAINT_OUT_OF_SERVICE}=nodeshutdown:NoExecute`")
}

/// Adds the problems of a node that an object uses. A node that has not reported yet may be starting; the caller
/// reports a missing node.
pub(super) fn silence(world: &dyn ClusterView, name: &str, why: &mut Why) {
    let Some(node) = world.node(name) else { return };
    match Readiness::of(&node) {
        Readiness::NotReady | Readiness::Unknown => health(world, &node, why),
        Readiness::Ready | Readiness::Unsaid => {}
    }
}

/// Adds the problems of a node, for the node itself and for its pods.
pub(super) fn health(world: &dyn ClusterView, node: &Arc<Node>, why: &mut Why) {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let object = || vec![Reference::to(node.as_ref())];
    let is_out = is_out_of_service(node);
    if is_out {
        let message = format!(
            "Node {name} is out of service: its pods are removed and its volumes are detached immediately. When the machine is back, \
             remove the taint: `kubectl taint node {name} {TAINT_OUT_OF_SERVICE}-`."
        );
        why.push(Severity::Attention, Cause::new(Code::NodeOutOfService, message, object()));
    }
    let said = ready(node).and_then(|condition| condition.message.as_deref()).filter(|said| !said.is_empty());
    let said = said.map(|said| format!(" Message: {}.", words::open(said))).unwrap_or_default();
    let since = ready(node).and_then(|condition| condition.last_transition_time.as_ref());
    let since = since.map(|time| format!(" since {}", time.0)).unwrap_or_default();
    match Readiness::of(node) {
        Readiness::Ready => {}
        Readiness::Unsaid => {
            let message = format!("Node {name} has not reported its status yet; its agent may be starting.");
            why.push(Severity::Waiting, Cause::new(Code::NodeUnsaid, message, object()));
        }
        Readiness::NotReady => {
            let message = format!("Node {name} is not ready{since}.{said}");
            why.push(Severity::Attention, Cause::new(Code::NodeUnready, message, object()));
        }
        Readiness::Unknown => {
            let pods = world.pods_on_node(name);
            let pods = living(&pods);
            let volumes = world.attachments_on_node(name).len();
            // The volumes of a node out of service are detached immediately, without the force-detach timeout.
            let next = if is_out { String::new() } else { force(world, name) };
            let message = format!(
                "Node {name} has sent no heartbeat{since}; {} and {} are on it, in an unknown state.{next}",
                words::count(pods.len(), "pod"),
                words::count(volumes, "attached volume"),
            );
            why.push(Severity::Attention, Cause::new(Code::NodeLost, message, object()));
        }
    }
}

/// When the volumes of a lost node are force-detached, as sentences to append.
fn force(world: &dyn ClusterView, node: &str) -> String {
    let when = match world.settings().force_detach_after {
        Some(after) => {
            format!("Once its pods are deleted, their volumes are detached by force after {}", span(after))
        }
        None => "Its volumes are never detached by force".to_owned(),
    };
    format!(" {when}. If the machine is down, run {}. This releases the volumes immediately.", say_down(node))
}

/// Why a pod cannot run on a node, whatever its volumes are.
pub(super) fn refusal(pod: &Pod, tolerations: &Tolerations<'_>, node: &Node) -> Option<(Code, String)> {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    if !may_run(pod, node) {
        return Some((
            Code::Unschedulable,
            format!("the pod's node selector or affinity excludes node {name}"),
        ));
    }
    if Readiness::of(node) != Readiness::Ready {
        return Some((Code::NodeUnready, format!("node {name} is not ready")));
    }
    if node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true)) {
        return Some((Code::NodeCordoned, format!("node {name} is cordoned")));
    }
    let taint = untolerated(tolerations, node)?;
    Some((Code::Unschedulable, format!("node {name} has the taint {taint}, which the pod does not tolerate")))
}

/// Why a node cannot attach another volume of this driver.
pub(super) fn full(
    world: &dyn ClusterView,
    node: &Node,
    volume: &PersistentVolume,
) -> Option<(Code, String)> {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let driver = volume.spec.as_ref()?.csi.as_ref()?.driver.as_str();
    let limits = world.volume_limits(name);
    let room = limits.get(driver)?;
    let limit = room.limit?;
    let here = volume.metadata.name.as_deref().is_some_and(|volume| room.used.contains(volume));
    (room.used.len() >= limit && !here).then(|| {
        let message = format!(
            "node {name} has {} of the {limit} volumes that {driver} supports there",
            room.used.len()
        );
        (Code::DriverFull, message)
    })
}

/// A taint that the pod does not tolerate, as `key=value:effect`.
fn untolerated(tolerations: &Tolerations<'_>, node: &Node) -> Option<String> {
    let taints = node.spec.as_ref()?.taints.as_deref()?;
    let keeps_away = |taint: &&Taint| {
        matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute") && !tolerations.cover(taint)
    };
    let taint = taints.iter().find(keeps_away)?;
    let value = taint.value.as_deref().filter(|value| !value.is_empty());
    let value = value.map(|value| format!("={value}")).unwrap_or_default();
    Some(format!("{}{value}:{}", taint.key, taint.effect))
}

fn span(time: std::time::Duration) -> String {
    match time.as_secs() {
        seconds if seconds % 60 == 0 => {
            words::count(usize::try_from(seconds / 60).unwrap_or(usize::MAX), "minute")
        }
        seconds => words::count(usize::try_from(seconds).unwrap_or(usize::MAX), "second"),
    }
}

fn living(pods: &[Arc<Pod>]) -> Vec<&Arc<Pod>> {
    pods.iter().filter(|pod| !pods::is_finished(pod)).collect()
}

/// The volumes of every driver on a node: attached to it, or used by its pods.
pub(super) fn volume_limits<W: ClusterView + ?Sized>(world: &W, node: &str) -> VolumeLimits {
    let mut limits = VolumeLimits::new();
    if let Some(node) = world.csi_node(node) {
        for driver in &node.spec.drivers {
            let limit = driver.allocatable.as_ref().and_then(|room| room.count);
            limits.entry(driver.name.clone()).or_default().limit =
                limit.and_then(|limit| usize::try_from(limit).ok());
        }
    }
    for attachment in world.attachments_on_node(node) {
        if let Some(volume) = &attachment.spec.source.persistent_volume_name {
            limits.entry(attachment.spec.attacher.clone()).or_default().used.insert(volume.clone());
        }
    }
    for pod in living(&world.pods_on_node(node)) {
        for key in pods::claim_keys(pod) {
            let Some(volume) = world.claim(&key).and_then(|claim| world.volume(volume_name(&claim))) else {
                continue;
            };
            let Some(csi) = volume.spec.as_ref().and_then(|spec| spec.csi.as_ref()) else { continue };
            let name = volume.metadata.name.clone().unwrap_or_default();
            limits.entry(csi.driver.clone()).or_default().used.insert(name);
        }
    }
    limits
}
