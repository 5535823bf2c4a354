//! Facts about the pods of Jobs. Pure functions.

use std::collections::HashSet;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::JobSpec;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use orlop_client::meta::{annotation, has_finalizer, is_terminating};
use orlop_client::names::{
    ANN_JOB_COMPLETION_INDEX, ANN_JOB_INDEX_FAILURE_COUNT, ANN_JOB_INDEX_IGNORED_FAILURE_COUNT,
    FINALIZER_JOB_TRACKING,
};
use orlop_client::pods::phase;

use super::spec::replaces_only_failed;
use crate::workload::replica::{is_sidecar, replica};

/// The annotations that decisions read.
const ANNOTATIONS: [&str; 3] =
    [ANN_JOB_COMPLETION_INDEX, ANN_JOB_INDEX_FAILURE_COUNT, ANN_JOB_INDEX_IGNORED_FAILURE_COUNT];

/// The UID of a pod.
pub fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

/// Whether the pod still has the finalizer, so that its end is not counted completely yet.
pub fn is_tracked(pod: &Pod) -> bool {
    has_finalizer(pod, FINALIZER_JOB_TRACKING)
}

/// The index of the pod in an indexed Job.
pub fn index_of(pod: &Pod) -> Option<i64> {
    let index: i64 = annotation(pod, ANN_JOB_COMPLETION_INDEX)?.parse().ok()?;
    (index >= 0).then_some(index)
}

/// The number of counted failures of the pod's index before this pod.
pub fn failures(pod: &Pod) -> i64 {
    count(pod, ANN_JOB_INDEX_FAILURE_COUNT)
}

/// The number of ignored failures of the pod's index before this pod.
pub fn ignored_failures(pod: &Pod) -> i64 {
    count(pod, ANN_JOB_INDEX_IGNORED_FAILURE_COUNT)
}

/// Users can write any text into the annotation.
fn count(pod: &Pod, name: &str) -> i64 {
    let count = annotation(pod, name).and_then(|text| text.parse().ok());
    count.filter(|count| (0..=i64::from(i32::MAX)).contains(count)).unwrap_or(0)
}

/// Whether the pod has succeeded.
pub fn has_succeeded(pod: &Pod) -> bool {
    phase(pod) == "Succeeded"
}

/// Whether the pod counts as failed. A pod that is being deleted does, because it may never reach the phase Failed, unless its end
/// must be awaited.
pub fn has_failed(pod: &Pod, spec: &JobSpec) -> bool {
    phase(pod) == "Failed" || (!replaces_only_failed(spec) && is_terminating(pod) && !has_succeeded(pod))
}

/// The time at which the pod ended: that of its last container, else of the loss of readiness, else of the deletion, else of the
/// creation.
pub fn ended_at(pod: &Pod) -> Timestamp {
    let created = || pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let at = containers_ended_at(pod).or_else(|| became_unready_at(pod)).or_else(|| deleted_at(pod));
    at.or_else(created).unwrap_or_default()
}

/// The time of the last container or sidecar; `None` if one of them has not ended.
fn containers_ended_at(pod: &Pod) -> Option<Timestamp> {
    let status = pod.status.as_ref()?;
    let init = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let sidecars: HashSet<&str> = init.filter(|one| is_sidecar(one)).map(|one| one.name.as_str()).collect();
    let beside = status.init_container_statuses.iter().flatten();
    let beside = beside.filter(|container| sidecars.contains(container.name.as_str()));
    let mut last = None;
    for container in status.container_statuses.iter().flatten().chain(beside) {
        let ended = container.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref()?.0;
        last = last.max(Some(ended));
    }
    last
}

fn became_unready_at(pod: &Pod) -> Option<Timestamp> {
    let mut conditions = pod.status.as_ref()?.conditions.iter().flatten();
    let ready = conditions.find(|condition| condition.type_ == "Ready" && condition.status == "False")?;
    ready.last_transition_time.as_ref().map(|time| time.0)
}

/// The deletion timestamp is the end of the grace period.
fn deleted_at(pod: &Pod) -> Option<Timestamp> {
    let grace = SignedDuration::from_secs(pod.metadata.deletion_grace_period_seconds.unwrap_or(0));
    pod.metadata.deletion_timestamp.as_ref()?.0.checked_sub(grace).ok()
}

