//! `reclaim`: makes a released volume available again, with its data or scrubbed. Pure.
//!
//! By hand this means removing `spec.claimRef` (to keep the data) or changing the policy (to scrub it). The verb
//! refuses the cases that make this dangerous: the claim still exists, pods or attachments still use the volume,
//! or the policy means that a controller may be deleting the data right now.

use super::cluster_view::{ClusterView, claims, volumes};
use super::facts::{
    BOUND_BY_CONTROLLER, POLICY_AFTER_SCRUB, claim_ref, free, key_of, phase, policy, reference_to, set_phase,
    some, users, volume_name, volumes_pointing_to,
};
use super::model::{Plan, PlanOptions, PlanRefusal, PlanStep, no};
use crate::insight::ObjectTarget;
use orlop_api::object::Object;

/// The volume types that the binder can scrub (controller/src/pv: hostPath and NFS).
const SCRUBBED: [&str; 2] = ["hostPath", "nfs"];

pub(super) fn plan(
    view: &ClusterView<'_>,
    target: &ObjectTarget,
    options: &PlanOptions,
) -> Result<Plan, PlanRefusal> {
    let volume = view.target(target)?;
    let kept_for = options.claim()?;
    match (options.keep_data, options.scrub) {
        (true, false) => {}
        (false, true) if kept_for.is_none() => {}
        (false, true) => {
            return Err(PlanRefusal::Options(
                "for requires keepData (--keep-data): a scrubbed volume is available to every claim"
                    .to_owned(),
            ));
        }
        (true, true) | (false, false) => {
            return Err(PlanRefusal::Options(
                "specify one of keepData (the next claim gets the data) and scrub (the data is deleted first)"
                    .to_owned(),
            ));
        }
    }
    let former = check_released(view, &volume)?;
    if options.scrub { scrub(volume, &former) } else { keep(view, volume, &former, kept_for) }
}

/// Checks that no claim owns the volume any more. Returns the name of its last claim.
fn check_released(view: &ClusterView<'_>, volume: &Object) -> Result<String, PlanRefusal> {
    if volume.is_terminating() {
        return no("it is being deleted; once it is gone, bring it back with undelete");
    }
    let reference = claim_ref(volume);
    let former = reference.as_ref().map(|at| format!("{}/{}", at.namespace, at.name)).unwrap_or_default();
    match phase(volume) {
        "Released" | "Failed" => {}
        "Bound" => {
            return no(format!("it is bound to the claim {former}; that claim has to be deleted first"));
        }
        "Available" => return no("it is Available: a claim can have it as it is"),
        other => {
            return no(format!("its phase is {other:?}; only a Released or Failed volume can be reclaimed"));
        }
    }
    let Some(reference) = reference else {
        return no("it points to no claim any more, and the binder is about to make it Available");
    };
    let claim = view.get(claims(), &reference.namespace, &reference.name);
    if let Some(claim) = &claim {
        let is_meant = reference.uid.is_empty() || claim.uid() == reference.uid;
        let named = volume_name(claim);
        if named == volume.name() || is_meant && named.is_empty() {
            return no(format!(
                "the claim {former} is there and names it; delete that claim first, or recover it if it is Lost"
            ));
        }
    }
    let users = users(view, volume, claim.as_ref());
    if !users.is_empty() {
        let attached = users.iter().any(|user| user.starts_with("attachment "));
        let release = if attached { " (an attachment: `orlop attachment release NAME`)" } else { "" };
        return no(format!(
            "it is still in use by {}; wait until that has let it go, or delete it{release}",
            some(&users)
        ));
    }
    Ok(former)
}

