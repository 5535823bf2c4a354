//! Decides the next steps for the pods of a set. Pure functions. Upstream: stateful_set_control.go.
//!
//! With the policy OrderedReady, one pod is created or deleted at a time, and only while all pods before it are
//! available. With Parallel, only the limit of a rolling update applies.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetStatus};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};

use super::claims::{claim_names, has_owners, is_stale, owners};
use super::identity::{has_identity, new_pod, ordinal, pod_name, revision_of};
use super::revisions::Revision;
use super::spec::{ordinals, wanted};
use crate::workload::deployment::amounts::{Round, scaled};
use crate::workload::ready::{is_available, is_running_and_ready};
use orlop_client::meta::is_terminating;
use orlop_client::pods::{is_finished, phase};

/// The limit of the steps of one turn, as for ReplicaSets.
pub const BURST: usize = 500;

/// The input of a sync.
pub struct SetInput<'a> {
    /// The set.
    pub set: &'a StatefulSet,
    /// The revision of the pods before the rollout in progress, if any; otherwise the same as `update`.
    pub current: &'a Revision,
    /// The revision of the set's template.
    pub update: &'a Revision,
    /// The pods of the set.
    pub pods: &'a [Arc<Pod>],
    /// Looks up a claim in the set's namespace by name.
    pub claim: &'a (dyn Fn(&str) -> Option<Arc<PersistentVolumeClaim>> + Sync),
    /// The current time.
    pub now: Timestamp,
}

/// One step.
#[derive(Debug, PartialEq)]
pub enum Step {
    /// Create the missing claims of the pod with this ordinal, then the pod. The pod is built only when it is created, because a
    /// plan would contain many copies of the template.
    Create(i32),
    /// Create the missing claims of a pending pod.
    MakeClaims(Arc<Pod>, i32),
    /// Correct the labels of the pod and the owners of its claims.
    Fix(Arc<Pod>, i32),
    /// Correct the owners of the claims of a pod that a scale-down removes.
    FixClaims(Arc<Pod>, i32),
    /// Delete the pod.
    Delete(Arc<Pod>),
}

/// Groups of steps, performed one group after the other. A failure ends the sync's steps. The order within a
/// group matters only for OrderedReady.
#[derive(Debug)]
pub struct Plan {
    /// The groups. Empty if there is nothing to do, or the set has to wait.
    pub groups: Vec<Vec<Step>>,
    /// Whether the steps of a group may run concurrently.
    pub is_parallel: bool,
    /// Whether there are more steps than one turn performs.
    pub is_partial: bool,
    /// The status.
    pub status: StatefulSetStatus,
}

/// Whether the pods do not wait for each other.
pub fn is_parallel(set: &StatefulSet) -> bool {
    set.spec.as_ref().and_then(|spec| spec.pod_management_policy.as_deref()) == Some("Parallel")
}

fn min_ready(set: &StatefulSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0)
}

/// How pods are updated to the set's template; absent if only manually (OnDelete).
struct Rolling {
    /// The number of pods, counted from the first, that are not updated.
    partition: i32,
    /// The number of pods that may be unavailable at a time.
    unavailable: i32,
    /// Whether the set has no `rollingUpdate` settings.
    is_default: bool,
}

fn rolling(set: &StatefulSet) -> Option<Rolling> {
    let strategy = set.spec.as_ref().and_then(|spec| spec.update_strategy.as_ref());
    if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete") {
        return None;
    }
    let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
    let unavailable = rolling.and_then(|rolling| rolling.max_unavailable.as_ref());
    Some(Rolling {
        partition: rolling.and_then(|rolling| rolling.partition).unwrap_or(0),
        unavailable: unavailable.map_or(1, |amount| scaled(Some(amount), wanted(set), Round::Up)).max(1),
        is_default: rolling.is_none(),
    })
}

/// Decides the steps and the status.
pub fn decide(seen: &SetInput<'_>) -> Plan {
    let set = seen.set;
    let is_parallel = is_parallel(set);
    let mut status = status(seen);
    let mut turn = Turn::default();
    if !is_terminating(set) {
        let (replicas, condemned) = sorted(seen);
        let (steps, may_go_on) = keep(seen, &replicas, is_parallel);
        turn.push(steps);
        if may_go_on {
            turn.push(fix_claims(seen, &condemned));
            let (steps, may_go_on) = remove(seen, &condemned, is_parallel);
            turn.push(steps);
            if may_go_on {
                let fewer = i32::try_from(turn.push(update(seen, &replicas))).unwrap_or(i32::MAX);
                status.current_replicas = Some((status.current_replicas.unwrap_or(0) - fewer).max(0));
            }
        }
    }
    complete(set, &mut status);
    Plan { groups: turn.groups, is_parallel, is_partial: turn.is_partial, status }
}

/// The steps of one turn, at most [`BURST`].
#[derive(Default)]
struct Turn {
    groups: Vec<Vec<Step>>,
    count: usize,
    is_partial: bool,
}

