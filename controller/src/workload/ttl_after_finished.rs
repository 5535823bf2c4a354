//! `ttl-after-finished-controller`: deletes Jobs when the time in `spec.ttlSecondsAfterFinished` has passed since their end.
//! Upstream: pkg/controller/ttlafterfinished.

use std::time::Duration;

use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::Job;
use kube::api::{DeleteParams, Preconditions, PropagationPolicy};
use kube::{Client, ResourceExt};
use orlop_apimachinery::clock::Clock;
use orlop_client::api::Api;
use orlop_client::client::{is_conflict, is_not_found};
use orlop_client::informer::{Change, Informer, split_key};
use orlop_client::meta::is_terminating;
use orlop_client::names::controller;
use orlop_client::queue::WorkQueue;
use orlop_client::worker;

use super::adopt::named;
use super::error::WorkloadError;
use super::job::end_of;
use crate::context::{Context, ControllerError};

/// The end of the time to live of a Job.
#[derive(Debug, PartialEq, Eq)]
enum Expiry {
    /// The Job does not expire unless it changes.
    Never,
    /// The Job expires after this time.
    In(Duration),
    /// The Job has expired.
    Passed,
}

fn expiry(job: &Job, now: Timestamp) -> Expiry {
    let ttl = job.spec.as_ref().and_then(|spec| spec.ttl_seconds_after_finished);
    let (Some(ttl), Some(end)) = (ttl, end_of(job)) else { return Expiry::Never };
    if is_terminating(job) {
        return Expiry::Never;
    }
    // Without a time, the Job never expires.
    let Some(end) = &end.last_transition_time else { return Expiry::Never };
    let expires = end.0.saturating_add(SignedDuration::from_secs(i64::from(ttl))).unwrap_or(Timestamp::MAX);
    match Duration::try_from(expires.duration_since(now)) {
        Ok(left) if !left.is_zero() => Expiry::In(left),
        Ok(_) | Err(_) => Expiry::Passed,
    }
}

/// Runs the controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        let queue = WorkQueue::new(context.options.rate_limit);
        let this = Cleaner {
            client: context.client.clone(),
            jobs: context.informers.of(),
            queue: queue.clone(),
            clock: context.clock,
        };
        let _jobs = this.jobs.add_handler({
            let (queue, clock) = (queue.clone(), this.clock);
            move |change: &Change<Job>| {
                if change.new.as_deref().is_some_and(|job| expiry(job, clock.now()) != Expiry::Never) {
                    queue.add(change.key().to_string());
                }
            }
        });
        if !context.ready(this.jobs.synced()).await {
            return Ok(());
        }
        let workers = context.options.concurrent_ttl_after_finished_syncs;
        let syncs = context.syncs::<Job, _>(controller::TTL_AFTER_FINISHED);
        worker::run_until(&context.shutdown, &queue, workers, syncs, |key| this.sync(key)).await;
        Ok(())
    })
}

struct Cleaner {
    client: Client,
    jobs: Informer<Job>,
    queue: WorkQueue<String>,
    clock: Clock,
}

impl Cleaner {
    /// Before it deletes a Job, it reads the Job from the server: the time to live may have been extended.
    async fn sync(&self, key: String) -> Result<(), WorkloadError> {
        let Some(job) = self.jobs.get(&key) else { return Ok(()) };
        if !self.is_expired(&key, &job) {
            return Ok(());
        }
        let (namespace, name) = split_key(&key);
        let api: Api<Job> = Api::namespaced(self.client.clone(), namespace);
        let live = api.get_opt(name).await.map_err(WorkloadError::api("read", named(job.as_ref())))?;
        let Some(job) = live.filter(|live| self.is_expired(&key, live)) else { return Ok(()) };
        let parameters = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Foreground),
            preconditions: Some(Preconditions {
                uid: job.metadata.uid.clone(),
                resource_version: job.metadata.resource_version.clone(),
            }),
            ..DeleteParams::default()
        };
        match api.delete(&job.name_any(), &parameters).await {
            Ok(_) => Ok(()),
            Err(error) if is_not_found(&error) => Ok(()),
            // The Job has changed: decide again.
            Err(error) if is_conflict(&error) => {
                self.queue.add_rate_limited(key);
                Ok(())
            }
            Err(cause) => Err(WorkloadError::Api { what: "delete", object: named(&job), cause }),
        }
    }

    /// Whether the Job has expired. Otherwise, queues it for the time at which it does.
    fn is_expired(&self, key: &str, job: &Job) -> bool {
        match expiry(job, self.clock.now()) {
            Expiry::Never => false,
            Expiry::Passed => true,
            Expiry::In(left) => {
                self.queue.add_after(key.to_owned(), left);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::{Value, json};

    use super::*;
    use crate::options::Options;
    use crate::testing::FakeApi;

    fn job(ttl: Option<i32>, end: &str, at: &str) -> Value {
        json!({"kind": "Job", "metadata": {"namespace": "ns", "name": "j", "uid": "u"},
            "spec": {"ttlSecondsAfterFinished": ttl, "template": {}},
            "status": {"conditions": [{"type": end, "status": "True", "lastTransitionTime": at}]}})
    }

    #[test]
    fn jobs_are_deleted_after_their_time_to_live() {
        let now: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
        let wait = |seconds| Expiry::In(Duration::from_secs(seconds));
        let mut deleted = job(Some(0), "Failed", "2026-01-01T00:00:00Z");
        deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let mut timeless = job(Some(0), "Failed", "");
        timeless["status"]["conditions"][0]["lastTransitionTime"] = Value::Null;
        let table = [
            ("1 ctl-job-ttl", job(Some(1), "Complete", "2026-01-01T00:59:59Z"), Expiry::Passed),
            ("2 failed", job(Some(0), "Failed", "2026-01-01T01:00:00Z"), Expiry::Passed),
            ("3 not yet", job(Some(60), "Complete", "2026-01-01T00:59:10Z"), wait(10)),
            ("4 finished in the future", job(Some(60), "Complete", "2026-01-01T01:00:10Z"), wait(70)),
            ("5 no time to live", job(None, "Complete", "2026-01-01T00:00:00Z"), Expiry::Never),
            ("6 running", job(Some(0), "SuccessCriteriaMet", "2026-01-01T00:00:00Z"), Expiry::Never),
            ("7 being deleted", deleted, Expiry::Never),
            ("8 no time of the end", timeless, Expiry::Never),
        ];
        for (name, job, wanted) in table {
            let job: Job = serde_json::from_value(job).unwrap();
            assert_eq!(expiry(&job, now), wanted, "{name}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn finished_job_is_deleted_in_the_foreground() {
        let api = FakeApi::new();
        api.seed(job(Some(60), "Complete", &api.now()));
        let _running = api.start(&[run], Options::default());
        tokio::time::sleep(Duration::from_secs(59)).await;
        assert_eq!(api.take_writes(), []);
        tokio::time::sleep(Duration::from_secs(3)).await;
        let writes = api.take_writes();
        assert_eq!(
            (writes.len(), writes[0].verb, &writes[0].body["propagationPolicy"]),
            (1, "delete", &json!("Foreground"))
        );
    }
}
