//! Evaluates the pods of a Job: how many have succeeded and failed, and whether the Job ends. Pure functions.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use orlop_client::meta::whole_seconds;
use orlop_client::pods::phase;

use super::backoff::Backoff;
use super::conditions::{
    FAILED, FAILURE_TARGET, SUCCESS_CRITERIA_MET, condition, final_condition, find_true,
};
use super::failure_policy::{Effect, effect};
use super::indexes::Indexes;
use super::pod_facts::{
    ended_at, failures, has_failed, has_succeeded, ignored_failures, index_of, is_tracked, uid,
};
use super::spec::{backoff_limit, index_count, is_indexed, is_suspended};
use super::success_policy::met_rule;
use crate::workload::ready::{is_active, is_leaving, is_ready};

/// The input of a sync.
#[derive(Clone, Copy)]
pub struct JobInput<'a> {
    /// The Job.
    pub job: &'a Job,
    /// Its spec.
    pub spec: &'a JobSpec,
    /// Its pods.
    pub pods: &'a [Arc<Pod>],
    /// The UIDs of pods whose finalizer was removed, which the cache does not show yet.
    pub untracked: &'a HashSet<String>,
    /// Whether the cache shows all creations and deletions of earlier syncs.
    pub is_current: bool,
    /// The failures before this sync.
    pub backoff: Backoff,
    /// The time.
    pub now: Timestamp,
}

impl JobInput<'_> {
    /// Whether the end of the pod is not counted completely yet.
    pub fn is_open(&self, pod: &Pod) -> bool {
        is_tracked(pod) && !self.untracked.contains(uid(pod))
    }

    /// The index of the pod, if the Job is indexed and has this index.
    pub fn valid_index(&self, pod: &Pod) -> Option<i64> {
        index_of(pod).filter(|index| *index < index_count(self.spec))
    }

    /// Whether the pod counts: pods of an indexed Job must have a valid index.
    pub fn counts(&self, pod: &Pod) -> bool {
        !is_indexed(self.spec) || self.valid_index(pod).is_some()
    }

    /// The effect of a failed pod.
    pub fn effect(&self, pod: &Pod) -> Effect {
        effect(self.spec.pod_failure_policy.as_ref(), pod)
    }
}

/// The state of a Job within a sync.
#[derive(Debug)]
pub struct JobState {
    /// The new status.
    pub status: JobStatus,
    /// The pods that are neither finished nor being deleted.
    pub active: Vec<Arc<Pod>>,
    /// The number of ready pods.
    pub ready: i32,
    /// The number of pods that are being deleted and have not ended.
    pub terminating: i32,
    /// The number of succeeded pods, or of completed indexes.
    pub succeeded: i64,
    /// The completed indexes in the status.
    pub completed_before: Indexes,
    /// The completed indexes.
    pub completed: Indexes,
    /// The failed indexes, if the Job has a limit per index.
    pub failed_indexes: Option<Indexes>,
    /// The last failed pod of each index that needs a new pod. It is deleted only after its successor exists, because the successor
    /// inherits its number of failures.
    pub to_replace: BTreeMap<i64, Arc<Pod>>,
    /// The failures after this sync.
    pub backoff: Backoff,
    /// The condition with which the Job ends.
    pub end: Option<JobCondition>,
    /// The time until the active deadline.
    pub deadline_in: Option<Duration>,
}

