//! The topology from which a new volume has to be accessible (upstream: external-provisioner's topology.go). Pure: the cluster
//! is an input.
//!
//! A term is one segment of the cluster, as labels of the nodes in it. The driver receives all acceptable terms (requisite) and
//! the order in which to try them (preferred).

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, TopologySelectorTerm};
use k8s_openapi::api::storage::v1::CSINode;
use orlop_csi::v1;
use serde::{Deserialize, Serialize};

/// Label keys with their values.
pub type Term = BTreeMap<String, String>;

/// The topology requirement for the driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requirement {
    /// Every acceptable term, sorted and without duplicates.
    pub requisite: Vec<Term>,
    /// The same or a subset of them, best first.
    pub preferred: Vec<Term>,
}

impl Requirement {
    /// The CSI message.
    pub fn message(&self) -> v1::TopologyRequirement {
        let all = |terms: &[Term]| terms.iter().map(segment).collect();
        v1::TopologyRequirement { requisite: all(&self.requisite), preferred: all(&self.preferred) }
    }
}

/// A term as a CSI message.
pub(super) fn segment(term: &Term) -> v1::Topology {
    v1::Topology { segments: term.clone().into_iter().collect() }
}

/// Why no requirement can be computed; the texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TopologyError {
    #[error("no topology key found on CSINode {0}")]
    NoKeys(String),
    #[error(
        "topology labels from selected node {labels:?} does not match topology keys from CSINode {keys:?}"
    )]
    NoLabel { labels: BTreeMap<String, String>, keys: Vec<String> },
    #[error("selected node '{node:?}' topology '{term:?}' is not in allowed topologies: {allowed:?}")]
    NotAllowed { node: String, term: Term, allowed: Vec<Term> },
    #[error("no available topology found")]
    NoneAvailable,
    #[error("topology {term:?} from selected node {node:?} is not in requisite: {requisite:?}")]
    NotInRequisite { node: String, term: Term, requisite: Vec<Term> },
    /// Not upstream's: it has no limit.
    #[error("the allowed topologies of the storage class have more than {MAX_TERMS} combinations of values")]
    TooMany,
}

/// The limit of the terms that the allowed topologies of a class may stand for. Each expression multiplies them.
const MAX_TERMS: usize = 1_000;
/// The limit of the labels in all of these terms.
const MAX_LABELS: usize = 20_000;

/// The input for one claim.
pub(super) struct Question<'a> {
    pub(super) driver: &'a str,
    pub(super) claim: &'a str,
    pub(super) allowed: &'a [TopologySelectorTerm],
    /// The node that the scheduler selected, with its CSINode.
    pub(super) selected: Option<(&'a Node, &'a CSINode)>,
    pub(super) strict: bool,
    pub(super) immediate: bool,
}

/// The nodes and topology keys of the cluster.
pub(super) trait Cluster {
    /// The driver's topology keys on any node that has some.
    fn keys(&self) -> Option<Vec<String>>;
    /// The terms of all nodes that have the keys as labels.
    fn terms(&self, keys: &[String]) -> BTreeSet<Term>;
}

/// The topology keys of a driver on a node.
pub(super) fn keys_of(node: &CSINode, driver: &str) -> Vec<String> {
    let entry = node.spec.drivers.iter().find(|entry| entry.name == driver);
    entry.and_then(|entry| entry.topology_keys.clone()).unwrap_or_default()
}

/// The term of a node; none if it lacks one of the labels.
pub(super) fn term_of(node: &Node, keys: &[String]) -> Option<Term> {
    let labels = node.metadata.labels.as_ref();
    keys.iter().map(|key| Some((key.clone(), labels?.get(key)?.clone()))).collect()
}

/// The requirement for a claim. None when nothing limits it.
///
/// # Errors
/// Nodes and labels that contradict each other.
pub(super) fn requirement(
    question: &Question<'_>,
    cluster: &impl Cluster,
) -> Result<Option<Requirement>, TopologyError> {
    let selected = question.selected.map(|(node, csi_node)| selected(question, node, csi_node));
    let selected = selected.transpose()?;
    let terms: BTreeSet<Term> = match &selected {
        Some(selected) if question.strict => [selected.term.clone()].into(),
        Some(_) | None if !question.allowed.is_empty() => flatten(question.allowed)?.into_iter().collect(),
        Some(selected) => cluster.terms(&selected.keys),
        None if !question.immediate => return Ok(None),
        None => cluster.keys().map(|keys| cluster.terms(&keys)).unwrap_or_default(),
    };
    if terms.is_empty() {
        // Allowed topologies without any term count as none.
        return if question.allowed.is_empty() { Err(TopologyError::NoneAvailable) } else { Ok(None) };
    }
    let requisite: Vec<Term> = terms.into_iter().collect();
    let first = match &selected {
        None => first_for(question.claim, requisite.len()),
        Some(selected) => {
            let holds = |term: &Term| is_part(term, &selected.term);
            let at = requisite.iter().position(holds);
            at.ok_or_else(|| TopologyError::NotInRequisite {
                node: selected.name.clone(),
                term: selected.term.clone(),
                requisite: requisite.clone(),
            })?
        }
    };
    let mut preferred = requisite.clone();
    preferred.rotate_left(first);
    Ok(Some(Requirement { requisite, preferred }))
}

