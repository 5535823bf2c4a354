//! Facts about volumes, claims, pods and attachments that the verbs rely on: references and use. Pure.
//!
//! The rules are those of the binder and of the protection controllers (upstream:
//! pkg/controller/volume/persistentvolume, pvcprotection); where those differ, the stricter definition of use
//! applies.

use serde_json::{Value, json};

use super::cluster_view::{ClusterView, attachments, mentions, nodes, pods, volumes};
use orlop_api::object::Object;

pub(crate) const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
pub(crate) const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
pub(crate) const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
pub(crate) const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";
pub(crate) const VOLUME_CONTROLLER: &str = "kubernetes.io/pv-controller";
pub(crate) const PROVISIONER: &str = "external-provisioner.volume.kubernetes.io/finalizer";
pub(crate) const ATTACHER_PREFIX: &str = "external-attacher/";
/// Annotation with the reclaim policy to restore after scrubbing. The binder reads it.
pub(crate) const POLICY_AFTER_SCRUB: &str = "orlop.dev/reclaim-policy-after-scrub";
/// A field of attachments, and its name in the projection.
const ATTACHED_VOLUME: &str = "spec.source.persistentVolumeName";

/// `status.phase`.
pub(crate) fn phase(object: &Object) -> &str {
    object.str_at(&["status", "phase"])
}

/// The reclaim policy of a volume; absent means `Retain`.
pub(crate) fn policy(volume: &Object) -> &str {
    match volume.str_at(&["spec", "persistentVolumeReclaimPolicy"]) {
        "" => "Retain",
        policy => policy,
    }
}

/// A volume's reference to a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClaimRef {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// Empty if the volume is reserved by name only.
    pub(crate) uid: String,
}

/// The claim reference of a volume.
pub(crate) fn claim_ref(volume: &Object) -> Option<ClaimRef> {
    volume.at(&["spec", "claimRef"]).filter(|reference| reference.is_object())?;
    let part = |name: &str| volume.str_at(&["spec", "claimRef", name]).to_owned();
    Some(ClaimRef { namespace: part("namespace"), name: part("name"), uid: part("uid") })
}

/// A reference to a claim; without a uid it reserves the volume by name.
pub(crate) fn reference_to(namespace: &str, name: &str, uid: &str) -> Value {
    let mut reference =
        json!({"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": namespace, "name": name});
    if !uid.is_empty() {
        reference["uid"] = uid.into();
    }
    reference
}

/// The volume that a claim names.
pub(crate) fn volume_name(claim: &Object) -> &str {
    claim.str_at(&["spec", "volumeName"])
}

/// Sets the phase of a volume and removes the message and reason of the old phase.
pub(crate) fn set_phase(volume: &mut Object, phase: &str) {
    volume.set(&["status", "phase"], phase);
    for field in ["message", "reason"] {
        volume.remove(&["status", field]);
    }
}

/// Removes a volume's claim reference and the annotation that marks it as written by the controller.
pub(crate) fn free(volume: &mut Object) {
    volume.remove(&["spec", "claimRef"]);
    volume.remove(&["metadata", "annotations", BOUND_BY_CONTROLLER]);
    end_scrub(volume);
}

/// Removes the annotation of an earlier scrub that never ended; otherwise the binder would take the next Recycle
/// for that scrub.
pub(crate) fn end_scrub(volume: &mut Object) {
    volume.remove(&["metadata", "annotations", POLICY_AFTER_SCRUB]);
    // Removes the map of annotations when it becomes empty.
    let annotations = volume.at(&["metadata", "annotations"]).and_then(Value::as_object);
    if annotations.is_some_and(serde_json::Map::is_empty) {
        volume.meta().remove("annotations");
    }
}

/// `namespace/name`, or the name alone.
pub(crate) fn key_of(object: &Object) -> String {
    match object.namespace() {
        "" => object.name().to_owned(),
        namespace => format!("{namespace}/{}", object.name()),
    }
}

/// The claims that a pod uses in its namespace, including those of its ephemeral volumes.
pub(crate) fn claims_of(pod: &Object) -> impl Iterator<Item = String> {
    let volumes = pod.at(&["spec", "volumes"]).and_then(Value::as_array);
    volumes.into_iter().flatten().filter_map(|volume| {
        if let Some(name) = volume.pointer("/persistentVolumeClaim/claimName").and_then(Value::as_str) {
            return Some(name.to_owned());
        }
        let own = volume.get("name").and_then(Value::as_str).unwrap_or_default();
        volume.get("ephemeral").is_some_and(Value::is_object).then(|| format!("{}-{own}", pod.name()))
    })
}

/// Whether a pod uses a claim of its namespace.
pub(crate) fn names_claim(pod: &Object, claim: &str) -> bool {
    claims_of(pod).any(|name| name == claim)
}

/// Whether no container of a pod runs any more: the pod has ended, or it is being deleted and no container is
/// left.
pub(crate) fn is_over(pod: &Object) -> bool {
    if matches!(phase(pod), "Succeeded" | "Failed") {
        return true;
    }
    let lists = ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"];
    let mut containers = lists
        .iter()
        .filter_map(|list| pod.at(&["status", list]).and_then(Value::as_array))
        .flatten()
        .filter_map(|container| container.get("state"));
    let stopped = |state: &Value| state.get("terminated").is_some() || state.get("waiting").is_some();
    pod.is_terminating() && containers.all(stopped)
}

