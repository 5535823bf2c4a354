//! Decision on each pod of a tainted node. Pure (upstream: processPodOnNode, getMinTolerationTime).

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Taint, Toleration};

use crate::node_lifecycle::wanted::{self, NO_EXECUTE};
use crate::scheduler::filter::taints::covers;

/// The decision on a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionDecision {
    /// The pod may stay.
    Stays,
    /// Evict the pod once it has been on the tainted node for this long; immediately if the duration is zero.
    Goes(Duration),
}

/// The taints of a node that evict pods.
pub fn driving_off(node: &Node) -> Vec<&Taint> {
    wanted::taints(node).iter().filter(|taint| taint.effect == NO_EXECUTE).collect()
}

/// Every taint must be tolerated. For each taint the first matching toleration counts; the shortest time decides.
pub fn of(taints: &[&Taint], tolerations: &[Toleration]) -> EvictionDecision {
    let mut shortest = None;
    for taint in taints {
        let Some(toleration) = tolerations.iter().find(|toleration| covers(toleration, taint)) else {
            return EvictionDecision::Goes(Duration::ZERO);
        };
        let Some(seconds) = toleration.toleration_seconds else { continue };
        let time = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        shortest = Some(shortest.map_or(time, |known: Duration| known.min(time)));
    }
    shortest.map_or(EvictionDecision::Stays, EvictionDecision::Goes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn shortest_toleration_decides_the_eviction_time() {
        let goes = |seconds| EvictionDecision::Goes(Duration::from_secs(seconds));
        let (a, b) = (json!({"key": "a", "effect": "NoExecute"}), json!({"key": "b", "effect": "NoExecute"}));
        let closed = json!({"key": "c", "effect": "NoSchedule"});
        let for_ever = |key: &str| json!({"key": key, "operator": "Exists"});
        let seconds = |key: &str, seconds: i64| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds});
        let table: [(&str, Vec<&Value>, Vec<Value>, EvictionDecision); 13] = [
            ("no taint", vec![], vec![], EvictionDecision::Stays),
            ("only closed for new ones", vec![&closed], vec![], EvictionDecision::Stays),
            ("not tolerated", vec![&a], vec![], goes(0)),
            ("for ever", vec![&a], vec![for_ever("a")], EvictionDecision::Stays),
            (
                "everything for ever",
                vec![&a, &b],
                vec![json!({"operator": "Exists"})],
                EvictionDecision::Stays,
            ),
            ("one of two", vec![&a, &b], vec![for_ever("a")], goes(0)),
            ("tolerated for 300 s", vec![&a], vec![seconds("a", 300)], goes(300)),
            ("the shorter of two", vec![&a, &b], vec![seconds("a", 300), seconds("b", 9)], goes(9)),
            ("one for ever, one not", vec![&a, &b], vec![for_ever("a"), seconds("b", 9)], goes(9)),
            ("only those that are used", vec![&a], vec![seconds("a", 300), seconds("b", 9)], goes(300)),
            ("the first that covers", vec![&a], vec![seconds("a", 300), for_ever("a")], goes(300)),
            ("nothing", vec![&a], vec![seconds("a", 0)], goes(0)),
            ("less than nothing", vec![&a, &b], vec![seconds("a", -5), seconds("b", 9)], goes(0)),
        ];
        for (name, taints, tolerations, wanted) in table {
            let node: Node =
                serde_json::from_value(json!({"metadata": {"name": "n"}, "spec": {"taints": taints}}))
                    .unwrap();
            let tolerations: Vec<Toleration> = serde_json::from_value(json!(tolerations)).unwrap();
            assert_eq!(of(&driving_off(&node), &tolerations), wanted, "{name}");
        }
    }
}
