//! Which pods a drain evicts, which ones stay, and which ones forbid it. Pure (upstream: kubectl/pkg/drain/filters.go).

use k8s_openapi::api::core::v1::Pod;
use orlop_client::pods::is_finished;

/// The permissions of the flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Allowed {
    /// `--force`
    pub(super) unmanaged: bool,
    /// `--delete-emptydir-data`
    pub(super) local_data: bool,
}

/// What a drain does with a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DrainVerdict {
    /// The pod belongs to a DaemonSet and would be recreated immediately, or it is the mirror of a static pod, which
    /// the API server does not manage.
    Stays,
    /// The pod is evicted.
    Goes,
    /// The pod forbids the drain: no controller would recreate it.
    Unmanaged,
    /// The pod forbids the drain: the data in its emptyDir volumes would be lost.
    LocalData,
}

/// What a drain does with a pod.
pub(super) fn judge(pod: &Pod, allowed: Allowed) -> DrainVerdict {
    let annotations = pod.metadata.annotations.as_ref();
    if annotations.is_some_and(|known| known.contains_key("kubernetes.io/config.mirror")) {
        return DrainVerdict::Stays;
    }
    // Finished pods have nothing to lose, and terminating pods end anyway.
    if is_finished(pod) {
        return DrainVerdict::Goes;
    }
    let mut owners = pod.metadata.owner_references.iter().flatten();
    let controller = owners.find(|owner| owner.controller == Some(true));
    if controller.is_some_and(|owner| owner.kind == "DaemonSet") {
        return DrainVerdict::Stays;
    }
    if pod.metadata.deletion_timestamp.is_some() {
        return DrainVerdict::Goes;
    }
    let mut volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    if !allowed.local_data && volumes.any(|volume| volume.empty_dir.is_some()) {
        return DrainVerdict::LocalData;
    }
    match controller.is_none() && !allowed.unmanaged {
        true => DrainVerdict::Unmanaged,
        false => DrainVerdict::Goes,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn verdict_depends_on_owner_and_local_data() {
        let owner = |kind: &str| json!([{"apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "o", "controller": true}]);
        let owned = |kind: &str| json!({"ownerReferences": owner(kind)});
        let ending = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        let room = json!([{"name": "room", "emptyDir": {}}]);
        let none = json!([]);
        let (careful, forced) = (Allowed::default(), Allowed { unmanaged: true, ..Allowed::default() });
        let (reckless, all) = (
            Allowed { local_data: true, ..Allowed::default() },
            Allowed { unmanaged: true, local_data: true },
        );
        let cases: [(&str, Value, &Value, &str, Allowed, DrainVerdict); 14] = [
            ("alone", json!({}), &none, "Running", careful, DrainVerdict::Unmanaged),
            ("alone, forced", json!({}), &none, "Running", forced, DrainVerdict::Goes),
            ("alone, finished", json!({}), &none, "Succeeded", careful, DrainVerdict::Goes),
            ("alone, ending", ending.clone(), &room, "Running", careful, DrainVerdict::Goes),
            ("of a ReplicaSet", owned("ReplicaSet"), &none, "Running", careful, DrainVerdict::Goes),
            (
                "of a ReplicaSet, with data",
                owned("ReplicaSet"),
                &room,
                "Running",
                careful,
                DrainVerdict::LocalData,
            ),
            (
                "of a ReplicaSet, data may go",
                owned("ReplicaSet"),
                &room,
                "Running",
                reckless,
                DrainVerdict::Goes,
            ),
            ("with data, forced", json!({}), &room, "Running", forced, DrainVerdict::LocalData),
            ("with data, which may go", json!({}), &room, "Running", reckless, DrainVerdict::Unmanaged),
            ("with data, all allowed", json!({}), &room, "Running", all, DrainVerdict::Goes),
            ("with data, finished", json!({}), &room, "Failed", careful, DrainVerdict::Goes),
            ("of a DaemonSet", owned("DaemonSet"), &room, "Running", all, DrainVerdict::Stays),
            ("of a DaemonSet, finished", owned("DaemonSet"), &none, "Failed", careful, DrainVerdict::Goes),
            (
                "a mirror",
                json!({"annotations": {"kubernetes.io/config.mirror": "x"}}),
                &none,
                "Running",
                all,
                DrainVerdict::Stays,
            ),
        ];
        for (name, metadata, volumes, phase, allowed, expected) in cases {
            let pod = json!({"metadata": metadata, "spec": {"containers": [], "volumes": volumes}, "status": {"phase": phase}});
            let pod: Pod = serde_json::from_value(pod).unwrap();
            assert_eq!(judge(&pod, allowed), expected, "{name}");
        }
    }
}
