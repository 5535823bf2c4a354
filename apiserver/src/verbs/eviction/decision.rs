//! Decides whether a pod may be evicted, and computes the resulting status of its budget and of the pod. Pure.
//!
//! Upstream: pkg/registry/core/pod/storage/eviction.go.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use orlop_apimachinery::labels::Selector;
use serde::Deserialize;
use serde_json::{Value, json};

use orlop_api::object::Object;

/// Maximum number of evicted pods that the budget's controller has not observed yet.
const MAX_PENDING: usize = 2000;

/// The decision about an eviction.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum EvictionDecision {
    /// No budget protects the pod.
    NoBudget,
    /// The pod is not healthy, so its eviction does not count as a disruption.
    Unhealthy,
    /// The pod may be evicted, and the budget at this index loses one disruption.
    Spend(usize),
    /// More than one budget protects the pod, which is not supported.
    Several,
    /// The status of the budget belongs to an older spec.
    NotObserved(String),
    /// The status of the budget is invalid.
    Negative(String),
    /// The controller of the budget is too far behind.
    TooManyPending(String),
    /// The budget allows no disruption, for this reason.
    Exhausted(String),
}

/// Whether the pod can be evicted without a budget: it is pending, has ended, or is terminating.
pub(super) fn needs_no_budget(pod: &Object) -> bool {
    has_ended(pod) || pod.str_at(&["status", "phase"]) == "Pending"
}

/// Whether the pod is terminating or has ended.
pub(super) fn has_ended(pod: &Object) -> bool {
    matches!(pod.str_at(&["status", "phase"]), "Succeeded" | "Failed") || pod.is_terminating()
}

/// Decides about a pod that may need a budget. `budgets` are those of its namespace.
pub(super) fn decide(pod: &Object, budgets: &[Object]) -> EvictionDecision {
    let mut protecting = budgets.iter().enumerate().filter(|(_, budget)| selects(budget, pod));
    let Some((at, budget)) = protecting.next() else { return EvictionDecision::NoBudget };
    if protecting.next().is_some() {
        return EvictionDecision::Several;
    }
    let count = |field: &str| number(budget, &["status", field]);
    let (needed, has) = (count("desiredHealthy"), count("currentHealthy"));
    let always = budget.str_at(&["spec", "unhealthyPodEvictionPolicy"]) == "AlwaysAllow";
    if !is_ready(pod) && (always || (has >= needed && needed > 0)) {
        return EvictionDecision::Unhealthy;
    }
    let name = budget.name().to_owned();
    if count("observedGeneration") < number(budget, &["metadata", "generation"]) {
        return EvictionDecision::NotObserved(name);
    }
    let pending = budget.at(&["status", "disruptedPods"]).and_then(Value::as_object);
    match count("disruptionsAllowed") {
        allowed if allowed < 0 => EvictionDecision::Negative(name),
        _ if pending.is_some_and(|pods| pods.len() > MAX_PENDING) => EvictionDecision::TooManyPending(name),
        0 => EvictionDecision::Exhausted(why_exhausted(budget, needed, has)),
        _ => EvictionDecision::Spend(at),
    }
}

/// Why a budget allows no disruption. The counts are outdated if its controller could not calculate them.
fn why_exhausted(budget: &Object, needed: i64, has: i64) -> String {
    let name = budget.name();
    let none = format!("The disruption budget {name} does not allow evicting pods currently");
    let conditions = budget.at(&["status", "conditions"]).and_then(Value::as_array);
    let condition = conditions.into_iter().flatten().find(|one| one["type"] == "DisruptionAllowed");
    let text = |field: &str| condition.and_then(|one| one[field].as_str()).unwrap_or_default();
    let message = if text("status") == "False" { text("message") } else { "" };
    match (text("reason"), message) {
        ("SyncFailed", message) if !message.is_empty() => format!("{none} because it failed sync: {message}"),
        _ if has <= needed => {
            format!("The disruption budget {name} needs {needed} healthy pods and has {has} currently")
        }
        (_, "") => none,
        (reason, message) => format!("{none} ({reason}): {message}"),
    }
}

/// Whether a budget selects a pod of its namespace. An empty selector selects all pods, and no selector selects none.
pub(super) fn selects(budget: &Object, pod: &Object) -> bool {
    let selector = budget.at(&["spec", "selector"]).and_then(|value| LabelSelector::deserialize(value).ok());
    let selector = selector.and_then(|selector| Selector::from_label_selector(&selector).ok());
    let labels = pod.labels().into_iter().flatten();
    let labels = labels.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)));
    selector.is_some_and(|selector| selector.matches(labels))
}

