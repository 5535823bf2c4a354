//! Ranks pods for deletion: the pod that costs least to delete is first. Upstream: controller_utils.go,
//! ActivePodsWithRanks.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use crate::workload::ready::{is_active, is_ready, ready_since};
use crate::workload::replica::{ANN_DELETION_COST, is_sidecar};
use orlop_client::meta::annotation;
use orlop_client::pods::{node_name, phase};

/// The first `count` pods to delete. `related` are the pods of this set and its sibling ReplicaSets: a pod that
/// shares its node with many of them ranks first.
pub fn first_to_go(pods: &[Arc<Pod>], related: &[Arc<Pod>], count: usize, now: Timestamp) -> Vec<Arc<Pod>> {
    let mut pods = pods.to_vec();
    if count < pods.len() {
        let mut crowds: HashMap<&str, usize> = HashMap::new();
        for node in related.iter().filter(|pod| is_active(pod)).filter_map(|pod| node_name(pod)) {
            *crowds.entry(node).or_default() += 1;
        }
        let crowd = |pod: &Pod| node_name(pod).and_then(|node| crowds.get(node)).copied().unwrap_or(0);
        pods.sort_by_cached_key(|pod| Rank::of(pod, crowd(pod), now));
        pods.truncate(count);
    }
    pods
}

/// The place of a pod in the order of deletion: the smaller one is deleted first. Each pod has its place regardless of the
/// others, because a sort may panic if the comparisons of several pods contradict each other. Upstream compares pairs: the
/// restarts count only if both pods became ready in the same second, and pods of about the same age are ordered by UID. Here
/// they stay in the order of their names, which are as random.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// Unassigned pods first, then pending, then unknown, then running.
    is_assigned: bool,
    phase: u8,
    is_ready: bool,
    cost: i32,
    /// The number of related pods on the pod's node.
    crowd: Reverse<usize>,
    /// The pod that has been ready for the shorter time first. `None` if it is not ready.
    ready: Option<Age>,
    restarts: Reverse<(i32, i32)>,
    /// The younger pod first.
    created: Option<Age>,
}

impl Rank {
    /// The rank of a pod with this number of related pods on its node.
    pub fn of(pod: &Pod, crowd: usize, now: Timestamp) -> Self {
        let is_ready = is_ready(pod);
        let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
        Self {
            is_assigned: node_name(pod).is_some(),
            phase: phase_rank(pod),
            is_ready,
            cost: deletion_cost(pod),
            crowd: Reverse(crowd),
            ready: ready_since(pod).filter(|_| is_ready).map(|since| age(since, now)),
            restarts: Reverse(restarts(pod)),
            created: created.map(|created| age(created, now)),
        }
    }
}

/// The binary logarithm of an age in nanoseconds: pods of similar age have the same rank. `None` for a time that is not in the
/// past.
type Age = Option<u32>;

fn age(at: Timestamp, now: Timestamp) -> Age {
    let age = now.as_nanosecond().saturating_sub(at.as_nanosecond());
    u128::try_from(age).ok().and_then(u128::checked_ilog2)
}

fn phase_rank(pod: &Pod) -> u8 {
    match phase(pod) {
        "Pending" => 0,
        "Unknown" => 1,
        "Running" => 2,
        // Upstream's map returns 0 for an unknown phase.
        _ => 0,
    }
}

