//! The rule for zone and region labels of volumes: a volume with such labels can be used only on nodes with a matching label.

use k8s_openapi::api::core::v1::PersistentVolume;

use super::super::cluster::NodeFacts;
use super::super::terms::Labels;
use super::{Misfit, Rule};

const REASON: &str = "node(s) had no available volume zone";
/// The current and the deprecated key of each label.
const PAIRS: [[&str; 2]; 2] = [
    ["topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"],
    ["topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"],
];
/// Separates the values of a volume in several zones.
const BETWEEN: &str = "__";

/// The rule. A node without zone labels accepts every volume.
pub fn check(volume: &PersistentVolume, node: &NodeFacts) -> Result<(), Misfit> {
    let Some(labels) = &volume.metadata.labels else { return Ok(()) };
    if PAIRS.iter().flatten().all(|key| !node.labels.contains_key(*key)) {
        return Ok(());
    }
    let fits = PAIRS.iter().all(|pair| pair.iter().all(|key| is_there(labels, key, pair, &node.labels)));
    if fits { Ok(()) } else { Err(Misfit::fixed(Rule::Zone, REASON)) }
}

fn is_there(volume: &Labels, key: &str, pair: &[&str; 2], node: &Labels) -> bool {
    let Some(values) = volume.get(key) else { return true };
    // The node may use the other key of the label.
    let own = node.get(key).or_else(|| pair.iter().find_map(|other| node.get(*other)));
    own.is_some_and(|own| values.split(BETWEEN).any(|value| value == own))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn volume_zone_must_match_the_node() {
        let (zone, old) = (PAIRS[0][0], PAIRS[0][1]);
        let region = PAIRS[1][0];
        let table = [
            ("no labels", json!({}), json!({zone: "a"}), true),
            ("the same", json!({zone: "a"}), json!({zone: "a"}), true),
            ("another", json!({zone: "a"}), json!({zone: "b"}), false),
            ("one of several", json!({zone: "a__b"}), json!({zone: "b"}), true),
            ("none of several", json!({zone: "a__b"}), json!({zone: "c"}), false),
            ("the node has no topology labels", json!({zone: "a"}), json!({"x": "y"}), true),
            ("the node has only a region", json!({zone: "a"}), json!({region: "r"}), false),
            ("the volume in old words", json!({old: "a"}), json!({zone: "a"}), true),
            ("the node in old words", json!({zone: "a"}), json!({old: "a"}), true),
            ("zone and region", json!({zone: "a", region: "r"}), json!({zone: "a", region: "r"}), true),
            ("another region", json!({zone: "a", region: "r"}), json!({zone: "a", region: "s"}), false),
        ];
        let labels = |value: Value| -> Labels { serde_json::from_value(value).unwrap() };
        for (name, of_volume, of_node, fits) in table {
            let mut volume = PersistentVolume::default();
            volume.metadata.labels = Some(labels(of_volume));
            let node = NodeFacts { labels: labels(of_node), ..NodeFacts::default() };
            let wanted = if fits { Ok(()) } else { Err(Misfit::fixed(Rule::Zone, REASON)) };
            assert_eq!(check(&volume, &node), wanted, "{name}");
        }
    }
}
