//! Runs the CronJob controller: queues CronJobs on changes and at the times of their schedules, and performs the syncs.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, join};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{DeleteParams, PostParams, Preconditions, PropagationPolicy};
use kube::{Client, ResourceExt};
use orlop_apimachinery::clock::Clock;
use orlop_apimachinery::cron::time_zone;
use orlop_apimachinery::quoted;
use orlop_client::api::Api;
use orlop_client::client::{is_already_exists, is_namespace_ending, message_of};
use orlop_client::informer::{Change, Informer, split_key};
use orlop_client::meta::is_terminating;
use orlop_client::names::{COMPONENT_CRON_JOB, controller, reason};
use orlop_client::queue::WorkQueue;
use orlop_client::recorder::{EventType, Recorder, reference};
use orlop_client::worker;

use super::decide::{Start, Uids, active, is_active, observe, remove_active, start, unlisted};
use super::jobs::{job_part, new_job, surplus};
use super::times::{due, has_zone, next_in, schedule};
use crate::context::{Context, ControllerError};
use crate::workload::adopt::named;
use crate::workload::error::WorkloadError;
use crate::workload::owned::{
    INDEX_CONTROLLER, Namespaced, former_owners, index_by_controller, index_by_uid, is_controlled, owner_key,
    owner_value,
};
use crate::workload::writes::{api_of, write_status};
use orlop_client::time_slice::TimeSlice;

use EventType::{Normal, Warning};

/// Runs the CronJob controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        let queue = WorkQueue::new(context.options.rate_limit);
        let this = Manager {
            client: context.client.clone(),
            crons: context.informers.of(),
            jobs: context.informers.of(),
            queue: queue.clone(),
            recorder: context.recorder(COMPONENT_CRON_JOB),
            clock: context.clock,
        };
        index_by_uid(&this.crons);
        index_by_controller(&this.jobs);
        let _crons = this.crons.add_handler({
            let (queue, recorder, clock) = (queue.clone(), this.recorder.clone(), this.clock);
            move |change: &Change<CronJob>| cron_job_changed(change, &queue, &recorder, clock)
        });
        let _jobs = this.jobs.add_handler({
            let (queue, crons) = (queue.clone(), this.crons.clone());
            move |change: &Change<Job>| {
                former_owners(change, &crons).into_iter().for_each(|key| queue.add(key));
                let owner = change.new.as_deref().and_then(|job| owner_key(&crons, &job.metadata));
                owner.into_iter().for_each(|key| queue.add(key.to_string()));
            }
        });
        if !context.ready(join(this.crons.synced(), this.jobs.synced())).await {
            return Ok(());
        }
        let (name, workers) = (controller::CRON_JOB, context.options.concurrent_cron_job_syncs);
        worker::run_until(&context.shutdown, &queue, workers, context.syncs::<CronJob, _>(name), |key| {
            this.sync(key)
        })
        .await;
        Ok(())
    })
}

/// Queues a CronJob: for its next time if its schedule has changed, else now.
fn cron_job_changed(change: &Change<CronJob>, queue: &WorkQueue<String>, recorder: &Recorder, clock: Clock) {
    let key = change.key().to_string();
    let (Some(new), Some(old)) = (&change.new, change.old()) else { return queue.add(key) };
    let (new_spec, old_spec) = (&new.spec, &old.spec);
    let is_same = new_spec.schedule == old_spec.schedule && new_spec.time_zone == old_spec.time_zone;
    if is_same || change.replaced() {
        return queue.add(key);
    }
    match schedule(new_spec) {
        Ok(schedule) => queue.add_after(key, next_in(new, &schedule, clock.now()).unwrap_or_default()),
        Err(_) => {
            let message = format!("unparseable schedule for cronjob: {}", new_spec.schedule);
            recorder.event(new.as_ref(), Warning, reason::UNPARSEABLE_CRON_JOB_SCHEDULE, message);
        }
    }
}

