//! Validation of scheduling constraints: tolerations, affinity, topology spread, scheduling gates.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1 as api;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use orlop_apimachinery::names;

use super::{items, text};
use crate::registry::checks;
use crate::validate::label_selector::{validate_label_key, validate_label_selector};
use crate::validate::node_selector::validate_node_affinity;
use crate::validate::{FieldErrors, Path};

/// The message for numbers that must be positive.
const POSITIVE: &str = "must be greater than zero";

/// The tolerations of a pod.
pub(in crate::registry) fn tolerations(
    tolerations: &[api::Toleration],
    path: &Path,
    errors: &mut FieldErrors,
) {
    for (i, toleration) in tolerations.iter().enumerate() {
        let path = path.index(i);
        let (at_operator, at_effect) = (path.child("operator"), path.child("effect"));
        let (key, value) = (text(&toleration.key), text(&toleration.value));
        let (operator, effect) = (text(&toleration.operator), text(&toleration.effect));
        if !key.is_empty() {
            checks::qualified_name(errors, &path.child("key"), key);
        }
        if key.is_empty() && operator != "Exists" {
            let text =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.invalid(&at_operator, operator, text);
        }
        if toleration.toleration_seconds.is_some() && effect != "NoExecute" {
            let text = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.invalid(&at_effect, effect, text);
        }
        match operator {
            "" | "Equal" => {
                let problems = names::label_value(value);
                if !problems.is_empty() {
                    errors.invalid(&at_operator, value, &problems.join(";"));
                }
            }
            "Exists" => {
                if !value.is_empty() {
                    let text = "value must be empty when `operator` is 'Exists'";
                    errors.invalid(&at_operator, value, text);
                }
            }
            other => errors.not_supported(&at_operator, other, &["Equal", "Exists"]),
        }
        if !effect.is_empty() {
            let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
            checks::one_of(errors, &at_effect, Some(effect), &effects);
        }
    }
}

/// The scheduling gates of a pod.
pub(super) fn gates(gates: &[api::PodSchedulingGate], path: &Path, errors: &mut FieldErrors) {
    let mut seen = BTreeSet::new();
    for (i, gate) in gates.iter().enumerate() {
        checks::qualified_name(errors, &path.index(i), &gate.name);
        if !seen.insert(&gate.name) {
            errors.duplicate(&path.index(i), gate.name.as_str());
        }
    }
}

/// Node affinity, pod affinity and pod anti-affinity.
pub(super) fn affinity(affinity: &api::Affinity, path: &Path, errors: &mut FieldErrors) {
    if let Some(node) = &affinity.node_affinity {
        validate_node_affinity(node, &path.child("nodeAffinity"), errors);
    }
    if let Some(pod) = &affinity.pod_affinity {
        let path = path.child("podAffinity");
        required(items(&pod.required_during_scheduling_ignored_during_execution), &path, errors);
        preferred(items(&pod.preferred_during_scheduling_ignored_during_execution), &path, errors);
    }
    if let Some(pod) = &affinity.pod_anti_affinity {
        let path = path.child("podAntiAffinity");
        required(items(&pod.required_during_scheduling_ignored_during_execution), &path, errors);
        preferred(items(&pod.preferred_during_scheduling_ignored_during_execution), &path, errors);
    }
}

fn required(terms: &[api::PodAffinityTerm], path: &Path, errors: &mut FieldErrors) {
    let path = path.child("requiredDuringSchedulingIgnoredDuringExecution");
    for (i, one) in terms.iter().enumerate() {
        term(one, &path.index(i), errors);
    }
}

fn preferred(terms: &[api::WeightedPodAffinityTerm], path: &Path, errors: &mut FieldErrors) {
    let path = path.child("preferredDuringSchedulingIgnoredDuringExecution");
    for (i, one) in terms.iter().enumerate() {
        let path = path.index(i);
        if !(1..=100).contains(&one.weight) {
            errors.invalid(&path.child("weight"), one.weight, "must be in the range 1-100");
        }
        term(&one.pod_affinity_term, &path.child("podAffinityTerm"), errors);
    }
}

fn term(term: &api::PodAffinityTerm, path: &Path, errors: &mut FieldErrors) {
    for (field, selector) in
        [("labelSelector", &term.label_selector), ("namespaceSelector", &term.namespace_selector)]
    {
        if let Some(selector) = selector {
            validate_label_selector(selector, &path.child(field), errors);
        }
    }
    for namespace in items(&term.namespaces) {
        checks::label(errors, &path.child("namespace"), namespace);
    }
    label_keys(term, path, errors);
    let at = path.child("topologyKey");
    if term.topology_key.is_empty() {
        errors.required(&at, "can not be empty");
    }
    validate_label_key(&term.topology_key, &at, errors);
}

