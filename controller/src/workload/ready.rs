//! Derives the state of a pod from its status: active, ready, available. Pure functions.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, PodCondition};

use orlop_client::meta::is_terminating;
use orlop_client::pods::{is_finished, phase};

/// Whether the pod counts as a replica: neither finished nor being deleted.
pub fn is_active(pod: &Pod) -> bool {
    !is_finished(pod) && !is_terminating(pod)
}

/// Whether the pod is being deleted and not yet finished.
pub fn is_leaving(pod: &Pod) -> bool {
    is_terminating(pod) && !is_finished(pod)
}

fn ready_condition(pod: &Pod) -> Option<&PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == "Ready")
}

/// Whether the condition Ready is true.
pub fn is_ready(pod: &Pod) -> bool {
    ready_condition(pod).is_some_and(|condition| condition.status == "True")
}

/// Whether the pod has the phase Running and is ready.
pub fn is_running_and_ready(pod: &Pod) -> bool {
    phase(pod) == "Running" && is_ready(pod)
}

/// The time since which the pod is ready; `None` if it is not ready or the time is unknown.
pub fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let condition = ready_condition(pod).filter(|condition| condition.status == "True")?;
    condition.last_transition_time.as_ref().map(|time| time.0)
}

/// The time at which a ready pod will have been ready for `min_ready` seconds.
pub fn available_at(pod: &Pod, min_ready: i32) -> Option<Timestamp> {
    ready_since(pod)?.checked_add(SignedDuration::from_secs(i64::from(min_ready))).ok()
}

/// Whether the pod has been ready for at least `min_ready` seconds.
pub fn is_available(pod: &Pod, min_ready: i32, now: Timestamp) -> bool {
    match (is_ready(pod), min_ready) {
        (false, _) => false,
        (true, ..=0) => true,
        (true, _) => available_at(pod, min_ready).is_some_and(|at| at <= now),
    }
}

/// The time until the next of these pods becomes available, if no status changes.
pub fn next_available<'a>(
    pods: impl IntoIterator<Item = &'a Pod>,
    min_ready: i32,
    now: Timestamp,
) -> Option<std::time::Duration> {
    let waiting = pods.into_iter().filter(|pod| is_ready(pod) && !is_available(pod, min_ready, now));
    let next = waiting.filter_map(|pod| available_at(pod, min_ready)).min()?;
    // Add 50 ms so that the sync does not run too early.
    let left = std::time::Duration::try_from(next.duration_since(now)).unwrap_or_default();
    Some(left + std::time::Duration::from_millis(50))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn pod(ready: &str, since: Option<&str>) -> Pod {
        serde_json::from_value(
            json!({"metadata": {"name": "p"}, "status": {"phase": "Running", "conditions": [
            {"type": "Ready", "status": ready, "lastTransitionTime": since}]}}),
        )
        .unwrap()
    }

    #[test]
    fn pod_is_available_after_min_ready_seconds() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let since = Some("2026-01-01T00:00:50Z");
        let table = [
            ("not ready", pod("False", since), 0, false),
            ("ready, nothing asked", pod("True", None), 0, true),
            ("ready, not long enough", pod("True", since), 11, false),
            ("ready, just long enough", pod("True", since), 10, true),
            ("ready since an unknown time", pod("True", None), 1, false),
        ];
        for (name, pod, min_ready, wanted) in table {
            assert_eq!(is_available(&pod, min_ready, now), wanted, "{name}");
        }
        let pods = [pod("True", since), pod("True", Some("2026-01-01T00:00:58Z")), pod("False", since)];
        assert_eq!(next_available(&pods, 30, now), Some(Duration::from_millis(20_050)));
        assert_eq!(next_available(&pods, 0, now), None);
    }
}
