//! Computes the status of a Deployment: counts, and whether it is available, progressing or stalled. Pure
//! functions. Upstream: progress.go, sync.go (calculateStatus).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::amounts::{max_unavailable, wanted};
use super::sets::{actual, available, ready, replicas, total};
use crate::workload::replicas::decide::REPLICA_FAILURE;

/// Condition type: enough pods are available.
pub const AVAILABLE: &str = "Available";
/// Condition type: the rollout is progressing.
pub const PROGRESSING: &str = "Progressing";
/// Reason: the rollout is complete.
pub const NEW_SET_AVAILABLE: &str = "NewReplicaSetAvailable";
/// Reason: the rollout has made no progress for `progressDeadlineSeconds`.
pub const TIMED_OUT: &str = "ProgressDeadlineExceeded";
/// Reason: the Deployment is paused.
pub const PAUSED: &str = "DeploymentPaused";
/// Reason: the Deployment is resumed.
pub const RESUMED: &str = "DeploymentResumed";

/// The progress deadline of a rollout, if any. The maximum `i32` means no deadline.
pub fn deadline(deployment: &Deployment) -> Option<Duration> {
    let seconds = deployment.spec.as_ref()?.progress_deadline_seconds?;
    (seconds != i32::MAX).then(|| Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

/// The condition with this type.
pub fn condition<'a>(status: &'a DeploymentStatus, type_: &str) -> Option<&'a DeploymentCondition> {
    status.conditions.as_ref()?.iter().find(|condition| condition.type_ == type_)
}

/// A condition that changes at `now`.
pub fn new_condition(
    type_: &str,
    status: &str,
    reason: &str,
    message: String,
    now: Timestamp,
) -> DeploymentCondition {
    DeploymentCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_update_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
    }
}

/// Adds or replaces a condition, unless its status and reason are unchanged.
pub fn set_condition(status: &mut DeploymentStatus, mut new: DeploymentCondition) {
    if let Some(old) = condition(status, &new.type_).filter(|old| old.status == new.status) {
        if old.reason == new.reason {
            return;
        }
        new.last_transition_time = old.last_transition_time.clone();
    }
    remove_condition(status, &new.type_);
    status.conditions.get_or_insert_default().push(new);
}

/// Removes a condition.
pub fn remove_condition(status: &mut DeploymentStatus, type_: &str) {
    if let Some(conditions) = &mut status.conditions {
        conditions.retain(|condition| condition.type_ != type_);
    }
}

fn number(value: Option<i32>) -> i32 {
    value.unwrap_or(0)
}

/// Sums the counts of the ReplicaSets. Copies the conditions of `old` and updates the condition Available.
pub fn counts(
    deployment: &Deployment,
    old: &DeploymentStatus,
    sets: &[ReplicaSet],
    new: Option<usize>,
    now: Timestamp,
) -> DeploymentStatus {
    let sum = |count: fn(&ReplicaSet) -> i32| total(sets, count);
    let there = sum(available);
    let terminating = |set: &ReplicaSet| set.status.as_ref().and_then(|status| status.terminating_replicas);
    let mut status = DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: Some(sum(actual)),
        updated_replicas: Some(new.map_or(0, |at| actual(&sets[at]))),
        ready_replicas: Some(sum(ready)),
        available_replicas: Some(there),
        unavailable_replicas: Some(sum(replicas).saturating_sub(there).max(0)),
        // Unknown unless every ReplicaSet reports the number.
        terminating_replicas: sets
            .iter()
            .map(terminating)
            .try_fold(0_i32, |all, count| Some(all.saturating_add(count?))),
        collision_count: old.collision_count,
        conditions: old.conditions.clone(),
    };
    let (is, reason, message) = match there >= wanted(deployment).saturating_sub(max_unavailable(deployment))
    {
        true => ("True", "MinimumReplicasAvailable", "Deployment has minimum availability."),
        false => ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability."),
    };
    set_condition(&mut status, new_condition(AVAILABLE, is, reason, message.to_owned(), now));
    status
}

/// Whether the rollout is complete: all pods are updated and available, no old pods remain, and the status
/// covers the current generation.
pub fn is_complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let wanted = wanted(deployment);
    number(status.updated_replicas) == wanted
        && number(status.replicas) == wanted
        && number(status.available_replicas) == wanted
        && status.observed_generation.unwrap_or(0) >= deployment.metadata.generation.unwrap_or(0)
}

/// Whether the rollout has made progress since the previous status.
fn has_moved(old: &DeploymentStatus, new: &DeploymentStatus) -> bool {
    let left = |status: &DeploymentStatus| number(status.replicas) - number(status.updated_replicas);
    number(new.updated_replicas) > number(old.updated_replicas)
        || left(new) < left(old)
        || number(new.ready_replicas) > number(old.ready_replicas)
        || number(new.available_replicas) > number(old.available_replicas)
}

fn has_timed_out(deployment: &Deployment, status: &DeploymentStatus, now: Timestamp) -> bool {
    let (Some(deadline), Some(progressing)) = (deadline(deployment), condition(status, PROGRESSING)) else {
        return false;
    };
    match progressing.reason.as_deref() {
        Some(NEW_SET_AVAILABLE) => false,
        Some(TIMED_OUT) => true,
        Some(_) | None => progressing.last_update_time.as_ref().is_some_and(|since| {
            let end = SignedDuration::try_from(deadline)
                .ok()
                .and_then(|deadline| since.0.checked_add(deadline).ok());
            end.is_some_and(|end| end < now)
        }),
    }
}

