//! A claim is expanded, and cannot shrink.

use serde_json::{Value, json};

use super::claim;
use crate::step::{CLAIMS, Scenario, VOLUMES, bound, see, step};

fn asks(size: &str) -> Value {
    json!({"spec": {"resources": {"requests": {"storage": size}}}})
}

/// Provisioned, expanded, refused.
pub(super) fn scenario() -> Scenario {
    let claim_path = format!("{CLAIMS}/resize-claim");
    Scenario {
        name: "resize",
        about: "a claim requests more, its volume is expanded, and the request cannot be lowered again",
        steps: vec![
            step("The driver creates a volume of 1Gi for a claim.")
                .create(CLAIMS, claim("resize-claim", "lab", "1Gi"))
                .until(see(claim_path.clone(), "the claim is Bound", bound).keeping("volume", "/spec/volumeName"))
                .look("kubectl get pvc resize-claim"),
            step("A user increases the claim's request to 2Gi. The class allows expansion, so the driver expands the volume. First the volume object reports 2Gi, then the claim's status does.")
                .patch(claim_path.clone(), asks("2Gi"))
                .until(see(format!("{VOLUMES}/{{volume}}"), "the volume has 2Gi", |it| {
                    it["spec"]["capacity"]["storage"] == "2Gi"
                }))
                .until(see(claim_path.clone(), "the claim has 2Gi and no condition", |it| {
                    it["status"]["capacity"]["storage"] == "2Gi"
                        && it["status"]["conditions"].as_array().is_none_or(Vec::is_empty)
                }))
                .look("orlop history pvc/resize-claim --limit 6"),
            step("A user lowers the request to 1Gi. A smaller volume would cut off data, so the server rejects the change.")
                .patch(claim_path.clone(), asks("1Gi"))
                .refused(422)
                .until(see(claim_path, "the claim requests 2Gi and has 2Gi", |it| {
                    it["spec"]["resources"]["requests"]["storage"] == "2Gi"
                        && it["status"]["capacity"]["storage"] == "2Gi"
                }))
                .look("kubectl get pvc resize-claim"),
        ],
    }
}
