//! A claim waits for the pod that uses it, and its volume is created for the node of that pod.

use super::{claim, pod};
use crate::step::{CLAIMS, PODS, Scenario, bound, event, runs, see, step};

/// Waiting, scheduled, provisioned, used.
pub(super) fn scenario() -> Scenario {
    let claim_path = format!("{CLAIMS}/consumer-claim");
    let pod_path = format!("{PODS}/consumer-pod");
    Scenario {
        name: "first-consumer",
        about: "a claim waits for its first pod, and its volume is created for the node of that pod",
        steps: vec![
            step("A claim of a class with WaitForFirstConsumer is Pending. This is not an error: the driver creates the volume only after a pod uses the claim, for the node that the scheduler selects for this pod.")
                .create(CLAIMS, claim("consumer-claim", "lab-first-consumer", "1Gi"))
                .until(event("consumer-claim", "WaitForFirstConsumer", "an event reports what it waits for"))
                .until(see(claim_path.clone(), "the claim is Pending", |it| it["status"]["phase"] == "Pending"))
                .look("orlop why pvc/consumer-claim"),
            step("A pod uses the claim. The scheduler selects a node and writes its name to the claim, and the driver creates the volume for that node. Only then does the scheduler assign the pod to the node.")
                .create(PODS, pod("consumer-pod", "consumer-claim", None))
                .until(see(claim_path.clone(), "the claim has the annotation with the selected node", |it| {
                    it["metadata"]["annotations"]["volume.kubernetes.io/selected-node"].is_string()
                }))
                .until(see(claim_path, "the claim is Bound", bound))
                .until(see(pod_path.clone(), "the pod has a node", |it| it["spec"]["nodeName"].is_string()))
                .look("orlop history pvc/consumer-claim"),
            step("The volume is attached to that node and mounted there, and the pod runs.")
                .until(see(pod_path, "the pod is Running and ready", runs))
                .look("kubectl get pod,volumeattachment"),
        ],
    }
}
