//! A driver loses its answer twice, and no volume is leaked.

use serde_json::{Value, json};

use super::{claim, heard};
use crate::api::LAB;
use crate::step::{CLAIMS, Scenario, VOLUMES, audit, bound, gone, see, step};

fn loses(rpc: &str) -> Value {
    let rules = json!([{"rpc": rpc, "times": 1, "fault": "no-answer"}]);
    json!({"data": {"faults": rules.to_string()}})
}

/// Requested, unanswered, created once, deleted.
pub(super) fn story() -> Scenario {
    let claim_path = format!("{CLAIMS}/leak-claim");
    Scenario {
        name: "leak",
        about: "a driver makes a volume and its answer is lost; nothing is made twice or forgotten",
        steps: vec![
            step("The driver is configured to carry out the next CreateVolume, and to lose its answer.")
                .patch(LAB, loses("CreateVolume"))
                .until(see(LAB, "the driver has the new script", heard))
                .look("kubectl get configmap lab -o yaml"),
            step("A claim requests a volume: the request to the driver is first recorded on the claim, so that any later controller knows that there may be a volume.")
                .create(CLAIMS, claim("leak-claim", "lab", "1Gi"))
                .until(see(claim_path.clone(), "the claim has the note", |it| {
                    it["metadata"]["annotations"]["csi.orlop.dev/create-request"].is_string()
                }))
                .until(audit("the audit finds no unknown volume: it is being created"))
                .look("kubectl get pvc leak-claim -o yaml"),
            step("No answer came in time, so the driver is asked the same again under the same name, and answers with the volume that it has made already.")
                .until(see(claim_path.clone(), "the claim is Bound", bound).keeping("volume", "/spec/volumeName"))
                .until(audit("the driver has exactly the volumes that the API knows"))
                .look("kubectl get pv,pvc"),
            step("The driver is configured to lose its answer to DeleteVolume too, and the claim is deleted: its volume is deleted once the driver confirms that the storage is gone.")
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
