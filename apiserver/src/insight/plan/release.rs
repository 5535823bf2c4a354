//! `release`: deletes an attachment whose node can no longer detach the volume. Pure.
//!
//! An attachment is the proof that a node may write. It may be deleted only if the node can no longer write (I7):
//! the node is gone, it is marked out of service, or the user accepts the risk by an exact phrase, which the
//! Event records. The driver's finalizer is removed only if the user declares the driver gone by the same phrase:
//! a driver works without any object that mentions it, so the absence of such objects proves nothing.

use serde_json::Value;

use super::cluster_view::{ClusterView, attachments, kind, mentions, nodes, volumes};
use super::facts::{attacher_finalizer, claim_ref, is_over, key_of, pods_of, some};
use super::model::{FORCE_WORDS, Plan, PlanOptions, PlanRefusal, PlanStep, by_force, no};
use crate::insight::ObjectTarget;
use orlop_api::object::Object;

const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

pub(super) fn plan(
    view: &ClusterView<'_>,
    target: &ObjectTarget,
    options: &PlanOptions,
) -> Result<Plan, PlanRefusal> {
    let attachment = view.target(target)?;
    let forced = options.is_forced()?;
    let node_name = attachment.str_at(&["spec", "nodeName"]).to_owned();
    let volume_name = attachment.str_at(&["spec", "source", "persistentVolumeName"]).to_owned();
    let driver = attachment.str_at(&["spec", "attacher"]).to_owned();
    let node = view.get(nodes(), "", &node_name);
    let using = pods_on(view, &volume_name, &node_name);
    let mut warnings = Vec::new();
    let because = match &node {
        None => format!("the node {node_name} is gone"),
        Some(node) if is_out_of_service(node) => {
            if !using.is_empty() && !forced {
                return no(format!(
                    "the node {node_name} is out of service, but {} still use the volume there; delete them first",
                    some(&using)
                ));
            }
            format!("the node {node_name} is out of service")
        }
        Some(_) if forced => {
            warnings.push(format!(
                "{FORCE_WORDS}: there is no proof that {node_name} has stopped; when it still writes while another node \
                 mounts the volume, the file system is destroyed"
            ));
            format!("it is forced, although the node {node_name} is there")
        }
        Some(_) => {
            return no(format!(
                "the node {node_name} is there and may still write to the volume; switch it off and put the taint \
                 {OUT_OF_SERVICE} on it, delete the Node, or force it, by which {FORCE_WORDS} ({})",
                by_force()
            ));
        }
    };
    let mut mentions = Vec::new();
    if !using.is_empty() {
        mentions.push(format!("pods on that node still refer to the volume: {}", some(&using)));
    }
    let finalizer = attacher_finalizer(&driver);
    let unregistered =
        attachment.finalizers().any(|held| held == finalizer) && is_unregistered(view, &driver);
    let gone = forced && unregistered;
    let left: Vec<String> =
        attachment.finalizers().filter(|held| !(gone && *held == finalizer)).map(str::to_owned).collect();
    let if_gone = format!(
        "the driver {driver} is registered nowhere, which does not prove that it is not running; {}",
        words_for_gone("and the storage has let the volume go")
    );
    if attachment.is_terminating() && left.len() == attachment.finalizers().count() {
        let waits = left.join(", ");
        return no(match unregistered {
            true => format!("it is being deleted already and waits for {waits}: {if_gone}"),
            false => format!(
                "it is being deleted already and waits for {waits}: the driver {driver} has to detach the volume; \
                 status.detachError says what hinders it"
            ),
        });
    }
    if gone {
        warnings.push(format!(
            "{FORCE_WORDS}: no driver detaches {volume_name} from {node_name} in the storage; make sure that it is detached"
        ));
    } else if unregistered {
        warnings.push(if_gone);
    }
    let message = match (gone, left.is_empty()) {
        (true, true) => "deleted with the finalizer of its driver, which force declares gone".to_owned(),
        (false, true) => "deleted immediately: it has no finalizer".to_owned(),
        (_, false) => {
            format!("deleted when the driver {driver} has detached the volume ({})", left.join(", "))
        }
    };
    let name = attachment.name().to_owned();
    Ok(Plan {
        verb: "release",
        reason: if forced { "ReleaseForced" } else { "ReleaseBegun" },
        summary: format!("the attachment {name} of {volume_name} is deleted, because {because}"),
        warnings,
        mentions,
        steps: vec![PlanStep::delete(attachments(), attachment, &left, message)],
    })
}

fn is_out_of_service(node: &Object) -> bool {
    let taints = node.at(&["spec", "taints"]).and_then(Value::as_array);
    taints.into_iter().flatten().any(|taint| taint.get("key").is_some_and(|key| key == OUT_OF_SERVICE))
}

/// The pods on a node that use a volume and have not ended.
fn pods_on(view: &ClusterView<'_>, volume: &str, node: &str) -> Vec<String> {
    let Some(volume) = view.get(volumes(), "", volume) else { return Vec::new() };
    let Some(reference) = claim_ref(&volume) else { return Vec::new() };
    pods_of(view, &reference.namespace, &reference.name)
        .iter()
        .filter(|pod| pod.str_at(&["spec", "nodeName"]) == node && !is_over(pod))
        .map(|pod| format!("pod {}", key_of(pod)))
        .collect()
}

/// The end of a sentence that explains how to declare a driver gone. `and` is a further condition.
pub(super) fn words_for_gone(and: &str) -> String {
    format!("if you know that it is gone for good {and}, you can force it ({})", by_force())
}

/// Whether no object mentions a driver: it is neither registered nor on any node. It may be running nevertheless:
/// attachers and provisioners find their driver by a socket.
pub(super) fn is_unregistered(view: &ClusterView<'_>, driver: &str) -> bool {
    if view.get(kind("storage.k8s.io", "csidrivers"), "", driver).is_some() {
        return false;
    }
    let has = |node: &Object| {
        let drivers = node.at(&["spec", "drivers"]).and_then(Value::as_array);
        drivers.into_iter().flatten().any(|entry| entry.get("name").is_some_and(|name| name == driver))
    };
    !view.list(kind("storage.k8s.io", "csinodes"), "", |record| mentions(record, driver)).iter().any(has)
}
