//! The changes that a parked pod waits for, and the index of parked pods by these changes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::super::filter::{RULES, Rules};
use super::super::node_needs::NodeNeeds;
use super::key::Key;

/// Maximum number of distinct needs that are compared with a changed node. Beyond it, any node wakes the pods.
const DIFFERENT: usize = 4096;

/// The changes that a parked pod waits for.
#[derive(Clone, Debug, Default)]
pub struct Waits {
    /// The rules that rejected it.
    pub rules: Rules,
    /// The claims that it names.
    pub claims: Vec<String>,
    /// The classes of its claims.
    pub classes: BTreeSet<String>,
    /// Its requirements on the node.
    pub needs: Arc<NodeNeeds>,
}

/// The parked pods, by rule and class. The queue itself indexes them by claim.
#[derive(Debug, Default)]
pub(super) struct WaitIndex {
    by_rule: [BTreeSet<Key>; RULES],
    by_class: HashMap<String, BTreeSet<Key>>,
    by_needs: BTreeMap<Arc<NodeNeeds>, BTreeSet<Key>>,
}

impl WaitIndex {
    /// Adds a pod. Its needs become those that equal pods share.
    pub(super) fn insert(&mut self, key: &Key, waits: &mut Waits) {
        for rule in waits.rules.numbers() {
            self.by_rule[rule].insert(Arc::clone(key));
        }
        for class in &waits.classes {
            self.by_class.entry(class.clone()).or_default().insert(Arc::clone(key));
        }
        match self.by_needs.get_key_value(&waits.needs) {
            Some((known, _)) => waits.needs = Arc::clone(known),
            None if self.by_needs.len() >= DIFFERENT => waits.needs = Arc::default(),
            None => {}
        }
        self.by_needs.entry(Arc::clone(&waits.needs)).or_default().insert(Arc::clone(key));
    }

    /// Removes a pod.
    pub(super) fn remove(&mut self, key: &str, waits: &Waits) {
        for rule in waits.rules.numbers() {
            self.by_rule[rule].remove(key);
        }
        for class in &waits.classes {
            if let Some(keys) = self.by_class.get_mut(class) {
                keys.remove(key);
                if keys.is_empty() {
                    self.by_class.remove(class);
                }
            }
        }
        if let Some(keys) = self.by_needs.get_mut(&waits.needs) {
            keys.remove(key);
            if keys.is_empty() {
                self.by_needs.remove(&waits.needs);
            }
        }
    }

    /// The pods that one of the rules rejected.
    pub(super) fn rejected(&self, rules: Rules) -> Vec<Key> {
        let keys: BTreeSet<&Key> = rules.numbers().flat_map(|rule| &self.by_rule[rule]).collect();
        keys.into_iter().cloned().collect()
    }

    /// The different needs of the pods.
    pub(super) fn needs(&self) -> Vec<Arc<NodeNeeds>> {
        self.by_needs.keys().cloned().collect()
    }

    /// The pods with these needs that one of the rules rejected.
    pub(super) fn with_needs(&self, needs: &NodeNeeds, rules: Rules) -> Vec<Key> {
        self.those(self.by_needs.get(needs), rules)
    }

    /// The pods with a claim of this class that one of the rules rejected.
    pub(super) fn of_class(&self, class: &str, rules: Rules) -> Vec<Key> {
        self.those(self.by_class.get(class), rules)
    }

    fn those(&self, keys: Option<&BTreeSet<Key>>, rules: Rules) -> Vec<Key> {
        let rejected = |key: &&Key| rules.numbers().any(|rule| self.by_rule[rule].contains(*key));
        keys.into_iter().flatten().filter(rejected).cloned().collect()
    }
}
