//! The checks of the level `restricted`, in addition to those of `baseline`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::baseline::{bad_seccomp, seccomp};
use super::pod::{Pod, Violation, containers, name, plural, quoted, setters, sorted, violation};

const VOLUMES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];
/// Forbidden types of volumes, in the order in which upstream looks for them.
const FORBIDDEN_VOLUMES: [&str; 21] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
];

/// `allowPrivilegeEscalation`.
pub(super) fn escalation(pod: &Pod<'_>, minor: u32) -> Option<Violation> {
    if minor < 8 || (minor >= 25 && pod.is_windows()) {
        return None;
    }
    let names =
        pod.bad_containers(|container| container["securityContext"]["allowPrivilegeEscalation"] != false);
    if names.is_empty() {
        return None;
    }
    let violators = containers(&names);
    violation(
        "allowPrivilegeEscalation != false",
        format!("{violators} must set securityContext.allowPrivilegeEscalation=false"),
    )
}

/// `capabilities_restricted`.
pub(super) fn capabilities(pod: &Pod<'_>, minor: u32) -> Option<Violation> {
    if minor >= 25 && pod.is_windows() {
        return None;
    }
    let listed = |container: &Value, list: &str| -> Vec<String> {
        let list = container["securityContext"]["capabilities"][list].as_array().into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let keeps = pod.bad_containers(|container| !listed(container, "drop").iter().any(|one| one == "ALL"));
    let mut added = BTreeSet::new();
    let adds = pod.bad_containers(|container| {
        let bad: Vec<String> =
            listed(container, "add").into_iter().filter(|one| one != "NET_BIND_SERVICE").collect();
        let is_bad = !bad.is_empty();
        added.extend(bad);
        is_bad
    });
    let mut what = Vec::new();
    if !keeps.is_empty() {
        what.push(format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", containers(&keeps)));
    }
    if !adds.is_empty() {
        let (violators, added) = (containers(&adds), sorted(&added));
        what.push(format!("{violators} must not include {added} in securityContext.capabilities.add"));
    }
    if what.is_empty() { None } else { violation("unrestricted capabilities", what.join("; ")) }
}

/// `restrictedVolumes`.
pub(super) fn volumes(pod: &Pod<'_>, _minor: u32) -> Option<Violation> {
    let has = |volume: &Value, kind: &str| volume.get(kind).is_some_and(|source| !source.is_null());
    let mut types = BTreeSet::new();
    let mut names = Vec::new();
    for volume in pod.spec()["volumes"].as_array().into_iter().flatten() {
        if VOLUMES.iter().any(|kind| has(volume, kind)) {
            continue;
        }
        names.push(name(volume));
        let kind = FORBIDDEN_VOLUMES.into_iter().find(|kind| has(volume, kind)).unwrap_or("unknown");
        types.insert(kind.to_owned());
    }
    if names.is_empty() {
        return None;
    }
    let (volumes, use_) = (plural(names.len(), "volume", "volumes"), plural(names.len(), "uses", "use"));
    let what = plural(types.len(), "restricted volume type", "restricted volume types");
    let detail = format!("{volumes} {} {use_} {what} {}", quoted(names), sorted(&types));
    violation("restricted volume types", detail)
}

/// `runAsNonRoot`. Pods in a user namespace may run as root since 1.35.
pub(super) fn non_root(pod: &Pod<'_>, minor: u32) -> Option<Violation> {
    if minor >= 35 && pod.has_user_namespace() {
        return None;
    }
    let of = |context: &Value| context["runAsNonRoot"].as_bool();
    let of_pod = of(pod.context());
    let explicit = pod.bad_containers(|container| of(&container["securityContext"]) == Some(false));
    if let Some(violators) = setters(of_pod == Some(false), &explicit) {
        return violation(
            "runAsNonRoot != true",
            format!("{violators} must not set securityContext.runAsNonRoot=false"),
        );
    }
    let implicit =
        pod.bad_containers(|container| of_pod != Some(true) && of(&container["securityContext"]).is_none());
    if implicit.is_empty() {
        return None;
    }
    let violators = containers(&implicit);
    violation(
        "runAsNonRoot != true",
        format!("pod or {violators} must set securityContext.runAsNonRoot=true"),
    )
}

/// `runAsUser`.
pub(super) fn root_user(pod: &Pod<'_>, minor: u32) -> Option<Violation> {
    if minor < 23 || (minor >= 35 && pod.has_user_namespace()) {
        return None;
    }
    let is_root = |context: &Value| context["runAsUser"] == 0;
    let names = pod.bad_containers(|container| is_root(&container["securityContext"]));
    let violators = setters(is_root(pod.context()), &names)?;
    violation("runAsUser=0", format!("{violators} must not set runAsUser=0"))
}

/// `seccompProfile_restricted`.
pub(super) fn seccomp_required(pod: &Pod<'_>, minor: u32) -> Option<Violation> {
    if minor >= 25 && pod.is_windows() {
        return None;
    }
    if let Some(explicit) = seccomp(pod, minor) {
        return Some(explicit);
    }
    let has = |context: &Value| context["seccompProfile"].is_object() && bad_seccomp(context).is_none();
    let of_pod = has(pod.context());
    let implicit = pod.bad_containers(|container| !of_pod && !has(&container["securityContext"]));
    if implicit.is_empty() {
        return None;
    }
    let violators = containers(&implicit);
    let what = "must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"";
    violation("seccompProfile", format!("pod or {violators} {what}"))
}
