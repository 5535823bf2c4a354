//! The rule for taints and tolerations.

use k8s_openapi::api::core::v1::{Pod, Taint, Toleration};

use super::super::cluster::NodeFacts;
use super::{Misfit, Rule};

const REASON: &str = "node(s) had untolerated taint(s)";

/// The rule: taints with the effects NoSchedule and NoExecute have to be tolerated.
pub fn check(pod: &Pod, node: &NodeFacts) -> Result<(), Misfit> {
    let keeps_away = |taint: &&Taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute");
    match node.taints.iter().filter(keeps_away).all(|taint| tolerates(pod, taint)) {
        true => Ok(()),
        false => Err(Misfit::fixed(Rule::Taints, REASON)),
    }
}

/// Whether a pod tolerates a taint.
pub fn tolerates(pod: &Pod, taint: &Taint) -> bool {
    let tolerations = pod.spec.as_ref().and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default();
    tolerations.iter().any(|toleration| covers(toleration, taint))
}

/// The number of PreferNoSchedule taints that the pod does not tolerate.
pub fn unwelcome(pod: &Pod, node: &NodeFacts) -> usize {
    let soft = |taint: &&Taint| taint.effect == "PreferNoSchedule" && !tolerates(pod, taint);
    node.taints.iter().filter(soft).count()
}

/// Whether a toleration tolerates a taint.
pub fn covers(toleration: &Toleration, taint: &Taint) -> bool {
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let same_effect = given(&toleration.effect).is_none_or(|effect| effect == taint.effect);
    let same_key = given(&toleration.key).is_none_or(|key| key == taint.key);
    let same_value = match toleration.operator.as_deref().unwrap_or_default() {
        "Exists" => true,
        "" | "Equal" => toleration.value.as_deref().unwrap_or("") == taint.value.as_deref().unwrap_or(""),
        // The operators for numeric comparison are behind a disabled feature gate.
        _ => false,
    };
    same_effect && same_key && same_value
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
            assert_eq!(check(&pod(tolerations), &node(taints)), wanted, "{name}");
        }
    }

    #[test]
    fn prefer_no_schedule_taints_are_counted() {
        let taints = node(
            json!([{"key": "a", "effect": "PreferNoSchedule"}, {"key": "b", "effect": "PreferNoSchedule"},
            {"key": "c", "effect": "NoSchedule"}]),
        );
        assert_eq!(unwelcome(&pod(json!([])), &taints), 2);
        assert_eq!(unwelcome(&pod(json!([{"key": "a", "operator": "Exists"}])), &taints), 1);
    }
}
