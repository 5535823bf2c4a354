//! A bound volume is deleted by force, and is recovered.

use serde_json::{Value, json};

use super::claim;
use crate::step::{CLAIMS, Scenario, VOLUMES, bound, gone, see, step};

fn volume() -> Value {
    json!({"metadata": {"name": "lost-volume"}, "spec": {"capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"], "persistentVolumeReclaimPolicy": "Retain", "storageClassName": "lab-lost",
        "hostPath": {"path": "/tmp/orlop-lab/lost"}}})
}

/// Bound, protected, deleted, lost, recovered.
pub(super) fn scenario() -> Scenario {
    let volume_path = format!("{VOLUMES}/lost-volume");
    let claim_path = format!("{CLAIMS}/lost-claim");
    Scenario {
        name: "lost",
        about: "the volume of a claim is deleted, the claim is Lost, and both are recovered",
        steps: vec![
            step("An administrator creates a volume, and a claim is bound to it.")
                .create(VOLUMES, volume())
                .create(CLAIMS, claim("lost-claim", "lab-lost", "1Gi"))
                .until(see(claim_path.clone(), "the claim is Bound", bound))
                .until(see(volume_path.clone(), "a finalizer protects the volume", |it| {
                    it["metadata"]["finalizers"].to_string().contains("kubernetes.io/pv-protection")
                }))
                .look("kubectl get pv lost-volume -o yaml"),
            step("A user deletes the volume while a claim is bound to it. The finalizer of the volume prevents the removal, so the volume is Terminating and still serves the claim.")
                .delete(volume_path.clone())
                .until(see(volume_path.clone(), "the volume is Terminating and Bound", |it| {
                    it["metadata"]["deletionTimestamp"].is_string() && it["status"]["phase"] == "Bound"
                }))
                .look("orlop why pv/lost-volume"),
            step("The user removes the finalizer by hand: the object is removed, and the claim is Lost.")
                .patch(volume_path.clone(), json!({"metadata": {"finalizers": null}}))
                .until(gone(volume_path.clone(), "the volume is gone"))
                .until(see(claim_path.clone(), "the claim is Lost and still names the volume", |it| {
                    it["status"]["phase"] == "Lost" && it["spec"]["volumeName"] == "lost-volume"
                }))
                .look("orlop why pvc/lost-claim"),
            step("An administrator creates a volume with the same name. The claim still refers to that name, so the binder reserves the volume for the claim, and both are Bound.")
                .create(VOLUMES, volume())
                .until(see(claim_path, "the claim is Bound", bound))
                .until(see(volume_path, "the volume is Bound to it", |it| {
                    it["status"]["phase"] == "Bound" && it["spec"]["claimRef"]["name"] == "lost-claim"
                }))
                .look("orlop history pv/lost-volume"),
        ],
    }
}
