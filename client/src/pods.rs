//! Facts about pods for controllers: their claims, their labels, and whether they have ended. Pure functions.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ContainerState, PersistentVolumeClaim, Pod};

use crate::informer::Informer;

/// Name of the index of pods by the keys (`namespace/name`) of the claims they name, including those of ephemeral
/// volumes.
pub const INDEX_CLAIM: &str = "claim";
/// Name of the index of pods by node name; pods without a node are not indexed.
pub const INDEX_NODE: &str = "node";
/// Name of the index of pods by their namespace, alone and with each of their labels.
pub const INDEX_LABEL: &str = "namespaced-label";

/// Adds the index [`INDEX_CLAIM`].
pub fn index_by_claim(pods: &Informer<Pod>) {
    pods.add_index(INDEX_CLAIM, claim_keys);
}

/// Adds the index [`INDEX_NODE`].
pub fn index_by_node(pods: &Informer<Pod>) {
    pods.add_index(INDEX_NODE, |pod| node_name(pod).map(str::to_owned).into_iter().collect());
}

/// The value of the index [`INDEX_LABEL`] for the pods of a namespace with this label.
pub fn label_value(namespace: &str, key: &str, value: &str) -> String {
    format!("{namespace}/{key}={value}")
}

/// The value of the index [`INDEX_LABEL`] for all pods of a namespace.
pub fn namespace_value(namespace: &str) -> String {
    format!("{namespace}/")
}

/// The pods of a namespace with the first of these labels, or all its pods if there are no labels, by name. Decodes each pod
/// when the iterator reaches it. The first call adds the index [`INDEX_LABEL`]; until then, it costs nothing.
pub fn with_first_label(
    pods: &Informer<Pod>,
    namespace: &str,
    labels: Option<&BTreeMap<String, String>>,
) -> impl Iterator<Item = Arc<Pod>> + use<> {
    pods.add_index(INDEX_LABEL, |pod| {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let labels = pod.metadata.labels.iter().flatten();
        labels
            .map(|(key, value)| label_value(namespace, key, value))
            .chain([namespace_value(namespace)])
            .collect()
    });
    let first = labels.and_then(BTreeMap::first_key_value);
    let value =
        first.map_or_else(|| namespace_value(namespace), |(key, value)| label_value(namespace, key, value));
    pods.each_by_index(INDEX_LABEL, &value)
}

/// The pods of a namespace with all these labels, by name; without labels, all pods of the namespace.
pub fn selected<'l>(
    pods: &Informer<Pod>,
    namespace: &str,
    labels: &'l BTreeMap<String, String>,
) -> impl Iterator<Item = Arc<Pod>> + use<'l> {
    let near = with_first_label(pods, namespace, Some(labels));
    near.filter(move |pod| has_labels(pod, labels))
}

/// Whether the pod has all these labels.
pub fn has_labels(pod: &Pod, labels: &BTreeMap<String, String>) -> bool {
    let own = pod.metadata.labels.as_ref();
    labels.iter().all(|(key, value)| own.and_then(|own| own.get(key)) == Some(value))
}

/// The node of a pod, if it has one.
pub fn node_name(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

/// The phase of a pod; empty if it has none yet.
pub fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or_default()
}

/// Keys of all claims that the pod's volumes name.
pub fn claim_keys(pod: &Pod) -> Vec<String> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    claim_names(pod).into_iter().map(|name| format!("{namespace}/{name}")).collect()
}

/// Names of all claims that the pod's volumes name: direct ones and those of generic ephemeral volumes.
pub fn claim_names(pod: &Pod) -> Vec<String> {
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    let names =
        volumes.iter().filter_map(|volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(claim), _) => Some(claim.claim_name.clone()),
            (None, Some(_)) => Some(ephemeral_claim_name(pod, &volume.name)),
            (None, None) => None,
        });
    names.collect()
}

/// Name of the claim of a generic ephemeral volume.
pub fn ephemeral_claim_name(pod: &Pod, volume: &str) -> String {
    format!("{}-{volume}", pod.metadata.name.as_deref().unwrap_or_default())
}

/// Whether the claim was created for this pod: its controller owner reference has the pod's UID.
pub fn owns_claim(pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
    let same_namespace = pod.metadata.namespace == claim.metadata.namespace;
    let owner = claim.metadata.owner_references.iter().flatten().find(|o| o.controller == Some(true));
    same_namespace && owner.is_some_and(|o| Some(&o.uid) == pod.metadata.uid.as_ref())
}

/// Whether the pod is Succeeded or Failed, or is being deleted without a running container. Upstream:
/// pod/util.IsPodTerminated.
pub fn is_terminated(pod: &Pod) -> bool {
    if is_finished(pod) {
        return true;
    }
    pod.metadata.deletion_timestamp.is_some() && !has_running_container(pod)
}

