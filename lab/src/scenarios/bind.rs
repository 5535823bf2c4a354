//! A claim waits for a volume that fits, is bound, and releases it.

use serde_json::{Value, json};

use super::claim;
use crate::step::{CLAIMS, Scenario, VOLUMES, bound, gone, see, step};

fn volume(name: &str, size: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain", "storageClassName": "lab-bind",
        "hostPath": {"path": format!("/tmp/orlop-lab/{name}")}}})
}

/// Offered, claimed, bound, released.
pub(super) fn scenario() -> Scenario {
    let of = |name: &str| format!("{VOLUMES}/{name}");
    let claim_path = format!("{CLAIMS}/bind-claim");
    Scenario {
        name: "bind",
        about: "a claim waits for a matching volume, is bound to it, and releases it",
        steps: vec![
            step("An administrator creates a volume of 1Gi. No claim uses it, so it is Available.")
                .create(VOLUMES, volume("bind-small", "1Gi"))
                .until(see(of("bind-small"), "the small volume is Available", |it| {
                    it["status"]["phase"] == "Available"
                }))
                .look("kubectl get pv bind-small"),
            step("A claim of the same class requests 2Gi. The volume is too small, so the claim stays Pending.")
                .create(CLAIMS, claim("bind-claim", "lab-bind", "2Gi"))
                .until(see(claim_path.clone(), "the claim is Pending", |it| it["status"]["phase"] == "Pending"))
                .until(see(of("bind-small"), "no claim has the small volume", |it| {
                    it["status"]["phase"] == "Available" && it["spec"]["claimRef"].is_null()
                }))
                .look("orlop why pvc/bind-claim"),
            step("An administrator creates a volume of 5Gi. It is larger than requested, but it is the smallest volume that fits: the claim is bound to the whole volume.")
                .create(VOLUMES, volume("bind-large", "5Gi"))
                .until(see(claim_path.clone(), "the claim is Bound to the large volume and has 5Gi", |it| {
                    bound(it)
                        && it["spec"]["volumeName"] == "bind-large"
                        && it["status"]["capacity"]["storage"] == "5Gi"
                }))
                .until(see(of("bind-large"), "the large volume is Bound and names the claim", |it| {
                    it["status"]["phase"] == "Bound" && it["spec"]["claimRef"]["name"] == "bind-claim"
                }))
                .look("kubectl get pv,pvc"),
            step("A user deletes the claim. The reclaim policy is Retain, so the volume retains its data and its reference to the claim, and is Released.")
                .delete(claim_path.clone())
                .until(gone(claim_path, "the claim is gone"))
                .until(see(of("bind-large"), "the large volume is Released", |it| {
                    it["status"]["phase"] == "Released" && it["spec"]["claimRef"]["name"] == "bind-claim"
                }))
                .look("orlop why pv/bind-large"),
            step("An administrator removes the reference to the old claim. The volume is Available again, and the next claim receives the data.")
                .patch(of("bind-large"), json!({"spec": {"claimRef": null}}))
                .until(see(of("bind-large"), "the large volume is Available", |it| {
                    it["status"]["phase"] == "Available"
                }))
                .look("orlop history pv/bind-large"),
        ],
    }
}
