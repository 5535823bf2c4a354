//! Runs the CronJob controller: queues CronJobs on changes and at the times of their schedules, and performs the syncs.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, join};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use kube::api::{DeleteParams, PostParams, Preconditions, PropagationPolicy};
use kube::{Client, ResourceExt};
use orlop_apimachinery::clock::Clock;
use orlop_apimachinery::cron::time_zone;
use orlop_apimachinery::quoted;
use orlop_client::api::Api;
use orlop_client::client::{is_already_exists, is_not_found, message_of};
use orlop_client::informer::{Change, Informer};
use orlop_client::meta::is_terminating;
use orlop_client::names::{COMPONENT_CRON_JOB, controller, reason};
use orlop_client::queue::WorkQueue;
use orlop_client::recorder::{EventType, Recorder, reference};
use orlop_client::worker;

use super::decide::{Start, active, is_active, remove_active, start};
use super::jobs::{new_job, surplus};
use super::times::{due, has_zone, next_in, schedule};
use crate::context::{Context, ControllerError};
use crate::workload::adopt::named;
use crate::workload::error::WorkloadError;
use crate::workload::job::finish;
use crate::workload::owned::{
    INDEX_CONTROLLER, INDEX_UID, Namespaced, controller_of, former_owners, index_by_controller, owner_key,
};
use crate::workload::replicas::control::is_namespace_ending;

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
        this.crons.add_index(INDEX_UID, |cron| cron.metadata.uid.clone().into_iter().collect());
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
        let Some(cron) = self.crons.get(&key) else { return Ok(()) };
        let uid = cron.metadata.uid.as_deref().unwrap_or_default();
        let jobs = self.jobs.by_index(INDEX_CONTROLLER, uid);
        let mut draft = Draft { cron: CronJob::clone(&cron), is_changed: false };
        for job in surplus(&cron, &jobs) {
            // A failure is reported; the next sync tries again.
            if self.delete(&mut draft, &job).await.is_ok() {
                draft.is_changed = true;
            }
        }
        let outcome = match self.list_active(&mut draft, &jobs).await {
            Ok(()) => self.start_due(&mut draft).await,
            Err(error) => Err(error),
        };
        if draft.is_changed {
            self.write_status(&draft.cron).await?;
        }
        if let Some(delay) = outcome? {
            self.queue.add_after(key, delay);
        }
        Ok(())
    }

    /// Removes finished and missing Jobs from the list of running Jobs, and sets the time of the last success.
    async fn list_active(&self, draft: &mut Draft, jobs: &[Arc<Job>]) -> Result<(), WorkloadError> {
        for job in jobs {
            let uid = job.metadata.uid.as_deref();
            let is_listed = is_active(&draft.cron, uid);
            match finish(job) {
                None if !is_listed => {
                    // The cached status may be older than the Job.
                    let live = self.live(&draft.cron).await?;
                    if is_active(&live, uid) {
                        draft.cron = live;
                        continue;
                    }
                    let name = job.name_any();
                    let message = format!("Saw a job that the controller did not create or forgot: {name}");
                    self.event(draft, Warning, reason::UNEXPECTED_JOB, message);
                }
                None => {}
                Some(end) => {
                    if remove_active(&mut draft.cron, uid) {
                        draft.is_changed = true;
                        let message = format!("Saw completed job: {}, status: {}", job.name_any(), end.type_);
                        self.event(draft, Normal, reason::SAW_COMPLETED_JOB, message);
                    }
                    let completed = job.status.as_ref().and_then(|status| status.completion_time.clone());
                    let last = &mut draft.cron.status.get_or_insert_default().last_successful_time;
                    if end.type_ == "Complete" && completed > *last {
                        *last = completed;
                        draft.is_changed = true;
                    }
                }
            }
        }
        let is_known = |uid: &Option<String>| jobs.iter().any(|job| job.metadata.uid == *uid);
        let unknown: Vec<_> = active(&draft.cron).iter().filter(|job| !is_known(&job.uid)).cloned().collect();
        for job in unknown {
            let name = job.name.clone().unwrap_or_default();
            // The cache may not show a new Job yet.
            if self.job(&draft.cron, &name).await?.is_none() {
                let message = format!("Active job went missing: {name}");
                self.event(draft, Normal, reason::MISSING_JOB, message);
                draft.is_changed |= remove_active(&mut draft.cron, job.uid.as_deref());
            }
        }
        Ok(())
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

    async fn delete_active(&self, draft: &mut Draft) -> Result<(), WorkloadError> {
        for job in active(&draft.cron).to_vec() {
            let name = job.name.unwrap_or_default();
            let api: Api<Job> = self.api(&draft.cron);
            let job = match api.get(&name).await {
                Ok(job) => job,
                Err(cause) => {
                    let message = format!("Get job: {}", message_of(&cause));
                    self.event(draft, Warning, reason::FAILED_GET, message);
                    return Err(WorkloadError::Api {
                        what: "read the job of",
                        object: named(&draft.cron),
                        cause,
                    });
                }
            };
            self.delete(draft, &job).await?;
            draft.is_changed = true;
        }
        Ok(())
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
                let is_own = controller_of(&found.metadata).map(|owner| &owner.uid)
                    == draft.cron.metadata.uid.as_ref();
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

    /// Deletes a Job with its pods, and removes it from the list of running Jobs.
    async fn delete(&self, draft: &mut Draft, job: &Job) -> Result<(), WorkloadError> {
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
        remove_active(&mut draft.cron, job.metadata.uid.as_deref());
        let message = format!("Deleted job {}", job.name_any());
        self.event(draft, Normal, reason::SUCCESSFUL_DELETE, message);
        Ok(())
    }

    async fn write_status(&self, cron: &CronJob) -> Result<(), WorkloadError> {
        let api: Api<CronJob> = self.api(cron);
        match api.replace_status(&cron.name_any(), &PostParams::default(), cron).await {
            Ok(_) => Ok(()),
            Err(error) if is_not_found(&error) => Ok(()),
            Err(cause) => Err(WorkloadError::Api { what: "write the status of", object: named(cron), cause }),
        }
    }

    /// The CronJob on the server.
    async fn live(&self, cron: &CronJob) -> Result<CronJob, WorkloadError> {
        let api: Api<CronJob> = self.api(cron);
        api.get(&cron.name_any()).await.map_err(WorkloadError::api("read", named(cron)))
    }

    /// The Job on the server.
    async fn job(&self, cron: &CronJob, name: &str) -> Result<Option<Job>, WorkloadError> {
        let api: Api<Job> = self.api(cron);
        api.get_opt(name).await.map_err(WorkloadError::api("read the job of", named(cron)))
    }

    fn api<K: Namespaced>(&self, cron: &CronJob) -> Api<K> {
        Api::namespaced(self.client.clone(), cron.metadata.namespace.as_deref().unwrap_or_default())
    }

    fn event(&self, draft: &Draft, type_: EventType, reason: &str, message: String) {
        self.recorder.event(&draft.cron, type_, reason, message);
    }
}
