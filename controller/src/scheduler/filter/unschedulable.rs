//! The rule for cordoned nodes, which accept only pods with the toleration.

use k8s_openapi::api::core::v1::Taint;

use super::super::cluster::NodeFacts;
use super::taints::Tolerations;
use super::{Misfit, Rule};

const REASON: &str = "node(s) were unschedulable";

/// The rule.
pub fn check(tolerations: &Tolerations<'_>, node: &NodeFacts) -> Result<(), Misfit> {
    if !node.unschedulable {
        return Ok(());
    }
    let closed = Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    if tolerations.cover(&closed) { Ok(()) } else { Err(Misfit::fixed(Rule::Unschedulable, REASON)) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn cordoned_node_needs_a_toleration() {
        let table = [
            ("open", false, json!([]), true),
            ("closed", true, json!([]), false),
            (
                "tolerated by name",
                true,
                json!([{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]),
                true,
            ),
            ("everything tolerated", true, json!([{"operator": "Exists"}]), true),
            ("something else tolerated", true, json!([{"key": "a", "operator": "Exists"}]), false),
            ("another effect", true, json!([{"operator": "Exists", "effect": "NoExecute"}]), false),
        ];
        for (name, unschedulable, tolerations, fits) in table {
            let pod = serde_json::from_value(
                json!({"metadata": {}, "spec": {"containers": [], "tolerations": tolerations}}),
            );
            let node = NodeFacts { unschedulable, ..NodeFacts::default() };
            let wanted = if fits { Ok(()) } else { Err(Misfit::fixed(Rule::Unschedulable, REASON)) };
            assert_eq!(check(&Tolerations::of(&pod.unwrap()), &node), wanted, "{name}");
        }
    }
}
