//! Decides which pods of a Job to create or delete. Pure functions.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use orlop_client::meta::is_terminating;

use super::assess::{JobInput, JobState};
use super::backoff::remaining_of_index;
use super::pod_facts::index_of;
use super::spec::{index_count, is_indexed, is_suspended, parallelism, replaces_only_failed};
use crate::workload::ready::is_leaving;
use crate::workload::replicas::order::first_to_go;

/// The maximum number of pods that one sync creates or deletes. Upstream: MaxPodCreateDeletePerSync.
const BURST: usize = 500;

/// A change of the pods.
#[derive(Debug)]
pub enum Action {
    /// The cache is out of date, or the Job is being deleted.
    Skip,
    /// The pods are as they should be.
    Nothing,
    /// The Job ends: delete all active pods. Their finalizer stays until they are counted. The end is saved only after all of them are
    /// deleted, so this action has no limit: the remaining pods alone could be no reason to end the Job.
    Stop(Vec<Arc<Pod>>),
    /// Delete these pods, which do not count as failed: first remove their finalizer.
    Delete(Vec<Arc<Pod>>),
    /// Create pods with these indexes; without an index if the Job is not indexed.
    Create(Vec<Option<i64>>),
    /// Create pods after this time.
    Wait(Duration),
}

/// Decides the change.
pub fn action(input: &JobInput<'_>, state: &JobState) -> Action {
    if state.end.is_some() {
        return Action::Stop(state.active.clone());
    }
    if !input.is_current || is_terminating(input.job) {
        return Action::Skip;
    }
    let active = i64::try_from(state.active.len()).unwrap_or(i64::MAX);
    if is_suspended(input.spec) {
        return Action::Delete(state.active.iter().take(BURST).cloned().collect());
    }
    let parallelism = parallelism(input.spec);
    let wanted = match input.spec.completions {
        // The other pods of a work queue run until they end.
        None if state.succeeded > 0 => active,
        None => parallelism,
        Some(completions) => (i64::from(completions) - state.succeeded).min(parallelism).max(0),
    };
    let mut surplus = surplus(input, state, usize::try_from(active - wanted).unwrap_or(0));
    if !surplus.is_empty() {
        surplus.truncate(BURST);
        return Action::Delete(surplus);
    }
    let awaited = if replaces_only_failed(input.spec) { i64::from(state.terminating) } else { 0 };
    match usize::try_from(wanted - awaited - active) {
        Ok(0) | Err(_) => Action::Nothing,
        Ok(missing) => match create(input, state, missing) {
            // All missing indexes have failed, or their pods are terminating.
            Action::Create(indexes) if indexes.is_empty() => Action::Nothing,
            creation => creation,
        },
    }
}

fn create(input: &JobInput<'_>, state: &JobState, missing: usize) -> Action {
    let is_per_index = input.spec.backoff_limit_per_index.is_some();
    let remaining = if is_per_index { Duration::ZERO } else { state.backoff.remaining(input.now) };
    if !remaining.is_zero() {
        return Action::Wait(remaining);
    }
    let missing = missing.min(BURST);
    if !is_indexed(input.spec) {
        return Action::Create(vec![None; missing]);
    }
    let pending = pending_indexes(input, state, missing);
    if !is_per_index {
        return Action::Create(pending.into_iter().map(Some).collect());
    }
    let delay = |index: &i64| remaining_of_index(state.to_replace.get(index).map(Arc::as_ref), input.now);
    let due: Vec<_> =
        pending.iter().filter(|index| delay(index).is_zero()).map(|index| Some(*index)).collect();
    match pending.iter().map(delay).min() {
        Some(shortest) if due.is_empty() => Action::Wait(shortest),
        Some(_) | None => Action::Create(due),
    }
}

/// The first indexes that have no pod and have neither completed nor failed.
fn pending_indexes(input: &JobInput<'_>, state: &JobState, count: usize) -> Vec<i64> {
    let indexes = |pods: &[Arc<Pod>], test: fn(&Pod) -> bool| -> BTreeSet<i64> {
        pods.iter().filter(|pod| test(pod)).filter_map(|pod| index_of(pod)).collect()
    };
    let mut taken = state.completed.with(&indexes(&state.active, |_| true));
    if replaces_only_failed(input.spec) {
        taken = taken.with(&indexes(input.pods, is_leaving));
    }
    if let Some(failed) = &state.failed_indexes {
        taken = taken.union(failed);
    }
    taken.first_missing(count, index_count(input.spec))
}

/// The active pods to delete: those without a valid index, all but one pod of each index, and others until at least `count` pods
/// are deleted.
fn surplus(input: &JobInput<'_>, state: &JobState, count: usize) -> Vec<Arc<Pod>> {
    let first = |pods: &[Arc<Pod>], count: usize| first_to_go(pods, &[], count, input.now);
    if !is_indexed(input.spec) {
        return first(&state.active, count);
    }
    let mut by_index: BTreeMap<Option<i64>, Vec<Arc<Pod>>> = BTreeMap::new();
    for pod in &state.active {
        by_index.entry(input.valid_index(pod)).or_default().push(Arc::clone(pod));
    }
    let mut surplus = by_index.remove(&None).unwrap_or_default();
    let mut left = Vec::new();
    for mut pods in by_index.into_values() {
        let gone = first(&pods, pods.len() - 1);
        let pointers: HashSet<*const Pod> = gone.iter().map(Arc::as_ptr).collect();
        pods.retain(|pod| !pointers.contains(&Arc::as_ptr(pod)));
        left.append(&mut pods);
        surplus.extend(gone);
    }
    surplus.extend(first(&left, count.saturating_sub(surplus.len())));
    surplus
}
