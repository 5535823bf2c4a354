//! The claims of a StatefulSet's pods, and their owners. A claim without an owner outlives the set and its
//! pods; a claim owned by the set or a pod is deleted with it (`persistentVolumeClaimRetentionPolicy`). Pure
//! functions, except for the index of sets by their claims.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::ObjectMeta;
use orlop_client::informer::Informer;

use super::spec::name;
use crate::workload::owned::controller_reference;

/// The retention policy of the claims.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub struct Retention {
    /// Delete the claims with the set.
    pub delete_with_set: bool,
    /// Delete the claims of a pod that a scale-down removes.
    pub delete_when_scaled: bool,
}

/// The policy of a set; the default is to retain claims.
pub fn retention(set: &StatefulSet) -> Retention {
    let policy = set.spec.as_ref().and_then(|spec| spec.persistent_volume_claim_retention_policy.as_ref());
    let deletes = |when: Option<&String>| when.is_some_and(|when| when == "Delete");
    Retention {
        delete_with_set: deletes(policy.and_then(|policy| policy.when_deleted.as_ref())),
        delete_when_scaled: deletes(policy.and_then(|policy| policy.when_scaled.as_ref())),
    }
}

/// The claim templates of a set.
pub fn templates(set: &StatefulSet) -> &[PersistentVolumeClaim] {
    set.spec.as_ref().and_then(|spec| spec.volume_claim_templates.as_deref()).unwrap_or_default()
}

/// `TEMPLATE-SET-ORDINAL`
pub fn claim_name(set: &StatefulSet, template: &PersistentVolumeClaim, ordinal: i32) -> String {
    format!("{}-{}-{ordinal}", template.metadata.name.as_deref().unwrap_or_default(), name(set))
}

/// The names of the claims of the pod with this ordinal.
pub fn claim_names(set: &StatefulSet, ordinal: i32) -> Vec<String> {
    templates(set).iter().map(|template| claim_name(set, template, ordinal)).collect()
}

/// Name of the index of sets by the names of their claims without the ordinal.
const INDEX_CLAIMS: &str = "claims";

/// Adds the index that [`possible_sets`] uses.
pub fn index_by_claims(sets: &Informer<StatefulSet>) {
    sets.add_index(INDEX_CLAIMS, |set| {
        let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
        let named =
            templates(set).iter().map(|template| template.metadata.name.as_deref().unwrap_or_default());
        named.map(|template| format!("{namespace}/{template}-{}", name(set))).collect()
    });
}

/// The keys of the sets that a claim may belong to, according to its name.
pub fn possible_sets(sets: &Informer<StatefulSet>, claim: &str) -> Vec<Arc<str>> {
    let is_ordinal = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    match claim.rsplit_once('-').filter(|(_, ordinal)| is_ordinal(ordinal)) {
        Some((prefix, _)) => sets.indexed_keys(INDEX_CLAIMS, prefix, ""),
        None => Vec::new(),
    }
}

