//! `undelete`: an object comes back as it was at a revision. Pure.
//!
//! It is a new object: its uid is new, and so whoever pointed to it by uid does not any more. Of volumes and claims
//! those pointers are the binding, so they are put right in the same commit. A volume comes back with policy Retain.

use orlop_crd::bundled;

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

/// What is known of the past.
pub(super) struct Past<'a> {
    /// Newest first.
    pub(super) versions: &'a [Version],
    /// The oldest revision that the store knows.
    pub(super) oldest: u64,
    /// What went with it.
    pub(super) dependents: &'a [String],
    /// The uid that the object gets.
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
            true => no("it is being deleted and still there; when it is gone it can be brought back"),
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
                    "the namespace {namespace} is being deleted; wait until it is gone, and bring it back"
                ));
            }
            Some(_) => {}
        }
    }
    let mut warnings = Vec::new();
    let mut steps = match (names.group, names.plural) {
        ("", "persistentvolumes") => volume(view, version, &mut warnings)?,
        ("", "persistentvolumeclaims") => claim(view, version, past.uid, &mut warnings)?,
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
    if !past.dependents.is_empty() {
        warnings.push(format!(
            "{} that belonged to it went with it and stay away; undelete brings each back: {}",
            past.dependents.len(),
            some(past.dependents)
        ));
    }
    let summary =
        format!("{} {} comes back as it was at revision {}", names.singular, target.name, version.revision);
    Ok(Plan { verb: "undelete", reason: "Undeleted", summary, warnings, steps })
}

/// That the definition of a custom kind is there and stays: behind the last look for objects that are left nobody would
/// ever remove this one. The commit rests on it.
fn definition_stays(view: &ClusterView<'_>, name: &str) -> Result<(), PlanRefusal> {
    // Those that orlop brings lie in no store and never go.
    if bundled::has(name) {
        return Ok(());
    }
    match view.get(kind("apiextensions.k8s.io", "customresourcedefinitions"), "", name) {
        None => no(format!("its definition {name} is gone, too; bring that back first")),
        Some(there) if there.is_terminating() => no(format!(
            "its definition {name} is being deleted, and all objects of it; wait until it is gone, and bring it back first"
        )),
        Some(_) => Ok(()),
    }
}

/// An object that no binding hangs on.
fn other(version: &Version, warnings: &mut Vec<String>) -> Object {
    let mut object = as_new(&version.object);
    // The collector's own: they ask for the deletion that is being undone.
    let left: Vec<String> = version
        .object
        .finalizers()
        .filter(|finalizer| !matches!(*finalizer, "foregroundDeletion" | "orphan"))
        .map(str::to_owned)
        .collect();
    object = super::model::with_finalizers(&object, &left);
    if object.at(&["spec", "nodeName"]).is_some() && object.at(&["spec", "containers"]).is_some() {
        object.remove(&["spec", "nodeName"]);
        warnings.push("the pod is scheduled anew; what it had in its memory is gone".to_owned());
    }
    if object.at(&["metadata", "ownerReferences"]).is_some() {
        warnings.push(
            "it has owners; where one of them is gone for good the collector takes it away again".to_owned(),
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
        // Kept for a claim that has another volume by now: a second one would be in its way.
        after.remove(&["spec", "claimRef"]);
        warnings.push("it was kept for a claim that has another volume now; it comes back free".to_owned());
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
            "its volume {named} is gone, too: it comes back Lost; `orlop pvc recover {} -n {}` brings the volume back",
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
            "the volume {} is kept for {}; a claim has one volume",
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
        warnings.push(format!("the volume is in use by {}", some(&using)));
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

/// Whose the volume of a deleted claim is now, and how the claim comes back with it.
fn belongs_to_another(view: &ClusterView<'_>, old: &Object, volume: &Object) -> String {
    let (named, namespace, name) = (volume.name(), old.namespace(), old.name());
    let Some(reference) = claim_ref(volume) else {
        return format!(
            "its volume {named} belongs to nobody now; make the claim anew with spec.volumeName {named}"
        );
    };
    let owner = format!("{}/{}", reference.namespace, reference.name);
    // Another claim has the data, as after a transfer: a volume that is bound cannot be reclaimed.
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
             (`orlop pv reclaim {named} --keep-data --for {namespace}/{name}`), and make the claim anew"
        ),
    }
}
