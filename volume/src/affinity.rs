//! Node selectors: whether a node may use a volume or run a pod. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, PersistentVolume, Pod};

/// Whether the labels of a node satisfy the node affinity of a volume. A volume without affinity is allowed on
/// every node. Terms are alternatives, and a term without any requirement matches nothing.
// Tests: FN-AFF-2, FN-AFF-4, FN-AFF-5, FN-AFF-8, NEW-AFF-NOTIN, NEW-AFF-UNKNOWN
pub fn accepts_node(volume: &PersistentVolume, node_labels: &BTreeMap<String, String>) -> bool {
    let required = volume.spec.as_ref().and_then(|spec| spec.node_affinity.as_ref()?.required.as_ref());
    required.is_none_or(|selector| {
        // The only field is the node's name. Upstream passes only labels, so a field is compared with an empty name.
        selector.node_selector_terms.iter().any(|term| term_matches(term, node_labels, ""))
    })
}

/// Where a volume may be used, as far as a single label determines it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach<'a> {
    /// On every node.
    Everywhere,
    /// Only on nodes with this label and value; if `enough`, on all of them.
    Label {
        /// The label.
        key: &'a str,
        /// Its value.
        value: &'a str,
        /// Whether the label is the only requirement.
        enough: bool,
    },
    /// Determined only by evaluating the node affinity.
    Elsewhere,
}

/// The first label with a single required value in a volume's node affinity, if that has only one term.
pub fn reach(volume: &PersistentVolume) -> Reach<'_> {
    let required = volume.spec.as_ref().and_then(|spec| spec.node_affinity.as_ref()?.required.as_ref());
    let Some(required) = required else { return Reach::Everywhere };
    let [term] = required.node_selector_terms.as_slice() else { return Reach::Elsewhere };
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let alone = expressions.len() == 1 && term.match_fields.as_ref().is_none_or(Vec::is_empty);
    let label = expressions.iter().find_map(|wanted| match wanted.values.as_deref() {
        Some([value]) if wanted.operator == "In" => {
            Some(Reach::Label { key: &wanted.key, value, enough: alone })
        }
        Some(_) | None => None,
    });
    label.unwrap_or(Reach::Elsewhere)
}

/// Whether a term accepts a node with this name and these labels. All of its requirements must match; a term
/// without requirements matches nothing.
pub fn term_matches(term: &NodeSelectorTerm, labels: &BTreeMap<String, String>, node: &str) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    if expressions.is_empty() && fields.is_empty() {
        return false;
    }
    expressions.iter().all(|wanted| requirement_matches(wanted, labels.get(&wanted.key).map(String::as_str)))
        && fields
            .iter()
            .all(|wanted| wanted.key == "metadata.name" && requirement_matches(wanted, Some(node)))
}

/// The alternatives of a pod's required node affinity.
pub fn required_node_terms(pod: &Pod) -> Option<&[NodeSelectorTerm]> {
    let affinity = pod.spec.as_ref()?.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    Some(&required.node_selector_terms)
}

/// Whether a node of this name with these labels matches the pod's node selector and required node affinity.
pub fn pod_accepts_node(pod: &Pod, labels: &BTreeMap<String, String>, node: &str) -> bool {
    let selector = pod.spec.as_ref().and_then(|spec| spec.node_selector.as_ref());
    let selected = selector.into_iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    selected
        && required_node_terms(pod)
            .is_none_or(|terms| terms.iter().any(|term| term_matches(term, labels, node)))
}

fn requirement_matches(wanted: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = wanted.values.as_deref().unwrap_or_default();
    let listed = |value: &str| values.iter().any(|one| one == value);
    let number = |text: &str| text.parse::<i64>().ok();
    let compare = |holds: fn(i64, i64) -> bool| {
        let limit = values.first().and_then(|text| number(text));
        value.and_then(number).zip(limit).is_some_and(|(value, limit)| holds(value, limit))
    };
    match wanted.operator.as_str() {
        "In" => value.is_some_and(listed),
        "NotIn" => !value.is_some_and(listed),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compare(|value, limit| value > limit),
        "Lt" => compare(|value, limit| value < limit),
        // An unknown operator matches no node.
        _ => false,
    }
}
