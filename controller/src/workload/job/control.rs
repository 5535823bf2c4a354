//! Runs the Job controller: queues Jobs on changes, decides, and writes the status. A status is written only over the version that the
//! decision used.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, join};
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use orlop_apimachinery::clock::Clock;
use orlop_client::api::Api;
use orlop_client::client::is_not_found;
use orlop_client::informer::{Change, Informer, split_key};
use orlop_client::names::{COMPONENT_JOB, FINALIZER_JOB_TRACKING, controller, reason};
use orlop_client::queue::{RateLimit, WorkQueue};
use orlop_client::recorder::{EventType, Recorder};
use orlop_client::worker;
use parking_lot::Mutex;
use serde_json::json;

use super::assess::{JobInput, JobState, assess};
use super::backoff::Backoff;
use super::conclude::conclude;
use super::conditions::{COMPLETE, is_finished};
use super::manage::{Action, action};
use super::pod_facts::{is_tracked, relevant_part, uid};
use super::pods::{BATCH, Wakeups};
use super::spec::{is_external, is_known_mode};
use super::track::{Tracking, add_end, count_untracked, track};
use crate::context::{Context, ControllerError};
use crate::workload::adopt::{claim_with_finalizer, named};
use crate::workload::batch::limited;
use crate::workload::error::WorkloadError;
use crate::workload::owned::{
    INDEX_CONTROLLER, candidate_parts, controller_of, index_by_controller, index_owners, is_controlled,
    owner_key, owner_value, selector_of,
};
use crate::workload::writes::api_of;

/// Upstream: DefaultJobApiBackOff and MaxJobApiBackOff.
const RATE_LIMIT: RateLimit =
    RateLimit { first: Duration::from_secs(1), max: Duration::from_secs(60), bucket: None };

/// Runs the Job controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        let wakeups = Wakeups {
            queue: WorkQueue::new(RATE_LIMIT),
            orphans: WorkQueue::new(RATE_LIMIT),
            expectations: Arc::default(),
            removed: Arc::default(),
        };
        let this = Manager {
            client: context.client.clone(),
            jobs: context.informers.of(),
            pods: context.informers.pods(),
            wakeups: wakeups.clone(),
            ended: Arc::default(),
            backoffs: Mutex::default(),
            written: Mutex::default(),
            recorder: context.recorder(COMPONENT_JOB),
            clock: context.clock,
        };
        index_owners(&this.jobs);
        let _jobs = this.jobs.add_handler({
            let (queue, ended) = (wakeups.queue.clone(), Arc::clone(&this.ended));
            move |change: &Change<Job>| job_changed(change, &ended, &queue)
        });
        let _pods = this.pods.add_handler({
            let jobs = this.jobs.clone();
            move |change: &Change<Pod>| wakeups.pod_changed(change, &jobs)
        });
        if !context.ready(join(this.jobs.synced(), this.pods.synced())).await {
            return Ok(());
        }
        let (shutdown, workers) = (&context.shutdown, context.options.concurrent_job_syncs);
        let Wakeups { queue, orphans, .. } = &this.wakeups;
        let (jobs, pods) =
            (context.syncs::<Job, _>(controller::JOB), context.syncs::<Pod, _>(controller::JOB));
        join(
            worker::run_until(shutdown, queue, workers, jobs, |key| this.sync(key)),
            worker::run_until(shutdown, orphans, 1, pods, |key| this.untrack_orphan(key)),
        )
        .await;
        Ok(())
    })
}

/// Queues a Job: immediately if its spec has changed, and after [`BATCH`] if only its status has.
fn job_changed(change: &Change<Job>, ended: &Mutex<EndedJobs>, queue: &WorkQueue<String>) {
    let key = change.key().to_string();
    if let Some(uid) = change.gone_uid() {
        ended.lock().deleted.entry(key.clone()).or_default().push(uid.to_string());
    }
    if change.new.as_deref().is_some_and(is_finished) {
        ended.lock().finished.insert(key.clone());
    }
    let generation = |job: &Arc<Job>| job.metadata.generation;
    let is_status =
        change.new.as_ref().is_some_and(|new| change.old().map(generation) == Some(generation(new)));
    if is_status && !change.replaced() { queue.add_after(key, BATCH) } else { queue.add(key) }
}

/// The Jobs whose pods may still have a finalizer that no Job will remove. Each change of a finished Job adds it again; the changes of
/// its pods do not, because each search reads all of them.
#[derive(Default)]
struct EndedJobs {
    /// The UIDs of deleted Jobs, by key.
    deleted: HashMap<String, Vec<String>>,
    /// The keys of finished Jobs.
    finished: HashSet<String>,
}

