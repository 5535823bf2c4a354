//! Reports an unscheduled pod to the user: an event and the condition `PodScheduled`.

use k8s_openapi::api::core::v1::{Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Patch, PatchParams};
use orlop_client::api::Api;
use serde_json::json;

use super::message;
use super::state::Scheduler;
use orlop_client::informer::{key_of, split_key};
use orlop_client::names::{condition, reason};
use orlop_client::recorder::EventType;

/// Reasons of the condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// No node is feasible.
    Unschedulable,
    /// The decision or the binding failed.
    SchedulerError,
}

impl Why {
    fn as_str(self) -> &'static str {
        match self {
            Self::Unschedulable => condition::UNSCHEDULABLE,
            Self::SchedulerError => condition::SCHEDULER_ERROR,
        }
    }
}

/// The condition to write, or none if the pod has it already.
fn new_condition(pod: &Pod, why: Why, message: &str, now: Time) -> Option<PodCondition> {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let known = conditions.iter().find(|known| known.type_ == condition::POD_SCHEDULED);
    let was_false = known.filter(|known| known.status == "False");
    let same = was_false.is_some_and(|known| {
        known.reason.as_deref() == Some(why.as_str())
            && known.message.as_deref() == Some(message)
            && known.observed_generation == pod.metadata.generation
    });
    if same {
        return None;
    }
    Some(PodCondition {
        type_: condition::POD_SCHEDULED.to_owned(),
        status: "False".to_owned(),
        reason: Some(why.as_str().to_owned()),
        message: Some(message.to_owned()),
        last_transition_time: was_false.and_then(|known| known.last_transition_time.clone()).or(Some(now)),
        observed_generation: pod.metadata.generation,
        ..PodCondition::default()
    })
}

impl Scheduler {
    /// Reports that a pod was not scheduled. A failed write is repeated with the next attempt.
    pub(super) async fn report(&self, pod: &Pod, why: Why, message: &str) {
        let message = &*message::bounded(message);
        self.recorder.event(pod, EventType::Warning, reason::FAILED_SCHEDULING, message);
        let Some(condition) = new_condition(pod, why, message, Time(self.clock.now())) else { return };
        let key = key_of(pod);
        let (namespace, name) = split_key(&key);
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        // With the UID: a recreated pod is another one.
        let patch = json!({"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}});
        // Never closed.
        let _permit = self.writes.acquire().await;
        let written = api.patch_status(name, &PatchParams::default(), &Patch::Strategic(patch)).await;
        if let Err(error) = written {
            tracing::debug!(pod = key, %error, "the condition of a pod could not be written");
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn time(second: i64) -> Time {
        Time(jiff::Timestamp::from_second(second).unwrap())
    }

    #[test]
    fn condition_changes_only_with_its_message() {
        let mut pod = Pod::default();
        pod.metadata.generation = Some(1);
        let first = new_condition(&pod, Why::Unschedulable, "a", time(1)).unwrap();
        assert_eq!(first.reason.as_deref(), Some("Unschedulable"));
        assert_eq!((first.last_transition_time.clone(), first.observed_generation), (Some(time(1)), Some(1)));
        pod.status.get_or_insert_default().conditions = Some(vec![first]);
        assert_eq!(new_condition(&pod, Why::Unschedulable, "a", time(2)), None);
        let other = new_condition(&pod, Why::Unschedulable, "b", time(2)).unwrap();
        assert_eq!(other.last_transition_time, Some(time(1)), "it was False before");
        let other = new_condition(&pod, Why::SchedulerError, "a", time(2)).unwrap();
        assert_eq!(other.reason.as_deref(), Some("SchedulerError"));
    }
}
