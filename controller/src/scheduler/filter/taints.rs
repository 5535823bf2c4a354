//! The rule for taints and tolerations.

use std::collections::HashSet;

use k8s_openapi::api::core::v1::{Pod, Taint, Toleration};

use super::super::cluster::NodeFacts;
use super::{Misfit, Rule};

const REASON: &str = "node(s) had untolerated taint(s)";

/// The rule: taints with the effects NoSchedule and NoExecute have to be tolerated.
pub fn check(tolerations: &Tolerations<'_>, node: &NodeFacts) -> Result<(), Misfit> {
    let keeps_away = |taint: &&Taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute");
    match node.taints.iter().filter(keeps_away).all(|taint| tolerations.cover(taint)) {
        true => Ok(()),
        false => Err(Misfit::fixed(Rule::Taints, REASON)),
    }
}

/// Whether a pod tolerates a taint.
pub fn tolerates(pod: &Pod, taint: &Taint) -> bool {
    tolerations_of(pod).iter().any(|toleration| covers(toleration, taint))
}

fn tolerations_of(pod: &Pod) -> &[Toleration] {
    pod.spec.as_ref().and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default()
}

/// The tolerations of a pod, read once for all nodes: a taint costs a fixed number of lookups.
#[derive(Debug)]
pub struct Tolerations<'a>(HashSet<Tolerated<'a>>);

/// Key, effect and value of the tolerated taints. An empty key or effect and no value stand for all.
type Tolerated<'a> = (&'a str, &'a str, Option<&'a str>);

impl<'a> Tolerations<'a> {
    /// Reads the tolerations of a pod.
    pub fn of(pod: &'a Pod) -> Self {
        let read = |toleration: &'a Toleration| {
            let value = match Comparison::of(toleration) {
                Comparison::Exists => None,
                Comparison::Equal => Some(toleration.value.as_deref().unwrap_or("")),
                Comparison::Unsupported => return None,
            };
            let text = |text: &'a Option<String>| text.as_deref().unwrap_or("");
            Some((text(&toleration.key), text(&toleration.effect), value))
        };
        Self(tolerations_of(pod).iter().filter_map(read).collect())
    }

    /// Whether one of them tolerates the taint. The same as [`tolerates`].
    pub fn cover(&self, taint: &Taint) -> bool {
        let values = [None, Some(taint.value.as_deref().unwrap_or(""))];
        let known = |key, effect| values.iter().any(|value| self.0.contains(&(key, effect, *value)));
        ["", &taint.key].iter().any(|key| ["", &taint.effect].iter().any(|effect| known(*key, *effect)))
    }
}

/// The number of PreferNoSchedule taints that the pod does not tolerate.
pub fn unwelcome(tolerations: &Tolerations<'_>, node: &NodeFacts) -> usize {
    let soft = |taint: &&Taint| taint.effect == "PreferNoSchedule" && !tolerations.cover(taint);
    node.taints.iter().filter(soft).count()
}

/// Whether a toleration tolerates a taint.
pub fn covers(toleration: &Toleration, taint: &Taint) -> bool {
    let is = |text: &Option<String>, wanted: &str| {
        text.as_deref().is_none_or(|text| text.is_empty() || text == wanted)
    };
    let same_value = match Comparison::of(toleration) {
        Comparison::Exists => true,
        Comparison::Equal => {
            toleration.value.as_deref().unwrap_or("") == taint.value.as_deref().unwrap_or("")
        }
        Comparison::Unsupported => false,
    };
    is(&toleration.effect, &taint.effect) && is(&toleration.key, &taint.key) && same_value
}

/// How a toleration compares values.
enum Comparison {
    Exists,
    Equal,
    /// The operators for numeric comparison are behind a disabled feature gate.
    Unsupported,
}

impl Comparison {
    fn of(toleration: &Toleration) -> Self {
        match toleration.operator.as_deref().unwrap_or_default() {
            "Exists" => Self::Exists,
            "" | "Equal" => Self::Equal,
            _ => Self::Unsupported,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    fn pod(tolerations: Value) -> Pod {
        serde_json::from_value(
            json!({"metadata": {}, "spec": {"containers": [], "tolerations": tolerations}}),
        )
        .unwrap()
    }

    fn node(taints: Value) -> NodeFacts {
        NodeFacts { taints: serde_json::from_value(taints).unwrap(), ..NodeFacts::default() }
    }

    #[test]
    fn untolerated_taints_reject_the_node() {
        let taint = json!([{"key": "a", "value": "1", "effect": "NoSchedule"}]);
        let table = [
            ("no taint", json!([]), json!([]), true),
            ("a taint", json!([]), taint.clone(), false),
            ("NoExecute", json!([]), json!([{"key": "a", "effect": "NoExecute"}]), false),
            ("only a wish", json!([]), json!([{"key": "a", "effect": "PreferNoSchedule"}]), true),
            ("equal", json!([{"key": "a", "value": "1", "effect": "NoSchedule"}]), taint.clone(), true),
            ("Equal in full", json!([{"key": "a", "operator": "Equal", "value": "1"}]), taint.clone(), true),
            ("another value", json!([{"key": "a", "value": "2"}]), taint.clone(), false),
            ("any value", json!([{"key": "a", "operator": "Exists"}]), taint.clone(), true),
            ("any key", json!([{"operator": "Exists"}]), taint.clone(), true),
            (
                "another effect",
                json!([{"key": "a", "operator": "Exists", "effect": "NoExecute"}]),
                taint.clone(),
                false,
            ),
            ("another key", json!([{"key": "b", "operator": "Exists"}]), taint.clone(), false),
            ("a number", json!([{"key": "a", "operator": "Gt", "value": "0"}]), taint, false),
            (
                "one of two",
                json!([{"key": "a", "operator": "Exists"}]),
                json!([{"key": "a", "effect": "NoSchedule"},
                {"key": "b", "effect": "NoSchedule"}]),
                false,
            ),
        ];
        for (name, tolerations, taints, fits) in table {
            let wanted = if fits { Ok(()) } else { Err(Misfit::fixed(Rule::Taints, REASON)) };
            let (pod, node) = (pod(tolerations), node(taints));
            let tolerations = Tolerations::of(&pod);
            assert_eq!(check(&tolerations, &node), wanted, "{name}");
            for taint in &node.taints {
                assert_eq!(tolerations.cover(taint), tolerates(&pod, taint), "{name}");
            }
        }
    }

    #[test]
    fn many_tolerations_and_nodes_cost_linear_time() {
        let input = |count: usize| {
            let toleration = |n: usize| json!({"key": format!("a{n}"), "effect": "NoExecute"});
            (
                pod((0..count).map(toleration).collect()),
                vec![node(json!([{"key": "b", "effect": "NoExecute"}])); count],
            )
        };
        let work = |(pod, nodes): &(Pod, Vec<NodeFacts>)| {
            let tolerations = Tolerations::of(pod);
            assert!(nodes.iter().all(|node| check(&tolerations, node).is_err()));
        };
        orlop_apimachinery::thread_time::assert_linear("tolerations", 500, input, work);
    }

    #[test]
    fn prefer_no_schedule_taints_are_counted() {
        let taints = node(
            json!([{"key": "a", "effect": "PreferNoSchedule"}, {"key": "b", "effect": "PreferNoSchedule"},
            {"key": "c", "effect": "NoSchedule"}]),
        );
        assert_eq!(unwelcome(&Tolerations::of(&pod(json!([]))), &taints), 2);
        let one = pod(json!([{"key": "a", "operator": "Exists"}]));
        assert_eq!(unwelcome(&Tolerations::of(&one), &taints), 1);
    }
}
