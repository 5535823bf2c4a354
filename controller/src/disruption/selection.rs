//! Finds the pods of a budget through an index of pods by their labels, and the budgets of a pod.
//!
//! The index is added when the first budget is synced. Until then, it costs nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use orlop_apimachinery::labels::Selector;
use orlop_client::informer::Informer;

use super::budget::BudgetPod;
use crate::workload::owned::fits;

/// Name of the index of pods by namespace and label.
pub(super) const INDEX_LABEL: &str = "label";

/// Adds [`INDEX_LABEL`].
pub(super) fn index_by_label(pods: &Informer<Pod>) {
    pods.add_index(INDEX_LABEL, |pod| {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let labels = pod.metadata.labels.iter().flatten();
        labels
            .map(|(key, value)| format!("{namespace}/{key}={value}"))
            .chain([format!("{namespace}/")])
            .collect()
    });
}

/// The pods that this selector matches.
pub(super) fn selected(
    pods: &Informer<Pod>,
    namespace: &str,
    labels: &LabelSelector,
    selector: &Selector,
) -> Vec<BudgetPod> {
    let value = match labels.match_labels.iter().flatten().next() {
        Some((key, value)) => format!("{namespace}/{key}={value}"),
        None => format!("{namespace}/"),
    };
    let found = pods.each_by_index(INDEX_LABEL, &value);
    found.filter(|pod| fits(selector, pod.metadata.labels.as_ref())).map(|pod| BudgetPod::of(&pod)).collect()
}

/// The budgets in a namespace that select a pod with these labels, by name. A budget without a selector, or with an
/// invalid one, selects no pod; an empty selector selects all pods.
pub(super) fn budgets_of(
    budgets: &Informer<PodDisruptionBudget>,
    namespace: &str,
    labels: Option<&BTreeMap<String, String>>,
) -> Vec<Arc<PodDisruptionBudget>> {
    let selects = |budget: &Arc<PodDisruptionBudget>| {
        let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        let selector = selector.and_then(|selector| Selector::from_label_selector(selector).ok());
        selector.is_some_and(|selector| fits(&selector, labels))
    };
    budgets.in_namespace(namespace, usize::MAX).into_iter().filter(selects).collect()
}