/// The part of a pod from which the controller decides, see [`replica`]. The deletion cost has no effect on Jobs.
pub fn relevant_part(pod: &Pod) -> Pod {
    let mut part = replica(pod);
    let annotations = pod.metadata.annotations.iter().flatten();
    let annotations = annotations.filter(|(name, _)| ANNOTATIONS.contains(&name.as_str()));
    let meta = &mut part.metadata;
    meta.annotations = Some(annotations.map(|(name, value)| (name.clone(), value.clone())).collect());
    meta.deletion_grace_period_seconds = pod.metadata.deletion_grace_period_seconds;
    meta.finalizers.clone_from(&pod.metadata.finalizers);
    if let (Some(part), Some(status)) = (&mut part.status, &pod.status) {
        part.container_statuses = ends(status.container_statuses.as_deref());
        part.init_container_statuses = ends(status.init_container_statuses.as_deref());
    }
    part
}

/// The names, states and restarts of containers.
fn ends(statuses: Option<&[ContainerStatus]>) -> Option<Vec<ContainerStatus>> {
    let part = |status: &ContainerStatus| ContainerStatus {
        name: status.name.clone(),
        restart_count: status.restart_count,
        state: status.state.clone(),
        ..ContainerStatus::default()
    };
    Some(statuses?.iter().map(part).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::{Value, json};

    use super::*;
    use crate::testing::merge_into;

    fn pod(change: Value) -> Pod {
        let mut pod = json!({"metadata": {"name": "p", "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"containers": []}});
        merge_into(&mut pod, &change);
        serde_json::from_value(pod).unwrap()
    }

    fn ended(name: &str, at: Value) -> Value {
        let state = json!({"terminated": {"exitCode": 1, "finishedAt": at}});
        json!({"name": name, "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state})
    }

    #[test]
    fn end_of_a_pod_is_that_of_its_last_container() {
        let unready =
            json!([{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:03:00Z"}]);
        let deleted = json!({"deletionTimestamp": "2026-01-01T00:02:30Z", "deletionGracePeriodSeconds": 30});
        let two =
            json!([ended("a", json!("2026-01-01T00:05:00Z")), ended("b", json!("2026-01-01T00:04:00Z"))]);
        let one_open = json!([ended("a", json!("2026-01-01T00:05:00Z")), ended("b", Value::Null)]);
        let sidecar = json!({"spec": {"initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}]},
            "status": {"containerStatuses": two,
                "initContainerStatuses": [ended("i", json!("2026-01-01T00:09:00Z")), ended("s", json!("2026-01-01T00:06:00Z"))]}});
        let table = [
            ("1 created", json!({}), "2026-01-01T00:00:00Z"),
            ("2 deleted", json!({"metadata": deleted}), "2026-01-01T00:02:00Z"),
            (
                "3 unready",
                json!({"metadata": deleted, "status": {"conditions": unready}}),
                "2026-01-01T00:03:00Z",
            ),
            (
                "4 containers",
                json!({"status": {"conditions": unready, "containerStatuses": two}}),
                "2026-01-01T00:05:00Z",
            ),
            (
                "5 a container without an end",
                json!({"status": {"conditions": unready, "containerStatuses": one_open}}),
                "2026-01-01T00:03:00Z",
            ),
            ("6 a sidecar", sidecar, "2026-01-01T00:06:00Z"),
        ];
        for (name, change, wanted) in table {
            let pod = pod(change);
            assert_eq!(ended_at(&pod).to_string(), wanted, "{name}");
            assert_eq!(ended_at(&relevant_part(&pod)).to_string(), wanted, "{name}, relevant part");
        }
    }

    #[test]
    fn damaged_annotations_count_as_missing() {
        for (text, index, failed) in
            [("3", Some(3), 3), ("-1", None, 0), ("x", None, 0), ("3000000000", Some(3_000_000_000), 0)]
        {
            let pod = pod(json!({"metadata": {"annotations":
                {ANN_JOB_COMPLETION_INDEX: text, ANN_JOB_INDEX_FAILURE_COUNT: text}}}));
            assert_eq!(
                (index_of(&pod), failures(&pod), ignored_failures(&pod)),
                (index, failed, 0),
                "{text}"
            );
        }
    }
}
