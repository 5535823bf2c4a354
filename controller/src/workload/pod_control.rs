//! Creates and deletes the pods of a workload, and records an event about each request. Upstream: RealPodControl.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::{Client, ResourceExt};
use orlop_client::client::{is_conflict, is_namespace_ending, is_not_found};
use orlop_client::informer::key_of;
use orlop_client::names::reason;
use orlop_client::recorder::{EventType, Recorder};

use super::adopt::named;
use super::batch::{Outcome, at_once, limited, slow_start};
use super::error::WorkloadError;
use super::expectations::Expectations;
use super::owned::Namespaced;
use super::writes::api_of;

/// The pods of one workload.
pub struct PodControl<'a, O> {
    /// The client of the controller.
    pub client: &'a Client,
    /// Records the events.
    pub recorder: &'a Recorder,
    /// The workload.
    pub owner: &'a O,
    /// Its key.
    pub key: &'a str,
    /// The changes in flight.
    pub expectations: &'a Expectations,
}

impl<O: Namespaced> PodControl<'_, O> {
    /// Creates `count` pods, whose creations are expected; `pod` returns the pod with an index. If the process stops halfway, the cache
    /// shows the created pods after a restart, and the next sync creates the others.
    pub async fn create_expected(
        &self,
        template: &PodTemplateSpec,
        count: usize,
        pod: impl Fn(usize) -> Pod,
    ) -> Outcome<WorkloadError> {
        let mut outcome = slow_start(count, at_once(template), |nth| {
            let pod = pod(nth);
            async move { self.create(&pod).await }
        })
        .await;
        (outcome.done..count).for_each(|_| self.expectations.created(self.key));
        outcome.failure = outcome.failure.filter(|failure| match failure {
            // The whole namespace is being deleted; there is no failure to report.
            WorkloadError::Api { cause, .. } => !is_namespace_ending(cause),
            _ => true,
        });
        outcome
    }

    async fn create(&self, pod: &Pod) -> Result<(), WorkloadError> {
        let cause = match api_of::<Pod>(self.client, self.owner).create(&PostParams::default(), pod).await {
            Ok(made) => {
                let message = format!("Created pod: {}", made.name_any());
                self.recorder.event(self.owner, EventType::Normal, reason::SUCCESSFUL_CREATE, message);
                return Ok(());
            }
            Err(cause) => cause,
        };
        let is_reported = !is_namespace_ending(&cause);
        let failure = WorkloadError::Api { what: "create a pod for", object: named(self.owner), cause };
        if is_reported {
            let message = format!("Error creating: {}", failure.message());
            self.recorder.event(self.owner, EventType::Warning, reason::FAILED_CREATE, message);
        }
        Err(failure)
    }

    /// Deletes pods whose deletions are expected, and returns the first failure. If the process stops halfway, the next sync decides on
    /// the pods that then exist.
    pub async fn delete_expected(&self, pods: &[Arc<Pod>]) -> Result<(), WorkloadError> {
        let results = limited(pods.len(), |nth| {
            let pod = pods[nth].as_ref();
            async move { self.observed(pod, self.delete(pod).await) }
        })
        .await;
        results.into_iter().find_map(Result::err).map_or(Ok(()), Err)
    }

    /// Removes the expectation of a deletion that the cache will not show.
    pub fn observed(&self, pod: &Pod, deletion: Result<bool, WorkloadError>) -> Result<bool, WorkloadError> {
        if !matches!(deletion, Ok(true)) {
            self.expectations.deleted(self.key, &key_of(pod));
        }
        deletion
    }

    /// Deletes a pod. Returns false if it no longer exists, or another pod has its name.
    pub async fn delete(&self, pod: &Pod) -> Result<bool, WorkloadError> {
        let name = pod.name_any();
        let exactly = Preconditions { uid: pod.metadata.uid.clone(), resource_version: None };
        let parameters = DeleteParams::default().preconditions(exactly);
        match api_of::<Pod>(self.client, pod).delete(&name, &parameters).await {
            Ok(_) => {
                let message = format!("Deleted pod: {name}");
                self.recorder.event(self.owner, EventType::Normal, reason::SUCCESSFUL_DELETE, message);
                Ok(true)
            }
            Err(error) if is_not_found(&error) || is_conflict(&error) => Ok(false),
            Err(cause) => {
                let failure = WorkloadError::Api { what: "delete", object: named(pod), cause };
                let message = format!("Error deleting: {}", failure.message());
                self.recorder.event(self.owner, EventType::Warning, reason::FAILED_DELETE, message);
                Err(failure)
            }
        }
    }
}
