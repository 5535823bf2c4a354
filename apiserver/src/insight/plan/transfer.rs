//! `transfer`: moves a Bound claim with its volume to another namespace. Pure.
//!
//! With the Kubernetes API this takes five manual steps (policy, delete, reference, create, policy), and after
//! each of them another claim can get the data. Here the new claim, the old claim and the volume's reference
//! change in one commit. The volume is written first, so that clients that watch volumes and claims separately
//! see the new owner first.

use super::cluster_view::{ClusterView, claims, kind, volumes};
use super::facts::{
    BIND_COMPLETED, CLAIM_PROTECTION, attachments_of, claim_ref, is_over, key_of, phase, pods_of,
    reference_to, some, volume_name, volumes_pointing_to,
};
use super::model::{Plan, PlanOptions, PlanRefusal, PlanStep, as_new, no};
use crate::insight::ObjectTarget;
use orlop_api::object::Object;

/// `uid` is the uid of the new claim.
pub(super) fn plan(
    view: &ClusterView<'_>,
    target: &ObjectTarget,
    options: &PlanOptions,
    uid: &str,
) -> Result<Plan, PlanRefusal> {
    let claim = view.target(target)?;
    let Some(namespace) = options.namespace.as_deref().filter(|namespace| !namespace.is_empty()) else {
        return Err(PlanRefusal::Options("specify the namespace to move the claim to".to_owned()));
    };
    let name = options.name.as_deref().filter(|name| !name.is_empty()).unwrap_or(claim.name());
    if (namespace, name) == (claim.namespace(), claim.name()) {
        return Err(PlanRefusal::Options("the claim is there already; name another namespace".to_owned()));
    }
    let volume = check_claim(view, &claim)?;
    check_unused(view, &claim, &volume)?;
    check_place(view, namespace, name)?;

    let mut moved = as_new(&claim);
    let mut warnings = leave_behind(&mut moved, &claim, &volume);
    moved.set(&["metadata", "namespace"], namespace);
    moved.set(&["metadata", "name"], name);
    moved.set(&["metadata", "uid"], uid);
    moved.meta().remove("finalizers");
    let mut pointing = volume.clone();
    pointing.set(&["spec", "claimRef"], reference_to(namespace, name, uid));
    // A new name within the same namespace gives no other user access.
    if namespace != claim.namespace() {
        warnings.push(format!(
            "every user with read access to claims in {namespace} gains access to the data of {}",
            key_of(&claim)
        ));
    }
    let (from, to) = (key_of(&claim), format!("{namespace}/{name}"));
    let summary = format!("{from} becomes {to} with its volume {}", volume.name());
    let message = format!("points to {to}");
    Ok(Plan {
        verb: "transfer",
        reason: "Transferred",
        summary,
        warnings,
        mentions: Vec::new(),
        steps: vec![
            PlanStep::update(volumes(), volume, pointing, message),
            PlanStep::create(claims(), moved, "the claim there, bound"),
            PlanStep::delete(claims(), claim, &[], "the claim here; nothing uses it"),
        ],
    })
}

/// Checks that the claim and its volume reference each other and nothing else. Returns the volume.
fn check_claim(view: &ClusterView<'_>, claim: &Object) -> Result<Object, PlanRefusal> {
    if claim.is_terminating() {
        return no("it is being deleted");
    }
    if phase(claim) != "Bound" || claim.annotation(BIND_COMPLETED).is_none() {
        return no(format!("its phase is {:?}; only a Bound claim has something to hand over", phase(claim)));
    }
    let named = volume_name(claim);
    let Some(volume) = view.get(volumes(), "", named) else {
        return no(format!("its volume {named} is not there; recover the claim first"));
    };
    if claim_ref(&volume).is_none_or(|reference| reference.uid != claim.uid()) {
        return no(format!("its volume {named} does not point to it; recover the claim first"));
    }
    if volume.is_terminating() {
        return no(format!("its volume {named} is being deleted"));
    }
    let others: Vec<&str> = claim.finalizers().filter(|finalizer| *finalizer != CLAIM_PROTECTION).collect();
    if !others.is_empty() {
        return no(format!(
            "it is held by {}; the owner of that finalizer has to finish first",
            others.join(", ")
        ));
    }
    Ok(volume)
}

/// Checks that the claim is unused: no pod names it, and the volume is attached to no node.
fn check_unused(view: &ClusterView<'_>, claim: &Object, volume: &Object) -> Result<(), PlanRefusal> {
    let pods = pods_of(view, claim.namespace(), claim.name());
    if !pods.is_empty() {
        let describe = |pod: &Object| match is_over(pod) {
            true => format!("{} (it has ended and still names it)", pod.name()),
            false => pod.name().to_owned(),
        };
        let pods: Vec<String> = pods.iter().map(describe).collect();
        return no(format!(
            "it is used by pods of {}: {}; delete them first",
            claim.namespace(),
            some(&pods)
        ));
    }
    let attached: Vec<String> = attachments_of(view, volume.name())
        .iter()
        .map(|attachment| attachment.str_at(&["spec", "nodeName"]).to_owned())
        .collect();
    if !attached.is_empty() {
        return no(format!("its volume is still attached to {}; wait until it is detached", some(&attached)));
    }
    Ok(())
}

/// Checks that the new namespace and name are available.
fn check_place(view: &ClusterView<'_>, namespace: &str, name: &str) -> Result<(), PlanRefusal> {
    match view.get(kind("", "namespaces"), "", namespace) {
        None => return no(format!("there is no namespace {namespace}; make it first")),
        Some(there) if there.is_terminating() => {
            return no(format!("the namespace {namespace} is being deleted; name another one"));
        }
        Some(_) => {}
    }
    if view.get(claims(), namespace, name).is_some() {
        return no(format!("there is a claim {namespace}/{name}; choose another name"));
    }
    let waiting = volumes_pointing_to(view, namespace, name, "");
    if let Some(volume) = waiting.first() {
        return no(format!(
            "the volume {} is reserved for {namespace}/{name}; a claim has one volume, so choose another name",
            volume.name()
        ));
    }
    Ok(())
}

/// Removes fields that are valid only in the old namespace, and returns warnings about them.
fn leave_behind(moved: &mut Object, claim: &Object, volume: &Object) -> Vec<String> {
    let mut warnings = Vec::new();
    if claim.at(&["metadata", "ownerReferences"]).is_some() {
        moved.meta().remove("ownerReferences");
        warnings
            .push("its owners stay behind; one of them may make a new claim of this name here".to_owned());
    }
    for secret in
        ["nodePublishSecretRef", "nodeStageSecretRef", "controllerPublishSecretRef", "nodeExpandSecretRef"]
    {
        if volume.str_at(&["spec", "csi", secret, "namespace"]) == claim.namespace() {
            let name = volume.str_at(&["spec", "csi", secret, "name"]);
            warnings.push(format!(
                "the volume is used with the secret {}/{name}, which stays where it is",
                claim.namespace()
            ));
        }
    }
    warnings
}
