//! Decides how many pods to create or delete, and computes the status. Pure functions.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::order::first_to_go;
use crate::workload::ready::{is_available, is_ready};

/// The maximum number of pods that one sync creates or deletes. Upstream: BurstReplicas.
pub const BURST: usize = 500;
/// Condition type: pods could not be created or deleted.
pub const REPLICA_FAILURE: &str = "ReplicaFailure";

/// The change of the number of pods.
#[derive(Debug)]
pub enum Act {
    /// The number is correct.
    Nothing,
    /// Create this number of pods.
    Create(usize),
    /// Delete these pods.
    Delete(Vec<Arc<Pod>>),
}

/// The desired number of pods. The server's default is 1.
pub fn wanted(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

/// Decides the change, for the pods that are neither finished nor being deleted.
pub fn decide(set: &ReplicaSet, active: &[Arc<Pod>], related: &[Arc<Pod>], now: Timestamp) -> Act {
    let wanted = usize::try_from(wanted(set)).unwrap_or(0);
    match active.len() {
        there if there < wanted => Act::Create((wanted - there).min(BURST)),
        there if there > wanted => {
            Act::Delete(first_to_go(active, related, (there - wanted).min(BURST), now))
        }
        _ => Act::Nothing,
    }
}

/// The status for these pods. `failure` is the error of creating or deleting pods in this sync; `leaving` is
/// the number of pods being deleted, for kinds that report it.
pub fn status(
    set: &ReplicaSet,
    active: &[Arc<Pod>],
    leaving: Option<i32>,
    failure: Option<&str>,
    now: Timestamp,
) -> ReplicaSetStatus {
    let spec = set.spec.clone().unwrap_or_default();
    let labels = spec.template.and_then(|template| template.metadata).and_then(|meta| meta.labels);
    let labels = labels.unwrap_or_default();
    let has_all = |pod: &&Arc<Pod>| {
        labels
            .iter()
            .all(|(key, value)| pod.metadata.labels.as_ref().and_then(|own| own.get(key)) == Some(value))
    };
    let count = |test: &dyn Fn(&&Arc<Pod>) -> bool| {
        Some(i32::try_from(active.iter().filter(test).count()).unwrap_or(i32::MAX))
    };
    let min_ready = spec.min_ready_seconds.unwrap_or(0);
    let old = set.status.clone().unwrap_or_default();
    ReplicaSetStatus {
        replicas: count(&|_| true).unwrap_or(0),
        fully_labeled_replicas: count(&has_all),
        ready_replicas: count(&|pod| is_ready(pod)),
        available_replicas: count(&|pod| is_available(pod, min_ready, now)),
        terminating_replicas: leaving,
        observed_generation: set.metadata.generation,
        conditions: conditions(old.conditions.unwrap_or_default(), set, active.len(), failure, now),
    }
}

/// The failure condition stays unchanged from the first failure until recovery.
fn conditions(
    mut conditions: Vec<ReplicaSetCondition>,
    set: &ReplicaSet,
    there: usize,
    failure: Option<&str>,
    now: Timestamp,
) -> Option<Vec<ReplicaSetCondition>> {
    let has_condition = conditions.iter().any(|condition| condition.type_ == REPLICA_FAILURE);
    match failure {
        None => conditions.retain(|condition| condition.type_ != REPLICA_FAILURE),
        Some(_) if has_condition => {}
        Some(message) => {
            let is_short = there < usize::try_from(wanted(set)).unwrap_or(0);
            conditions.push(ReplicaSetCondition {
                type_: REPLICA_FAILURE.to_owned(),
                status: "True".to_owned(),
                reason: Some(if is_short { "FailedCreate" } else { "FailedDelete" }.to_owned()),
                message: Some(message.to_owned()),
                last_transition_time: Some(Time(now)),
            });
        }
    }
    (!conditions.is_empty()).then_some(conditions)
}

/// Whether the statuses are equal. A missing number equals 0, because the server omits zeros.
pub fn is_same_status(one: &ReplicaSetStatus, other: &ReplicaSetStatus) -> bool {
    let zeros = |status: &ReplicaSetStatus| {
        let number = |value: Option<i32>| Some(value.unwrap_or(0));
        ReplicaSetStatus {
            fully_labeled_replicas: number(status.fully_labeled_replicas),
            ready_replicas: number(status.ready_replicas),
            available_replicas: number(status.available_replicas),
            terminating_replicas: number(status.terminating_replicas),
            observed_generation: Some(status.observed_generation.unwrap_or(0)),
            conditions: Some(status.conditions.clone().unwrap_or_default()),
            replicas: status.replicas,
        }
    };
    zeros(one) == zeros(other)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    fn set(replicas: i32, status: Value) -> ReplicaSet {
        serde_json::from_value(json!({"metadata": {"name": "web", "generation": 3}, "status": status,
            "spec": {"replicas": replicas, "minReadySeconds": 10, "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web", "tier": "front"}}}}}))
        .unwrap()
    }

    fn pod(name: &str, labels: Value, ready: &str, since: &str) -> Arc<Pod> {
        let pod = json!({"metadata": {"name": name, "labels": labels}, "status": {"phase": "Running",
            "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": since}]}});
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn pods_are_created_or_deleted_up_to_the_burst_limit() {
        let now = Timestamp::UNIX_EPOCH;
        let one = pod("p", json!({}), "True", "1970-01-01T00:00:00Z");
        for (wanted, there, change) in
            [(2, 2, 0_i64), (3, 1, 2), (1, 3, -2), (0, 2, -2), (2000, 0, 500), (0, 700, -500), (-1, 1, -1)]
        {
            let found =
                match decide(&set(wanted, json!({"replicas": 0})), &vec![one.clone(); there], &[], now) {
                    Act::Nothing => 0,
                    Act::Create(count) => i64::try_from(count).unwrap(),
                    Act::Delete(pods) => -i64::try_from(pods.len()).unwrap(),
                };
            assert_eq!(found, change, "{there} of {wanted}");
        }
    }

    #[test]
    fn status_counts_pods_and_treats_missing_numbers_as_zero() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let all = json!({"app": "web", "tier": "front", "more": "x"});
        let pods = [
            pod("available", all.clone(), "True", "2026-01-01T00:00:00Z"),
            pod("ready", all, "True", "2026-01-01T00:00:55Z"),
            pod("not ready", json!({"app": "web"}), "False", "2026-01-01T00:00:00Z"),
        ];
        let status = status(&set(3, json!({"replicas": 0})), &pods, Some(1), None, now);
        let wanted = json!({"replicas": 3, "fullyLabeledReplicas": 2, "readyReplicas": 2, "availableReplicas": 1,
            "terminatingReplicas": 1, "observedGeneration": 3});
        assert_eq!(serde_json::to_value(&status).unwrap(), wanted);
        assert!(is_same_status(&status, &serde_json::from_value(wanted).unwrap()));
        let zero: ReplicaSetStatus = serde_json::from_value(json!({"replicas": 0})).unwrap();
        assert!(is_same_status(&zero, &ReplicaSetStatus { ready_replicas: Some(0), ..zero.clone() }));
        assert!(!is_same_status(&zero, &ReplicaSetStatus { ready_replicas: Some(1), ..zero.clone() }));
    }

    #[test]
    fn failure_condition_is_set_once_and_removed_after_recovery() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let first = status(&set(1, json!({"replicas": 0})), &[], None, Some("quota"), now);
        let condition = &first.conditions.as_ref().unwrap()[0];
        assert_eq!(
            (condition.reason.as_deref(), condition.message.as_deref()),
            (Some("FailedCreate"), Some("quota"))
        );
        let mut again = set(0, json!({"replicas": 0}));
        again.status = Some(first.clone());
        let second = status(&again, &[], None, Some("another"), now);
        assert_eq!(second.conditions, first.conditions);
        assert_eq!(status(&again, &[], None, None, now).conditions, None);
        let pods = [pod("p", json!({}), "True", "1970-01-01T00:00:00Z")];
        let delete = status(&set(0, json!({"replicas": 1})), &pods, None, Some("no"), now);
        assert_eq!(delete.conditions.unwrap()[0].reason.as_deref(), Some("FailedDelete"));
    }
}