/// Whether the phase is Succeeded or Failed.
pub fn is_finished(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Whether the pod is being deleted and nothing remains to wait for on its node.
pub fn is_shut_down(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some() && pod.metadata.deletion_grace_period_seconds == Some(0)
}

/// Whether a container is running. A status with neither a termination nor a wait counts as running. Empty lists
/// do not.
fn has_running_container(pod: &Pod) -> bool {
    let Some(status) = &pod.status else { return false };
    let lists =
        [&status.init_container_statuses, &status.container_statuses, &status.ephemeral_container_statuses];
    let stopped = |state: &Option<ContainerState>| {
        state.as_ref().is_some_and(|s| s.terminated.is_some() || s.waiting.is_some())
    };
    lists.into_iter().flatten().flatten().any(|container| !stopped(&container.state))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    fn pod(value: Value) -> Pod {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn pod_names_direct_and_ephemeral_claims() {
        let p =
            pod(json!({"metadata": {"namespace": "ns", "name": "p"}, "spec": {"containers": [], "volumes": [
            {"name": "a", "persistentVolumeClaim": {"claimName": "c"}},
            {"name": "scratch", "ephemeral": {}}, {"name": "e", "emptyDir": {}}]}}));
        assert_eq!(claim_keys(&p), ["ns/c", "ns/p-scratch"]);
    }

    #[test]
    fn selected_pods_have_all_labels() {
        let pods = Informer::new();
        for (name, labels) in [
            ("a", json!({"app": "web"})),
            ("b", json!({"app": "web", "tier": "front"})),
            ("c", json!({"tier": "front"})),
        ] {
            pods.apply(pod(json!({"metadata": {"namespace": "ns", "name": name, "labels": labels}})));
        }
        let names = |namespace: &str, labels: &[(&str, &str)]| -> Vec<String> {
            let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            let found = selected(&pods, namespace, &labels);
            found.map(|pod| pod.metadata.name.clone().unwrap()).collect()
        };
        assert_eq!(names("ns", &[("app", "web")]), ["a", "b"]);
        assert_eq!(names("ns", &[("app", "web"), ("tier", "front")]), ["b"]);
        assert_eq!(names("ns", &[]), ["a", "b", "c"]);
        assert_eq!(names("other", &[("app", "web")]), Vec::<String>::new());
    }

    #[test]
    fn labels_select_pods_of_their_namespace() {
        let pods = Informer::new();
        for (namespace, name, labels) in [
            ("ns", "a", json!({"app": "web", "tier": "front"})),
            ("ns", "b", json!({"app": "db"})),
            ("other", "c", json!({"app": "web"})),
        ] {
            pods.apply(pod(json!({"metadata": {"namespace": namespace, "name": name, "labels": labels}})));
        }
        for (case, labels, want) in [
            ("1 one label", json!({"app": "web"}), vec!["a"]),
            ("2 only the first label counts", json!({"app": "db", "tier": "front"}), vec!["b"]),
            ("3 no such pod", json!({"tier": "back"}), vec![]),
            ("4 no labels", json!({}), vec!["a", "b"]),
        ] {
            let labels: BTreeMap<String, String> = serde_json::from_value(labels).unwrap();
            let found = with_first_label(&pods, "ns", Some(&labels));
            let names: Vec<String> = found.filter_map(|pod| pod.metadata.name.clone()).collect();
            assert_eq!(names, want, "{case}");
        }
        assert_eq!(with_first_label(&pods, "ns", None).count(), 2);
    }

    #[test]
    fn terminated_pods_are_recognized() {
        let del = "2026-01-01T00:00:00Z";
        let run = json!([{"name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 0,
            "state": {"running": {}}}]);
        let end = json!([{"name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": 0}}}]);
        let none = json!([{"name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 0}]);
        let table = [
            ("finished", json!({"status": {"phase": "Failed"}}), true),
            ("running", json!({"status": {"phase": "Running"}}), false),
            ("terminating, nothing reported", json!({"metadata": {"deletionTimestamp": del}}), true),
            (
                "terminating, runs",
                json!({"metadata": {"deletionTimestamp": del}, "status": {"containerStatuses": run}}),
                false,
            ),
            (
                "terminating, init runs",
                json!({"metadata": {"deletionTimestamp": del},
                "status": {"containerStatuses": end, "initContainerStatuses": run}}),
                false,
            ),
            (
                "terminating, ended",
                json!({"metadata": {"deletionTimestamp": del}, "status": {"containerStatuses": end}}),
                true,
            ),
            (
                "terminating, state unknown",
                json!({"metadata": {"deletionTimestamp": del},
                "status": {"ephemeralContainerStatuses": none}}),
                false,
            ),
        ];
        for (name, value, wanted) in table {
            let mut value = value;
            if value.get("metadata").is_none() {
                value["metadata"] = json!({});
            }
            assert_eq!(is_terminated(&pod(value)), wanted, "{name}");
        }
    }

    #[test]
    fn ownership_requires_the_uid_of_the_controller_reference() {
        let p = pod(json!({"metadata": {"namespace": "ns", "name": "p", "uid": "u1"}}));
        let claim = |uid: &str, controller: bool| -> PersistentVolumeClaim {
            serde_json::from_value(json!({"metadata": {"namespace": "ns", "name": "p-v", "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": controller}]}}))
            .unwrap()
        };
        assert!(owns_claim(&p, &claim("u1", true)));
        assert!(!owns_claim(&p, &claim("u1", false)));
        assert!(!owns_claim(&p, &claim("u2", true)));
    }
}
