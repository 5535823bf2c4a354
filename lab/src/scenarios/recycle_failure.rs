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
pub(super) fn story() -> Scenario {
    let volume_path = format!("{VOLUMES}/recycle-volume");
    let claim_path = format!("{CLAIMS}/recycle-claim");
    Scenario {
        name: "recycle-failure",
        about: "a volume with policy Recycle cannot be emptied, is Failed, and a person frees it",
        steps: vec![
            step("A volume of the NFS server 172.16.51.58.1 is offered; nothing has verified that this is a valid address.")
                .create(VOLUMES, volume())
                .until(see(volume_path.clone(), "the volume is Available", |it| {
                    it["status"]["phase"] == "Available"
                }))
                .look("kubectl get pv recycle-volume"),
            step("A claim is bound to it, because binding compares words and never asks the server.")
                .create(CLAIMS, claim("recycle-claim", "lab-recycle", "5Gi"))
                .until(see(claim_path.clone(), "the claim is Bound", bound))
                .look("kubectl get pv,pvc"),
            step("The claim is deleted: the policy is Recycle, so a pod is made to empty the volume, which it cannot do, and the volume is Failed.")
                .delete(claim_path.clone())
                .until(gone(claim_path.clone(), "the claim is gone"))
                .until(see(volume_path.clone(), "the volume is Failed and reports why", |it| {
                    it["status"]["phase"] == "Failed"
                        && it["status"]["message"].as_str().is_some_and(|text| text.starts_with("Recycle failed: "))
                }))
                .until(event("recycle-volume", "VolumeFailedRecycle", "an event reports it too"))
                .look("orlop why pv/recycle-volume")
                .look("kubectl get events"),
            step("A person has looked after the data and takes the name of the old claim off the volume: it is Available, and no pod is at work on it.")
                .patch(volume_path.clone(), json!({"spec": {"claimRef": null}}))
                .until(see(volume_path.clone(), "the volume is Available", |it| {
                    it["status"]["phase"] == "Available"
                }))
                .until(gone(
                    "/api/v1/namespaces/default/pods/recycler-for-recycle-volume",
                    "the recycler pod is gone",
                ))
                .look("kubectl get pv,pod"),
            step("The next claim gets it.")
                .create(CLAIMS, claim("recycle-claim", "lab-recycle", "5Gi"))
                .until(see(claim_path, "the new claim is Bound", bound))
                .until(see(volume_path, "the volume is Bound", |it| it["status"]["phase"] == "Bound"))
                .look("kubectl get pv,pvc"),
        ],
    }
}
