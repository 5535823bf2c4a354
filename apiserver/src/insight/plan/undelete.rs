//! `undelete`: restores an object as it was at a revision. Pure.
//!
//! The restored object has a new uid, so references to the old uid are broken. For volumes and claims these
//! references are the binding, so the same commit corrects them. A volume is restored with policy Retain.

use orlop_crd::bundled;

use super::Dependents;
use super::cluster_view::{ClusterView, kind, volumes};
use super::facts::{
    BIND_COMPLETED, claim_ref, key_of, phase, policy, reference_to, set_phase, some, users, volume_name,
    volumes_pointing_to,
};
use super::model::{Plan, PlanOptions, PlanRefusal, PlanStep, as_new, no};
use super::past::{Version, version_at};
use super::recover::{deletion_warnings, living_claim, restored, waiting_claim};
use crate::insight::ObjectTarget;
use crate::insight::redact::is_secret;
use crate::registry::Scope;
use orlop_api::object::Object;

/// The known past of the object.
pub(super) struct Past<'a> {
    /// The known versions, newest first.
    pub(super) versions: &'a [Version],
    /// The oldest known revision.
    pub(super) oldest: u64,
    /// The dependents that were deleted with the object.
    pub(super) dependents: &'a Dependents,
    /// The uid of the restored object.
    pub(super) uid: &'a str,
}

pub(super) fn plan(
    view: &ClusterView<'_>,
    target: &ObjectTarget,
    options: &PlanOptions,
    past: &Past<'_>,
) -> Result<Plan, PlanRefusal> {
    let namespace = target.namespace.as_deref().unwrap_or_default();
    if let Some(there) = view.get(&*target.kind, namespace, &target.name) {
        return match there.is_terminating() {
            true => no("it is still being deleted; bring it back once it is gone"),
            false => no("there is an object of that name; delete it first, or compare both with diff"),
        };
    }
    let names = target.kind.names();
    let version = version_at(past.versions, options.at()?, past.oldest)?;
    if let Some(definition) = target.kind.definition() {
        definition_stays(view, definition.name)?;
    }
    if target.kind.scope() == Scope::Namespaced {
        match view.get(kind("", "namespaces"), "", namespace) {
            None => return no(format!("the namespace {namespace} is gone, too; bring that back first")),
            Some(there) if there.is_terminating() => {
                return no(format!(
                    "the namespace {namespace} is being deleted; wait until it is gone, then bring it back"
                ));
            }
            Some(_) => {}
        }
    }
    let (mut warnings, mut mentions) = (Vec::new(), Vec::new());
    let mut steps = match (names.group, names.plural) {
        ("", "persistentvolumes") => volume(view, version, &mut warnings)?,
        ("", "persistentvolumeclaims") => claim(view, version, past.uid, &mut warnings, &mut mentions)?,
        ("storage.k8s.io", "volumeattachments") => {
            return Err(PlanRefusal::Kind(
                "an attachment is made by the attach controller when a pod needs it; bring the pod back"
                    .to_owned(),
            ));
        }
        _ => vec![PlanStep::create(target.kind.clone(), other(version, &mut warnings), "as it was")],
    };
    if is_secret(&*target.kind) {
        warnings.push("the values of secrets are not shown; they come back as they were".to_owned());
    }
    if let Some(step) = steps.iter_mut().find(|step| step.before.is_none()) {
        step.after.set(&["metadata", "uid"], past.uid);
    }
    note_dependents(past.dependents, &mut steps, &mut warnings);
    let summary =
        format!("{} {} is restored as it was at revision {}", names.singular, target.name, version.revision);
    Ok(Plan { verb: "undelete", reason: "Undeleted", summary, warnings, mentions, steps })
}