struct Manager {
    client: Client,
    crons: Informer<CronJob>,
    jobs: Informer<Job>,
    queue: WorkQueue<String>,
    recorder: Recorder,
    clock: Clock,
}

/// A CronJob whose status changes during a sync.
struct Draft {
    cron: CronJob,
    is_changed: bool,
}

impl Manager {
    /// If the process stops after a Job was created and before the status is written, the next sync finds the Job under its name.
    async fn sync(&self, key: String) -> Result<(), WorkloadError> {
        let Some(cached) = self.crons.get(&key) else { return Ok(()) };
        let uid = cached.metadata.uid.as_deref().unwrap_or_default();
        let namespace = split_key(&key).0;
        let jobs = self.jobs_of(namespace, uid).await;
        let newer = self.newer(&cached, &jobs).await;
        let mut draft = Draft {
            cron: match &newer {
                Ok(Some(live)) => live.clone(),
                Ok(None) | Err(_) => CronJob::clone(&cached),
            },
            is_changed: false,
        };
        let mut deleted = Uids::new();
        for job in surplus(&draft.cron, &jobs) {
            // A failure is reported; the next sync tries again.
            if self.delete(&draft, &job).await.is_ok() {
                deleted.insert(job.metadata.uid.clone());
            }
        }
        draft.is_changed = !deleted.is_empty();
        remove_active(&mut draft.cron, &deleted);
        let outcome = match newer {
            Ok(_) => self.advance(&mut draft, &jobs).await,
            Err(error) => Err(error),
        };
        if draft.is_changed {
            write_status(&self.client, &draft.cron).await?;
        }
        if let Some(delay) = outcome? {
            self.queue.add_after(key, delay);
        }
        Ok(())
    }

    /// The parts of the Jobs of a CronJob. Decodes one Job at a time: their templates may be large.
    async fn jobs_of(&self, namespace: &str, uid: &str) -> Vec<Arc<Job>> {
        let (mut jobs, mut slice) = (Vec::new(), TimeSlice::start());
        for job in self.jobs.each_by_index(INDEX_CONTROLLER, &owner_value(namespace, uid)) {
            if is_controlled::<CronJob>(&job.metadata, namespace, uid) {
                jobs.push(Arc::new(job_part(&job)));
            }
            slice.yield_if_over().await;
        }
        jobs
    }

    /// The CronJob on the server, if its status lists a running Job that the cached status lacks: the cached one may be older than the
    /// Job.
    async fn newer(&self, cached: &CronJob, jobs: &[Arc<Job>]) -> Result<Option<CronJob>, WorkloadError> {
        let unlisted = unlisted(cached, jobs);
        if unlisted.is_empty() {
            return Ok(None);
        }
        let api: Api<CronJob> = self.api(cached);
        let live = api.get(&cached.name_any()).await.map_err(WorkloadError::api("read", named(cached)))?;
        let is_newer = live.metadata.uid == cached.metadata.uid
            && active(&live).iter().any(|job| unlisted.contains(&job.uid));
        Ok(Some(live).filter(|_| is_newer))
    }

    /// Updates the list of running Jobs, then starts the due Job. Returns the delay until the next time.
    async fn advance(&self, draft: &mut Draft, jobs: &[Arc<Job>]) -> Result<Option<Duration>, WorkloadError> {
        let observed = observe(&mut draft.cron, jobs);
        draft.is_changed |= observed.is_changed;
        for event in observed.events {
            self.event(draft, event.type_, event.reason, event.message);
        }
        self.remove_missing(draft, jobs).await?;
        self.start_due(draft).await
    }

