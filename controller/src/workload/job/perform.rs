//! Creates and deletes pods. [`Expectations`](crate::workload::expectations::Expectations) track pods in flight, so that no pod is
//! created twice.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use orlop_client::informer::{key_of, split_key};

use super::assess::{JobInput, JobState};
use super::conclude::Performed;
use super::control::Manager;
use super::manage::Action;
use super::template::{base_pod, indexed_pod};
use crate::workload::batch::limited;
use crate::workload::error::WorkloadError;
use crate::workload::pod_control::PodControl;

impl Manager {
    /// Performs the action, and returns its performed part and the first failure. If the process stops halfway, the next sync decides
    /// on the pods that then exist.
    pub(super) async fn perform(
        &self,
        key: &str,
        input: &JobInput<'_>,
        state: &JobState,
        action: &Action,
    ) -> (Performed, Option<WorkloadError>) {
        let (client, recorder, owner) = (&self.client, &self.recorder, input.job);
        let expectations = self.wakeups.expectations.as_ref();
        let control = PodControl { client, recorder, owner, key, expectations };
        let uid = owner.metadata.uid.as_deref().unwrap_or_default();
        match action {
            Action::Skip | Action::Nothing | Action::Wait(_) => (Performed::default(), None),
            Action::Create(indexes) => {
                expectations.creations(key, uid, indexes.len());
                create(&control, input, state, indexes).await
            }
            Action::Stop(pods) => outcome(pods, limited(pods.len(), |nth| control.delete(&pods[nth])).await),
            Action::Delete(pods) => {
                expectations.deletions(key, uid, pods.iter().map(|pod| key_of(pod.as_ref())));
                let results = limited(pods.len(), |nth| {
                    let (pod, control) = (&pods[nth], &control);
                    async move {
                        let deletion = match self.untrack(pod).await {
                            Ok(true) => control.delete(pod).await,
                            Ok(false) => Ok(false),
                            Err(failure) => Err(failure),
                        };
                        control.observed(pod, deletion)
                    }
                });
                outcome(pods, results.await)
            }
        }
    }
}

async fn create(
    control: &PodControl<'_, Job>,
    input: &JobInput<'_>,
    state: &JobState,
    indexes: &[Option<i64>],
) -> (Performed, Option<WorkloadError>) {
    let (name, base) = (split_key(control.key).1, base_pod(input.job, input.spec));
    let pod = |nth: usize| match indexes.get(nth).copied().flatten() {
        Some(index) => {
            let last = state.to_replace.get(&index).map(Arc::as_ref);
            indexed_pod(&base, input.spec, name, index, last)
        }
        None => base.clone(),
    };
    let outcome = control.create_expected(&input.spec.template, indexes.len(), pod).await;
    (Performed { created: outcome.done, ..Performed::default() }, outcome.failure)
}

/// Sorts the pods by the results of their deletions, and returns the first failure.
fn outcome(
    pods: &[Arc<Pod>],
    results: Vec<Result<bool, WorkloadError>>,
) -> (Performed, Option<WorkloadError>) {
    let (mut performed, mut failure) = (Performed::default(), None);
    for (pod, result) in pods.iter().zip(results) {
        match result {
            Ok(true) => performed.deleted.push(Arc::clone(pod)),
            Ok(false) => performed.gone.push(Arc::clone(pod)),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    (performed, failure)
}