/// Evaluates the pods.
pub fn assess(input: &JobInput<'_>) -> JobState {
    let mut status = input.job.status.clone().unwrap_or_default();
    let uncounted = status.uncounted_terminated_pods.get_or_insert_default();
    let known = |list: &Option<Vec<String>>| -> HashSet<String> { list.iter().flatten().cloned().collect() };
    let (known_succeeded, known_failed) = (known(&uncounted.succeeded), known(&uncounted.failed));
    let new_succeeded = new_pods(input, &known_succeeded, &has_succeeded);
    let new_failed = new_pods(input, &known_failed, &|pod| has_failed(pod, input.spec));
    let counted = new_failed.iter().filter(|pod| input.effect(pod) != Effect::Ignore).count();
    let total = |counter: Option<i32>, new: usize, uncounted: usize| {
        i64::from(counter.unwrap_or(0)).saturating_add_unsigned((new + uncounted) as u64)
    };
    let succeeded = total(status.succeeded, new_succeeded.len(), known_succeeded.len());
    let failed = total(status.failed, counted, known_failed.len());

    if status.start_time.is_none() && !is_suspended(input.spec) {
        status.start_time = Some(whole_seconds(input.now));
    }
    let ends = |pods: &[&Pod]| -> Vec<Timestamp> { pods.iter().map(|pod| ended_at(pod)).collect() };
    let backoff = input.backoff.after(ends(&new_succeeded), &ends(&new_failed));
    let active: Vec<Arc<Pod>> = input.pods.iter().filter(|pod| is_active(pod)).cloned().collect();
    let mut state = JobState {
        ready: number(active.iter().filter(|pod| is_ready(pod)).count()),
        terminating: number(input.pods.iter().filter(|pod| is_leaving(pod)).count()),
        status,
        active,
        succeeded,
        completed_before: Indexes::default(),
        completed: Indexes::default(),
        failed_indexes: None,
        to_replace: BTreeMap::new(),
        backoff,
        end: None,
        deadline_in: None,
    };
    state.end = earlier_end(&state.status, input).or_else(|| limit_reached(input, &mut state, failed));
    if is_indexed(input.spec) {
        assess_indexes(input, &mut state);
    }
    state
}

/// The pods with this end that the status neither lists nor counts.
fn new_pods<'p>(
    input: &JobInput<'p>,
    listed: &HashSet<String>,
    has_ended: &dyn Fn(&Pod) -> bool,
) -> Vec<&'p Pod> {
    let open = input.pods.iter().map(Arc::as_ref).filter(|pod| input.is_open(pod) && input.counts(pod));
    open.filter(|pod| !listed.contains(uid(pod)) && has_ended(pod)).collect()
}

/// The end that an earlier sync determined, or a pod for which the pod failure policy fails the Job.
fn earlier_end(status: &JobStatus, input: &JobInput<'_>) -> Option<JobCondition> {
    let conditions = status.conditions.as_deref();
    if let Some(success) = find_true(conditions, SUCCESS_CRITERIA_MET) {
        return Some(success.clone());
    }
    if let Some(failure) = find_true(conditions, FAILURE_TARGET) {
        return Some(final_condition(failure, FAILED, input.now));
    }
    input.spec.pod_failure_policy.as_ref()?;
    let mut failed = input.pods.iter().filter(|pod| has_failed(pod, input.spec));
    let message = failed.find_map(|pod| match input.effect(pod) {
        Effect::FailJob(message) => Some(message),
        Effect::Count | Effect::Ignore | Effect::FailIndex => None,
    })?;
    Some(condition(FAILURE_TARGET, "PodFailurePolicy", &message, input.now))
}

/// The end because of too many failures or the active deadline. Otherwise, sets the time until the deadline.
fn limit_reached(input: &JobInput<'_>, state: &mut JobState, failed: i64) -> Option<JobCondition> {
    let fail = |reason: &str, message: &str| Some(condition(FAILURE_TARGET, reason, message, input.now));
    if failed > backoff_limit(input.spec) || restarted_too_often(input) {
        return fail("BackoffLimitExceeded", "Job has reached the specified backoff limit");
    }
    let deadline = input.spec.active_deadline_seconds.filter(|_| !is_suspended(input.spec))?;
    let end = state.status.start_time.as_ref()?.0.saturating_add(SignedDuration::from_secs(deadline)).ok()?;
    match Duration::try_from(end.duration_since(input.now)) {
        Ok(left) if !left.is_zero() => {
            state.deadline_in = Some(left);
            None
        }
        Ok(_) | Err(_) => fail("DeadlineExceeded", "Job was active longer than specified deadline"),
    }
}

