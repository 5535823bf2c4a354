//! Finds kinds by the names in the paths of their objects.

use std::cmp::Ordering;

use orlop_apimachinery::text::compare;

use super::Kind;

/// Kinds, sorted by plural name, group and version: the plural names differ the most.
pub struct KindsByPath(Vec<&'static dyn Kind>);

impl KindsByPath {
    /// Sorts kinds.
    pub fn new(kinds: &[&'static dyn Kind]) -> Self {
        let mut kinds = kinds.to_vec();
        kinds.sort_by(|a, b| {
            let names = b.names();
            order(*a, names.group, names.version, names.plural)
        });
        KindsByPath(kinds)
    }

    /// The kind at a path: `("", "v1", "pods")`.
    pub fn get(&self, group: &str, version: &str, plural: &str) -> Option<&'static dyn Kind> {
        let at = self.0.binary_search_by(|kind| order(*kind, group, version, plural)).ok()?;
        Some(self.0[at])
    }
}

fn order(kind: &dyn Kind, group: &str, version: &str, plural: &str) -> Ordering {
    let names = kind.names();
    compare(names.plural, plural)
        .then_with(|| compare(names.group, group))
        .then_with(|| compare(names.version, version))
}
