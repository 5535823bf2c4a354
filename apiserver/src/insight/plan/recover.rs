//! `recover`: restores the volume of a Lost claim. Pure.
//!
//! A claim is Lost because its volume's object was deleted, because the volume references another claim of that
//! name (one of the two was created again), or because the volume's reference was removed (docs/binding.md). The
//! plan writes the volume so that it references the claim; the binder owns the claim's status and sets it to
//! Bound as soon as it sees the volume. Writing the status here would race with a binder that does not know the
//! volume yet.

use super::cluster_view::{ClusterView, claims, volumes};
use super::facts::{
    BIND_COMPLETED, claim_ref, end_scrub, key_of, phase, reference_to, same_asset, set_phase, some, users,
    volume_name, volumes_pointing_to,
};
use super::model::{Plan, PlanRefusal, PlanStep, as_new, no};
use super::past::Version;
use crate::insight::ObjectTarget;
use orlop_api::object::Object;

pub(super) fn plan(
    view: &ClusterView<'_>,
    target: &ObjectTarget,
    past: &[Version],
) -> Result<Plan, PlanRefusal> {
    let claim = view.target(target)?;
    match phase(&claim) {
        "Lost" => {}
        "Bound" => return no("it is Bound: there is nothing to recover"),
        other => {
            return no(format!(
                "its phase is {other:?}; only a Lost claim had a volume that can be recovered"
            ));
        }
    }
    if claim.is_terminating() {
        return no("it is being deleted; bring its volume back with undelete instead");
    }
    let named = volume_name(&claim);
    let mine = volumes_pointing_to(view, claim.namespace(), claim.name(), claim.uid());
    if named.is_empty() {
        let points = |volume: &&Object| claim_ref(volume).is_some_and(|at| at.uid == claim.uid());
        return match mine.iter().find(points) {
            Some(other) => name_again(claim, other),
            None => no("it names no volume and no volume points to it; create a new claim"),
        };
    }
    if let Some(other) = mine.iter().find(|volume| volume.name() != named) {
        return no(format!(
            "the volume {} points to it already and the claim names {named}; take spec.claimRef of {} away first",
            other.name(),
            other.name()
        ));
    }
    match view.get(volumes(), "", named) {
        Some(volume) => repoint(view, &claim, volume),
        None => bring_back(view, &claim, past),
    }
}

/// The claim has lost the name of its volume, but the volume still references the claim.
fn name_again(claim: Object, volume: &Object) -> Result<Plan, PlanRefusal> {
    let mut after = claim.clone();
    after.set(&["spec", "volumeName"], volume.name());
    Ok(Plan {
        verb: "recover",
        reason: "Recovered",
        summary: format!("{} names {} again, which points to it", key_of(&claim), volume.name()),
        warnings: Vec::new(),
        mentions: Vec::new(),
        steps: vec![PlanStep::update(claims(), claim, after, "the name of its volume")],
    })
}

/// The volume exists, but references another claim or none.
fn repoint(view: &ClusterView<'_>, claim: &Object, volume: Object) -> Result<Plan, PlanRefusal> {
    let name = volume.name().to_owned();
    if volume.is_terminating() {
        return no(format!("its volume {name} is being deleted; recover the claim once the volume is gone"));
    }
    let mut warnings = Vec::new();
    if let Some(reference) = claim_ref(&volume) {
        let owner = view.get(claims(), &reference.namespace, &reference.name);
        let lives = owner.as_ref().is_some_and(|owner| {
            owner.uid() != claim.uid() && (reference.uid.is_empty() || owner.uid() == reference.uid)
        });
        let elsewhere =
            (reference.namespace.as_str(), reference.name.as_str()) != (claim.namespace(), claim.name());
        if lives || elsewhere && reference.uid.is_empty() {
            return no(format!(
                "its volume {name} belongs to the claim {}/{} now; delete that claim, or take the data over from it",
                reference.namespace, reference.name
            ));
        }
        if reference.uid == claim.uid() {
            return no(format!(
                "its volume {name} points to it already; the binder is about to make it Bound"
            ));
        }
        let using: Vec<String> = users(view, &volume, owner.as_ref());
        // The claim's own pods wait for this volume.
        if elsewhere && !using.is_empty() {
            return no(format!(
                "its volume {name} is in use by {}; wait until it is no longer used",
                some(&using)
            ));
        }
        if !reference.uid.is_empty() {
            warnings.push(format!(
                "the volume belonged to an earlier claim {}/{} (uid {}); {} gets what that one has left",
                reference.namespace,
                reference.name,
                reference.uid,
                key_of(claim)
            ));
        }
    }
    if matches!(phase(&volume), "Released" | "Failed") && super::facts::policy(&volume) != "Retain" {
        return no(format!(
            "its volume {name} is {} under the policy {}, so its data may be being deleted right now; set \
             spec.persistentVolumeReclaimPolicy to Retain first",
            phase(&volume),
            super::facts::policy(&volume)
        ));
    }
    let mut after = volume.clone();
    point(&mut after, claim);
    Ok(Plan {
        verb: "recover",
        reason: "Recovered",
        summary: format!("{name} points to {} again, which is bound to it", key_of(claim)),
        warnings,
        mentions: Vec::new(),
        steps: vec![PlanStep::update(volumes(), volume, after, "its claim, and policy Retain")],
    })
}

