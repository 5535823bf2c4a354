//! `unblock`: removes finalizers of a Terminating object whose owner is gone or whose condition is met. Pure.
//!
//! Removing all finalizers by hand can destroy data of others. Here each finalizer has a rule; one without a rule
//! stays, and the refusal names its owner and what the owner waits for. Only a user can declare that a driver is
//! gone.

use std::collections::HashMap;

use super::cluster_view::{ClusterView, claims, mentions, volumes};
use super::facts::{
    ATTACHER_PREFIX, CLAIM_PROTECTION, PROVISIONER, VOLUME_CONTROLLER, VOLUME_PROTECTION, attachments_of,
    claim_ref, key_of, phase, pods_of, policy, some, users,
};
use super::model::{Plan, PlanOptions, PlanRefusal, PlanStep, no};
use super::release::{is_unregistered, words_for_gone};
use crate::insight::ObjectTarget;
use orlop_api::object::Object;

const ATTRIBUTES_PROTECTION: &str = "kubernetes.io/vac-protection";
/// The CSI driver that manages a volume of an in-tree plugin (upstream: csi-translation-lib).
const MIGRATED_TO: &str = "pv.kubernetes.io/migrated-to";

/// The decision about a finalizer.
#[derive(Clone, Debug, PartialEq, Eq)]
enum FinalizerVerdict {
    /// It can be removed, with the reason.
    Removed(String),
    /// It stays, with the reason.
    Kept(String),
}

use FinalizerVerdict::{Kept, Removed};

pub(super) fn plan(
    view: &ClusterView<'_>,
    target: &ObjectTarget,
    options: &PlanOptions,
) -> Result<Plan, PlanRefusal> {
    let object = view.target(target)?;
    let forced = options.is_forced()?;
    if !object.is_terminating() {
        return no("it is not being deleted; there is nothing to unblock");
    }
    let finalizers: Vec<String> = object.finalizers().map(str::to_owned).collect();
    if finalizers.is_empty() {
        return no(
            "it has no finalizer; its kind ends it in its own time (a pod on its node, a namespace when it is empty)",
        );
    }
    let (mut left, mut removed, mut stays, mut warnings) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut judged: HashMap<String, FinalizerVerdict> = HashMap::new();
    for finalizer in finalizers {
        // A verdict may need a scan of whole collections, and an object may have any number of finalizers.
        let verdict = judged
            .entry(rule(&finalizer).to_owned())
            .or_insert_with(|| judge(view, target, &object, &finalizer, forced, &mut warnings));
        match verdict.clone() {
            Removed(why) => removed.push(format!("{finalizer} is removed: {why}")),
            Kept(why) => {
                stays.push(format!("{finalizer} stays: {why}"));
                left.push(finalizer);
            }
        }
    }
    if removed.is_empty() {
        return no(stays.join("; "));
    }
    let name = key_of(&object);
    let summary = match left.is_empty() {
        true => format!("{name} is deleted: no finalizer is left"),
        false => format!("{name} still waits for {}", left.join(", ")),
    };
    let message = removed.join("; ");
    let steps = vec![PlanStep::delete(target.kind.clone(), object, &left, message)];
    let reason = if forced { "UnblockForced" } else { "Unblocked" };
    Ok(Plan { verb: "unblock", reason, summary, warnings, mentions: stays, steps })
}

/// Finalizers with the same rule have the same verdict.
fn rule(finalizer: &str) -> &str {
    if finalizer.starts_with(ATTACHER_PREFIX) { ATTACHER_PREFIX } else { finalizer }
}