/// The claim to create from a template for the pod with this ordinal. Each has all labels of the selector, so the claims of a
/// pod are made one at a time.
pub fn new_claim(set: &StatefulSet, template: &PersistentVolumeClaim, ordinal: i32) -> PersistentVolumeClaim {
    let selector = set.spec.as_ref().and_then(|spec| spec.selector.match_labels.clone()).unwrap_or_default();
    let from = template.metadata.clone();
    let mut labels = from.labels.unwrap_or_default();
    labels.extend(selector);
    PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(claim_name(set, template, ordinal)),
            namespace: set.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: from.annotations,
            finalizers: from.finalizers,
            owner_references: retention(set).delete_with_set.then(|| vec![controller_reference(set)]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}

/// The desired owners of a claim. `is_wanted`: the pod is within the set's replicas, not removed by a
/// scale-down.
pub fn owners(
    claim: &PersistentVolumeClaim,
    set: &StatefulSet,
    pod: &Pod,
    is_wanted: bool,
) -> Vec<OwnerReference> {
    // Compare names: a reference with another UID is to an earlier set or pod, and deleting that one must not
    // delete the claim.
    let is_set = |owner: &OwnerReference| owner.kind == "StatefulSet" && owner.name == name(set);
    let is_pod =
        |owner: &OwnerReference| owner.kind == "Pod" && Some(&owner.name) == pod.metadata.name.as_ref();
    let now = claim.metadata.owner_references.iter().flatten();
    let mut owners: Vec<OwnerReference> =
        now.filter(|owner| !is_set(owner) && !is_pod(owner)).cloned().collect();
    if owners.iter().any(|owner| owner.controller == Some(true)) {
        // Another controller manages the claim.
        return owners;
    }
    let policy = retention(set);
    if policy.delete_when_scaled && !is_wanted {
        owners.push(controller_reference(pod));
    } else if policy.delete_with_set {
        owners.push(controller_reference(set));
    }
    owners
}

/// Whether the claim already has exactly these owners.
pub fn has_owners(claim: &PersistentVolumeClaim, owners: &[OwnerReference]) -> bool {
    let now: BTreeSet<&str> =
        claim.metadata.owner_references.iter().flatten().map(|owner| owner.uid.as_str()).collect();
    now == owners.iter().map(|owner| owner.uid.as_str()).collect()
}

/// Whether the claim will be deleted with an earlier pod of the same name. A new pod has to wait for the
/// deletion.
pub fn is_stale(claim: &PersistentVolumeClaim, set: &StatefulSet, pod: &str) -> bool {
    let mut owners = claim.metadata.owner_references.iter().flatten();
    retention(set).delete_when_scaled && owners.any(|owner| owner.kind == "Pod" && owner.name == pod)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    fn set(deleted: &str, scaled: &str) -> StatefulSet {
        serde_json::from_value(json!({"metadata": {"namespace": "ns", "name": "web", "uid": "set"}, "spec": {
            "selector": {"matchLabels": {"app": "web"}}, "serviceName": "", "template": {},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": deleted, "whenScaled": scaled},
            "volumeClaimTemplates": [{"metadata": {"name": "www", "labels": {"tier": "x"}, "annotations": {"a": "b"}},
                "spec": {"accessModes": ["ReadWriteOnce"]}, "status": {"phase": "Pending"}}]}}))
        .unwrap()
    }

    fn pod() -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "web-0", "uid": "pod"}})).unwrap()
    }

    fn claim(owners: Value) -> PersistentVolumeClaim {
        serde_json::from_value(json!({"metadata": {"name": "www-web-0", "ownerReferences": owners}})).unwrap()
    }

    fn owner(kind: &str, name: &str, uid: &str, controls: bool) -> Value {
        json!({"apiVersion": "v1", "kind": kind, "name": name, "uid": uid, "controller": controls})
    }

    #[test]
    fn retention_policy_determines_the_owners_of_a_claim() {
        let (none, of_set, of_pod) =
            (json!([]), owner("StatefulSet", "web", "set", true), owner("Pod", "web-0", "pod", true));
        let stranger = owner("Backup", "b", "backup", true);
        // Name, whenDeleted, whenScaled, whether the pod is within the replicas, owners before, expected UIDs of
        // owners.
        let table = [
            ("retained", "Retain", "Retain", true, none.clone(), vec![]),
            ("retained, owners removed", "Retain", "Retain", true, json!([of_set, of_pod]), vec![]),
            ("with the set", "Delete", "Retain", true, none.clone(), vec!["set"]),
            ("with the set, scaled away", "Delete", "Retain", false, none.clone(), vec!["set"]),
            ("scaled away", "Retain", "Delete", false, none.clone(), vec!["pod"]),
            ("not scaled away", "Retain", "Delete", true, json!([of_pod]), vec![]),
            ("both, not scaled away", "Delete", "Delete", true, json!([of_pod]), vec!["set"]),
            ("both, scaled away", "Delete", "Delete", false, json!([of_set]), vec!["pod"]),
            (
                "of an earlier set",
                "Delete",
                "Retain",
                true,
                json!([owner("StatefulSet", "web", "old", true)]),
                vec!["set"],
            ),
            (
                "of an earlier pod",
                "Retain",
                "Delete",
                false,
                json!([owner("Pod", "web-0", "old", true)]),
                vec!["pod"],
            ),
            ("another one controls it", "Delete", "Delete", true, json!([stranger, of_set]), vec!["backup"]),
            (
                "another one has a share",
                "Delete",
                "Retain",
                true,
                json!([owner("Backup", "b", "backup", false)]),
                vec!["backup", "set"],
            ),
        ];
        for (name, deleted, scaled, wanted, before, after) in table {
            let (set, claim) = (set(deleted, scaled), claim(before));
            let owners = owners(&claim, &set, &pod(), wanted);
            assert_eq!(owners.iter().map(|owner| owner.uid.as_str()).collect::<Vec<_>>(), after, "{name}");
            let now = claim.metadata.owner_references.iter().flatten().map(|owner| owner.uid.as_str());
            assert_eq!(has_owners(&claim, &owners), now.eq(after), "{name}");
        }
    }

    #[test]
    fn new_claim_has_its_name_labels_and_owner_from_the_set() {
        let new_claims = |set: &StatefulSet, ordinal: i32| -> Vec<PersistentVolumeClaim> {
            templates(set).iter().map(|template| new_claim(set, template, ordinal)).collect()
        };
        let claims = new_claims(&set("Delete", "Retain"), 3);
        assert_eq!(
            serde_json::to_value(&claims[0]).unwrap(),
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "www-web-3", "namespace": "ns",
                "labels": {"app": "web", "tier": "x"}, "annotations": {"a": "b"}, "ownerReferences": [{"apiVersion": "apps/v1",
                    "kind": "StatefulSet", "name": "web", "uid": "set", "controller": true, "blockOwnerDeletion": true}]},
                "spec": {"accessModes": ["ReadWriteOnce"]}})
        );
        assert_eq!(new_claims(&set("Retain", "Delete"), 0)[0].metadata.owner_references, None);
        let sets = Informer::new();
        sets.apply(set("", ""));
        index_by_claims(&sets);
        let namespace = set("", "").metadata.namespace.unwrap_or_default();
        let found = |claim: &str| possible_sets(&sets, &format!("{namespace}/{claim}")).len();
        assert_eq!((found("www-web-12"), found("www-web-a"), found("www-web")), (1, 0, 0));
    }

    #[test]
    fn claim_of_an_earlier_pod_is_stale() {
        let of_pod = claim(json!([owner("Pod", "web-0", "old", true)]));
        assert!(is_stale(&of_pod, &set("Retain", "Delete"), "web-0"));
        assert!(!is_stale(&of_pod, &set("Retain", "Delete"), "web-1"));
        assert!(!is_stale(&of_pod, &set("Delete", "Retain"), "web-0"));
    }
}
