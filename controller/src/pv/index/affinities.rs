//! The node affinities of volumes that the index cannot answer and the binder must evaluate. Most volumes share theirs with many
//! others, so each distinct one is stored once, and no volume is decoded to compare it with a node.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{NodeSelectorTerm, PersistentVolume};
use orlop_volume::affinity::term_matches;

/// A longer affinity is not kept: its volume is decoded when it is compared.
const LONGEST: usize = 16 * 1024;

/// The required node affinity of a volume.
#[derive(Debug)]
pub(super) struct RequiredNodes {
    /// As JSON.
    text: Box<str>,
    terms: Vec<NodeSelectorTerm>,
}

impl RequiredNodes {
    /// The same as [`orlop_volume::affinity::accepts_node`] with the volume.
    pub(super) fn accept(&self, labels: &BTreeMap<String, String>) -> bool {
        self.terms.iter().any(|term| term_matches(term, labels, ""))
    }
}

/// The different affinities.
#[derive(Debug, Default)]
pub(super) struct Affinities(HashMap<Box<str>, Arc<RequiredNodes>>);

impl Affinities {
    /// The affinity of a volume; none if it has none or a very long one.
    pub(super) fn share(&mut self, volume: &PersistentVolume) -> Option<Arc<RequiredNodes>> {
        let required = volume.spec.as_ref()?.node_affinity.as_ref()?.required.as_ref()?;
        let terms = &required.node_selector_terms;
        let text = serde_json::to_string(terms).ok().filter(|text| text.len() <= LONGEST)?;
        if let Some(known) = self.0.get(text.as_str()) {
            return Some(Arc::clone(known));
        }
        let text: Box<str> = text.into();
        let affinity = Arc::new(RequiredNodes { text: text.clone(), terms: terms.clone() });
        self.0.insert(text, Arc::clone(&affinity));
        Some(affinity)
    }

    /// A volume with this affinity has left.
    pub(super) fn leave(&mut self, affinity: Arc<RequiredNodes>) {
        // This reference and the map's: no other volume has it.
        if Arc::strong_count(&affinity) <= 2 {
            self.0.remove(&affinity.text);
        }
    }

    /// The number of different ones.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
