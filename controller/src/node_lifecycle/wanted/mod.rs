//! What a Node should look like: conditions of a lost one, taints for its conditions, labels that stand for others. Pure
//! (upstream: nodeConditionToTaintKeyStatusMap, labelReconcileInfo).

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::health::Readiness;
use orlop_client::names::taint;

const NO_SCHEDULE: &str = "NoSchedule";
/// Effect of taints that pods have to leave for.
pub const NO_EXECUTE: &str = "NoExecute";

/// Condition, its value, and the taint that goes with it.
const OF_CONDITIONS: [(&str, &str, &str); 6] = [
    ("Ready", "False", taint::NOT_READY),
    ("Ready", "Unknown", taint::UNREACHABLE),
    ("MemoryPressure", "True", taint::MEMORY_PRESSURE),
    ("DiskPressure", "True", taint::DISK_PRESSURE),
    ("NetworkUnavailable", "True", taint::NETWORK_UNAVAILABLE),
    ("PIDPressure", "True", taint::PID_PRESSURE),
];

/// A label, and the older one that has to have its value.
const LABELS: [(&str, &str); 2] =
    [("kubernetes.io/os", "beta.kubernetes.io/os"), ("kubernetes.io/arch", "beta.kubernetes.io/arch")];

/// Conditions that a silent node loses its word on. The network is not said by the node.
const SAID_BY_NODE: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// Reason of a condition that became unknown.
pub const STOPPED: &str = "NodeStatusUnknown";

/// API times have whole seconds.
pub fn whole_seconds(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}

/// All conditions of a node that was not heard for too long; none if they are so already.
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

/// Whether pods may be driven off a node that is not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// From no node: all are lost, which says more about the one who listens.
    Stopped,
    /// Not yet from this one. Where it is under way already, it goes on.
    Waiting,
    /// Yes.
    Granted,
}

/// The node is not ready, and its pods have not been told to go.
pub fn awaits_eviction(node: &Node) -> bool {
    let told = |key| taints(node).iter().any(|taint| taint.key == key && taint.effect == NO_EXECUTE);
    match Readiness::of(node) {
        Readiness::Unsaid | Readiness::Ready => false,
        Readiness::NotReady | Readiness::Unknown => !told(taint::NOT_READY) && !told(taint::UNREACHABLE),
    }
}

/// The taints of a node.
pub fn taints(node: &Node) -> &[Taint] {
    node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
}

/// All taints that a node should have; none if it has them already. Those of others stay, in their order.
///
/// Unlike upstream, a node that has not said whether it is ready keeps what it has of `not-ready` and `unreachable`: admission
/// puts the first on every new node, and whoever takes it off by hand has said enough.
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

/// Labels that have to be written.
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