/// Whether a version of a volume belonged to the claim.
pub(super) fn belongs(claim: &Object, version: &Version) -> bool {
    claim_ref(&version.object).is_some_and(|reference| {
        let by_name = reference.namespace == claim.namespace() && reference.name == claim.name();
        reference.uid == claim.uid() || by_name
    })
}

/// The volume was deleted; restores it from the history.
fn bring_back(view: &ClusterView<'_>, claim: &Object, past: &[Version]) -> Result<Plan, PlanRefusal> {
    let named = volume_name(claim);
    let Some(version) = past.iter().find(|version| belongs(claim, version)) else {
        return match past.is_empty() {
            true => Err(PlanRefusal::Expired(format!(
                "its volume {named} was deleted so long ago that the store has forgotten it; create the volume again with its \
                 handle and a claimRef of this claim"
            ))),
            false => {
                no(format!("no version of the volume {named} that is still known belonged to this claim"))
            }
        };
    };
    let mut warnings = deletion_warnings(&version.object);
    let after = restored(view, &version.object, Some(claim), &mut warnings)?;
    Ok(Plan {
        verb: "recover",
        reason: "Recovered",
        summary: format!(
            "{named} is restored as it was at revision {} and points to {}, which is bound to it",
            version.revision,
            key_of(claim)
        ),
        warnings,
        mentions: Vec::new(),
        steps: vec![PlanStep::create(volumes(), after, "with its handle, policy Retain and its claim")],
    })
}

/// A past volume prepared for a create: with its asset, policy Retain, and the claim that waits for it, if any.
///
/// # Errors
/// A refusal if another volume represents the same asset.
pub(super) fn restored(
    view: &ClusterView<'_>,
    volume: &Object,
    claim: Option<&Object>,
    warnings: &mut Vec<String>,
) -> Result<Object, PlanRefusal> {
    let same = same_asset(view, volume);
    if !same.is_empty() {
        return no(format!(
            "the volume {} stands for the same asset; two objects for one asset would free it under each other",
            some(&same)
        ));
    }
    let mut after = as_new(volume);
    after.remove(&["status", "lastPhaseTransitionTime"]);
    // Admission adds its protection again; the owners of the other finalizers add theirs.
    after.meta().remove("finalizers");
    match claim {
        Some(claim) => point(&mut after, claim),
        None => {
            end_scrub(&mut after);
            after.set(&["spec", "persistentVolumeReclaimPolicy"], "Retain");
            let reference = claim_ref(&after);
            let is_gone = living_claim(view, volume).is_none();
            let phase = match &reference {
                Some(reference) if !reference.uid.is_empty() && is_gone => "Released",
                Some(_) | None => "Available",
            };
            if phase == "Released" {
                warnings.push(format!(
                    "the claim that it had is gone: the volume is restored as Released; `orlop pv reclaim {}` makes it available again",
                    volume.name()
                ));
            }
            set_phase(&mut after, phase);
        }
    }
    Ok(after)
}

/// Warns that the deletion may have deleted the data under this policy.
pub(super) fn deletion_warnings(volume: &Object) -> Vec<String> {
    match super::facts::policy(volume) {
        "Retain" => Vec::new(),
        policy => vec![format!(
            "its reclaim policy was {policy}: the data may have been deleted with the object; look before you \
             rely on it"
        )],
    }
}

/// Points a volume to a claim as a completed binding does, and sets policy Retain.
fn point(volume: &mut Object, claim: &Object) {
    end_scrub(volume);
    volume.set(&["spec", "claimRef"], reference_to(claim.namespace(), claim.name(), claim.uid()));
    volume.set(&["spec", "persistentVolumeReclaimPolicy"], "Retain");
    set_phase(volume, "Bound");
}

/// The existing claim that a volume references by uid.
pub(super) fn living_claim(view: &ClusterView<'_>, volume: &Object) -> Option<Object> {
    let reference = claim_ref(volume)?;
    let claim = view.get(claims(), &reference.namespace, &reference.name)?;
    (!reference.uid.is_empty() && claim.uid() == reference.uid).then_some(claim)
}

/// The existing claim that waits for a volume of this name: it is Lost, or its status does not show the loss yet.
pub(super) fn waiting_claim(view: &ClusterView<'_>, volume: &Object) -> Option<Object> {
    let reference = claim_ref(volume)?;
    let claim = view.get(claims(), &reference.namespace, &reference.name)?;
    let waits = matches!(phase(&claim), "Lost" | "Bound")
        && !claim.is_terminating()
        && volume_name(&claim) == volume.name()
        && claim.annotation(BIND_COMPLETED).is_some();
    waits.then_some(claim)
}
