//! A claim waits for the pod that uses it, and its volume is created where the pod runs.

use super::{claim, pod};
use crate::step::{CLAIMS, PODS, Scenario, bound, event, runs, see, step};

/// Waiting, scheduled, provisioned, used.
pub(super) fn story() -> Scenario {
    let claim_path = format!("{CLAIMS}/consumer-claim");
    let pod_path = format!("{PODS}/consumer-pod");
    Scenario {
        name: "first-consumer",
        about: "a claim waits for its first pod, and the volume is made for the node of that pod",
        steps: vec![
            step("A claim of a class with WaitForFirstConsumer is Pending, which is no error: it waits for a pod, so that its volume can be created where the pod runs.")
                .create(CLAIMS, claim("consumer-claim", "lab-first-consumer", "1Gi"))
                .until(event("consumer-claim", "WaitForFirstConsumer", "an event reports what it waits for"))
                .until(see(claim_path.clone(), "the claim is Pending", |it| it["status"]["phase"] == "Pending"))
                .look("orlop why pvc/consumer-claim"),
            step("A pod uses the claim: the scheduler chooses a node and writes its name on the claim, the driver makes the volume there, and only then the pod gets its node.")
                .create(PODS, pod("consumer-pod", "consumer-claim", None))
                .until(see(claim_path.clone(), "the claim names the node for which its volume was created", |it| {
                    it["metadata"]["annotations"]["volume.kubernetes.io/selected-node"].is_string()
                }))
                .until(see(claim_path, "the claim is Bound", bound))
                .until(see(pod_path.clone(), "the pod has a node", |it| it["spec"]["nodeName"].is_string()))
                .look("orlop history pvc/consumer-claim"),
            step("The volume is attached to that node, mounted there, and the pod runs.")
                .until(see(pod_path, "the pod is Running and ready", runs))
                .look("kubectl get pod,volumeattachment"),
        ],
    }
}
