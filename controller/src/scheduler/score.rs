//! Scores the feasible nodes: free resources, the pod's preferences, and taints that it does not tolerate. Simple and
//! deterministic. Pure.

use k8s_openapi::api::core::v1::Pod;

use super::amounts::Amounts;
use super::cluster::NodeState;
use super::filter::taints::Tolerations;
use super::filter::{node_affinity, taints};

/// Upstream's weights of the three scores.
const ROOM: i64 = 1;
const PREFERENCE: i64 = 2;
const TAINTS: i64 = 3;
/// The maximum of each score.
const BEST: i64 = 100;

/// The best of some nodes; among equals the one with fewer pods, then the first.
pub fn best<'a>(
    pod: &Pod,
    tolerations: &Tolerations<'_>,
    requests: &Amounts,
    nodes: &[&'a NodeState],
) -> Option<&'a NodeState> {
    let wishes = node_affinity::wishes(pod);
    let wishes: Vec<i64> = nodes.iter().map(|node| node_affinity::preference(&wishes, &node.facts)).collect();
    let minded: Vec<i64> = nodes
        .iter()
        .map(|node| i64::try_from(taints::unwelcome(tolerations, &node.facts)).unwrap_or(i64::MAX))
        .collect();
    let most = |list: &[i64]| list.iter().copied().max().unwrap_or(0);
    let (most_wishes, most_minded) = (most(&wishes), most(&minded));
    let part = |value: i64, of: i64| if of > 0 { value.saturating_mul(BEST) / of } else { 0 };
    let scored = nodes.iter().enumerate().map(|(nth, node)| {
        let score = ROOM * room_left(requests, node)
            + PREFERENCE * part(wishes[nth], most_wishes)
            + TAINTS * (BEST - part(minded[nth], most_minded));
        (std::cmp::Reverse(score), node.pods.len(), nth)
    });
    scored.min().map(|(_, _, nth)| nodes[nth])
}

/// The mean of free cpu and memory, in percent of the node's allocatable.
fn room_left(requests: &Amounts, node: &NodeState) -> i64 {
    let part = |name: &str| {
        let has = node.facts.allocatable.of(name).to_f64();
        let used = node.used.of(name).plus(&requests.of(name)).to_f64();
        if has <= 0.0 { 0.0 } else { ((has - used) / has).clamp(0.0, 1.0) }
    };
    #[allow(clippy::cast_possible_truncation)]
    let hundredths = ((part("cpu") + part("memory")) * 50.0) as i64;
    hundredths
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::super::cluster::{Cluster, NodeFacts};
    use super::super::pod::PodFacts;
    use super::*;

    fn pod(name: &str, spec: Value) -> Pod {
        let mut pod = json!({"metadata": {"namespace": "ns", "name": name}, "spec": {"containers": [
            {"name": "c", "resources": {"requests": {"cpu": "1"}}}]}});
        crate::testing::merge_into(&mut pod["spec"], &spec);
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn best_node_has_the_highest_weighted_score() {
        let soft = json!([{"key": "t", "effect": "PreferNoSchedule"}]);
        let wish = json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution":
            [{"weight": 1, "preference": {"matchExpressions": [{"key": "ssd", "operator": "Exists"}]}}]}}});
        let full = |name: &str| (PodFacts::of(&pod("there", json!({}))), name.to_owned());
        let table = [
            ("equals: the first", json!({}), json!({}), vec![], "a"),
            ("free resources", json!({}), json!({}), vec![full("a")], "b"),
            (
                "a preference weighs more than free resources",
                json!({"labels": {"ssd": ""}}),
                wish.clone(),
                vec![full("a")],
                "a",
            ),
            (
                "a taint weighs more than a preference",
                json!({"labels": {"ssd": ""}, "taints": soft}),
                wish,
                vec![],
                "b",
            ),
        ];
        for (name, first, spec, there, wanted) in table {
            let mut cluster = Cluster::default();
            for (node, more) in [("a", first), ("b", json!({}))] {
                let node = json!({"metadata": {"name": node, "labels": more["labels"]}, "spec": {"taints": more["taints"]},
                    "status": {"allocatable": {"cpu": "4", "memory": "4Gi"}}});
                cluster.put_node(NodeFacts::of(&serde_json::from_value(node).unwrap()));
            }
            for (pod, node) in there {
                cluster.put_pod(pod, &node);
            }
            let pod = pod("p", spec);
            let nodes: Vec<_> = cluster.nodes().collect();
            let best = best(&pod, &Tolerations::of(&pod), &PodFacts::of(&pod).requests, &nodes).unwrap();
            assert_eq!(best.facts.name, wanted, "{name}");
        }
    }
}