pub(super) struct Manager {
    pub(super) client: Client,
    jobs: Informer<Job>,
    pods: Informer<Pod>,
    pub(super) wakeups: Wakeups,
    ended: Arc<Mutex<EndedJobs>>,
    backoffs: Mutex<HashMap<String, Backoff>>,
    /// The UID of each Job and the version of its last written status.
    written: Mutex<HashMap<String, (Option<String>, u64)>>,
    pub(super) recorder: Recorder,
    clock: Clock,
}

impl Manager {
    async fn sync(&self, key: String) -> Result<(), WorkloadError> {
        let (deleted, has_finished) = {
            let mut ended = self.ended.lock();
            (ended.deleted.remove(&key).unwrap_or_default(), ended.finished.remove(&key))
        };
        for uid in deleted {
            self.forget(&key);
            self.queue_orphans(split_key(&key).0, &uid);
        }
        let Some(job) = self.jobs.get(&key) else {
            self.forget(&key);
            return Ok(());
        };
        if is_external(&job) {
            return Ok(());
        }
        let job_uid = job.metadata.uid.as_deref().unwrap_or_default();
        if is_finished(&job) {
            self.backoffs.lock().remove(&key);
            if has_finished {
                self.queue_orphans(split_key(&key).0, job_uid);
            }
            return Ok(());
        }
        let Some(spec) = &job.spec else { return Ok(()) };
        if !is_known_mode(spec) {
            let message = "Skipped Job sync because completion mode is unknown";
            self.recorder.event(job.as_ref(), EventType::Warning, reason::UNKNOWN_COMPLETION_MODE, message);
            return Ok(());
        }
        let Some(label_selector) = &spec.selector else { return Ok(()) };
        let Some(selector) = selector_of(label_selector) else { return Ok(()) };
        if self.is_outdated(&key, &job) {
            self.wakeups.queue.add_after(key, BATCH);
            return Ok(());
        }
        index_by_controller(&self.pods);
        // Check these before reading the pods: a change in between is then counted twice at worst, never missed.
        let is_current = self.wakeups.expectations.are_met(&key, job_uid);
        let untracked = self.wakeups.removed.expected(&key);
        let namespace = split_key(&key).0;
        let found = candidate_parts(&self.pods, namespace, job_uid, label_selector, relevant_part).await;
        let pods = claim_with_finalizer(&self.client, job.as_ref(), &selector, found, FINALIZER_JOB_TRACKING)
            .await?;
        let input = JobInput {
            job: &job,
            spec,
            pods: &pods,
            untracked: &untracked,
            is_current,
            backoff: self.backoffs.lock().get(&key).copied().unwrap_or_default(),
            now: self.clock.now(),
        };
        let mut state = assess(&input);
        let action = action(&input, &state);
        let (performed, failure) = self.perform(&key, &input, &state, &action).await;
        let (must_write, note) = conclude(&input, &mut state, &action, &performed);
        if let Some((reason, message)) = note {
            self.recorder.event(job.as_ref(), EventType::Normal, reason, message);
        }
        self.queue_later(&key, &state, &action);
        let tracking = track(&input, &mut state, must_write);
        self.save(&key, &job, state, tracking).await?;
        failure.map_or(Ok(()), Err)
    }

    /// Queues the Job for the active deadline, the end of a backoff, and the end of lost expectations.
    fn queue_later(&self, key: &str, state: &JobState, action: &Action) {
        let backoff = match action {
            Action::Wait(delay) => Some((*delay).max(BATCH)),
            Action::Skip | Action::Nothing | Action::Stop(_) | Action::Delete(_) | Action::Create(_) => None,
        };
        let patience = self.wakeups.expectations.patience(key);
        for delay in [state.deadline_in, backoff, patience].into_iter().flatten() {
            self.wakeups.queue.add_after(key.to_owned(), delay);
        }
    }

    /// Writes the list of finished pods, removes their finalizers, and writes the counters. If it stops after one of these steps,
    /// the next sync continues with the list.
    async fn save(
        &self,
        key: &str,
        job: &Job,
        mut state: JobState,
        tracking: Tracking,
    ) -> Result<(), WorkloadError> {
        let Tracking { must_write, untrack, mut tracked, is_partial, end } = tracking;
        let mut job = job.clone();
        if must_write {
            self.write_status(key, &mut job, &state.status).await?;
            self.backoffs.lock().insert(key.to_owned(), state.backoff);
        }
        let failure = self.untrack_all(key, &untrack, &mut tracked).await.err();
        let moved = count_untracked(&mut state.status, &tracked);
        let ended = failure.is_none() && !is_partial && add_end(&mut state.status, end.as_ref());
        if moved || ended {
            self.write_status(key, &mut job, &state.status).await?;
        }
        if let Some(end) = end.filter(|_| ended) {
            self.report_end(&job, &state.status, &end);
        }
        failure.map_or(Ok(()), Err)
    }

