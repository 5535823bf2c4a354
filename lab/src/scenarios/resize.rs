//! A claim is expanded, and cannot shrink.

use serde_json::{Value, json};

use super::claim;
use crate::step::{CLAIMS, Scenario, VOLUMES, bound, see, step};

fn asks(size: &str) -> Value {
    json!({"spec": {"resources": {"requests": {"storage": size}}}})
}

/// Provisioned, expanded, refused.
pub(super) fn story() -> Scenario {
    let claim_path = format!("{CLAIMS}/resize-claim");
    Scenario {
        name: "resize",
        about: "a claim asks for more, its volume grows, and nothing can be given back",
        steps: vec![
            step("The driver makes a volume of 1Gi for a claim.")
                .create(CLAIMS, claim("resize-claim", "lab", "1Gi"))
                .until(see(claim_path.clone(), "the claim is Bound", bound).keeping("volume", "/spec/volumeName"))
                .look("kubectl get pvc resize-claim"),
            step("The claim asks for 2Gi, and its class allows that: the driver expands the volume, the volume object reports 2Gi, and then the status of the claim does.")
                .patch(claim_path.clone(), asks("2Gi"))
                .until(see(format!("{VOLUMES}/{{volume}}"), "the volume holds 2Gi", |it| {
                    it["spec"]["capacity"]["storage"] == "2Gi"
                }))
                .until(see(claim_path.clone(), "the claim has 2Gi and waits for nothing", |it| {
                    it["status"]["capacity"]["storage"] == "2Gi"
                        && it["status"]["conditions"].as_array().is_none_or(Vec::is_empty)
                }))
                .look("orlop history pvc/resize-claim --limit 6"),
            step("The claim asks for 1Gi again, which would cut off data: the server refuses it, and nothing has changed.")
                .patch(claim_path.clone(), asks("1Gi"))
                .refused(422)
                .until(see(claim_path, "the claim asks for 2Gi and has 2Gi", |it| {
                    it["spec"]["resources"]["requests"]["storage"] == "2Gi"
                        && it["status"]["capacity"]["storage"] == "2Gi"
                }))
                .look("kubectl get pvc resize-claim"),
        ],
    }
}