/// Notes the dependents that were deleted with the object. Their names are part of a step and not of a warning: warnings become part of
/// the Event, and the rights of its readers are not known.
fn note_dependents(dependents: &Dependents, steps: &mut [PlanStep], warnings: &mut Vec<String>) {
    let Dependents { count, names } = dependents;
    if *count == 0 {
        return;
    }
    warnings.push(format!(
        "dependents that were deleted with it are not restored ({count}): undelete each of them"
    ));
    let Some(step) = steps.iter_mut().find(|step| step.before.is_none()) else { return };
    if !names.is_empty() {
        step.message.push_str(&format!("; deleted with it: {}", names.join(", ")));
        match count.saturating_sub(names.len()) {
            0 => {}
            more => step.message.push_str(&format!(" and {more} more")),
        }
    }
}

/// Checks that the definition of a custom kind exists and is not being deleted: after the final cleanup of a
/// deleted definition, nothing would ever remove the object. The read becomes a guard of the commit.
fn definition_stays(view: &ClusterView<'_>, name: &str) -> Result<(), PlanRefusal> {
    // Built-in definitions are not stored and cannot be deleted.
    if bundled::has(name) {
        return Ok(());
    }
    match view.get(kind("apiextensions.k8s.io", "customresourcedefinitions"), "", name) {
        None => no(format!("its definition {name} is gone, too; bring that back first")),
        Some(there) if there.is_terminating() => no(format!(
            "its definition {name} is being deleted with all its objects; wait until it is gone, then bring it back first"
        )),
        Some(_) => Ok(()),
    }
}

/// An object without a binding.
fn other(version: &Version, warnings: &mut Vec<String>) -> Object {
    let mut object = as_new(&version.object);
    // Finalizers of the garbage collector: they belong to the deletion that is undone.
    let left: Vec<String> = version
        .object
        .finalizers()
        .filter(|finalizer| !matches!(*finalizer, "foregroundDeletion" | "orphan"))
        .map(str::to_owned)
        .collect();
    object = super::model::with_finalizers(&object, &left);
    if object.at(&["spec", "nodeName"]).is_some() && object.at(&["spec", "containers"]).is_some() {
        object.remove(&["spec", "nodeName"]);
        warnings.push("the pod is scheduled again; the data in its memory is lost".to_owned());
    }
    if object.at(&["metadata", "ownerReferences"]).is_some() {
        warnings.push(
            "it has owners; if they no longer exist, the garbage collector deletes it again".to_owned(),
        );
    }
    object
}

fn volume(
    view: &ClusterView<'_>,
    version: &Version,
    warnings: &mut Vec<String>,
) -> Result<Vec<PlanStep>, PlanRefusal> {
    warnings.extend(deletion_warnings(&version.object));
    let waiting = waiting_claim(view, &version.object);
    if let Some(claim) = waiting.clone().or_else(|| living_claim(view, &version.object)) {
        let taken = volumes_pointing_to(view, claim.namespace(), claim.name(), claim.uid());
        if let Some(other) = taken.first() {
            return no(format!("the volume {} points to {} already", other.name(), key_of(&claim)));
        }
    }
    let mut after = restored(view, &version.object, waiting.as_ref(), warnings)?;
    if waiting.is_none()
        && let Some(reference) = claim_ref(&after).filter(|reference| reference.uid.is_empty())
        && !volumes_pointing_to(view, &reference.namespace, &reference.name, "").is_empty()
    {
        // Reserved for a claim that has another volume now: a second reservation would interfere.
        after.remove(&["spec", "claimRef"]);
        warnings.push(
            "it was reserved for a claim that has another volume now; it is restored without the reservation"
                .to_owned(),
        );
    }
    let message = match &waiting {
        Some(claim) => {
            format!("with its handle and policy Retain, for {}, which is bound to it", key_of(claim))
        }
        None => "with its handle and policy Retain".to_owned(),
    };
    Ok(vec![PlanStep::create(volumes(), after, message)])
}