/// The status during a rollout: the counts, and the progress that follows from them. `old` is the previous
/// status, with the conditions added so far.
pub fn in_rollout(
    deployment: &Deployment,
    old: &DeploymentStatus,
    sets: &[ReplicaSet],
    new: Option<usize>,
    now: Timestamp,
) -> DeploymentStatus {
    let mut status = counts(deployment, old, sets, new, now);
    if deadline(deployment).is_none() {
        remove_condition(&mut status, PROGRESSING);
    } else {
        progress(deployment, old, &mut status, new.map(|at| &sets[at]), now);
    }
    match failure(sets, new) {
        Some(condition) => set_condition(&mut status, condition),
        None => remove_condition(&mut status, REPLICA_FAILURE),
    }
    status
}

fn progress(
    deployment: &Deployment,
    old: &DeploymentStatus,
    status: &mut DeploymentStatus,
    new: Option<&ReplicaSet>,
    now: Timestamp,
) {
    let current = condition(old, PROGRESSING);
    let was_over = current.is_some_and(|current| current.reason.as_deref() == Some(NEW_SET_AVAILABLE));
    if was_over && status.replicas == status.updated_replicas {
        return;
    }
    let subject = match new.and_then(|set| set.metadata.name.as_deref()) {
        Some(name) => format!("ReplicaSet {name:?}"),
        None => format!("Deployment {:?}", deployment.metadata.name.as_deref().unwrap_or_default()),
    };
    if is_complete(deployment, status) {
        let message = format!("{subject} has successfully progressed.");
        set_condition(status, new_condition(PROGRESSING, "True", NEW_SET_AVAILABLE, message, now));
    } else if has_moved(old, status) {
        let message = format!("{subject} is progressing.");
        let mut moved = new_condition(PROGRESSING, "True", "ReplicaSetUpdated", message, now);
        if let Some(current) = current.filter(|current| current.status == "True") {
            moved.last_transition_time = current.last_transition_time.clone();
        }
        // Replace the condition even if the reason is unchanged: the deadline counts from the last progress.
        remove_condition(status, PROGRESSING);
        set_condition(status, moved);
    } else if has_timed_out(deployment, status, now) {
        let message = format!("{subject} has timed out progressing.");
        set_condition(status, new_condition(PROGRESSING, "False", TIMED_OUT, message, now));
    }
}

/// The failure condition of a ReplicaSet; the new ReplicaSet has priority.
fn failure(sets: &[ReplicaSet], new: Option<usize>) -> Option<DeploymentCondition> {
    let of = |set: &ReplicaSet| {
        let conditions = set.status.as_ref()?.conditions.as_ref()?;
        let found = conditions.iter().find(|condition| condition.type_ == REPLICA_FAILURE)?.clone();
        Some(DeploymentCondition {
            type_: found.type_,
            status: found.status,
            reason: found.reason,
            message: found.message,
            last_update_time: found.last_transition_time.clone(),
            last_transition_time: found.last_transition_time,
        })
    };
    new.and_then(|at| of(&sets[at])).or_else(|| sets.iter().find_map(of))
}

/// The condition that reports a pause or a resumption; `None` if it is already set or does not apply.
pub fn pause(deployment: &Deployment, old: &DeploymentStatus, now: Timestamp) -> Option<DeploymentCondition> {
    deadline(deployment)?;
    let reason = condition(old, PROGRESSING).and_then(|condition| condition.reason.as_deref());
    let paused = deployment.spec.as_ref().is_some_and(|spec| spec.paused == Some(true));
    let (reason, message) = match (paused, reason) {
        // A pause or resumption does not overwrite a missed deadline.
        (_, Some(TIMED_OUT)) | (true, Some(PAUSED)) => return None,
        (true, _) => (PAUSED, "Deployment is paused"),
        (false, Some(PAUSED)) => (RESUMED, "Deployment is resumed"),
        (false, _) => return None,
    };
    Some(new_condition(PROGRESSING, "Unknown", reason, message.to_owned(), now))
}

/// The time until the progress deadline has to be checked.
pub fn next_look(deployment: &Deployment, status: &DeploymentStatus, now: Timestamp) -> Option<Duration> {
    let deadline = deadline(deployment)?;
    let progressing = condition(status, PROGRESSING)?;
    if is_complete(deployment, status)
        || matches!(progressing.reason.as_deref(), Some(TIMED_OUT | NEW_SET_AVAILABLE | PAUSED))
    {
        return None;
    }
    let since = progressing.last_update_time.as_ref()?.0;
    let passed = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    // Add 1 s, because times in objects have a resolution of 1 s.
    Some(deadline.saturating_sub(passed) + Duration::from_secs(1))
}

/// Whether the statuses are equal. A missing number equals 0, because the server omits zeros. Times are
/// compared by second, because the server stores whole seconds.
pub fn is_same(one: &DeploymentStatus, other: &DeploymentStatus) -> bool {
    let plain = |status: &DeploymentStatus| {
        let number = |value: Option<i32>| Some(value.unwrap_or(0));
        let second = |time: Option<Time>| {
            time.map(|time| Time(Timestamp::from_second(time.0.as_second()).unwrap_or(time.0)))
        };
        let mut conditions = status.conditions.clone().unwrap_or_default();
        for condition in &mut conditions {
            condition.last_update_time = second(condition.last_update_time.take());
            condition.last_transition_time = second(condition.last_transition_time.take());
        }
        conditions.sort_by(|a, b| a.type_.cmp(&b.type_));
        DeploymentStatus {
            replicas: number(status.replicas),
            updated_replicas: number(status.updated_replicas),
            ready_replicas: number(status.ready_replicas),
            available_replicas: number(status.available_replicas),
            unavailable_replicas: number(status.unavailable_replicas),
            terminating_replicas: number(status.terminating_replicas),
            collision_count: number(status.collision_count),
            observed_generation: Some(status.observed_generation.unwrap_or(0)),
            conditions: Some(conditions),
        }
    };
    plain(one) == plain(other)
}
