//! Counts finished pods in the status, each exactly once. Pure functions.
//!
//! The status first lists the UIDs of finished pods. Only after it is saved are their finalizers removed, and only after that are
//! they moved from the list to the counters. A sync that stops in between continues with the list.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use k8s_openapi::api::batch::v1::{JobCondition, JobStatus, UncountedTerminatedPods};
use k8s_openapi::api::core::v1::Pod;
use orlop_client::meta::is_terminating;

use super::assess::{JobInput, JobState, number};
use super::conditions::{
    COMPLETE, FAILED, FAILURE_TARGET, SUCCESS_CRITERIA_MET, final_condition, find_true, set,
};
use super::failure_policy::Effect;
use super::pod_facts::{has_failed, has_succeeded, index_of, uid};
use super::spec::is_indexed;

/// The maximum number of uncounted pods, so that the status stays below 20 KB. Upstream: MaxUncountedPods.
pub const MAX_UNCOUNTED: usize = 500;

/// The finished pods.
#[derive(Debug, Default)]
pub struct Tracking {
    /// Whether the status must be written before the finalizers are removed.
    pub must_write: bool,
    /// The pods whose finalizers to remove.
    pub untrack: Vec<Arc<Pod>>,
    /// The UIDs of the pods that have the finalizer.
    pub tracked: HashSet<String>,
    /// Whether further finished pods are left for the next sync.
    pub is_partial: bool,
    /// The final condition, if the Job ends.
    pub end: Option<JobCondition>,
}

/// Lists the finished pods in the status, and adds the first condition of an end.
pub fn track(input: &JobInput<'_>, state: &mut JobState, must_write: bool) -> Tracking {
    let open = input.pods.iter().filter(|pod| input.is_open(pod));
    let mut pods: Vec<&Arc<Pod>> = open.collect();
    let tracked: HashSet<String> = pods.iter().map(|pod| uid(pod).to_owned()).collect();
    if is_indexed(input.spec) {
        pods.sort_by_key(|pod| index_of(pod));
    }
    let moved = count_untracked(&mut state.status, &tracked);
    let mut tracking = Tracking { must_write: must_write || moved, tracked, ..Tracking::default() };
    let is_success = state.end.as_ref().is_some_and(|end| end.type_ == SUCCESS_CRITERIA_MET);
    let is_failure = state.end.is_some() && !is_success;
    let lists = state.status.uncounted_terminated_pods.take().unwrap_or_default();
    let (mut succeeded, mut failed) = (lists.succeeded.unwrap_or_default(), lists.failed.unwrap_or_default());
    let known_succeeded: HashSet<String> = succeeded.iter().cloned().collect();
    let known_failed: HashSet<String> = failed.iter().cloned().collect();
    let mut completed = BTreeSet::new();
    for pod in pods {
        let pod_failed = has_failed(pod, input.spec);
        if !may_untrack(input, state, pod, pod_failed) {
            continue;
        }
        tracking.untrack.push(Arc::clone(pod));
        let is_known_failed = known_failed.contains(uid(pod));
        if has_succeeded(pod) && !is_known_failed {
            if is_indexed(input.spec) {
                let index = input.valid_index(pod).filter(|index| !state.completed_before.contains(*index));
                completed.extend(index);
            } else if !known_succeeded.contains(uid(pod)) {
                succeeded.push(uid(pod).to_owned());
                tracking.must_write = true;
            }
        } else if (pod_failed || is_failure)
            && !is_known_failed
            && input.counts(pod)
            && input.effect(pod) != Effect::Ignore
        {
            failed.push(uid(pod).to_owned());
            tracking.must_write = true;
        }
        if completed.len() + succeeded.len() + failed.len() >= MAX_UNCOUNTED {
            tracking.is_partial = true;
            break;
        }
    }
    let listed = |list: Vec<String>| Some(list).filter(|list| !list.is_empty());
    state.status.uncounted_terminated_pods =
        Some(UncountedTerminatedPods { succeeded: listed(succeeded), failed: listed(failed) });
    if is_indexed(input.spec) {
        tracking.must_write |= !completed.is_empty();
        tracking.must_write |= write_indexes(state, &completed);
    }
    tracking.end = first_condition(input, state, &mut tracking.must_write);
    tracking
}