fn deletion_cost(pod: &Pod) -> i32 {
    annotation(pod, ANN_DELETION_COST).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The maximum restart count over the containers, and over the sidecars.
fn restarts(pod: &Pod) -> (i32, i32) {
    let Some(status) = &pod.status else { return (0, 0) };
    let init = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let sidecars: HashSet<&str> =
        init.filter(|container| is_sidecar(container)).map(|container| container.name.as_str()).collect();
    let containers = status.container_statuses.iter().flatten().map(|container| container.restart_count);
    let beside = status.init_container_statuses.iter().flatten();
    let beside = beside.filter(|container| sidecars.contains(container.name.as_str()));
    (containers.max().unwrap_or(0), beside.map(|container| container.restart_count).max().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::merge_into;
    use crate::workload::replica::replica;

    fn pod(name: &str, change: Value) -> Arc<Pod> {
        let mut pod = json!({"metadata": {"namespace": "ns", "name": name, "uid": name,
                "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"nodeName": "n", "containers": []},
            "status": {"phase": "Running", "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:01:00Z"}]}});
        merge_into(&mut pod, &change);
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn pods_rank_by_node_phase_readiness_cost_crowd_and_age() {
        let ready =
            |status: &str, at: &str| json!([{"type": "Ready", "status": status, "lastTransitionTime": at}]);
        let not_ready = json!({"status": {"conditions": ready("False", "2026-01-01T00:01:00Z")}});
        let with = |base: &Value, change: Value| {
            let mut base = base.clone();
            merge_into(&mut base, &change);
            base
        };
        let restarted = |count: i32| {
            json!({"status": {"containerStatuses": [{"name": "c", "image": "i", "imageID": "",
            "ready": false, "restartCount": count}]}})
        };
        // Name, the pod deleted first, the remaining pod.
        let table = [
            ("without a node", json!({"spec": {"nodeName": null}}), json!({})),
            ("pending", json!({"status": {"phase": "Pending"}}), json!({"status": {"phase": "Unknown"}})),
            ("unknown", json!({"status": {"phase": "Unknown"}}), json!({})),
            ("not ready", not_ready.clone(), json!({})),
            ("cheap", json!({"metadata": {"annotations": {ANN_DELETION_COST: "-5"}}}), json!({})),
            (
                "cost that is no number",
                json!({"metadata": {"annotations": {ANN_DELETION_COST: "-1"}}}),
                json!({"metadata": {"annotations": {ANN_DELETION_COST: "much"}}}),
            ),
            (
                "not ready beats cheap",
                not_ready.clone(),
                json!({"metadata": {"annotations": {ANN_DELETION_COST: "-5"}}}),
            ),
            (
                "ready for a short time",
                json!({"status": {"conditions": ready("True", "2026-01-01T09:59:00Z")}}),
                json!({}),
            ),
            ("many restarts", with(&not_ready, restarted(3)), with(&not_ready, restarted(2))),
            (
                "many restarts of a sidecar",
                with(
                    &not_ready,
                    json!({"spec": {"initContainers": [{"name": "c", "restartPolicy": "Always"}]},
                        "status": {"initContainerStatuses": restarted(3)["status"]["containerStatuses"]}}),
                ),
                not_ready.clone(),
            ),
            (
                "young",
                with(&not_ready, json!({"metadata": {"creationTimestamp": "2026-01-01T09:59:00Z"}})),
                not_ready.clone(),
            ),
        ];
        let now: Timestamp = "2026-01-01T10:00:00Z".parse().unwrap();
        for (name, first, stays) in table {
            let (first, stays) = (pod("z", first), pod("a", stays));
            assert!(Rank::of(&first, 0, now) < Rank::of(&stays, 0, now), "{name}");
        }
        let (a, b) = (pod("a", json!({})), pod("b", json!({})));
        assert!(Rank::of(&a, 1, now) > Rank::of(&b, 2, now), "on a crowded node");
        assert_eq!(Rank::of(&a, 1, now), Rank::of(&a, 1, now));
    }

    #[test]
    fn rank_of_a_replica_is_that_of_its_pod() {
        let now: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
        let container = |name: &str, restarts: i32| json!({"name": name, "image": "i", "imageID": "", "ready": true, "restartCount": restarts});
        let pod = pod(
            "p",
            json!({"metadata": {"annotations": {ANN_DELETION_COST: "-5"}},
            "spec": {"initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}]},
            "status": {"containerStatuses": [container("c", 3), container("d", 0)],
                "initContainerStatuses": [container("i", 9), container("s", 2)]}}),
        );
        let part = replica(&pod);
        assert_eq!(Rank::of(&part, 4, now), Rank::of(&pod, 4, now));
        assert_eq!(restarts(&part), (3, 2));
        assert_eq!((is_active(&part), ready_since(&part)), (is_active(&pod), ready_since(&pod)));
        assert_eq!((&part.metadata.uid, &part.metadata.name), (&pod.metadata.uid, &pod.metadata.name));
    }

    /// Pods that became ready in two following seconds, with different restarts: compared in pairs, some of them form circles.
    #[test]
    fn pods_of_a_batch_have_one_order() {
        let now: Timestamp = "2026-01-01T10:00:00Z".parse().unwrap();
        let pods: Vec<Arc<Pod>> = (0..200)
            .map(|n: i32| {
                let ready = format!("2026-01-01T00:01:{:02}Z", n % 2);
                let containers =
                    json!([{"name": "c", "image": "i", "imageID": "", "ready": true, "restartCount": n * 7 % 5}]);
                let conditions = json!([{"type": "Ready", "status": "True", "lastTransitionTime": ready}]);
                let status = json!({"containerStatuses": containers, "conditions": conditions});
                pod(&format!("p{}", n * 37 % 200), json!({"status": status}))
            })
            .collect();
        let ranks =
            |pods: &[Arc<Pod>]| -> Vec<Rank> { pods.iter().map(|pod| Rank::of(pod, 0, now)).collect() };
        let gone = ranks(&first_to_go(&pods, &[], 100, now));
        assert_eq!(gone.len(), 100);
        assert!(gone.is_sorted());
        let others: Vec<Arc<Pod>> = pods.iter().rev().cloned().collect();
        assert_eq!(ranks(&first_to_go(&others, &[], 100, now)), gone, "whatever the order of the input");
    }

    #[test]
    fn node_crowd_counts_only_active_related_pods() {
        let now: Timestamp = "2026-01-01T10:00:00Z".parse().unwrap();
        let on = |name: &str, node: &str| pod(name, json!({"spec": {"nodeName": node}}));
        let own = [on("p1", "n1"), on("p2", "n2")];
        let over = pod("over", json!({"spec": {"nodeName": "n1"}, "status": {"phase": "Failed"}}));
        let related = [own[0].clone(), own[1].clone(), on("q", "n2"), over.clone(), over];
        let gone = first_to_go(&own, &related, 1, now);
        assert_eq!(gone[0].metadata.name.as_deref(), Some("p2"));
        assert_eq!(first_to_go(&own, &related, 2, now).len(), 2);
    }
}