impl Turn {
    /// Adds steps up to the limit, and returns their number.
    fn push(&mut self, mut steps: Vec<Step>) -> usize {
        let room = BURST - self.count;
        self.is_partial |= steps.len() > room;
        steps.truncate(room);
        let added = steps.len();
        self.count += added;
        if added > 0 {
            self.groups.push(steps);
        }
        added
    }
}

/// Pods by ordinal.
type Pods = BTreeMap<i32, Arc<Pod>>;
/// A pod with its ordinal.
type Numbered = (i32, Arc<Pod>);

/// The existing pods within the set's replicas; and the remaining pods, highest ordinal first. The number of replicas may be
/// anything, so only the pods cost memory.
fn sorted(seen: &SetInput<'_>) -> (Pods, Vec<Numbered>) {
    let range = ordinals(seen.set);
    let mut replicas = Pods::new();
    let mut condemned = Vec::new();
    for pod in seen.pods {
        let Some(ordinal) = ordinal(seen.set, pod) else { continue };
        if range.contains(&ordinal) {
            replicas.insert(ordinal, Arc::clone(pod));
        } else {
            condemned.push((ordinal, Arc::clone(pod)));
        }
    }
    condemned.sort_by_key(|(ordinal, _)| std::cmp::Reverse(*ordinal));
    (replicas, condemned)
}

fn is_running_and_available(seen: &SetInput<'_>, pod: &Pod) -> bool {
    is_running_and_ready(pod) && is_available(pod, min_ready(seen.set), seen.now)
}

/// Steps for the pods within the set's replicas. Returns false if later groups have to wait. Ends when there are more steps
/// than one turn performs.
fn keep(seen: &SetInput<'_>, replicas: &Pods, is_parallel: bool) -> (Vec<Step>, bool) {
    let mut steps = Vec::new();
    for ordinal in ordinals(seen.set) {
        if steps.len() > BURST {
            return (steps, false);
        }
        let Some(pod) = replicas.get(&ordinal) else {
            if !waits_for_claims(seen, ordinal) {
                steps.push(Step::Create(ordinal));
            }
            if is_parallel {
                continue;
            }
            return (steps, false);
        };
        if is_finished(pod) {
            // The pod is recreated after its deletion.
            if !is_terminating(pod.as_ref()) {
                steps.push(Step::Delete(Arc::clone(pod)));
            }
            if is_parallel {
                continue;
            }
            return (steps, false);
        }
        let is_missing = |name: &String| (seen.claim)(name).is_none();
        if phase(pod) == "Pending" && claim_names(seen.set, ordinal).iter().any(is_missing) {
            steps.push(Step::MakeClaims(Arc::clone(pod), ordinal));
        }
        if !is_parallel && (is_terminating(pod.as_ref()) || !is_running_and_available(seen, pod)) {
            return (steps, false);
        }
        if !has_identity(pod) || !owners_are_right(seen, pod, ordinal) {
            steps.push(Step::Fix(Arc::clone(pod), ordinal));
        }
    }
    (steps, true)
}

/// Whether a claim of the pod to create will be deleted with an earlier pod of the same name.
fn waits_for_claims(seen: &SetInput<'_>, ordinal: i32) -> bool {
    let pod = pod_name(seen.set, ordinal);
    let claims = claim_names(seen.set, ordinal).into_iter().filter_map(|name| (seen.claim)(&name));
    claims.into_iter().any(|claim| is_stale(&claim, seen.set, &pod))
}

/// Whether the owners of the pod's claims are correct. Missing claims count as correct: they are created with
/// their owners.
fn owners_are_right(seen: &SetInput<'_>, pod: &Pod, ordinal: i32) -> bool {
    let is_wanted = ordinals(seen.set).contains(&ordinal);
    let mut claims = claim_names(seen.set, ordinal).into_iter().filter_map(|name| (seen.claim)(&name));
    claims.all(|claim| has_owners(&claim, &owners(&claim, seen.set, pod, is_wanted)))
}

/// The missing pod at the revision it should have: the current revision if the rollout has not reached its
/// ordinal, otherwise the update revision.
pub fn versioned(seen: &SetInput<'_>, ordinal: i32) -> Pod {
    let at = ordinal - ordinals(seen.set).start;
    let old = seen.set.status.as_ref().and_then(|status| status.current_replicas).unwrap_or(0);
    let is_before = rolling(seen.set).is_some_and(|rolling| match rolling.is_default {
        true => at < old,
        false => at < rolling.partition,
    });
    let revision = if is_before { seen.current } else { seen.update };
    new_pod(seen.set, &revision.template, &revision.name, ordinal)
}

fn fix_claims(seen: &SetInput<'_>, condemned: &[Numbered]) -> Vec<Step> {
    let wrong = condemned.iter().filter(|(ordinal, pod)| !owners_are_right(seen, pod, *ordinal));
    wrong.map(|(ordinal, pod)| Step::FixClaims(Arc::clone(pod), *ordinal)).collect()
}

