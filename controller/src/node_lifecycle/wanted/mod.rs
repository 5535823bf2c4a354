//! Desired state of a Node: the conditions of a lost node, the taints for its conditions, and labels that mirror
//! others. Pure (upstream: nodeConditionToTaintKeyStatusMap, labelReconcileInfo).

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition, Taint};

use super::health::Readiness;
use orlop_client::meta::whole_seconds;
use orlop_client::names::taint;

const NO_SCHEDULE: &str = "NoSchedule";
/// The taint effect that evicts pods.
pub const NO_EXECUTE: &str = "NoExecute";

/// A condition, its status, and the corresponding taint.
const OF_CONDITIONS: [(&str, &str, &str); 6] = [
    ("Ready", "False", taint::NOT_READY),
    ("Ready", "Unknown", taint::UNREACHABLE),
    ("MemoryPressure", "True", taint::MEMORY_PRESSURE),
    ("DiskPressure", "True", taint::DISK_PRESSURE),
    ("NetworkUnavailable", "True", taint::NETWORK_UNAVAILABLE),
    ("PIDPressure", "True", taint::PID_PRESSURE),
];

/// A label, and the older label that must have the same value.
const LABELS: [(&str, &str); 2] =
    [("kubernetes.io/os", "beta.kubernetes.io/os"), ("kubernetes.io/arch", "beta.kubernetes.io/arch")];

/// Conditions that the node itself reports; they become Unknown when it is silent. The node does not report the
/// network condition.
const SAID_BY_NODE: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// The reason of a condition that became Unknown.
pub const STOPPED: &str = "NodeStatusUnknown";

/// All conditions of a node that was silent for too long; `None` if they are already set.
pub fn lost(node: &Node, now: Timestamp) -> Option<Vec<NodeCondition>> {
    let now = whole_seconds(now);
    let mut conditions = node.status.as_ref().and_then(|s| s.conditions.clone()).unwrap_or_default();
    let mut changed = false;
    for type_ in SAID_BY_NODE {
        let Some(known) = conditions.iter_mut().find(|condition| condition.type_ == type_) else {
            changed = true;
            conditions.push(NodeCondition {
                type_: type_.to_owned(),
                status: "Unknown".to_owned(),
                reason: Some("NodeStatusNeverUpdated".to_owned()),
                message: Some("Kubelet never posted node status.".to_owned()),
                last_heartbeat_time: node.metadata.creation_timestamp.clone(),
                last_transition_time: Some(now.clone()),
            });
            continue;
        };
        if known.status != "Unknown" {
            changed = true;
            known.status = "Unknown".to_owned();
            known.reason = Some(STOPPED.to_owned());
            known.message = Some("Kubelet stopped posting node status.".to_owned());
            known.last_transition_time = Some(now.clone());
        }
    }
    changed.then_some(conditions)
}

/// Whether pods may be evicted from a node that is not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// From no node: all nodes are lost, so the fault is probably on this side.
    Stopped,
    /// Not yet from this node. An eviction in progress continues.
    Waiting,
    /// Evictions are permitted.
    Granted,
}

/// Whether the node is not ready and has no NoExecute taint for it yet.
pub fn awaits_eviction(node: &Node) -> bool {
    let is_tainted = |key| taints(node).iter().any(|taint| taint.key == key && taint.effect == NO_EXECUTE);
    match Readiness::of(node) {
        Readiness::Unsaid | Readiness::Ready => false,
        Readiness::NotReady | Readiness::Unknown => {
            !is_tainted(taint::NOT_READY) && !is_tainted(taint::UNREACHABLE)
        }
    }
}

/// The taints of a node.
pub fn taints(node: &Node) -> &[Taint] {
    node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
}

/// All taints that a node should have; `None` if it already has them. Taints of other owners stay, in their
/// order.
///
/// Unlike upstream, a node that has not reported its readiness keeps its `not-ready` and `unreachable` taints as
/// they are: admission adds the first one to every new node, and a manual removal is respected.
pub fn retainted(node: &Node, eviction: Eviction, now: Timestamp) -> Option<Vec<Taint>> {
    let old = taints(node);
    let readiness = Readiness::of(node);
    let mut wanted: Vec<(&str, &str)> = of_conditions(node).map(|key| (key, NO_SCHEDULE)).collect();
    if node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true)) {
        wanted.push((taint::UNSCHEDULABLE, NO_SCHEDULE));
    }
    let going = !awaits_eviction(node);
    let drive_off = match eviction {
        Eviction::Stopped => false,
        Eviction::Waiting => going,
        Eviction::Granted => true,
    };
    match readiness {
        Readiness::NotReady if drive_off => wanted.push((taint::NOT_READY, NO_EXECUTE)),
        Readiness::Unknown if drive_off => wanted.push((taint::UNREACHABLE, NO_EXECUTE)),
        Readiness::NotReady | Readiness::Unknown | Readiness::Ready | Readiness::Unsaid => {}
    }
    let of_readiness = |key: &str| key == taint::NOT_READY || key == taint::UNREACHABLE;
    let is_ours = |one: &Taint| match one.effect.as_str() {
        _ if of_readiness(&one.key) && readiness == Readiness::Unsaid => false,
        NO_SCHEDULE => {
            one.key == taint::UNSCHEDULABLE || OF_CONDITIONS.iter().any(|(_, _, key)| *key == one.key)
        }
        NO_EXECUTE => of_readiness(&one.key),
        _ => false,
    };
    let is = |one: &Taint, (key, effect): (&str, &str)| one.key == key && one.effect == effect;
    let mut new: Vec<Taint> =
        old.iter().filter(|one| !is_ours(one) || wanted.iter().any(|w| is(one, *w))).cloned().collect();
    for (key, effect) in wanted {
        if !new.iter().any(|one| is(one, (key, effect))) {
            let time_added = Some(whole_seconds(now));
            new.push(Taint { key: key.to_owned(), effect: effect.to_owned(), value: None, time_added });
        }
    }
    (new != old).then_some(new)
}

fn of_conditions(node: &Node) -> impl Iterator<Item = &'static str> {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.filter_map(|condition| {
        let mut rows = OF_CONDITIONS.iter();
        let row = rows.find(|(type_, value, _)| *type_ == condition.type_ && *value == condition.status)?;
        Some(row.2)
    })
}

/// The labels to write.
pub fn relabeled(node: &Node) -> BTreeMap<String, String> {
    let empty = BTreeMap::new();
    let labels = node.metadata.labels.as_ref().unwrap_or(&empty);
    let mut wanted = BTreeMap::new();
    for (first, second) in LABELS {
        if let Some(value) = labels.get(first).filter(|value| labels.get(second) != Some(value)) {
            wanted.insert(second.to_owned(), value.clone());
        }
    }
    wanted
}

#[cfg(test)]
mod tests;