struct Selected {
    name: String,
    keys: Vec<String>,
    term: Term,
}

fn selected(question: &Question<'_>, node: &Node, csi_node: &CSINode) -> Result<Selected, TopologyError> {
    let name = node.metadata.name.clone().unwrap_or_default();
    let keys = keys_of(csi_node, question.driver);
    if keys.is_empty() {
        return Err(TopologyError::NoKeys(name));
    }
    let Some(term) = term_of(node, &keys) else {
        return Err(TopologyError::NoLabel {
            labels: node.metadata.labels.clone().unwrap_or_default(),
            keys,
        });
    };
    let allowed = question.allowed;
    if question.strict && !allowed.is_empty() && !allowed.iter().any(|selector| allows(selector, &term)) {
        // The terms are only for the error text, which omits them if there are too many.
        let allowed = flatten(allowed).unwrap_or_default();
        return Err(TopologyError::NotAllowed { node: name, term, allowed });
    }
    Ok(Selected { name, keys, term })
}

/// Whether `whole` contains all labels of `part`.
fn is_part(part: &Term, whole: &Term) -> bool {
    part.iter().all(|(key, value)| whole.get(key) == Some(value))
}

/// Whether one of the terms that `selector` stands for is part of `term`.
fn allows(selector: &TopologySelectorTerm, term: &Term) -> bool {
    let expressions = selector.match_label_expressions.as_deref().unwrap_or_default();
    let holds = |key: &String, values: &[String]| term.get(key).is_some_and(|value| values.contains(value));
    !expressions.is_empty() && expressions.iter().all(|one| holds(&one.key, &one.values))
}

/// Expands allowed topologies into terms: terms are ORed, expressions are ANDed, values are ORed.
///
/// # Errors
/// The terms are too many. They are counted before the first one is created.
fn flatten(allowed: &[TopologySelectorTerm]) -> Result<Vec<Term>, TopologyError> {
    let mut all = Vec::new();
    let mut labels = 0_usize;
    for selector in allowed {
        let expressions = selector.match_label_expressions.as_deref().unwrap_or_default();
        if expressions.is_empty() || expressions.iter().any(|expression| expression.values.is_empty()) {
            continue;
        }
        let count = expressions.iter().try_fold(1_usize, |count, one| count.checked_mul(one.values.len()));
        let count = count.filter(|count| all.len().saturating_add(*count) <= MAX_TERMS);
        let count = count.ok_or(TopologyError::TooMany)?;
        labels = labels.saturating_add(count.saturating_mul(expressions.len()));
        if labels > MAX_LABELS {
            return Err(TopologyError::TooMany);
        }
        // The digits of the number, with the lengths of the lists as bases, select the values.
        all.extend((0..count).map(|number| {
            let mut rest = number;
            let labels = expressions.iter().map(|expression| {
                let value = expression.values[rest % expression.values.len()].clone();
                rest /= expression.values.len();
                (expression.key.clone(), value)
            });
            labels.collect::<Term>()
        }));
    }
    Ok(all)
}

/// The index, among `count` terms, of the first one for a claim without a node. The replicas of a StatefulSet spread over the
/// terms, and all claims of one replica start with the same term.
fn first_for(claim: &str, count: usize) -> usize {
    let (hashed, index) = match claim.rsplit_once('-').map(|(base, tail)| (base, tail.parse::<u32>())) {
        Some((base, Ok(index))) => (base.rsplit_once('-').map_or(base, |(_, set)| set), index),
        Some((_, Err(_))) | None => (claim, 0),
    };
    let place = fnv1(hashed.as_bytes()).wrapping_add(index);
    place as usize % count.max(1)
}

/// The 32-bit FNV-1 hash.
pub(super) fn fnv1(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash: u32, byte| hash.wrapping_mul(0x0100_0193) ^ u32::from(*byte))
}

#[cfg(test)]
mod tests;
