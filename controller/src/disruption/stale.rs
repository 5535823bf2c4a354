//! Resets the condition `DisruptionTarget` of pods that were to be deleted and were not.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use orlop_client::meta::is_terminating;
use orlop_client::names::condition;
use orlop_client::pods::is_finished;

/// How long the condition is valid for a pod that is not being deleted. Upstream: stalePodDisruptionTimeout.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The time until the condition of this pod is stale; `None` if it never is. The condition of a node is never stale,
/// because a node may need any time to end the pod.
pub(super) fn stale_after(pod: &Pod, now: Timestamp) -> Option<Duration> {
    if is_terminating(pod) || is_finished(pod) {
        return None;
    }
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let target = conditions.into_iter().find(|one| one.type_ == condition::DISRUPTION_TARGET)?;
    if target.status != "True" || target.reason.as_deref() == Some(condition::TERMINATION_BY_KUBELET) {
        return None;
    }
    let Some(Time(since)) = target.last_transition_time else { return Some(Duration::ZERO) };
    // A condition from the future needs at least the whole time.
    match Duration::try_from(now.duration_since(since)) {
        Ok(age) => Some(TIMEOUT.saturating_sub(age)),
        Err(_) => {
            Duration::try_from(since.duration_since(now)).ok().map(|ahead| TIMEOUT.saturating_add(ahead))
        }
    }
}

/// The pod with the condition reset.
pub(super) fn reset(pod: &Pod, now: Timestamp) -> Pod {
    let mut pod = pod.clone();
    let conditions = pod.status.iter_mut().flat_map(|status| status.conditions.iter_mut().flatten());
    for one in conditions.filter(|one| one.type_ == condition::DISRUPTION_TARGET) {
        *one = PodCondition {
            type_: condition::DISRUPTION_TARGET.to_owned(),
            status: "False".to_owned(),
            last_transition_time: Some(Time(now)),
            ..PodCondition::default()
        };
    }
    pod
}
