//! A single-node volume is needed on two nodes.

use serde_json::Value;

use super::{claim, pod};
use crate::step::{ATTACHMENTS, CLAIMS, PODS, Scenario, bound, event, gone, runs, see, step};

fn on(list: &Value, node: &str) -> bool {
    let items = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    items.len() == 1 && items[0]["spec"]["nodeName"] == node && items[0]["status"]["attached"] == true
}

/// Attached, refused, detached, attached.
pub(super) fn scenario() -> Scenario {
    let (first, second) = (format!("{PODS}/multi-first"), format!("{PODS}/multi-second"));
    let attachments = format!("{ATTACHMENTS}?fieldSelector=spec.source.persistentVolumeName={{volume}}");
    Scenario {
        name: "multi-attach",
        about: "a second pod, on another node, waits until the volume is detached from the first node",
        steps: vec![
            step("A claim with ReadWriteOnce is bound to a volume that can be attached to one node at a time.")
                .create(CLAIMS, claim("multi-claim", "lab", "1Gi"))
                .until(
                    see(format!("{CLAIMS}/multi-claim"), "the claim is Bound", bound)
                        .keeping("volume", "/spec/volumeName"),
                )
                .look("kubectl get pvc multi-claim"),
            step("A pod on virtual-1 uses the claim: the volume is attached to virtual-1, and the pod runs.")
                .create(PODS, pod("multi-first", "multi-claim", Some("virtual-1")))
                .until(see(first.clone(), "the first pod runs", runs))
                .until(see(attachments.clone(), "the volume is attached to virtual-1", |list| {
                    on(list, "virtual-1")
                }))
                .look("kubectl get volumeattachment"),
            step("A pod on virtual-2 uses the same claim. Two machines that write to one disk destroy its data, so this pod waits. An event names the pod that uses the volume.")
                .create(PODS, pod("multi-second", "multi-claim", Some("virtual-2")))
                .until(event("multi-second", "FailedAttachVolume", "an event of the second pod names the current user of the volume"))
                .until(see(attachments.clone(), "the volume is still attached to virtual-1 alone", |list| {
                    on(list, "virtual-1")
                }))
                .look("orlop why pod/multi-second")
                .look("kubectl get events --field-selector involvedObject.name=multi-second"),
            step("A user deletes the first pod: virtual-1 unmounts the volume. The volume is then detached from virtual-1 and attached to virtual-2.")
                .delete(first.clone())
                .until(gone(first, "the first pod is gone"))
                .until(see(second, "the second pod runs", runs))
                .until(see(attachments, "the volume is attached to virtual-2 alone", |list| {
                    on(list, "virtual-2")
                }))
                .look("kubectl get volumeattachment"),
        ],
    }
}
