//! The node selector terms of a pod, read once for all nodes: a long list of values costs one lookup per node.

use std::collections::HashSet;

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, Pod};

use super::super::cluster::NodeFacts;
use super::super::terms::Labels;
use orlop_volume::affinity::{required_node_terms, term_matches};

/// Longer lists of values become sets.
const SHORT: usize = 16;

/// A term.
#[derive(Debug)]
pub struct NodeTerm<'a> {
    /// The requirements with short lists; none if there are only others.
    short: Option<NodeSelectorTerm>,
    long: Vec<LongList<'a>>,
}

/// A requirement with many values.
#[derive(Debug)]
struct LongList<'a> {
    key: &'a str,
    /// Of the node's name, not of its labels.
    is_field: bool,
    /// The value must be in the list; if false, it must not be in the list.
    is_in: bool,
    values: HashSet<&'a str>,
}

impl<'a> LongList<'a> {
    fn of(wanted: &'a NodeSelectorRequirement, is_field: bool) -> Option<Self> {
        let values = wanted.values.as_deref().filter(|values| values.len() > SHORT)?;
        let is_in = match wanted.operator.as_str() {
            "In" => true,
            "NotIn" => false,
            _ => return None,
        };
        let values = values.iter().map(String::as_str).collect();
        Some(Self { key: &wanted.key, is_field, is_in, values })
    }

    fn matches(&self, node: &NodeFacts) -> bool {
        let value = match (self.is_field, self.key) {
            (false, key) => node.labels.get(key).map(String::as_str),
            (true, "metadata.name") => Some(node.name.as_str()),
            (true, _) => return false,
        };
        value.is_some_and(|value| self.values.contains(value)) == self.is_in
    }
}

impl<'a> NodeTerm<'a> {
    /// Reads a term.
    pub fn of(term: &'a NodeSelectorTerm) -> Self {
        let mut long = Vec::new();
        let mut split = |wanted: &'a Option<Vec<NodeSelectorRequirement>>, is_field: bool| {
            let mut short = Vec::new();
            for wanted in wanted.iter().flatten() {
                match LongList::of(wanted, is_field) {
                    Some(list) => long.push(list),
                    None => short.push(wanted.clone()),
                }
            }
            short
        };
        let (labels, fields) = (split(&term.match_expressions, false), split(&term.match_fields, true));
        // A term without any requirement matches nothing.
        let is_short = !labels.is_empty() || !fields.is_empty() || long.is_empty();
        let short = is_short
            .then_some(NodeSelectorTerm { match_expressions: Some(labels), match_fields: Some(fields) });
        Self { short, long }
    }

    /// The same as [`term_matches`].
    pub fn matches(&self, node: &NodeFacts) -> bool {
        self.short.as_ref().is_none_or(|short| term_matches(short, &node.labels, &node.name))
            && self.long.iter().all(|list| list.matches(node))
    }
}

/// The requirements of a pod on nodes: its node selector and required affinity.
#[derive(Debug)]
pub struct NodeTerms<'a> {
    selector: Option<&'a Labels>,
    terms: Option<Vec<NodeTerm<'a>>>,
}

impl<'a> NodeTerms<'a> {
    /// Reads a pod.
    pub fn of(pod: &'a Pod) -> Self {
        let selector = pod.spec.as_ref().and_then(|spec| spec.node_selector.as_ref());
        Self {
            selector,
            terms: required_node_terms(pod).map(|terms| terms.iter().map(NodeTerm::of).collect()),
        }
    }

    /// The same as [`orlop_volume::affinity::pod_accepts_node`].
    pub fn accept(&self, node: &NodeFacts) -> bool {
        let selected =
            self.selector.into_iter().flatten().all(|(key, value)| node.labels.get(key) == Some(value));
        selected && self.terms.as_ref().is_none_or(|terms| terms.iter().any(|term| term.matches(node)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use orlop_apimachinery::thread_time::assert_linear;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn long_lists_match_as_short_ones_do() {
        let labels = serde_json::from_value(json!({"zone": "v7", "other": "x"})).unwrap();
        let node = NodeFacts { name: "v7".to_owned(), labels, ..NodeFacts::default() };
        let values = |from: usize| -> Vec<String> { (from..from + 30).map(|n| format!("v{n}")).collect() };
        let one = |key: &str, operator: &str, from: usize| json!({"key": key, "operator": operator, "values": values(from)});
        let mut matching = 0;
        for key in ["zone", "none", "metadata.name"] {
            for operator in ["In", "NotIn", "Exists", "Gt", "Odd"] {
                for from in [0, 100] {
                    for more in [json!([]), json!([{"key": "other", "operator": "Exists"}])] {
                        let mut expressions = vec![one(key, operator, from)];
                        expressions.extend(more.as_array().cloned().unwrap());
                        for field in [json!([]), json!([one(key, operator, from)])] {
                            let term: Value = json!({"matchExpressions": expressions, "matchFields": field});
                            let term: NodeSelectorTerm = serde_json::from_value(term).unwrap();
                            let wanted = term_matches(&term, &node.labels, &node.name);
                            assert_eq!(NodeTerm::of(&term).matches(&node), wanted, "{term:?}");
                            matching += usize::from(wanted);
                        }
                    }
                }
            }
        }
        assert!(matching > 5, "{matching}");
        assert!(!NodeTerm::of(&NodeSelectorTerm::default()).matches(&node));
    }

    #[test]
    fn many_values_and_nodes_cost_linear_time() {
        assert_linear(
            "values and nodes",
            250,
            |count| {
                let values: Vec<String> = (0..count).map(|n| format!("v{n}")).collect();
                let term =
                    json!({"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": values}]});
                let term: NodeSelectorTerm = serde_json::from_value(term).unwrap();
                let node = |n: usize| NodeFacts {
                    labels: [("zone".to_owned(), format!("x{n}"))].into(),
                    ..NodeFacts::default()
                };
                (term, (0..count).map(node).collect::<Vec<_>>())
            },
            |(term, nodes)| {
                let term = NodeTerm::of(term);
                assert!(nodes.iter().all(|node| term.matches(node)));
            },
        );
    }
}