/// The pods that name a claim, including ended ones.
pub(crate) fn pods_of(view: &ClusterView<'_>, namespace: &str, claim: &str) -> Vec<Object> {
    let all = view.list(pods(), namespace, |record| {
        // The name of an ephemeral claim is composed of two names in the pod.
        mentions(record, claim) || mentions(record, "\"ephemeral\"")
    });
    all.into_iter().filter(|pod| names_claim(pod, claim)).collect()
}

/// The attachments of a volume.
pub(crate) fn attachments_of(view: &ClusterView<'_>, volume: &str) -> Vec<Object> {
    let named = view.list(attachments(), "", |record| match record.view.field(ATTACHED_VOLUME) {
        Some(name) => name == volume,
        None => mentions(record, volume),
    });
    let names =
        |attachment: &Object| attachment.str_at(&["spec", "source", "persistentVolumeName"]) == volume;
    named.into_iter().filter(names).collect()
}

/// Descriptions of the possible readers and writers of a volume's data; empty only if there certainly are none.
/// `claim` is the claim that now has the name in the volume's reference.
pub(crate) fn users(view: &ClusterView<'_>, volume: &Object, claim: Option<&Object>) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(reference) = claim_ref(volume) {
        // Pods created after a new claim of that name use the volume of the new claim.
        let successor = claim.filter(|claim| {
            claim.uid() != reference.uid && !reference.uid.is_empty() && volume_name(claim) != volume.name()
        });
        let is_successors = |pod: &Object| {
            let born = |object: &Object| object.str_at(&["metadata", "creationTimestamp"]).to_owned();
            successor.is_some_and(|claim| born(claim) < born(pod))
        };
        let using = pods_of(view, &reference.namespace, &reference.name).into_iter();
        let using = using.filter(|pod| !is_over(pod) && !is_successors(pod));
        found.extend(using.map(|pod| format!("pod {}", key_of(&pod))));
    }
    for attachment in attachments_of(view, volume.name()) {
        let node = attachment.str_at(&["spec", "nodeName"]);
        found.push(format!("attachment {} (node {node})", attachment.name()));
    }
    if let Some(unique) = unique_name(volume) {
        let in_use = |node: &Object| {
            let list = node.at(&["status", "volumesInUse"]).and_then(Value::as_array);
            list.into_iter().flatten().any(|name| name == unique.as_str())
        };
        let handle = unique.rsplit('^').next().unwrap_or_default().to_owned();
        for node in view.list(nodes(), "", |record| mentions(record, &handle)).iter().filter(|n| in_use(n)) {
            found.push(format!("node {} (it has the volume mounted)", node.name()));
        }
    }
    found
}

/// The name of a CSI volume in the status of nodes.
fn unique_name(volume: &Object) -> Option<String> {
    let part = |name: &str| volume.str_at(&["spec", "csi", name]);
    (!part("volumeHandle").is_empty())
        .then(|| format!("kubernetes.io/csi/{}^{}", part("driver"), part("volumeHandle")))
}

/// Other volumes that represent the same asset.
pub(crate) fn same_asset(view: &ClusterView<'_>, volume: &Object) -> Vec<String> {
    let Some(unique) = unique_name(volume) else { return Vec::new() };
    let handle = volume.str_at(&["spec", "csi", "volumeHandle"]);
    let others = view.list(volumes(), "", |record| mentions(record, handle));
    let same = others.iter().filter(|other| {
        other.name() != volume.name() && unique_name(other).as_deref() == Some(unique.as_str())
    });
    same.map(|other| other.name().to_owned()).collect()
}

/// The volumes that reference a claim, by uid or by name alone.
pub(crate) fn volumes_pointing_to(
    view: &ClusterView<'_>,
    namespace: &str,
    name: &str,
    uid: &str,
) -> Vec<Object> {
    let named = view.list(volumes(), "", |record| {
        record.view.field("spec.claimRef.name").is_none_or(|known| known == name)
            || !uid.is_empty() && mentions(record, uid)
    });
    let points = |volume: &Object| {
        claim_ref(volume).is_some_and(|reference| {
            let by_name = reference.namespace == namespace && reference.name == name;
            let by_uid = !uid.is_empty() && reference.uid == uid;
            by_uid || by_name && (reference.uid.is_empty() || uid.is_empty())
        })
    };
    named.into_iter().filter(points).collect()
}

/// The finalizer of the attacher of a driver (upstream: external-attacher, GetFinalizerName).
pub(crate) fn attacher_finalizer(driver: &str) -> String {
    let clean = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' };
    let mut name: String = ATTACHER_PREFIX.chars().chain(driver.chars().map(clean)).collect();
    if name.ends_with('-') {
        name.push('X');
    }
    name
}

/// The first items of a list and the number of the others, as text.
pub(crate) fn some(list: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown = list.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match list.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
