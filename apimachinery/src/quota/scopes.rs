//! Quota scopes: a quota counts an object only if the object is in all its scopes.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, Pod, PodAffinityTerm, ResourceQuotaSpec, ScopedResourceSelectorRequirement,
};

use super::{Item, pods};

/// Returns whether an object is in all scopes of a quota. A quota without scopes matches every object.
pub fn is_in(spec: &ResourceQuotaSpec, item: Item<'_>) -> bool {
    let exists = |scope: &String| is_in_scope(scope, "Exists", &[], item);
    let chosen = |wanted: &ScopedResourceSelectorRequirement| {
        let values = wanted.values.as_deref().unwrap_or_default();
        is_in_scope(&wanted.scope_name, &wanted.operator, values, item)
    };
    let selector = spec.scope_selector.as_ref().and_then(|selector| selector.match_expressions.as_ref());
    spec.scopes.iter().flatten().all(exists) && selector.into_iter().flatten().all(chosen)
}

fn is_in_scope(scope: &str, operator: &str, values: &[String], item: Item<'_>) -> bool {
    match (item, scope) {
        (Item::Pod(pod), "Terminating") => has_deadline(pod),
        (Item::Pod(pod), "NotTerminating") => !has_deadline(pod),
        (Item::Pod(pod), "BestEffort") => pods::is_best_effort(pod),
        (Item::Pod(pod), "NotBestEffort") => !pods::is_best_effort(pod),
        (Item::Pod(pod), "CrossNamespacePodAffinity") => looks_elsewhere(pod),
        (Item::Pod(pod), "PriorityClass") => {
            let class = pod.spec.as_ref().and_then(|spec| spec.priority_class_name.as_deref());
            is_chosen(&class.into_iter().filter(|class| !class.is_empty()).collect(), operator, values)
        }
        (Item::Claim(claim), "VolumeAttributesClass") => {
            is_chosen(&attributes_classes(claim), operator, values)
        }
        // Any other combination is in no scope.
        (Item::Pod(_) | Item::Claim(_) | Item::Service(_) | Item::Other, _) => false,
    }
}

/// Returns whether the operator selects one of an object's values. Excluding operators select no value.
fn is_chosen(has: &BTreeSet<&str>, operator: &str, values: &[String]) -> bool {
    let wanted = |one: &&str| values.iter().any(|value| value == one);
    match operator {
        "Exists" => !has.is_empty(),
        "DoesNotExist" => has.is_empty(),
        "In" => has.iter().any(wanted),
        "NotIn" => has.is_empty() || has.iter().any(|one| !wanted(one)),
        _ => false,
    }
}

/// Returns the VolumeAttributesClass names of a claim: desired, current and in progress.
pub fn attributes_classes(claim: &PersistentVolumeClaim) -> BTreeSet<&str> {
    let wanted = claim.spec.as_ref().and_then(|spec| spec.volume_attributes_class_name.as_deref());
    let status = claim.status.as_ref();
    let current = status.and_then(|status| status.current_volume_attributes_class_name.as_deref());
    let change = status.and_then(|status| status.modify_volume_status.as_ref());
    let target = change.and_then(|change| change.target_volume_attributes_class_name.as_deref());
    [wanted, current, target].into_iter().flatten().filter(|name| !name.is_empty()).collect()
}

fn has_deadline(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(|spec| spec.active_deadline_seconds).is_some_and(|seconds| seconds >= 0)
}

/// Returns whether a pod has affinity or anti-affinity terms for pods of other namespaces.
fn looks_elsewhere(pod: &Pod) -> bool {
    let elsewhere = |term: &PodAffinityTerm| {
        term.namespaces.as_ref().is_some_and(|names| !names.is_empty()) || term.namespace_selector.is_some()
    };
    let Some(affinity) = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref()) else { return false };
    let near = affinity.pod_affinity.as_ref().is_some_and(|near| {
        let required = near.required_during_scheduling_ignored_during_execution.iter().flatten();
        let preferred = near.preferred_during_scheduling_ignored_during_execution.iter().flatten();
        required.chain(preferred.map(|weighted| &weighted.pod_affinity_term)).any(elsewhere)
    });
    let away = affinity.pod_anti_affinity.as_ref().is_some_and(|away| {
        let required = away.required_during_scheduling_ignored_during_execution.iter().flatten();
        let preferred = away.preferred_during_scheduling_ignored_during_execution.iter().flatten();
        required.chain(preferred.map(|weighted| &weighted.pod_affinity_term)).any(elsewhere)
    });
    near || away
}
