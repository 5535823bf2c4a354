//! The part of a pod from which a workload decides. A workload may have tens of thousands of pods: one decoded pod takes about 30
//! kilobytes, this part of it about three.

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodSpec, PodStatus};
use kube::core::ObjectMeta;

/// Annotation of a pod: the cost of its deletion, as a number. Pods with the lowest cost are deleted first.
pub const ANN_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The metadata with the deletion cost as the only annotation, the node, the sidecars, and of the status the phase, the conditions
/// and the restarts.
pub fn replica(pod: &Pod) -> Pod {
    let metadata = &pod.metadata;
    let cost = metadata.annotations.iter().flatten().filter(|(name, _)| *name == ANN_DELETION_COST);
    Pod {
        metadata: ObjectMeta {
            annotations: Some(cost.map(|(name, cost)| (name.clone(), cost.clone())).collect()),
            creation_timestamp: metadata.creation_timestamp.clone(),
            deletion_timestamp: metadata.deletion_timestamp.clone(),
            labels: metadata.labels.clone(),
            name: metadata.name.clone(),
            namespace: metadata.namespace.clone(),
            owner_references: metadata.owner_references.clone(),
            resource_version: metadata.resource_version.clone(),
            uid: metadata.uid.clone(),
            ..ObjectMeta::default()
        },
        spec: pod.spec.as_ref().map(|spec| PodSpec {
            node_name: spec.node_name.clone(),
            init_containers: spec
                .init_containers
                .as_ref()
                .map(|containers| containers.iter().filter(|one| is_sidecar(one)).map(named).collect()),
            ..PodSpec::default()
        }),
        status: pod.status.as_ref().map(|status| PodStatus {
            phase: status.phase.clone(),
            conditions: status.conditions.clone(),
            container_statuses: restarts(status.container_statuses.as_deref()),
            init_container_statuses: restarts(status.init_container_statuses.as_deref()),
            ..PodStatus::default()
        }),
    }
}

/// Whether an init container runs beside the others.
pub fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

fn named(container: &Container) -> Container {
    Container {
        name: container.name.clone(),
        restart_policy: container.restart_policy.clone(),
        ..Container::default()
    }
}

/// The names and the restarts of containers, without those that never restarted.
fn restarts(statuses: Option<&[ContainerStatus]>) -> Option<Vec<ContainerStatus>> {
    let restarted = statuses?.iter().filter(|status| status.restart_count > 0);
    Some(
        restarted
            .map(|status| ContainerStatus {
                name: status.name.clone(),
                restart_count: status.restart_count,
                ..ContainerStatus::default()
            })
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    fn pod() -> Pod {
        serde_json::from_value(json!({"metadata": {"namespace": "ns", "name": "p", "uid": "u", "resourceVersion": "7",
                "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"app": "web"},
                "annotations": {ANN_DELETION_COST: "-5", "large": "x".repeat(1000)},
                "ownerReferences": [{"apiVersion": "v1", "kind": "ReplicationController", "name": "r", "uid": "r", "controller": true}]},
            "spec": {"nodeName": "n", "containers": [{"name": "c"}],
                "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}]},
            "status": {"phase": "Running", "conditions": [
                    {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:01:00Z"}],
                "containerStatuses": [{"name": "c", "image": "i", "imageID": "", "ready": true, "restartCount": 3}],
                "initContainerStatuses": [{"name": "s", "image": "i", "imageID": "", "ready": true, "restartCount": 2}]}}))
        .unwrap()
    }

    #[test]
    fn large_parts_of_a_pod_are_left_out() {
        let text = serde_json::to_string(&replica(&pod())).unwrap();
        assert!(!text.contains("large") && !text.contains("\"i\""), "{text}");
    }
}
