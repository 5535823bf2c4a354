//! Recycling a volume fails, and a user makes the volume available again.

use serde_json::{Value, json};

use super::claim;
use crate::step::{CLAIMS, Scenario, VOLUMES, bound, event, gone, see, step};

/// The server's address is invalid: it has one number too many.
fn volume() -> Value {
    json!({"metadata": {"name": "recycle-volume"}, "spec": {"capacity": {"storage": "5Gi"},
        "accessModes": ["ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany"],
        "persistentVolumeReclaimPolicy": "Recycle", "storageClassName": "lab-recycle",
        "nfs": {"server": "172.16.51.58.1", "path": "/var/nfsshare/v1"}}})
}

/// Bound, released, failed, available again.
pub(super) fn scenario() -> Scenario {
    let volume_path = format!("{VOLUMES}/recycle-volume");
    let claim_path = format!("{CLAIMS}/recycle-claim");
    Scenario {
        name: "recycle-failure",
        about: "a volume with policy Recycle cannot be scrubbed and is Failed; an administrator releases it",
        steps: vec![
            step("An administrator creates a volume on the NFS server 172.16.51.58.1. No component has verified that this is a valid address.")
                .create(VOLUMES, volume())
                .until(see(volume_path.clone(), "the volume is Available", |it| {
                    it["status"]["phase"] == "Available"
                }))
                .look("kubectl get pv recycle-volume"),
            step("A claim is bound to the volume, because the binder compares API fields and never contacts the server.")
                .create(CLAIMS, claim("recycle-claim", "lab-recycle", "5Gi"))
                .until(see(claim_path.clone(), "the claim is Bound", bound))
                .look("kubectl get pv,pvc"),
            step("A user deletes the claim. The reclaim policy is Recycle, so a controller creates a pod to delete the volume's files. The pod fails, and the volume is Failed.")
                .delete(claim_path.clone())
                .until(gone(claim_path.clone(), "the claim is gone"))
                .until(see(volume_path.clone(), "the volume is Failed and reports why", |it| {
                    it["status"]["phase"] == "Failed"
                        && it["status"]["message"].as_str().is_some_and(|text| text.starts_with("Recycle failed: "))
                }))
                .until(event("recycle-volume", "VolumeFailedRecycle", "an event reports it too"))
                .look("orlop why pv/recycle-volume")
                .look("kubectl get events"),
            step("An administrator has checked the data and removes the reference to the old claim: the volume is Available, and no pod is working on it.")
                .patch(volume_path.clone(), json!({"spec": {"claimRef": null}}))
                .until(see(volume_path.clone(), "the volume is Available", |it| {
                    it["status"]["phase"] == "Available"
                }))
                .until(gone(
                    "/api/v1/namespaces/default/pods/recycler-for-recycle-volume",
                    "the recycler pod is gone",
                ))
                .look("kubectl get pv,pod"),
            step("The next claim is bound to the volume.")
                .create(CLAIMS, claim("recycle-claim", "lab-recycle", "5Gi"))
                .until(see(claim_path, "the new claim is Bound", bound))
                .until(see(volume_path, "the volume is Bound", |it| it["status"]["phase"] == "Bound"))
                .look("kubectl get pv,pvc"),
        ],
    }
}
