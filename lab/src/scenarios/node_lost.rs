//! A node stops its heartbeats while a pod there uses a volume.

use serde_json::{Value, json};

use super::{OUT_OF_SERVICE, claim, heard, pod};
use crate::api::LAB;
use crate::step::{
    ATTACHMENTS, CLAIMS, NODES, PODS, Scenario, bound, condition, event, gone, has_taint, runs, see, step,
};

fn on_second(list: &Value) -> bool {
    let items = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    items.len() == 1 && items[0]["spec"]["nodeName"] == "virtual-2"
}

/// Silent, lost, blocked, fenced, moved, back.
pub(super) fn scenario() -> Scenario {
    let (first, second) = (format!("{PODS}/node-lost-first"), format!("{PODS}/node-lost-second"));
    let node = format!("{NODES}/virtual-3");
    let attachments = format!("{ATTACHMENTS}?fieldSelector=spec.source.persistentVolumeName={{volume}}");
    Scenario {
        name: "node-lost",
        about: "a node with an attached volume stops reporting, and an administrator confirms that it is off",
        steps: vec![
            step("A pod runs on virtual-3 and uses a volume.")
                .create(CLAIMS, claim("node-lost-claim", "lab", "1Gi"))
                .create(PODS, pod("node-lost-first", "node-lost-claim", Some("virtual-3")))
                .until(
                    see(format!("{CLAIMS}/node-lost-claim"), "the claim is Bound", bound)
                        .keeping("volume", "/spec/volumeName"),
                )
                .until(see(first.clone(), "the pod runs", runs))
                .until(see(node.clone(), "the node reports that it uses the volume", |it| {
                    it["status"]["volumesInUse"].as_array().is_some_and(|all| !all.is_empty())
                }))
                .look("kubectl get pod,volumeattachment"),
            step("Virtual-3 stops reporting. The cluster cannot know whether the machine is off or only disconnected; after the grace period, orlop considers the node lost.")
                .patch(LAB, json!({"data": {"silent": "virtual-3"}}))
                .until(see(LAB, "the node no longer reports", heard))
                .until(see(node.clone(), "the condition Ready of the node is Unknown", |it| {
                    condition(it, "Ready") == "Unknown" && has_taint(it, "node.kubernetes.io/unreachable")
                }))
                .look("orlop why node/virtual-3"),
            step("After the pod's toleration time, a controller deletes the pod. Only the node can confirm that the pod has ended, so the pod stays Terminating.")
                .until(see(first.clone(), "the pod is Terminating", |it| {
                    it["metadata"]["deletionTimestamp"].is_string()
                }))
                .look("orlop why pod/node-lost-first"),
            step("Another pod, on virtual-2, needs the volume and has to wait: virtual-3 may still be writing to the volume.")
                .create(PODS, pod("node-lost-second", "node-lost-claim", Some("virtual-2")))
                .until(event("node-lost-second", "FailedAttachVolume", "an event names the current user of the volume"))
                .look("orlop why pod/node-lost-second"),
            step("An administrator verifies that the machine is off and adds the taint out-of-service to the node. The old pod is removed, the volume is detached from virtual-3, and the new pod runs.")
                .patch(
                    node.clone(),
                    json!({"spec": {"taints": [{"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}]}}),
                )
                .until(gone(first, "the old pod is gone"))
                .until(see(second.clone(), "the new pod runs", runs))
                .until(see(attachments, "the volume is attached to virtual-2 alone", on_second))
                .look("kubectl get pod,volumeattachment"),
            step("The machine is repaired and reports again, and the administrator removes the taint. The node is Ready, and the volume stays attached to virtual-2.")
                .patch(LAB, json!({"data": {"silent": ""}}))
                .until(see(LAB, "the node reports", heard))
                .patch(node.clone(), json!({"spec": {"taints": null}}))
                .until(see(node, "the node is Ready, without a taint", |it| {
                    condition(it, "Ready") == "True"
                        && !has_taint(it, OUT_OF_SERVICE)
                        && !has_taint(it, "node.kubernetes.io/unreachable")
                }))
                .until(see(second, "the new pod still runs", runs))
                .look("kubectl get node"),
        ],
    }
}
