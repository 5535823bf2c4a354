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
pub(super) fn scenario() -> Scenario {
    let claim_path = format!("{CLAIMS}/leak-claim");
    Scenario {
        name: "leak",
        about: "a driver creates a volume and its answer is lost; no volume is created twice or leaked",
        steps: vec![
            step("The scenario configures the driver to execute the next CreateVolume and to lose the answer.")
                .patch(LAB, loses("CreateVolume"))
                .until(see(LAB, "the driver has read the new faults", heard))
                .look("kubectl get configmap lab -o yaml"),
            step("A claim requests a volume. The provisioner first records the request on the claim, so that it knows even after a restart that a volume may exist.")
                .create(CLAIMS, claim("leak-claim", "lab", "1Gi"))
                .until(see(claim_path.clone(), "the claim has the annotation of the provisioner", |it| {
                    it["metadata"]["annotations"]["csi.orlop.dev/create-request"].is_string()
                }))
                .until(audit("the audit finds no unknown volume: it is being created"))
                .look("kubectl get pvc leak-claim -o yaml"),
            step("No answer arrived in time, so the provisioner repeats the request with the same name, and the driver answers with the volume that it already created.")
                .until(see(claim_path.clone(), "the claim is Bound", bound).keeping("volume", "/spec/volumeName"))
                .until(audit("the driver has exactly the volumes that the API knows"))
                .look("kubectl get pv,pvc"),
            step("The driver now loses its answer to DeleteVolume too. A user deletes the claim. The server removes the volume object only after the driver confirms that the storage is deleted.")
                .patch(LAB, loses("DeleteVolume"))
                .until(see(LAB, "the driver has read the new faults", heard))
                .delete(claim_path.clone())
                .until(gone(claim_path, "the claim is gone"))
                .until(gone(format!("{VOLUMES}/{{volume}}"), "the volume is gone"))
                .until(audit("the driver has no volume left"))
                .look("kubectl get pv,pvc"),
        ],
    }
}
