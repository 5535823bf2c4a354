//! Calculates the status of a budget from its pods. Pure functions.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, OwnerReference, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use orlop_client::meta::is_terminating;
use orlop_client::names::condition;
use orlop_client::recorder::reference;

use crate::workload::deployment::amounts::{Round, scaled};
use crate::workload::owned::controller_of;
use crate::workload::ready::is_ready;

/// How long an evicted pod counts as disrupted if it is not deleted. Upstream: DeletionTimeout.
const DELETION_TIMEOUT: SignedDuration = SignedDuration::from_mins(2);

/// The parts of a pod that its budget needs.
#[derive(Debug, Clone, PartialEq)]
pub struct BudgetPod {
    /// The reference for events; contains the name.
    pub reference: ObjectReference,
    /// The controller of the pod.
    pub controller: Option<OwnerReference>,
    /// Whether the pod is ready.
    pub is_ready: bool,
    /// Whether the pod is being deleted.
    pub is_terminating: bool,
}

impl BudgetPod {
    /// The parts of this pod.
    pub fn of(pod: &Pod) -> Self {
        Self {
            reference: reference(pod),
            controller: controller_of(&pod.metadata).cloned(),
            is_ready: is_ready(pod),
            is_terminating: is_terminating(pod),
        }
    }

    /// The name of the pod.
    pub fn name(&self) -> &str {
        self.reference.name.as_deref().unwrap_or_default()
    }
}

/// Whether the number of expected pods is the sum of the scales of the pods' controllers, and not the number of pods.
pub fn needs_scale(spec: &PodDisruptionBudgetSpec) -> bool {
    spec.max_unavailable.is_some() || matches!(spec.min_available, Some(IntOrString::String(_)))
}

/// The numbers of pods that a budget demands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Targets {
    /// The number of pods that the budget counts.
    pub expected: i32,
    /// The number of pods that must be healthy.
    pub healthy: i32,
}

/// The targets, if `expected` pods exist. A percentage is rounded up.
pub fn targets(spec: &PodDisruptionBudgetSpec, expected: i32) -> Targets {
    let share = |amount: &IntOrString| scaled(Some(amount), expected, Round::Up);
    let healthy = match (&spec.max_unavailable, &spec.min_available) {
        (Some(most), _) => expected.saturating_sub(share(most)).max(0),
        (None, Some(least)) => share(least),
        (None, None) => return Targets { expected: 0, healthy: 0 },
    };
    Targets { expected, healthy }
}

/// The observed state of the pods of a budget.
#[derive(Debug, Default, PartialEq)]
pub struct Observed {
    /// The number of healthy pods.
    pub healthy: i32,
    /// The evicted pods that are not being deleted yet, and the times of their evictions.
    pub disrupted: BTreeMap<String, Time>,
    /// The evicted pods that were not deleted in time.
    pub overdue: Vec<ObjectReference>,
    /// The time at which the next disrupted pod is overdue.
    pub recheck: Option<Timestamp>,
}

/// Counts the pods. An evicted pod counts as disrupted until it is deleted, or until [`DELETION_TIMEOUT`].
pub fn observe(budget: &PodDisruptionBudget, pods: &[BudgetPod], now: Timestamp) -> Observed {
    let mut observed = Observed::default();
    let evicted = budget.status.as_ref().and_then(|status| status.disrupted_pods.as_ref());
    for pod in pods.iter().filter(|pod| !pod.is_terminating) {
        let mut is_disrupted = false;
        if let Some(time) = evicted.and_then(|evicted| evicted.get(pod.name())) {
            let end = time.0.checked_add(DELETION_TIMEOUT).unwrap_or(Timestamp::MAX);
            if end < now {
                observed.overdue.push(pod.reference.clone());
            } else {
                is_disrupted = end > now;
                observed.disrupted.insert(pod.name().to_owned(), time.clone());
                observed.recheck = Some(observed.recheck.map_or(end, |earlier| earlier.min(end)));
            }
        }
        if pod.is_ready && !is_disrupted {
            observed.healthy = observed.healthy.saturating_add(1);
        }
    }
    observed
}

