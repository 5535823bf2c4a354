//! A driver does its work and its answer is lost, twice; no volume is forgotten.

use serde_json::{Value, json};

use super::{claim, heard};
use crate::api::LAB;
use crate::step::{CLAIMS, Scenario, VOLUMES, audit, bound, gone, see, step};

fn loses(rpc: &str) -> Value {
    let rules = json!([{"rpc": rpc, "times": 1, "fault": "no-answer"}]);
    json!({"data": {"faults": rules.to_string()}})
}

/// Asked, unanswered, made once, deleted.
pub(super) fn story() -> Scenario {
    let claim_path = format!("{CLAIMS}/leak-claim");
    Scenario {
        name: "leak",
        about: "a driver makes a volume and its answer is lost; nothing is made twice or forgotten",
        steps: vec![
            step("The driver is told to carry out the next CreateVolume, and to lose its answer.")
                .patch(LAB, loses("CreateVolume"))
                .until(see(LAB, "the driver has the new script", heard))
                .look("kubectl get configmap lab -o yaml"),
            step("A claim wants a volume: what the driver will be asked is first noted on the claim, so that whoever comes later knows that there may be a volume.")
                .create(CLAIMS, claim("leak-claim", "lab", "1Gi"))
                .until(see(claim_path.clone(), "the claim has the note", |it| {
                    it["metadata"]["annotations"]["csi.orlop.dev/create-request"].is_string()
                }))
                .until(audit("the audit finds no volume that nobody knows: it is being made"))
                .look("kubectl get pvc leak-claim -o yaml"),
            step("No answer came in time, so the driver is asked the same again under the same name, and answers with the volume that it has made already.")
                .until(see(claim_path.clone(), "the claim is Bound", bound).keeping("volume", "/spec/volumeName"))
                .until(audit("the driver has exactly the volumes that the API knows"))
                .look("kubectl get pv,pvc"),
            step("The driver is told to lose its answer to DeleteVolume too, and the claim is deleted: its volume goes when the driver has said that it is gone.")
                .patch(LAB, loses("DeleteVolume"))
                .until(see(LAB, "the driver has the new script", heard))
                .delete(claim_path.clone())
                .until(gone(claim_path, "the claim is gone"))
                .until(gone(format!("{VOLUMES}/{{volume}}"), "the volume is gone"))
                .until(audit("nothing is left in the driver"))
                .look("kubectl get pv,pvc"),
        ],
    }
}