fn keep(
    view: &ClusterView<'_>,
    volume: Object,
    former: &str,
    kept_for: Option<(String, String)>,
) -> Result<Plan, PlanRefusal> {
    let name = volume.name().to_owned();
    match policy(&volume) {
        "Retain" => {}
        other => {
            return no(format!(
                "its reclaim policy is {other}, so its data may be being deleted right now; set \
                 spec.persistentVolumeReclaimPolicy to Retain, and reclaim it when no deletion of it is under way"
            ));
        }
    }
    let mut after = volume.clone();
    free(&mut after);
    set_phase(&mut after, "Available");
    let mut warnings = Vec::new();
    let (summary, message) = match kept_for {
        None => {
            warnings.push(format!(
                "the next claim that fits gets the data that {former} has left, in any namespace; name one to choose \
                 (--for NAMESPACE/CLAIM)"
            ));
            (format!("{name} becomes Available with the data of {former}"), "points to no claim any more")
        }
        Some((namespace, claim)) => {
            check_receiver(view, &volume, &namespace, &claim)?;
            after.set(&["spec", "claimRef"], reference_to(&namespace, &claim, ""));
            warnings.push(format!("{namespace}/{claim} gets the data that {former} has left"));
            let summary = format!("{name} is reserved for {namespace}/{claim} with the data of {former}");
            (summary, "reserved by name, as a person would write it")
        }
    };
    let steps = vec![PlanStep::update(volumes(), volume, after, message)];
    let (verb, reason, mentions) = ("reclaim", "Reclaimed", Vec::new());
    Ok(Plan { verb, reason, summary, warnings, mentions, steps })
}

/// Checks that the volume can be reserved for a claim.
fn check_receiver(
    view: &ClusterView<'_>,
    volume: &Object,
    namespace: &str,
    name: &str,
) -> Result<(), PlanRefusal> {
    let claim = view.get(claims(), namespace, name);
    let uid = claim.as_ref().map(Object::uid).unwrap_or_default();
    let others = volumes_pointing_to(view, namespace, name, uid);
    if let Some(other) = others.iter().find(|other| other.name() != volume.name()) {
        return no(format!(
            "the volume {} points to {namespace}/{name} already; a claim has one volume",
            other.name()
        ));
    }
    let Some(claim) = claim else { return Ok(()) };
    if claim.is_terminating() {
        return no(format!(
            "{} is being deleted; wait until it is gone, or name another claim",
            key_of(&claim)
        ));
    }
    let named = volume_name(&claim);
    if !named.is_empty() && named != volume.name() {
        return no(format!("{} has the volume {named}; name a claim that has none", key_of(&claim)));
    }
    let mode = |object: &Object| match object.str_at(&["spec", "volumeMode"]) {
        "" => "Filesystem".to_owned(),
        mode => mode.to_owned(),
    };
    if mode(&claim) != mode(volume) {
        return no(format!(
            "{} requests volumeMode {}, but the volume has {}",
            key_of(&claim),
            mode(&claim),
            mode(volume)
        ));
    }
    Ok(())
}

fn scrub(volume: Object, former: &str) -> Result<Plan, PlanRefusal> {
    let name = volume.name().to_owned();
    if !SCRUBBED.iter().any(|source| volume.at(&["spec", source]).is_some()) {
        return no(format!(
            "volumes of this kind cannot be scrubbed (those of {} can); clear it by hand and reclaim it with its data (--keep-data)",
            SCRUBBED.join(" and ")
        ));
    }
    let before = policy(&volume).to_owned();
    match before.as_str() {
        "Retain" => {}
        "Recycle" => return no("its reclaim policy is Recycle: it is scrubbed without being asked"),
        other => {
            return no(format!(
                "its reclaim policy is {other}, so it may be being deleted right now; set \
                 spec.persistentVolumeReclaimPolicy to Retain first"
            ));
        }
    }
    let mut after = volume.clone();
    after.set(&["spec", "persistentVolumeReclaimPolicy"], "Recycle");
    after.set(&["metadata", "annotations", POLICY_AFTER_SCRUB], before.as_str());
    // A reference that a user wrote would remain as a reservation by name, but the volume must be available to
    // every claim.
    after.set(&["metadata", "annotations", BOUND_BY_CONTROLLER], "yes");
    Ok(Plan {
        verb: "reclaim",
        reason: "Scrubbing",
        summary: format!(
            "everything in {name} is deleted, then it becomes Available with policy {before} again"
        ),
        warnings: vec![format!("the data that {former} has left in {name} is deleted for good")],
        mentions: Vec::new(),
        steps: vec![PlanStep::update(volumes(), volume, after, "policy Recycle for one round")],
    })
}