/// The status to write; `None` if the budget has it.
pub fn status(
    budget: &PodDisruptionBudget,
    targets: Targets,
    observed: &Observed,
    now: Timestamp,
) -> Option<PodDisruptionBudgetStatus> {
    let surplus = observed.healthy.saturating_sub(targets.healthy).max(0);
    // A budget without pods must not allow evictions of pods that are created before the next sync.
    let allowed = if targets.expected > 0 { surplus } else { 0 };
    let old = budget.status.clone().unwrap_or_default();
    let generation = budget.metadata.generation.unwrap_or_default();
    let mut new = PodDisruptionBudgetStatus {
        conditions: old.conditions.clone(),
        current_healthy: Some(observed.healthy),
        desired_healthy: Some(targets.healthy),
        disrupted_pods: Some(observed.disrupted.clone()).filter(|pods| !pods.is_empty()),
        disruptions_allowed: Some(allowed),
        expected_pods: Some(targets.expected),
        observed_generation: Some(generation),
    };
    let (value, reason) = match allowed {
        0 => ("False", condition::INSUFFICIENT_PODS),
        _ => ("True", condition::SUFFICIENT_PODS),
    };
    let has_condition =
        allowed_condition(&old).is_some_and(|old| old.status == value && old.reason == reason);
    if has_condition && has_same_counts(&old, &new) {
        return None;
    }
    set_condition(&mut new, value, reason, "", now);
    Some(new)
}

/// The status of a budget that cannot be calculated: it allows no eviction, and shows why. `None` if the budget has
/// it.
pub fn failed_status(
    budget: &PodDisruptionBudget,
    why: &str,
    now: Timestamp,
) -> Option<PodDisruptionBudgetStatus> {
    let old = budget.status.clone().unwrap_or_default();
    let mut new = PodDisruptionBudgetStatus { disruptions_allowed: Some(0), ..old.clone() };
    set_condition(&mut new, "False", condition::SYNC_FAILED, why, now);
    (old != new).then_some(new)
}

fn has_same_counts(old: &PodDisruptionBudgetStatus, new: &PodDisruptionBudgetStatus) -> bool {
    let counts = |status: &PodDisruptionBudgetStatus| {
        let numbers = [
            status.current_healthy,
            status.desired_healthy,
            status.disruptions_allowed,
            status.expected_pods,
        ];
        (numbers.map(Option::unwrap_or_default), status.observed_generation.unwrap_or_default())
    };
    let disrupted = |status: &PodDisruptionBudgetStatus| status.disrupted_pods.clone().unwrap_or_default();
    counts(old) == counts(new) && disrupted(old) == disrupted(new)
}

fn allowed_condition(status: &PodDisruptionBudgetStatus) -> Option<&Condition> {
    status.conditions.iter().flatten().find(|one| one.type_ == condition::DISRUPTION_ALLOWED)
}

/// Adds the condition, or changes it. The transition time changes only with the value.
fn set_condition(
    status: &mut PodDisruptionBudgetStatus,
    value: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let former = allowed_condition(status).filter(|former| former.status == value);
    let since = former.map_or(Time(now), |former| former.last_transition_time.clone());
    let condition = Condition {
        last_transition_time: since,
        message: message.to_owned(),
        observed_generation: status.observed_generation,
        reason: reason.to_owned(),
        status: value.to_owned(),
        type_: condition::DISRUPTION_ALLOWED.to_owned(),
    };
    let conditions = status.conditions.get_or_insert_default();
    match conditions.iter_mut().find(|one| one.type_ == condition.type_) {
        Some(former) => *former = condition,
        None => conditions.push(condition),
    }
}

/// The controllers of the pods, each once, and the number of pods without a controller.
pub fn controllers(pods: &[BudgetPod]) -> (Vec<(&BudgetPod, &OwnerReference)>, usize) {
    let mut known = BTreeSet::new();
    let owned = pods.iter().filter_map(|pod| Some((pod, pod.controller.as_ref()?)));
    let distinct = owned.filter(|(_, owner)| known.insert(owner.uid.as_str())).collect();
    (distinct, pods.iter().filter(|pod| pod.controller.is_none()).count())
}

/// The message about pods without a controller.
pub fn unmanaged_message(selector: Option<&LabelSelector>) -> String {
    format!(
        "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a result, the status of the \
         PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please set \
         \".spec.minAvailable\" field of the PDB to an integer value.",
        selector.map_or_else(|| "nil".to_owned(), shown)
    )
}

/// The selector as Go prints it.
fn shown(selector: &LabelSelector) -> String {
    let labels = selector.match_labels.iter().flatten();
    let labels: String = labels.map(|(key, value)| format!("{key}: {value},")).collect();
    let expressions = selector.match_expressions.iter().flatten().map(|one| {
        let values = one.values.as_deref().unwrap_or_default().join(" ");
        format!("LabelSelectorRequirement{{Key:{},Operator:{},Values:[{values}],}},", one.key, one.operator)
    });
    let expressions: String = expressions.collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}