/// Whether the containers of the running pods were restarted as often as the limit permits. Without the restart policy OnFailure,
/// they are not restarted.
fn restarted_too_often(input: &JobInput<'_>) -> bool {
    let policy = input.spec.template.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref());
    if policy != Some("OnFailure") {
        return false;
    }
    let running = input.pods.iter().filter(|pod| matches!(phase(pod), "Running" | "Pending"));
    let statuses = running.filter_map(|pod| pod.status.as_ref()).flat_map(|status| {
        status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten())
    });
    let restarts: i64 = statuses.map(|container| i64::from(container.restart_count)).sum();
    restarts >= backoff_limit(input.spec).max(1)
}

fn assess_indexes(input: &JobInput<'_>, state: &mut JobState) {
    let limit = index_count(input.spec);
    let indexes = |test: &dyn Fn(&Pod) -> bool| -> BTreeSet<i64> {
        let pods = input.pods.iter().filter(|pod| is_tracked(pod) && test(pod));
        pods.filter_map(|pod| input.valid_index(pod)).collect()
    };
    let listed = |list: &Option<String>| Indexes::parse(list.as_deref().unwrap_or_default(), limit);
    state.completed_before = listed(&state.status.completed_indexes);
    state.completed = state.completed_before.with(&indexes(&has_succeeded));
    state.succeeded = state.completed.len();
    if let Some(per_index) = input.spec.backoff_limit_per_index {
        let has_failed_index = |pod: &Pod| {
            has_failed(pod, input.spec)
                && match input.effect(pod) {
                    Effect::FailIndex => true,
                    Effect::Ignore => false,
                    Effect::Count | Effect::FailJob(_) => failures(pod) >= i64::from(per_index),
                }
        };
        let failed = listed(&state.status.failed_indexes).with(&indexes(&has_failed_index));
        if state.end.is_none() {
            state.end = too_many_failed(input, failed.len(), state.completed.len());
        }
        state.to_replace = to_replace(input, state, &failed);
        state.failed_indexes = Some(failed);
    }
    if state.end.is_none() {
        let met = met_rule(input.spec.success_policy.as_ref(), limit, &state.completed);
        state.end = met.map(|message| condition(SUCCESS_CRITERIA_MET, "SuccessPolicy", &message, input.now));
    }
}

fn too_many_failed(input: &JobInput<'_>, failed: i64, completed: i64) -> Option<JobCondition> {
    let fail = |reason: &str, message: &str| Some(condition(FAILURE_TARGET, reason, message, input.now));
    if input.spec.max_failed_indexes.is_some_and(|max| failed > i64::from(max)) {
        let message = "Job has exceeded the specified maximal number of failed indexes";
        return fail("MaxFailedIndexesExceeded", message);
    }
    if failed > 0 && failed + completed >= index_count(input.spec) {
        return fail("FailedIndexes", "Job has failed indexes");
    }
    None
}

/// See [`JobState::to_replace`].
fn to_replace(input: &JobInput<'_>, state: &JobState, failed: &Indexes) -> BTreeMap<i64, Arc<Pod>> {
    let active: HashSet<i64> = state.active.iter().filter_map(|pod| index_of(pod)).collect();
    let count = |pod: &Pod| failures(pod) + ignored_failures(pod);
    let mut last: BTreeMap<i64, Arc<Pod>> = BTreeMap::new();
    for pod in input.pods.iter().filter(|pod| input.is_open(pod) && has_failed(pod, input.spec)) {
        let Some(index) = input.valid_index(pod) else { continue };
        if state.completed.contains(index) || failed.contains(index) || active.contains(&index) {
            continue;
        }
        let is_later = |other: &Arc<Pod>| count(other) <= count(pod) && ended_at(other) <= ended_at(pod);
        if last.get(&index).is_none_or(is_later) {
            last.insert(index, Arc::clone(pod));
        }
    }
    last
}

/// A number of pods.
pub fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