    /// Removes missing Jobs from the list of running Jobs.
    async fn remove_missing(&self, draft: &mut Draft, jobs: &[Arc<Job>]) -> Result<(), WorkloadError> {
        let known: HashSet<&Option<String>> = jobs.iter().map(|job| &job.metadata.uid).collect();
        let (mut missing, mut outcome) = (Uids::new(), Ok(()));
        for job in active(&draft.cron).iter().filter(|job| !known.contains(&job.uid)) {
            let name = job.name.clone().unwrap_or_default();
            // The cache may not show a new Job yet.
            match self.job(&draft.cron, &name).await {
                Ok(Some(_)) => {}
                Ok(None) => {
                    let message = format!("Active job went missing: {name}");
                    self.event(draft, Normal, reason::MISSING_JOB, message);
                    missing.insert(job.uid.clone());
                }
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        draft.is_changed |= remove_active(&mut draft.cron, &missing);
        outcome
    }

    /// Starts the due Job, and returns the delay until the next time.
    async fn start_due(&self, draft: &mut Draft) -> Result<Option<Duration>, WorkloadError> {
        if is_terminating(&draft.cron) {
            return Ok(None);
        }
        let spec = draft.cron.spec.clone();
        if let Some(zone) = spec.time_zone.as_deref().filter(|zone| time_zone(zone).is_none()) {
            let message = format!("invalid timeZone: {}: unknown time zone {zone}", quoted(zone));
            self.event(draft, Warning, reason::UNKNOWN_TIME_ZONE, message);
            return Ok(None);
        }
        if spec.suspend == Some(true) {
            return Ok(None);
        }
        if has_zone(&spec) {
            let message = format!(
                "CRON_TZ or TZ used in schedule {} is not officially supported, see \
                 https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details",
                quoted(&spec.schedule)
            );
            self.event(draft, Warning, reason::UNSUPPORTED_SCHEDULE, message);
        }
        let schedule = match schedule(&spec) {
            Ok(schedule) => schedule,
            Err(why) => {
                let message = format!("unparseable schedule: {} : {why}", quoted(&spec.schedule));
                self.event(draft, Warning, reason::UNPARSEABLE_SCHEDULE, message);
                return Ok(None);
            }
        };
        let now = self.clock.now();
        match due(&draft.cron, &schedule, now) {
            Ok(None) => {}
            Ok(Some(due)) => {
                if due.missed_many {
                    let message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
                    self.event(draft, Warning, reason::TOO_MANY_MISSED_TIMES, message.to_owned());
                }
                self.start(draft, due.at, now).await?;
            }
            Err(why) => {
                let message = format!("invalid schedule: {} : {why}", spec.schedule);
                self.event(draft, Warning, reason::INVALID_SCHEDULE, message);
                return Ok(None);
            }
        }
        Ok(next_in(&draft.cron, &schedule, now))
    }

    async fn start(&self, draft: &mut Draft, due: Timestamp, now: Timestamp) -> Result<(), WorkloadError> {
        match start(&draft.cron, due, now) {
            Start::Done => return Ok(()),
            Start::TooLate => {
                let time = due.strftime("%a, %d %b %Y %H:%M:%S +0000");
                let message = format!("Missed scheduled time to start a job: {time}");
                self.event(draft, Warning, reason::MISS_SCHEDULE, message);
                return Ok(());
            }
            Start::Forbidden => {
                let message =
                    "Not starting job because prior execution is running and concurrency policy is Forbid";
                self.event(draft, Normal, reason::JOB_ALREADY_ACTIVE, message.to_owned());
                return Ok(());
            }
            Start::Replace => self.delete_active(draft).await?,
            Start::Now => {}
        }
        let Some(job) = self.create(draft, new_job(&draft.cron, due)).await? else { return Ok(()) };
        let status = draft.cron.status.get_or_insert_default();
        status.active.get_or_insert_default().push(reference(&job));
        status.last_schedule_time = Some(due.into());
        draft.is_changed = true;
        Ok(())
    }

    /// Deletes the running Jobs.
    async fn delete_active(&self, draft: &mut Draft) -> Result<(), WorkloadError> {
        let (mut deleted, mut outcome) = (Uids::new(), Ok(()));
        for listed in active(&draft.cron) {
            outcome = self.delete_listed(draft, listed).await;
            if outcome.is_err() {
                break;
            }
            deleted.insert(listed.uid.clone());
        }
        draft.is_changed |= remove_active(&mut draft.cron, &deleted);
        outcome
    }

    /// Deletes a Job of the list, unless another Job has its name by now.
    async fn delete_listed(&self, draft: &Draft, listed: &ObjectReference) -> Result<(), WorkloadError> {
        let api: Api<Job> = self.api(&draft.cron);
        match api.get(listed.name.as_deref().unwrap_or_default()).await {
            Ok(job) if job.metadata.uid != listed.uid => Ok(()),
            Ok(job) => self.delete(draft, &job).await,
            Err(cause) => {
                let message = format!("Get job: {}", message_of(&cause));
                self.event(draft, Warning, reason::FAILED_GET, message);
                Err(WorkloadError::Api { what: "read the job of", object: named(&draft.cron), cause })
            }
        }
    }

    /// Creates a Job, or finds it if an earlier sync created it. Returns `None` if the status lists the Job, or if the Job of another
    /// owner has its name.
    async fn create(&self, draft: &Draft, job: Job) -> Result<Option<Job>, WorkloadError> {
        let failed = |cause: kube::Error| WorkloadError::Api {
            what: "create a job for",
            object: named(&draft.cron),
            cause,
        };
        let api: Api<Job> = self.api(&draft.cron);
        match api.create(&PostParams::default(), &job).await {
            Ok(made) => {
                let message = format!("Created job {}", made.name_any());
                self.event(draft, Normal, reason::SUCCESSFUL_CREATE, message);
                Ok(Some(made))
            }
            Err(cause) if is_already_exists(&cause) => {
                let Some(found) = self.job(&draft.cron, &job.name_any()).await? else {
                    return Err(failed(cause));
                };
                let meta = &draft.cron.metadata;
                let namespace = meta.namespace.as_deref().unwrap_or_default();
                let uid = meta.uid.as_deref().unwrap_or_default();
                let is_own = is_controlled::<CronJob>(&found.metadata, namespace, uid);
                let is_listed = is_active(&draft.cron, found.metadata.uid.as_deref());
                Ok(Some(found).filter(|_| is_own && !is_listed))
            }
            Err(cause) => {
                if !is_namespace_ending(&cause) {
                    let message = format!("Error creating job: {}", message_of(&cause));
                    self.event(draft, Warning, reason::FAILED_CREATE, message);
                }
                Err(failed(cause))
            }
        }
    }

    /// Deletes a Job with its pods.
    async fn delete(&self, draft: &Draft, job: &Job) -> Result<(), WorkloadError> {
        let api: Api<Job> = self.api(&draft.cron);
        let parameters = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            preconditions: Some(Preconditions { uid: job.metadata.uid.clone(), resource_version: None }),
            ..DeleteParams::default()
        };
        if let Err(cause) = api.delete(&job.name_any(), &parameters).await {
            let message = format!("Deleted job: {}", message_of(&cause));
            self.event(draft, Warning, reason::FAILED_DELETE, message);
            return Err(WorkloadError::Api { what: "delete", object: named(job), cause });
        }
        let message = format!("Deleted job {}", job.name_any());
        self.event(draft, Normal, reason::SUCCESSFUL_DELETE, message);
        Ok(())
    }

    /// The Job on the server.
    async fn job(&self, cron: &CronJob, name: &str) -> Result<Option<Job>, WorkloadError> {
        let api: Api<Job> = self.api(cron);
        api.get_opt(name).await.map_err(WorkloadError::api("read the job of", named(cron)))
    }

    fn api<K: Namespaced>(&self, cron: &CronJob) -> Api<K> {
        api_of(&self.client, cron)
    }

    fn event(&self, draft: &Draft, type_: EventType, reason: &str, message: String) {
        self.recorder.event(&draft.cron, type_, reason, message);
    }
}
