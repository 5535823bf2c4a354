//! The identity of the n-th pod of a set: its name, host name, labels and volumes. Pure functions.

use std::collections::HashSet;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaimVolumeSource, Pod, PodTemplateSpec, Volume};

use super::claims::{claim_name, templates};
use super::spec::name;
use crate::workload::owned::controller_reference;
use crate::workload::template::pod_from;

/// Label of a pod: its name.
pub const LABEL_POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
/// Label of a pod: its ordinal.
pub const LABEL_POD_INDEX: &str = "apps.kubernetes.io/pod-index";
/// Label of a pod: the revision it was created from.
pub const LABEL_REVISION: &str = "controller-revision-hash";

/// The ordinal of a pod of this set, parsed from its name; `None` if the name is not that of such a pod.
pub fn ordinal(set: &StatefulSet, pod: &Pod) -> Option<i32> {
    let (parent, number) = pod.metadata.name.as_deref()?.rsplit_once('-')?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    if parent == name(set) && is_number { number.parse().ok() } else { None }
}

/// Whether the name has the form of a pod of this set.
pub fn is_member(set: &StatefulSet, pod: &Pod) -> bool {
    ordinal(set, pod).is_some()
}

/// The name of the pod with this ordinal.
pub fn pod_name(set: &StatefulSet, ordinal: i32) -> String {
    format!("{}-{ordinal}", name(set))
}

/// The revision that a pod was created from.
pub fn revision_of(pod: &Pod) -> &str {
    pod.metadata.labels.as_ref().and_then(|labels| labels.get(LABEL_REVISION)).map_or("", String::as_str)
}

/// Whether the label with the pod's name is correct. Services select single pods by it.
pub fn has_identity(pod: &Pod) -> bool {
    pod.metadata.labels.as_ref().and_then(|labels| labels.get(LABEL_POD_NAME)) == pod.metadata.name.as_ref()
}

/// Creates a pod with this ordinal from a template. `revision` is the name of the template's revision.
pub fn new_pod(set: &StatefulSet, template: &PodTemplateSpec, revision: &str, ordinal: i32) -> Pod {
    let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
    let mut pod = pod_from(template, namespace, controller_reference(set));
    let name = pod_name(set, ordinal);
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(LABEL_POD_NAME.to_owned(), name.clone());
    labels.insert(LABEL_POD_INDEX.to_owned(), ordinal.to_string());
    labels.insert(LABEL_REVISION.to_owned(), revision.to_owned());
    pod.metadata.generate_name = None;
    pod.metadata.name = Some(name.clone());
    let spec = pod.spec.get_or_insert_default();
    spec.hostname = Some(name);
    spec.subdomain =
        set.spec.as_ref().and_then(|spec| spec.service_name.clone()).filter(|name| !name.is_empty());
    let mut volumes: Vec<Volume> =
        templates(set).iter().map(|template| volume(set, template, ordinal)).collect();
    let others = spec.volumes.take().unwrap_or_default();
    let taken: HashSet<String> = volumes.iter().map(|volume| volume.name.clone()).collect();
    volumes.extend(others.into_iter().filter(|volume| !taken.contains(&volume.name)));
    spec.volumes = (!volumes.is_empty()).then_some(volumes);
    pod
}

fn volume(
    set: &StatefulSet,
    template: &k8s_openapi::api::core::v1::PersistentVolumeClaim,
    ordinal: i32,
) -> Volume {
    let source =
        PersistentVolumeClaimVolumeSource { claim_name: claim_name(set, template, ordinal), read_only: None };
    Volume {
        name: template.metadata.name.clone().unwrap_or_default(),
        persistent_volume_claim: Some(source),
        ..Volume::default()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use orlop_apimachinery::thread_time::ThreadTime;
    use serde_json::json;

    use super::*;

    fn set() -> StatefulSet {
        serde_json::from_value(json!({"metadata": {"namespace": "ns", "name": "web-1", "uid": "u"}, "spec": {
            "replicas": 3, "ordinals": {"start": 5}, "serviceName": "nginx", "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}], "volumes": [
                {"name": "www", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}]}},
            "volumeClaimTemplates": [{"metadata": {"name": "www"}, "spec": {}}]}}))
        .unwrap()
    }

    #[test]
    fn volumes_of_a_new_pod_are_linear() {
        let many = |count: usize| {
            let mut set = set();
            let spec = set.spec.as_mut().unwrap();
            let claim = |n| json!({"metadata": {"name": format!("claim{n}")}, "spec": {}});
            let claims: Vec<_> = (0..count).map(claim).collect();
            spec.volume_claim_templates = serde_json::from_value(json!(claims)).unwrap();
            let volumes: Vec<_> = (0..count).map(|n| json!({"name": format!("v{n}")})).collect();
            spec.template.spec.as_mut().unwrap().volumes = serde_json::from_value(json!(volumes)).unwrap();
            set
        };
        let cost = |count: usize| {
            let set = many(count);
            let template = &set.spec.as_ref().unwrap().template;
            let once = || {
                let started = ThreadTime::start();
                std::hint::black_box(new_pod(&set, template, "r", 0));
                started.spent()
            };
            (0..3).map(|_| once()).min().unwrap()
        };
        // A volume has over a kilobyte, so a large pod costs more page faults: eight times as many cost up to 26 times as much. Quadratic
        // work would cost 64 times as much.
        let (small, large) = (cost(2_000), cost(16_000));
        assert!(large < small * 40, "{large:?} instead of {small:?}");
    }

    #[test]
    fn ordinal_is_parsed_from_the_pod_name() {
        let table = [
            ("web-1-0", Some(0)),
            ("web-1-12", Some(12)),
            ("web-1", None),
            ("web-1-", None),
            ("web-1-x", None),
            ("web-1--1", None),
            ("web-1-+1", None),
            ("web-2-0", None),
            ("web-1-99999999999", None),
        ];
        for (name, wanted) in table {
            let pod: Pod = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
            assert_eq!(ordinal(&set(), &pod), wanted, "{name}");
        }
        assert_eq!(crate::workload::stateful_set::spec::ordinals(&set()), 5..8);
    }

    #[test]
    fn new_pod_has_identity_labels_hostname_and_claim_volumes() {
        let set = set();
        let pod = new_pod(&set, &set.spec.as_ref().unwrap().template, "web-1-abc", 5);
        assert!(has_identity(&pod));
        assert_eq!(
            serde_json::to_value(pod).unwrap(),
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-1-5", "namespace": "ns",
                "labels": {"app": "web", LABEL_POD_NAME: "web-1-5", LABEL_POD_INDEX: "5", LABEL_REVISION: "web-1-abc"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web-1", "uid": "u",
                    "controller": true, "blockOwnerDeletion": true}]},
                "spec": {"containers": [{"name": "c"}], "hostname": "web-1-5", "subdomain": "nginx", "volumes": [
                    {"name": "www", "persistentVolumeClaim": {"claimName": "www-web-1-5"}}, {"name": "tmp", "emptyDir": {}}]}})
        );
    }
}