    async fn write_status(&self, key: &str, job: &mut Job, status: &JobStatus) -> Result<(), WorkloadError> {
        let api: Api<Job> = api_of(&self.client, job);
        job.status = Some(status.clone());
        let written = api.replace_status(&job.name_any(), &PostParams::default(), job).await;
        let written = written.map_err(WorkloadError::api("write the status of", named(job)))?;
        job.metadata = written.metadata;
        let entry = (job.metadata.uid.clone(), version(job));
        self.written.lock().insert(key.to_owned(), entry);
        Ok(())
    }

    /// Whether the cache does not show the last written status yet. The pods may be newer: a pod without finalizer would then be
    /// missing in the counters.
    fn is_outdated(&self, key: &str, job: &Job) -> bool {
        let written = self.written.lock();
        written.get(key).is_some_and(|(uid, newest)| *uid == job.metadata.uid && version(job) < *newest)
    }

    /// Removes finalizers, and the pods without finalizer from `tracked`.
    async fn untrack_all(
        &self,
        key: &str,
        pods: &[Arc<Pod>],
        tracked: &mut HashSet<String>,
    ) -> Result<(), WorkloadError> {
        let removed = &self.wakeups.removed;
        removed.expect(key, pods.iter().map(|pod| uid(pod).to_owned()));
        let results = limited(pods.len(), |nth| self.untrack(&pods[nth])).await;
        let mut failure = None;
        for (pod, result) in pods.iter().zip(results) {
            if !matches!(result, Ok(true)) {
                removed.observed(key, uid(pod));
            }
            match result {
                Ok(_) => drop(tracked.remove(uid(pod))),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// Removes the finalizer of a pod. Returns false if the pod no longer exists.
    pub(super) async fn untrack(&self, pod: &Pod) -> Result<bool, WorkloadError> {
        if !is_tracked(pod) {
            return Ok(true);
        }
        let api: Api<Pod> = api_of(&self.client, pod);
        let patch = json!({"metadata": {"uid": pod.metadata.uid,
            "$deleteFromPrimitiveList/finalizers": [FINALIZER_JOB_TRACKING]}});
        match api.patch(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(&patch)).await {
            Ok(_) => Ok(true),
            Err(error) if is_not_found(&error) => Ok(false),
            Err(cause) => {
                Err(WorkloadError::Api { what: "remove the finalizer of", object: named(pod), cause })
            }
        }
    }

    /// Removes the finalizer of a pod that no Job counts.
    async fn untrack_orphan(&self, key: String) -> Result<(), WorkloadError> {
        let Some(pod) = self.pods.get(&key) else { return Ok(()) };
        if let Some(owner) = controller_of(&pod.metadata) {
            if owner.kind != "Job" || owner.api_version != "batch/v1" {
                return Ok(());
            }
            let job = owner_key(&self.jobs, &pod.metadata).and_then(|key| self.jobs.get(&key));
            if job.is_some_and(|job| is_external(&job) || !is_finished(&job)) {
                return Ok(());
            }
        }
        self.untrack(&pod).await.map(drop)
    }

    /// Queues the pods of a finished or deleted Job that still have the finalizer.
    fn queue_orphans(&self, namespace: &str, uid: &str) {
        index_by_controller(&self.pods);
        let pods = self.pods.each_by_index(INDEX_CONTROLLER, &owner_value(namespace, uid));
        pods.filter(|pod| is_controlled::<Job>(&pod.metadata, namespace, uid))
            .for_each(|pod| self.wakeups.queue_orphan(&pod));
    }

    fn report_end(&self, job: &Job, status: &JobStatus, end: &JobCondition) {
        let event =
            |type_: EventType, reason: &str, message: &str| self.recorder.event(job, type_, reason, message);
        if end.type_ != COMPLETE {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            return event(EventType::Warning, &text(&end.reason), &text(&end.message));
        }
        let completions = job.spec.as_ref().and_then(|spec| spec.completions);
        if completions.is_some_and(|completions| status.succeeded.unwrap_or(0) > completions) {
            let message = "Too many succeeded pods running after completion count reached";
            event(EventType::Warning, reason::TOO_MANY_SUCCEEDED_PODS, message);
        }
        event(EventType::Normal, reason::COMPLETED, "Job completed");
    }

    fn forget(&self, key: &str) {
        self.wakeups.expectations.forget(key);
        self.wakeups.removed.forget(key);
        self.backoffs.lock().remove(key);
        self.written.lock().remove(key);
    }
}

/// The version of a Job as a number; 0 if it is none.
fn version(job: &Job) -> u64 {
    job.metadata.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or(0)
}