fn judge(
    view: &ClusterView<'_>,
    target: &ObjectTarget,
    object: &Object,
    finalizer: &str,
    forced: bool,
    warnings: &mut Vec<String>,
) -> FinalizerVerdict {
    let names = target.kind.names();
    match (names.plural, finalizer) {
        ("persistentvolumes", VOLUME_PROTECTION) => volume_protection(view, object),
        ("persistentvolumes", VOLUME_CONTROLLER) => match (policy(object), used(view, object)) {
            (_, Some(why)) => Kept(why),
            ("Retain" | "Recycle", None) => Removed("the policy does not delete the asset".to_owned()),
            (_, None) => {
                Kept("the binder deletes the asset first; its status shows what prevents that".to_owned())
            }
        },
        ("persistentvolumes", PROVISIONER) => provisioner(view, object, forced, warnings),
        ("persistentvolumes", held) if held.starts_with(ATTACHER_PREFIX) => {
            let attached = attachments_of(view, object.name());
            match attached.first() {
                Some(one) => Kept(format!(
                    "the attachment {} to {} needs the handle; release that first",
                    one.name(),
                    one.str_at(&["spec", "nodeName"])
                )),
                None => Removed("no attachment needs the handle any more".to_owned()),
            }
        }
        ("persistentvolumeclaims", CLAIM_PROTECTION) => {
            let pods: Vec<String> =
                pods_of(view, object.namespace(), object.name()).iter().map(key_of).collect();
            match pods.is_empty() {
                true => Removed("no pod uses the claim".to_owned()),
                false => Kept(format!("pods use the claim: {}; delete them", some(&pods))),
            }
        }
        ("volumeattributesclasses", ATTRIBUTES_PROTECTION) => attributes(view, object),
        ("volumeattachments", held) if held.starts_with(ATTACHER_PREFIX) => {
            // The rule is in one place: an attachment is the proof that a node may write, and `release` checks the node.
            Kept(
                "its driver has to detach the volume; release asks whether the node can still write"
                    .to_owned(),
            )
        }
        (_, "orphan" | "foregroundDeletion") => {
            Kept("the garbage collector works on what belongs to it; delete or free that".to_owned())
        }
        (_, other) => {
            let owner = other.split_once('/').map_or(other, |(owner, _)| owner);
            Kept(format!(
                "orlop does not know what {owner} waits for; ask its operator, or remove the finalizer with kubectl edit"
            ))
        }
    }
}

/// The reason why a volume is in use, if it is.
fn used(view: &ClusterView<'_>, volume: &Object) -> Option<String> {
    let claim = claim_ref(volume).and_then(|at| view.get(claims(), &at.namespace, &at.name));
    let users = users(view, volume, claim.as_ref());
    (!users.is_empty()).then(|| format!("it is in use by {}", some(&users)))
}

fn volume_protection(view: &ClusterView<'_>, volume: &Object) -> FinalizerVerdict {
    if let Some(why) = used(view, volume) {
        return Kept(why);
    }
    let owner = claim_ref(volume).and_then(|reference| {
        let claim = view.get(claims(), &reference.namespace, &reference.name)?;
        (reference.uid.is_empty() || claim.uid() == reference.uid).then_some(claim)
    });
    match owner {
        Some(claim) if phase(volume) == "Bound" || phase(&claim) == "Bound" => {
            Kept(format!("the claim {} is bound to it; delete that first", key_of(&claim)))
        }
        Some(_) | None => Removed("no claim is bound to it".to_owned()),
    }
}

fn provisioner(
    view: &ClusterView<'_>,
    volume: &Object,
    forced: bool,
    warnings: &mut Vec<String>,
) -> FinalizerVerdict {
    if let Some(why) = used(view, volume) {
        return Kept(why);
    }
    // Only CSI drivers are registered: for other provisioners a missing registration means nothing.
    let driver = match volume.str_at(&["spec", "csi", "driver"]) {
        "" => volume.annotation(MIGRATED_TO).unwrap_or_default().to_owned(),
        driver => driver.to_owned(),
    };
    if driver.is_empty() {
        let name = volume.annotation("pv.kubernetes.io/provisioned-by").unwrap_or("that made it");
        return Kept(format!(
            "the provisioner {name} looks after the asset first, and orlop does not know whether it runs; ask the team that \
             runs it"
        ));
    }
    if !is_unregistered(view, &driver) {
        return Kept(format!(
            "the provisioner {driver} looks after the asset first; its events on the volume show what prevents that"
        ));
    }
    if !forced {
        return Kept(format!(
            "the provisioner {driver} is responsible for the storage; it is not registered on any node, which does not prove that \
             it does not run; {}",
            words_for_gone("and what becomes of the asset")
        ));
    }
    if policy(volume) == "Delete" {
        warnings.push(format!(
            "the asset {} of {driver} is not deleted; it remains in the storage",
            volume.str_at(&["spec", "csi", "volumeHandle"])
        ));
    }
    Removed(format!("the provisioner {driver} is registered nowhere, and force declares it gone"))
}

fn attributes(view: &ClusterView<'_>, class: &Object) -> FinalizerVerdict {
    let name = class.name();
    let places: [&[&str]; 3] = [
        &["spec", "volumeAttributesClassName"],
        &["status", "currentVolumeAttributesClassName"],
        &["status", "modifyVolumeStatus", "targetVolumeAttributesClassName"],
    ];
    let names_it = |object: &Object| places.iter().any(|place| object.str_at(place) == name);
    let mut users: Vec<String> = Vec::new();
    for kind in [volumes(), claims()] {
        let all = view.list(kind, "", |record| mentions(record, name));
        users.extend(all.iter().filter(|object| names_it(object)).map(key_of));
    }
    match users.is_empty() {
        true => Removed("no volume and no claim names the class".to_owned()),
        false => Kept(format!("it is the class of {}", some(&users))),
    }
}