/// Whether the finalizer can be removed: the Job ends, or the pod has ended and no successor needs its annotations.
fn may_untrack(input: &JobInput<'_>, state: &JobState, pod: &Pod, pod_failed: bool) -> bool {
    if is_terminating(input.job) || state.end.is_some() || has_succeeded(pod) {
        return true;
    }
    let is_awaited = || {
        let index = index_of(pod);
        index.and_then(|index| state.to_replace.get(&index)).is_some_and(|last| uid(last) == uid(pod))
    };
    pod_failed && !is_awaited()
}

/// Writes the lists of indexes, and returns whether they have changed.
fn write_indexes(state: &mut JobState, new: &BTreeSet<i64>) -> bool {
    let completed = state.completed.with(new);
    let status = &mut state.status;
    let before = (status.completed_indexes.take(), status.failed_indexes.take());
    status.succeeded = Some(i32::try_from(completed.len()).unwrap_or(i32::MAX)).filter(|count| *count > 0);
    status.completed_indexes = Some(completed.to_string()).filter(|list| !list.is_empty());
    status.failed_indexes = state.failed_indexes.as_ref().map(ToString::to_string);
    state.completed = completed;
    before != (state.status.completed_indexes.clone(), state.status.failed_indexes.clone())
}

/// Adds FailureTarget or SuccessCriteriaMet, and returns the condition that follows it.
fn first_condition(
    input: &JobInput<'_>,
    state: &mut JobState,
    must_write: &mut bool,
) -> Option<JobCondition> {
    let end = state.end.clone()?;
    let second = match end.type_.as_str() {
        FAILURE_TARGET => FAILED,
        SUCCESS_CRITERIA_MET => COMPLETE,
        _ => return Some(end),
    };
    let following = final_condition(&end, second, input.now);
    if find_true(state.status.conditions.as_deref(), &end.type_).is_none() {
        state.status.conditions.get_or_insert_default().push(end);
        *must_write = true;
    }
    Some(following)
}

/// Moves the listed pods that have no finalizer to the counters. Returns whether there were any.
pub fn count_untracked(status: &mut JobStatus, tracked: &HashSet<String>) -> bool {
    let Some(lists) = &mut status.uncounted_terminated_pods else { return false };
    let mut moved = false;
    for (list, counter) in
        [(&mut lists.succeeded, &mut status.succeeded), (&mut lists.failed, &mut status.failed)]
    {
        let Some(uids) = list else { continue };
        let before = uids.len();
        uids.retain(|uid| tracked.contains(uid));
        let gone = before - uids.len();
        if gone > 0 {
            *counter = Some(counter.unwrap_or(0).saturating_add(number(gone)));
            moved = true;
        }
        if uids.is_empty() {
            *list = None;
        }
    }
    moved
}

/// Adds the final condition if all pods have ended and are counted. Returns whether the Job has ended.
pub fn add_end(status: &mut JobStatus, end: Option<&JobCondition>) -> bool {
    let Some(end) = end else { return false };
    let lists = status.uncounted_terminated_pods.as_ref();
    let is_counted = lists.is_none_or(|lists| lists.succeeded.is_none() && lists.failed.is_none());
    if !is_counted || status.terminating.unwrap_or(0) > 0 {
        return false;
    }
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let at = end.last_transition_time.clone();
    let time = at.as_ref().map(|time| time.0).unwrap_or_default();
    set(&mut status.conditions, &end.type_, true, &text(&end.reason), &text(&end.message), time);
    if end.type_ == COMPLETE {
        status.completion_time = at;
    }
    true
}