fn number(object: &Object, path: &[&str]) -> i64 {
    object.at(path).and_then(Value::as_i64).unwrap_or_default()
}

fn is_ready(pod: &Object) -> bool {
    let conditions = pod.at(&["status", "conditions"]).and_then(Value::as_array);
    conditions.into_iter().flatten().any(|one| one["type"] == "Ready" && one["status"] == "True")
}

/// The budget after the eviction of a pod: one disruption less, and the pod listed as disrupted.
pub(super) fn spent(budget: &Object, pod: &str, now: &Value) -> Object {
    let mut budget = budget.clone();
    let left = number(&budget, &["status", "disruptionsAllowed"]) - 1;
    budget.set(&["status", "disruptionsAllowed"], left);
    if left == 0 {
        let condition = json!({
            "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": "",
            "observedGeneration": number(&budget, &["status", "observedGeneration"]),
            "lastTransitionTime": now,
        });
        set_condition(&mut budget, condition);
    }
    budget.set(&["status", "disruptedPods", pod], now.clone());
    budget
}

/// Adds the condition of an evicted pod.
pub(super) fn mark(pod: &mut Object, now: &Value) {
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "lastProbeTime": null, "lastTransitionTime": now,
        "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
    });
    set_condition(pod, condition);
}

/// Adds a condition, or replaces the one of the same type. The transition time changes only with the status.
fn set_condition(object: &mut Object, mut condition: Value) {
    let conditions = object.object_at(&["status"]).entry("conditions").or_insert_with(|| json!([]));
    let Some(conditions) = conditions.as_array_mut() else { return };
    match conditions.iter_mut().find(|one| one["type"] == condition["type"]) {
        Some(present) => {
            if present["status"] == condition["status"] {
                condition["lastTransitionTime"] = present["lastTransitionTime"].clone();
            }
            *present = condition;
        }
        None => conditions.push(condition),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn object(value: Value) -> Object {
        Object::from_value(value)
    }

    fn pod(phase: &str, ready: &str) -> Object {
        object(json!({
            "metadata": {"name": "p", "namespace": "n", "labels": {"app": "a"}},
            "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]},
        }))
    }

    fn budget(name: &str, spec: Value, status: Value) -> Object {
        object(json!({"metadata": {"name": name, "generation": 2}, "spec": spec, "status": status}))
    }

    #[test]
    fn pending_ended_and_terminating_pods_need_no_budget() {
        for (phase, needs_none, ended) in [
            ("Pending", true, false),
            ("Running", false, false),
            ("Unknown", false, false),
            ("Succeeded", true, true),
            ("Failed", true, true),
        ] {
            let pod = pod(phase, "True");
            assert_eq!((needs_no_budget(&pod), has_ended(&pod)), (needs_none, ended), "{phase}");
        }
        let mut ending = pod("Running", "True");
        ending.set(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z");
        assert!(needs_no_budget(&ending) && has_ended(&ending));
    }

    #[test]
    fn evictions_are_decided_by_budget_and_readiness() {
        let selector = json!({"selector": {"matchLabels": {"app": "a"}}});
        let of_others = json!({"selector": {"matchLabels": {"app": "b"}}});
        let always =
            json!({"selector": {"matchLabels": {"app": "a"}}, "unhealthyPodEvictionPolicy": "AlwaysAllow"});
        let status = |allowed: i64, healthy: i64, needed: i64| {
            json!({"observedGeneration": 2, "disruptionsAllowed": allowed, "currentHealthy": healthy,
                   "desiredHealthy": needed})
        };
        let pods: serde_json::Map<String, Value> = (0..2001).map(|i| (i.to_string(), json!("t"))).collect();
        let mut crowded = status(1, 3, 2);
        crowded["disruptedPods"] = pods.into();
        let mut old = status(1, 3, 2);
        old["observedGeneration"] = json!(1);
        let b = |spec: &Value, status: Value| budget("b", spec.clone(), status);
        let name = || "b".to_owned();
        let needs = |needed: i64, has: i64| {
            format!("The disruption budget b needs {needed} healthy pods and has {has} currently")
        };
        let exhausted = |needed, has| EvictionDecision::Exhausted(needs(needed, has));
        let none = "The disruption budget b does not allow evicting pods currently";
        let with = |mut status: Value, condition: Value| {
            status["conditions"] = json!([condition]);
            status
        };
        let failed = |reason: &str, message: &str| json!({"type": "DisruptionAllowed", "status": "False", "reason": reason, "message": message});
        for (case, ready, budgets, want) in [
            ("none", "True", vec![], EvictionDecision::NoBudget),
            ("of others", "True", vec![b(&of_others, status(0, 1, 1))], EvictionDecision::NoBudget),
            ("of all", "True", vec![b(&json!({"selector": {}}), status(0, 1, 1))], exhausted(1, 1)),
            (
                "of all, one left",
                "True",
                vec![b(&json!({"selector": {}}), status(1, 3, 2))],
                EvictionDecision::Spend(0),
            ),
            (
                "of all, and of the pod",
                "True",
                vec![b(&json!({"selector": {}}), status(1, 3, 2)), b(&selector, status(1, 3, 2))],
                EvictionDecision::Several,
            ),
            ("without selector", "True", vec![b(&json!({}), status(0, 1, 1))], EvictionDecision::NoBudget),
            (
                "null as selector",
                "True",
                vec![b(&json!({"selector": null}), status(0, 1, 1))],
                EvictionDecision::NoBudget,
            ),
            (
                "one left",
                "True",
                vec![b(&of_others, status(0, 1, 1)), b(&selector, status(1, 3, 2))],
                EvictionDecision::Spend(1),
            ),
            ("nothing left", "True", vec![b(&selector, status(0, 2, 2))], exhausted(2, 2)),
            (
                "enough pods, no disruption",
                "True",
                vec![b(&selector, with(status(0, 1, 0), failed("InsufficientPods", "")))],
                EvictionDecision::Exhausted(none.to_owned()),
            ),
            (
                "the controller failed",
                "True",
                vec![b(&selector, with(status(0, 1, 2), failed("SyncFailed", "no")))],
                EvictionDecision::Exhausted(format!("{none} because it failed sync: no")),
            ),
            (
                "a condition with a message",
                "True",
                vec![b(&selector, with(status(0, 3, 2), failed("Other", "why")))],
                EvictionDecision::Exhausted(format!("{none} (Other): why")),
            ),
            (
                "two",
                "True",
                vec![b(&selector, status(1, 3, 2)), b(&selector, status(1, 3, 2))],
                EvictionDecision::Several,
            ),
            ("not seen", "True", vec![b(&selector, old)], EvictionDecision::NotObserved(name())),
            ("odd", "True", vec![b(&selector, status(-1, 3, 2))], EvictionDecision::Negative(name())),
            ("crowded", "True", vec![b(&selector, crowded)], EvictionDecision::TooManyPending(name())),
            (
                "unhealthy, healthy enough",
                "False",
                vec![b(&selector, status(0, 2, 2))],
                EvictionDecision::Unhealthy,
            ),
            ("unhealthy, too few", "False", vec![b(&selector, status(0, 1, 2))], exhausted(2, 1)),
            ("unhealthy, none needed", "False", vec![b(&selector, status(0, 0, 0))], exhausted(0, 0)),
            ("unhealthy, always", "False", vec![b(&always, status(0, 1, 2))], EvictionDecision::Unhealthy),
            ("healthy, always", "True", vec![b(&always, status(0, 1, 2))], exhausted(2, 1)),
        ] {
            assert_eq!(decide(&pod("Running", ready), &budgets), want, "{case}");
        }
    }

    #[test]
    fn eviction_spends_one_disruption_and_marks_the_pod_once() {
        let now = json!("2026-01-01T00:00:00Z");
        let status = json!({"observedGeneration": 2, "disruptionsAllowed": 2});
        let once = spent(&budget("b", json!({}), status), "p", &now);
        assert_eq!(
            once.at(&["status"]),
            Some(&json!({"observedGeneration": 2, "disruptionsAllowed": 1, "disruptedPods": {"p": now}}))
        );
        let twice = spent(&once, "q", &now);
        assert_eq!(twice.at(&["status", "disruptionsAllowed"]), Some(&json!(0)));
        assert_eq!(twice.at(&["status", "conditions"]).unwrap()[0]["reason"], "InsufficientPods");
        assert_eq!(twice.at(&["status", "disruptedPods"]), Some(&json!({"p": now, "q": now})));

        let mut pod = pod("Running", "True");
        mark(&mut pod, &now);
        mark(&mut pod, &json!("2026-01-01T00:00:09Z"));
        let conditions = pod.at(&["status", "conditions"]).and_then(Value::as_array).unwrap();
        assert_eq!(conditions.len(), 2);
        assert_eq!(conditions[1]["lastTransitionTime"], now, "the time of the first mark stays");
    }
}
