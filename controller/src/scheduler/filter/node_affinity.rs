//! The rule for a pod's node selector and required node affinity.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;

use super::super::cluster::NodeFacts;
use super::node_terms::{NodeTerm, NodeTerms};
use super::{Misfit, Rule};
use orlop_volume::affinity::required_node_terms;

const REASON: &str = "node(s) didn't match Pod's node affinity/selector";
/// Upstream's text for nodes that a pod's affinity by name excludes.
pub const NOT_NAMED: &str = "node(s) didn't satisfy plugin(s) [NodeAffinity]";
/// Upstream's text for names that no node can have.
pub const CONFLICT: &str = "pod affinity terms conflict";

/// The rule.
pub fn check(terms: &NodeTerms<'_>, node: &NodeFacts) -> Result<(), Misfit> {
    if terms.accept(node) { Ok(()) } else { Err(Misfit::fixed(Rule::NodeAffinity, REASON)) }
}

/// The only feasible nodes, if every alternative of the pod's affinity names nodes. An empty set: the names contradict each
/// other.
pub fn named_nodes(pod: &Pod) -> Option<BTreeSet<String>> {
    let mut all = BTreeSet::new();
    let terms = required_node_terms(pod)?;
    if terms.is_empty() {
        return None;
    }
    for term in terms {
        let names =
            |values: &Option<Vec<String>>| -> BTreeSet<String> { values.iter().flatten().cloned().collect() };
        let fields = term.match_fields.iter().flatten();
        let mut named = fields
            .filter(|field| field.key == "metadata.name" && field.operator == "In")
            .map(|field| names(&field.values));
        let first = named.next()?;
        all.extend(named.fold(first, |both, next| &both & &next));
    }
    Some(all)
}

/// A preference and its weight.
pub type Wish<'a> = (NodeTerm<'a>, i64);

/// The preferences of a pod.
pub fn wishes(pod: &Pod) -> Vec<Wish<'_>> {
    let affinity = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref()?.node_affinity.as_ref());
    let wishes =
        affinity.and_then(|affinity| affinity.preferred_during_scheduling_ignored_during_execution.as_ref());
    // A preference without requirements matches every node and does not distinguish any.
    wishes
        .into_iter()
        .flatten()
        .map(|wish| (NodeTerm::of(&wish.preference), i64::from(wish.weight)))
        .collect()
}

/// The sum of the weights of the preferences that a node matches.
pub fn preference(wishes: &[Wish<'_>], node: &NodeFacts) -> i64 {
    wishes.iter().filter(|(wish, _)| wish.matches(node)).map(|(_, weight)| weight).sum()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    fn pod(spec: Value) -> Pod {
        let mut pod = json!({"metadata": {}, "spec": {"containers": []}});
        crate::testing::merge_into(&mut pod["spec"], &spec);
        serde_json::from_value(pod).unwrap()
    }

    fn terms(terms: Value) -> Pod {
        pod(json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": terms}}}}))
    }

    fn node() -> NodeFacts {
        let labels = json!({"zone": "a", "cores": "8", "ssd": ""});
        NodeFacts {
            name: "n".to_owned(),
            labels: serde_json::from_value(labels).unwrap(),
            ..NodeFacts::default()
        }
    }

    #[test]
    fn selector_and_affinity_restrict_nodes() {
        let one = |key: &str, operator: &str, values: Value| {
            terms(json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]))
        };
        let name = |operator: &str, values: Value| {
            terms(
                json!([{"matchFields": [{"key": "metadata.name", "operator": operator, "values": values}]}]),
            )
        };
        let table = [
            ("nothing asked", pod(json!({})), true),
            ("selector", pod(json!({"nodeSelector": {"zone": "a"}})), true),
            ("selector, other value", pod(json!({"nodeSelector": {"zone": "b"}})), false),
            ("selector, one of two", pod(json!({"nodeSelector": {"zone": "a", "x": "y"}})), false),
            ("In", one("zone", "In", json!(["a", "b"])), true),
            ("In, none", one("zone", "In", json!(["b"])), false),
            ("In, no label", one("x", "In", json!(["b"])), false),
            ("NotIn", one("zone", "NotIn", json!(["b"])), true),
            ("NotIn, it is", one("zone", "NotIn", json!(["a"])), false),
            ("NotIn, no label", one("x", "NotIn", json!(["a"])), true),
            ("Exists", one("ssd", "Exists", json!(null)), true),
            ("Exists, not", one("x", "Exists", json!(null)), false),
            ("DoesNotExist", one("x", "DoesNotExist", json!(null)), true),
            ("DoesNotExist, it does", one("ssd", "DoesNotExist", json!(null)), false),
            ("Gt", one("cores", "Gt", json!(["7"])), true),
            ("Gt, equal", one("cores", "Gt", json!(["8"])), false),
            ("Lt", one("cores", "Lt", json!(["9"])), true),
            ("Lt, no number", one("zone", "Lt", json!(["9"])), false),
            ("a field", name("In", json!(["n"])), true),
            ("a field, other node", name("In", json!(["m"])), false),
            ("a field, not", name("NotIn", json!(["n"])), false),
            ("no term", terms(json!([])), false),
            ("an empty term", terms(json!([{}])), false),
            (
                "alternatives",
                terms(json!([{}, {"matchExpressions": [{"key": "ssd", "operator": "Exists"}]}])),
                true,
            ),
            (
                "all of a term",
                terms(json!([{"matchExpressions": [{"key": "ssd", "operator": "Exists"}],
                "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["m"]}]}])),
                false,
            ),
        ];
        for (name, pod, fits) in table {
            let wanted = if fits { Ok(()) } else { Err(Misfit::fixed(Rule::NodeAffinity, REASON)) };
            assert_eq!(check(&NodeTerms::of(&pod), &node()), wanted, "{name}");
        }
    }

    #[test]
    fn affinity_by_name_yields_the_named_nodes() {
        let field = |values: Value| json!({"key": "metadata.name", "operator": "In", "values": values});
        let table = [
            ("no node", pod(json!({})), None),
            ("one", terms(json!([{"matchFields": [field(json!(["n"]))]}])), Some(vec!["n"])),
            (
                "an alternative without a name",
                terms(json!([{"matchFields": [field(json!(["n"]))]},
                {"matchExpressions": [{"key": "a", "operator": "Exists"}]}])),
                None,
            ),
            (
                "two",
                terms(
                    json!([{"matchFields": [field(json!(["n"]))]}, {"matchFields": [field(json!(["m"]))]}]),
                ),
                Some(vec!["m", "n"]),
            ),
            (
                "a contradiction",
                terms(json!([{"matchFields": [field(json!(["n"])), field(json!(["m"]))]}])),
                Some(vec![]),
            ),
        ];
        for (name, pod, wanted) in table {
            let named = named_nodes(&pod).map(|names| names.into_iter().collect::<Vec<_>>());
            assert_eq!(named, wanted.map(|names| names.into_iter().map(str::to_owned).collect()), "{name}");
        }
    }

    #[test]
    fn weights_of_matching_preferences_add_up() {
        let wish = |weight: i64, key: &str| {
            json!({"weight": weight, "preference": {"matchExpressions":
            [{"key": key, "operator": "Exists"}]}})
        };
        let pod =
            pod(json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution":
            [wish(10, "ssd"), wish(5, "zone"), wish(1, "x")]}}}));
        assert_eq!(preference(&wishes(&pod), &node()), 15);
    }
}