fn label_keys(term: &api::PodAffinityTerm, path: &Path, errors: &mut FieldErrors) {
    let (matching, differing) = (items(&term.match_label_keys), items(&term.mismatch_label_keys));
    for (field, keys) in [("matchLabelKeys", matching), ("mismatchLabelKeys", differing)] {
        let path = path.child(field);
        if !keys.is_empty() && term.label_selector.is_none() {
            errors.forbidden(&path, "must not be specified when labelSelector is not set");
        }
        for (i, key) in keys.iter().enumerate() {
            validate_label_key(key, &path.index(i), errors);
        }
    }
    if let Some(selector) = &term.label_selector {
        given_twice(selector, matching, path, errors);
    }
    let differing: BTreeSet<&String> = differing.iter().collect();
    for (i, key) in matching.iter().enumerate() {
        if differing.contains(key) {
            let text = "exists in both matchLabelKeys and mismatchLabelKeys";
            errors.invalid(&path.child("matchLabelKeys").index(i), key.as_str(), text);
        }
    }
}

/// Each key of `matchLabelKeys` has already become a requirement of the selector; a second requirement means
/// that the client set the key in both fields.
fn given_twice(selector: &LabelSelector, keys: &[String], path: &Path, errors: &mut FieldErrors) {
    let mut seen: BTreeSet<&str> =
        selector.match_labels.iter().flatten().map(|(key, _)| key.as_str()).collect();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for (i, key) in keys.iter().enumerate() {
        places.entry(key).or_insert(i);
    }
    for expression in items(&selector.match_expressions) {
        let again = !seen.insert(&expression.key);
        if let Some(&i) = places.get(expression.key.as_str())
            && again
        {
            let text = "exists in both matchLabelKeys and labelSelector";
            errors.invalid(&path.index(i), expression.key.as_str(), text);
        }
    }
}

/// Topology spread constraints.
pub(super) fn spread(constraints: &[api::TopologySpreadConstraint], path: &Path, errors: &mut FieldErrors) {
    let pair =
        |one: &api::TopologySpreadConstraint| (one.topology_key.clone(), one.when_unsatisfiable.clone());
    let mut last: BTreeMap<(String, String), usize> = BTreeMap::new();
    for (i, constraint) in constraints.iter().enumerate() {
        last.insert(pair(constraint), i);
    }
    for (i, constraint) in constraints.iter().enumerate() {
        let path = path.index(i);
        if constraint.max_skew <= 0 {
            errors.invalid(&path.child("maxSkew"), constraint.max_skew, POSITIVE);
        }
        if constraint.topology_key.is_empty() {
            errors.required(&path.child("topologyKey"), "can not be empty");
        }
        let action = constraint.when_unsatisfiable.as_str();
        let actions = ["DoNotSchedule", "ScheduleAnyway"];
        checks::one_of(errors, &path.child("whenUnsatisfiable"), Some(action), &actions);
        if last.get(&pair(constraint)).is_some_and(|last| *last > i) {
            let pair = format!("{{{}, {action}}}", constraint.topology_key);
            errors.duplicate(&path.child("{topologyKey, whenUnsatisfiable}"), pair);
        }
        min_domains(constraint, &path.child("minDomains"), errors);
        for (field, policy) in [
            ("nodeAffinityPolicy", &constraint.node_affinity_policy),
            ("nodeTaintsPolicy", &constraint.node_taints_policy),
        ] {
            checks::one_of(errors, &path.child(field), policy.as_deref(), &["Honor", "Ignore"]);
        }
        let keys = items(&constraint.match_label_keys);
        if !keys.is_empty() && constraint.label_selector.is_none() {
            let text = "must not be specified when labelSelector is not set";
            errors.forbidden(&path.child("matchLabelKeys"), text);
        }
        for (i, key) in keys.iter().enumerate() {
            validate_label_key(key, &path.child("matchLabelKeys").index(i), errors);
        }
        if let Some(selector) = &constraint.label_selector {
            given_twice(selector, keys, &path.child("matchLabelKeys"), errors);
            validate_label_selector(selector, &path.child("labelSelector"), errors);
        }
    }
}

fn min_domains(constraint: &api::TopologySpreadConstraint, path: &Path, errors: &mut FieldErrors) {
    let Some(domains) = constraint.min_domains else { return };
    if domains <= 0 {
        errors.invalid(path, domains, POSITIVE);
    }
    if constraint.when_unsatisfiable != "DoNotSchedule" {
        let action = &constraint.when_unsatisfiable;
        let text = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
        errors.invalid(path, domains, &text);
    }
}
