//! The status of pods: the initial status, and the fields that updates of `/status` must not remove.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::checks;
use super::pod_spec::qos;
use crate::object::Object;

/// Sets the initial status of a new pod, regardless of the client's value.
pub(super) fn start(pod: &mut Object, now: Timestamp) {
    let class = qos::class(pod);
    let mut status = json!({"phase": "Pending", "qosClass": class});
    if is_gated(pod) {
        status["conditions"] = json!([{
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": null,
            "lastTransitionTime": checks::seconds(now),
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]);
    }
    pod.set(&["status"], status);
}

/// Whether the pod has scheduling gates.
pub(super) fn is_gated(pod: &Object) -> bool {
    pod.at(&["spec", "schedulingGates"]).and_then(Value::as_array).is_some_and(|gates| !gates.is_empty())
}

/// `podIP` equals the first item of `podIPs`; `podIP` takes precedence, since older kubelets set only that one.
/// The host's addresses are not synchronized, only validated.
pub(super) fn mirror_addresses(pod: &mut Object) {
    let address = pod.str_at(&["status", "podIP"]).to_owned();
    let first = pod
        .at(&["status", "podIPs"])
        .and_then(|list| list.get(0))
        .and_then(|entry| entry["ip"].as_str())
        .unwrap_or_default()
        .to_owned();
    if address == first {
        return;
    }
    if address.is_empty() {
        pod.set(&["status", "podIP"], first);
    } else {
        pod.set(&["status", "podIPs"], json!([{ "ip": address }]));
    }
}

/// Restores the fields that a status update must not clear: the QoS class, the observed generations, the owners.
pub(super) fn keep(pod: &mut Object, old: &Object) {
    match old.at(&["metadata", "ownerReferences"]) {
        // Old kubelets send invalid owners, which would break garbage collection.
        Some(owners) => pod.set(&["metadata", "ownerReferences"], owners.clone()),
        None => {
            pod.remove(&["metadata", "ownerReferences"]);
        }
    }
    for field in ["qosClass", "observedGeneration"] {
        let empty = match pod.at(&["status", field]) {
            Some(value) => value.is_null() || value == "" || value == 0,
            None => true,
        };
        if let Some(value) = old.at(&["status", field])
            && empty
        {
            pod.set(&["status", field], value.clone());
        }
    }
    keep_condition_generations(pod, old);
}

/// Conditions without an observed generation retain the stored one. Several conditions may
/// have the same type; they are paired in order.
fn keep_condition_generations(pod: &mut Object, old: &Object) {
    let mut known: BTreeMap<&str, VecDeque<Option<&Value>>> = BTreeMap::new();
    for condition in old.at(&["status", "conditions"]).and_then(Value::as_array).into_iter().flatten() {
        let kind = condition["type"].as_str().unwrap_or_default();
        known.entry(kind).or_default().push_back(condition.get("observedGeneration"));
    }
    let conditions = pod.0.get_mut("status").and_then(|status| status.get_mut("conditions"));
    let conditions = conditions.and_then(Value::as_array_mut).into_iter().flatten();
    for condition in conditions.filter_map(Value::as_object_mut) {
        let earlier = type_of(condition).and_then(|kind| known.get_mut(kind));
        let Some(generation) = earlier.and_then(VecDeque::pop_front) else { continue };
        let is_set = condition.get("observedGeneration").and_then(Value::as_i64).unwrap_or_default() != 0;
        if let Some(generation) = generation
            && !is_set
        {
            condition.insert("observedGeneration".into(), generation.clone());
        }
    }
}

fn type_of(condition: &Map<String, Value>) -> Option<&str> {
    condition.get("type").and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{kind_now, object};
    use super::*;

    #[test]
    fn new_pod_gets_the_initial_status() {
        for (case, given, want) in [
            (
                "client's status is dropped",
                json!({"status": {"phase": "Running"}}),
                json!({"phase": "Pending", "qosClass": "BestEffort"}),
            ),
            (
                "gated",
                json!({"spec": {"schedulingGates": [{"name": "g"}]}}),
                json!({"phase": "Pending", "qosClass": "BestEffort", "conditions": [{
                    "type": "PodScheduled", "status": "False", "lastProbeTime": null,
                    "lastTransitionTime": "2026-01-01T00:01:00Z", "reason": "SchedulingGated",
                    "message": "Scheduling is blocked due to non-empty scheduling gates"}]}),
            ),
        ] {
            let mut pod = object(given);
            start(&mut pod, kind_now());
            assert_eq!(pod.at(&["status"]), Some(&want), "{case}");
        }
    }

    #[test]
    fn pod_ip_and_pod_ips_are_synchronized() {
        for (case, given, want) in [
            ("one", json!({"podIP": "1.1.1.1"}), json!({"podIP": "1.1.1.1", "podIPs": [{"ip": "1.1.1.1"}]})),
            (
                "several",
                json!({"podIPs": [{"ip": "1.1.1.1"}]}),
                json!({"podIP": "1.1.1.1", "podIPs": [{"ip": "1.1.1.1"}]}),
            ),
            (
                "they differ",
                json!({"podIP": "2.2.2.2", "podIPs": [{"ip": "1.1.1.1"}, {"ip": "::1"}]}),
                json!({"podIP": "2.2.2.2", "podIPs": [{"ip": "2.2.2.2"}]}),
            ),
            ("host", json!({"hostIP": "1.1.1.1"}), json!({"hostIP": "1.1.1.1"})),
            ("none", json!({}), json!({})),
        ] {
            let mut pod = object(json!({ "status": given }));
            mirror_addresses(&mut pod);
            assert_eq!(pod.into_value(), json!({ "status": want }), "{case}");
        }
    }

    #[test]
    fn status_updates_retain_class_generations_and_owners() {
        let old = object(json!({
            "metadata": {"ownerReferences": [{"uid": "u"}]},
            "status": {"qosClass": "Burstable", "observedGeneration": 3, "conditions": [
                {"type": "A", "observedGeneration": 1}, {"type": "A", "observedGeneration": 2}, {"type": "B"}]},
        }));
        let mut new = object(json!({
            "metadata": {"labels": {"a": "b"}},
            "status": {"conditions": [{"type": "A"}, {"type": "A", "observedGeneration": 9}, {"type": "B"}, {"type": "C"}]},
        }));
        keep(&mut new, &old);
        assert_eq!(
            new.into_value(),
            json!({
                "metadata": {"labels": {"a": "b"}, "ownerReferences": [{"uid": "u"}]},
                "status": {"qosClass": "Burstable", "observedGeneration": 3, "conditions": [
                    {"type": "A", "observedGeneration": 1}, {"type": "A", "observedGeneration": 9},
                    {"type": "B"}, {"type": "C"}]},
            })
        );
    }
}