/// Steps for the pods that a scale-down removes. Returns false if later groups have to wait.
fn remove(seen: &SetInput<'_>, condemned: &[Numbered], is_parallel: bool) -> (Vec<Step>, bool) {
    let is_alive = |pod: &Arc<Pod>| !is_terminating(pod.as_ref());
    if is_parallel {
        let alive = condemned.iter().map(|(_, pod)| pod).filter(|pod| is_alive(pod));
        return (alive.map(|pod| Step::Delete(Arc::clone(pod))).collect(), true);
    }
    let Some((_, highest)) = condemned.first() else { return (Vec::new(), true) };
    let is_broken = |pod: &&Arc<Pod>| !is_alive(pod) || !is_running_and_available(seen, pod);
    let first_broken = condemned.iter().rev().map(|(_, pod)| pod).find(is_broken);
    let is_first_broken = first_broken.is_some_and(|pod| Arc::ptr_eq(pod, highest));
    // An unavailable pod is deleted only if no pod below it is unavailable.
    let may_go = is_alive(highest) && (is_running_and_available(seen, highest) || is_first_broken);
    (if may_go { vec![Step::Delete(Arc::clone(highest))] } else { Vec::new() }, false)
}

/// Deletions of pods at other revisions: all unavailable ones, then as many others as may be unavailable.
fn update(seen: &SetInput<'_>, replicas: &Pods) -> Vec<Step> {
    let Some(rolling) = rolling(seen.set) else { return Vec::new() };
    let works = |pod: &Arc<Pod>| !is_terminating(pod.as_ref()) && is_running_and_available(seen, pod);
    let range = ordinals(seen.set);
    let missing = range.len() - replicas.values().filter(|pod| works(pod)).count();
    let mut budget = usize::try_from(rolling.unavailable).unwrap_or(0).saturating_sub(missing);
    let first = range.start.saturating_add(rolling.partition.max(0));
    let from_the_end = replicas.range(first..).rev().map(|(_, pod)| pod);
    let old: Vec<&Arc<Pod>> = from_the_end
        .filter(|pod| {
            revision_of(pod) != seen.update.name && !is_terminating(pod.as_ref()) && !is_finished(pod)
        })
        .collect();
    let broken = old.iter().filter(|pod| !works(pod)).map(|pod| Step::Delete(Arc::clone(pod)));
    let mut steps: Vec<Step> = broken.collect();
    for pod in old.iter().filter(|pod| works(pod)) {
        if budget == 0 {
            break;
        }
        budget -= 1;
        steps.push(Step::Delete(Arc::clone(pod)));
    }
    steps
}

fn status(seen: &SetInput<'_>) -> StatefulSetStatus {
    let old = seen.set.status.clone().unwrap_or_default();
    let count = |test: &dyn Fn(&Pod) -> bool| {
        let there = seen.pods.iter().filter(|pod| !phase(pod).is_empty() && test(pod)).count();
        i32::try_from(there).unwrap_or(i32::MAX)
    };
    let is_of = |pod: &Pod, revision: &Revision| !is_terminating(pod) && revision_of(pod) == revision.name;
    StatefulSetStatus {
        replicas: count(&|_| true),
        ready_replicas: Some(count(&is_running_and_ready)),
        available_replicas: Some(count(&|pod| is_running_and_available(seen, pod))),
        current_replicas: Some(count(&|pod| is_of(pod, seen.current))),
        updated_replicas: Some(count(&|pod| is_of(pod, seen.update))),
        current_revision: Some(seen.current.name.clone()),
        update_revision: Some(seen.update.name.clone()),
        observed_generation: seen.set.metadata.generation,
        collision_count: Some(old.collision_count.unwrap_or(0)),
        conditions: old.conditions,
    }
}

/// Makes the update revision current once all pods have it and are ready.
fn complete(set: &StatefulSet, status: &mut StatefulSetStatus) {
    let wanted = wanted(set);
    let all = [Some(status.replicas), status.ready_replicas, status.updated_replicas] == [Some(wanted); 3];
    if rolling(set).is_some() && all {
        status.current_replicas = status.updated_replicas;
        status.current_revision = status.update_revision.clone();
    }
}

/// Whether the statuses are equal. A missing number equals 0, because the server omits zeros.
pub fn is_same_status(one: &StatefulSetStatus, other: &StatefulSetStatus) -> bool {
    let zeros = |status: &StatefulSetStatus| {
        let number = |value: Option<i32>| Some(value.unwrap_or(0));
        StatefulSetStatus {
            ready_replicas: number(status.ready_replicas),
            available_replicas: number(status.available_replicas),
            current_replicas: number(status.current_replicas),
            updated_replicas: number(status.updated_replicas),
            collision_count: number(status.collision_count),
            observed_generation: Some(status.observed_generation.unwrap_or(0)),
            current_revision: Some(status.current_revision.clone().unwrap_or_default()),
            update_revision: Some(status.update_revision.clone().unwrap_or_default()),
            conditions: Some(status.conditions.clone().unwrap_or_default()),
            replicas: status.replicas,
        }
    };
    zeros(one) == zeros(other)
}
