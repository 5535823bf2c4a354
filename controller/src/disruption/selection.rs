//! Finds the pods of a budget through the index of pods by their labels, and the budgets of a pod through [`Selectors`].

use std::collections::BTreeMap;
use std::ops::Bound;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use orlop_apimachinery::labels::Selector;
use orlop_client::informer::{Informer, split_key};
use orlop_client::meta::is_terminating;
use orlop_client::pods::{label_value, namespace_value, node_name, phase, with_first_label};
use parking_lot::RwLock;

use super::budget::BudgetPod;
use crate::workload::owned::{controller_of, fits};
use crate::workload::ready::is_ready;

/// The pods that this selector matches.
pub(super) fn selected(
    pods: &Informer<Pod>,
    namespace: &str,
    labels: &LabelSelector,
    selector: &Selector,
) -> Vec<BudgetPod> {
    let near = with_first_label(pods, namespace, labels.match_labels.as_ref());
    near.filter(|pod| fits(selector, pod.metadata.labels.as_ref())).map(|pod| BudgetPod::of(&pod)).collect()
}

/// Whether the change of a pod can change the status of a budget that selects the pod before and after it.
pub(super) fn is_relevant(old: &Pod, new: &Pod) -> bool {
    let facts = |pod: &Pod| (is_ready(pod), is_terminating(pod), pod.metadata.uid.clone());
    facts(old) != facts(new)
        || controller_of(&old.metadata) != controller_of(&new.metadata)
        || (phase(old), node_name(old)) != (phase(new), node_name(new))
}

/// The selectors of all budgets. A change of a pod neither decodes budgets nor parses selectors, and reads only the selectors that
/// require one of the pod's labels, or none.
#[derive(Default)]
pub(super) struct Selectors(RwLock<Parsed>);

#[derive(Default)]
struct Parsed {
    /// The selectors by a label that they require, or by their namespace, and by the keys of their budgets.
    by_label: BTreeMap<String, BTreeMap<String, Selector>>,
    /// The key in `by_label` of each budget.
    labels: BTreeMap<String, String>,
}

impl Selectors {
    /// Sets the selector of a budget; `None` for a deleted budget. A budget without a selector, or with an invalid one, selects no
    /// pod; an empty selector selects all pods.
    pub(super) fn set(&self, key: &str, budget: Option<&PodDisruptionBudget>) {
        let selector = budget.and_then(|budget| budget.spec.as_ref()?.selector.as_ref());
        let parsed = selector.and_then(|one| Some((one, Selector::from_label_selector(one).ok()?)));
        let mut all = self.0.write();
        all.remove(key);
        if let Some((selector, parsed)) = parsed {
            let label = required_label(split_key(key).0, selector);
            all.labels.insert(key.to_owned(), label.clone());
            all.by_label.entry(label).or_default().insert(key.to_owned(), parsed);
        }
    }

    /// Whether a budget of the namespace may select pods.
    pub(super) fn has_any(&self, namespace: &str) -> bool {
        let prefix = namespace_value(namespace);
        let all = self.0.read();
        let mut from = all.labels.range::<str, _>((Bound::Included(prefix.as_str()), Bound::Unbounded));
        from.next().is_some_and(|(key, _)| key.starts_with(&prefix))
    }

    /// The keys of the budgets in a namespace that select a pod with these labels, in order.
    pub(super) fn of(&self, namespace: &str, labels: Option<&BTreeMap<String, String>>) -> Vec<String> {
        let required = labels.into_iter().flatten().map(|(key, value)| label_value(namespace, key, value));
        let all = self.0.read();
        let near = required.chain([namespace_value(namespace)]);
        let near = near.filter_map(|label| all.by_label.get(&label)).flatten();
        let mut found: Vec<String> =
            near.filter(|(_, selector)| fits(selector, labels)).map(|(key, _)| key.clone()).collect();
        found.sort_unstable();
        found
    }
}

impl Parsed {
    fn remove(&mut self, key: &str) {
        let Some(label) = self.labels.remove(key) else { return };
        if let Some(selectors) = self.by_label.get_mut(&label) {
            selectors.remove(key);
            if selectors.is_empty() {
                self.by_label.remove(&label);
            }
        }
    }
}

/// A label that all selected pods have, as in the index of pods; the namespace if the selector requires none.
fn required_label(namespace: &str, selector: &LabelSelector) -> String {
    match selector.match_labels.as_ref().and_then(BTreeMap::first_key_value) {
        Some((key, value)) => label_value(namespace, key, value),
        None => namespace_value(namespace),
    }
}