fn claim(
    view: &ClusterView<'_>,
    version: &Version,
    uid: &str,
    warnings: &mut Vec<String>,
    mentions: &mut Vec<String>,
) -> Result<Vec<PlanStep>, PlanRefusal> {
    let old = &version.object;
    let mut after = as_new(old);
    after.meta().remove("finalizers");
    let was_bound = old.annotation(BIND_COMPLETED).is_some() && !volume_name(old).is_empty();
    let mine = volumes_pointing_to(view, old.namespace(), old.name(), old.uid());
    if !was_bound {
        after.remove(&["status"]);
        return Ok(vec![PlanStep::create(super::cluster_view::claims(), after, "as it was, not bound")]);
    }
    let named = volume_name(old).to_owned();
    let Some(volume) = view.get(volumes(), "", &named) else {
        warnings.push(format!(
            "its volume {named} is gone, too: the claim is restored as Lost; `orlop pvc recover {} -n {}` restores the volume",
            old.name(),
            old.namespace()
        ));
        after.set(&["status", "phase"], "Lost");
        return Ok(vec![PlanStep::create(
            super::cluster_view::claims(),
            after,
            "as it was; Lost until it is recovered",
        )]);
    };
    if let Some(other) = mine.iter().find(|other| other.name() != named) {
        return no(format!(
            "the volume {} is reserved for {}; a claim has one volume",
            other.name(),
            key_of(old)
        ));
    }
    if volume.is_terminating() {
        return no(format!("its volume {named} is being deleted"));
    }
    let reference = claim_ref(&volume);
    let is_mine = reference.as_ref().is_some_and(|reference| {
        reference.uid == old.uid() && reference.namespace == old.namespace() && reference.name == old.name()
    });
    if !is_mine {
        return no(belongs_to_another(view, old, &volume));
    }
    if policy(&volume) != "Retain" && matches!(phase(&volume), "Released" | "Failed") {
        return no(format!(
            "its volume {named} is {} under the policy {}, so its data may be being deleted right now; set \
             spec.persistentVolumeReclaimPolicy to Retain first",
            phase(&volume),
            policy(&volume)
        ));
    }
    let using = users(view, &volume, None);
    if !using.is_empty() {
        mentions.push(format!("the volume is in use by {}", some(&using)));
    }
    let mut pointing = volume.clone();
    pointing.set(&["spec", "claimRef"], reference_to(old.namespace(), old.name(), uid));
    set_phase(&mut pointing, "Bound");
    after.set(&["status", "phase"], "Bound");
    Ok(vec![
        PlanStep::update(volumes(), volume, pointing, format!("points to {} again", key_of(old))),
        PlanStep::create(super::cluster_view::claims(), after, "as it was, bound"),
    ])
}

/// Describes the current owner of a deleted claim's volume, and how to restore the claim with the volume.
fn belongs_to_another(view: &ClusterView<'_>, old: &Object, volume: &Object) -> String {
    let (named, namespace, name) = (volume.name(), old.namespace(), old.name());
    let Some(reference) = claim_ref(volume) else {
        return format!(
            "its volume {named} has no claim now; create the claim again with spec.volumeName {named}"
        );
    };
    let owner = format!("{}/{}", reference.namespace, reference.name);
    // Another claim owns the data, as after a transfer: a bound volume cannot be reclaimed.
    let bound = living_claim(view, volume)
        .filter(|claim| phase(claim) == "Bound" && volume_name(claim) == named && !claim.is_terminating());
    match bound {
        Some(claim) => {
            let renamed = if claim.name() == name { String::new() } else { format!(" --as {name}") };
            format!(
                "its volume {named} belongs to {owner} now and is bound to it; \
                 `orlop pvc transfer {} -n {} --to {namespace}{renamed}` brings that claim here",
                claim.name(),
                claim.namespace()
            )
        }
        None => format!(
            "its volume {named} belongs to {owner} now; when that claim is gone, reclaim the volume for this one \
             (`orlop pv reclaim {named} --keep-data --for {namespace}/{name}`), and create the claim again"
        ),
    }
}
