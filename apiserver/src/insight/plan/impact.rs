//! `impact`: predicts the effects of a deletion: the deleted objects, the lost data, and the waits. Pure; never
//! committed.
//!
//! The deletion propagates in the background, as kubectl's: the garbage collector deletes dependents without
//! another owner, and their dependents in turn. Every deleted object is reported as if it were deleted directly,
//! so that a claim includes its volume.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use orlop_store::Record;
use serde_json::Value;

use super::cluster_view::{ClusterView, attachments, claims, mentions, nodes, pods, volumes};
use super::facts::{
    ATTACHER_PREFIX, CLAIM_PROTECTION, PROVISIONER, VOLUME_CONTROLLER, VOLUME_PROTECTION, attachments_of,
    claim_ref, key_of, phase, pods_of, policy, some, users, volume_name,
};
use super::indexes::{Owned, PodUse, stored_kinds, uses};
use super::model::{Plan, PlanRefusal, PlanStep};
use crate::encode::stored;
use crate::insight::ObjectTarget;
use crate::projection::Projection;
use crate::registry::{Kind, KindRef, Scope};
use orlop_api::object::Object;

/// The maximum number of steps in the plan.
const MOST: usize = 200;
/// The maximum depth of ownership. Each level visits all objects with owners.
const DEEPEST: usize = 16;
/// Finalizers of the garbage collector. `orphan` keeps the dependents of an object.
const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of the Job controller on pods; the controller removes it from pods whose Job is deleted.
const JOB_TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// The finalizer of ServiceCIDRs; the controller removes it when no Service uses an address of the range.
const RANGE_PROTECTION: &str = "networking.k8s.io/service-cidr-finalizer";
/// The finalizer of ResourceClaims; the controller removes it when no pod uses the claim.
const CLAIM_RELEASE: &str = "resource.kubernetes.io/delete-protection";

/// The effects found so far.
#[derive(Default)]
struct Effects {
    /// The first [`MOST`] steps.
    steps: Vec<PlanStep>,
    /// The number of all steps.
    count: usize,
    /// The uids of the objects in all steps.
    listed: HashSet<String>,
    /// The uids of the deleted objects.
    going: HashSet<String>,
    /// The uids of deleted objects whose dependents are not searched yet.
    fresh: HashSet<String>,
    warnings: Vec<String>,
    /// Volumes whose data is deleted.
    lost: Vec<String>,
    waits: Vec<About>,
    /// Pods without a node that need a deleted claim.
    stranded: Vec<About>,
    /// The users of claims, by namespace.
    uses: HashMap<String, HashMap<String, Vec<PodUse>>>,
}

/// A note about an object. It applies only if the plan does not delete the object too, which a later step may find.
struct About {
    /// Empty if unknown.
    uid: String,
    words: String,
}

impl About {
    fn new(object: &Object, words: String) -> Self {
        About { uid: object.uid().to_owned(), words }
    }
}

/// `custom` are the custom kinds.
pub(super) fn plan(
    view: &ClusterView<'_>,
    target: &ObjectTarget,
    custom: &[KindRef],
) -> Result<Plan, PlanRefusal> {
    let object = view.target(target)?;
    let mut found = Effects::default();
    tell(view, &target.kind, &object, "the object", custom, &mut found);
    owned(view, object.uid(), custom, &mut found);
    let held = held(&*target.kind, &object);
    if !held.is_empty() {
        found.warnings.push(format!("it is deleted after these finalizers are removed: {}", held.join(", ")));
    }
    Ok(found.into_plan(&format!("{} {}", target.kind.names().singular, key_of(&object))))
}

/// The plan for an object that admission refuses to delete: no steps.
pub(super) fn refused(target: &ObjectTarget, why: &str) -> Plan {
    let place = target.namespace.as_deref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
    let what = format!("{} {place}{}", target.kind.names().singular, target.name);
    Plan {
        verb: "impact",
        reason: "Impact",
        summary: format!("{what} stays, and no other object is deleted: {why}"),
        warnings: Vec::new(),
        mentions: Vec::new(),
        steps: Vec::new(),
    }
}

/// Adds the steps for a deleted object. `because` is the message for kinds without a specific one.
fn tell(
    view: &ClusterView<'_>,
    kind: &KindRef,
    object: &Object,
    because: &str,
    custom: &[KindRef],
    found: &mut Effects,
) {
    let names = kind.names();
    match (names.group, names.plural) {
        ("", "persistentvolumeclaims") => {
            // The target alone needs no index.
            let using = match found.count {
                0 => pods_of(view, object.namespace(), object.name()).iter().map(PodUse::of).collect(),
                _ => {
                    let index = found.uses.entry(object.namespace().to_owned());
                    let index = index.or_insert_with(|| uses(view, object.namespace()));
                    index.get(object.name()).cloned().unwrap_or_default()
                }
            };
            claim(view, object, &using, found);
        }
        ("", "persistentvolumes") => volume(view, object, found),
        ("", "namespaces") => namespace(view, object, custom, found),
        ("", "nodes") => node(view, object, found),
        ("storage.k8s.io", "volumeattachments") => attachment(view, object, found),
        ("storage.k8s.io", "storageclasses") => class(view, kind, object, found),
        _ => found.step(kind.clone(), object, because),
    }
}

fn attachment(view: &ClusterView<'_>, attachment: &Object, found: &mut Effects) {
    let node = attachment.str_at(&["spec", "nodeName"]).to_owned();
    let volume = attachment.str_at(&["spec", "source", "persistentVolumeName"]).to_owned();
    if view.get(nodes(), "", &node).is_some() {
        found.warnings.push(format!("pods on {node} that still use {volume} lose access to it"));
    }
    let message = match attachment.finalizers().any(|held| held.starts_with(ATTACHER_PREFIX)) {
        true => format!("deleted when its driver has detached {volume} from {node}"),
        false => format!("{volume} is detached from {node}"),
    };
    found.step(attachments(), attachment, message);
}

fn class(view: &ClusterView<'_>, kind: &KindRef, class: &Object, found: &mut Effects) {
    let name = class.name();
    found.step(kind.clone(), class, "the class");
    let waiting: Vec<String> = view
        .list(claims(), "", |record| mentions(record, name))
        .iter()
        .filter(|claim| claim.str_at(&["spec", "storageClassName"]) == name && phase(claim) == "Pending")
        .map(key_of)
        .collect();
    if !waiting.is_empty() {
        found.warnings.push(format!(
            "no volume is provisioned any more for the claims that wait for one: {}",
            some(&waiting)
        ));
    }
}

/// The finalizers that the message of a step does not cover: others have to remove them.
fn held(kind: &dyn Kind, object: &Object) -> Vec<String> {
    let is_told = |held: &str| match kind.names().plural {
        _ if held == ORPHAN || held == FOREGROUND => true,
        "persistentvolumeclaims" => held == CLAIM_PROTECTION,
        // The provisioner removes its finalizer after deleting the asset.
        "persistentvolumes" if held == PROVISIONER => policy(object) == "Delete",
        "persistentvolumes" => {
            held == VOLUME_PROTECTION || held == VOLUME_CONTROLLER || held.starts_with(ATTACHER_PREFIX)
        }
        "volumeattachments" => held.starts_with(ATTACHER_PREFIX),
        "pods" => held == JOB_TRACKING,
        "servicecidrs" => held == RANGE_PROTECTION,
        "resourceclaims" => held == CLAIM_RELEASE,
        _ => false,
    };
    object.finalizers().filter(|&held| !is_told(held)).map(str::to_owned).collect()
}

/// The part of a step's object in responses: the plan is never committed, and whole objects may be large.
fn outline(object: &Object) -> Object {
    let mut outline = Object::default();
    for name in ["name", "namespace", "uid"] {
        if let Some(value) = object.at(&["metadata", name]) {
            outline.set(&["metadata", name], value.clone());
        }
    }
    outline
}

impl Effects {
    fn step(&mut self, kind: impl Into<KindRef>, object: &Object, message: impl Into<String>) {
        let (kind, mut message) = (kind.into(), message.into());
        let held = held(&*kind, object);
        if !held.is_empty() {
            message = format!("{message}; deleted when {} is removed", held.join(", "));
        }
        self.goes(object);
        self.add(object, || PlanStep::delete(kind, outline(object), &[], message));
    }

    fn add(&mut self, object: &Object, step: impl FnOnce() -> PlanStep) {
        if !object.uid().is_empty() && !self.listed.insert(object.uid().to_owned()) {
            return;
        }
        self.count += 1;
        if self.steps.len() < MOST {
            self.steps.push(step());
        }
    }

    /// Marks an object as deleted; returns whether it was not marked before.
    fn goes(&mut self, object: &Object) -> bool {
        let uid = object.uid();
        if uid.is_empty() || !self.going.insert(uid.to_owned()) {
            return false;
        }
        if !object.finalizers().any(|held| held == ORPHAN) {
            self.fresh.insert(uid.to_owned());
        }
        true
    }

    /// The notes about objects that are not deleted, without duplicates.
    fn staying(&self, all: &[About]) -> Vec<String> {
        let mut seen = HashSet::new();
        let staying = all.iter().filter(|about| !self.going.contains(&about.uid));
        staying.filter(|about| seen.insert(&about.words)).map(|about| about.words.clone()).collect()
    }

    fn into_plan(mut self, what: &str) -> Plan {
        let (waits, stranded) = (self.staying(&self.waits), self.staying(&self.stranded));
        let others = self.count.saturating_sub(1);
        let mut summary = match others {
            0 => format!("{what} is deleted"),
            1 => format!("{what} is deleted, and 1 more object is changed or deleted"),
            _ => format!("{what} is deleted, and {others} more objects are changed or deleted"),
        };
        if !waits.is_empty() {
            summary = format!("{summary}; it waits for {}", some(&waits));
        }
        if !stranded.is_empty() {
            let pods = some(&stranded);
            self.warnings.push(format!("pods that have no node yet cannot start without it: {pods}"));
        }
        if !self.lost.is_empty() {
            summary = format!("{summary}; the data of {} is deleted", some(&self.lost));
            self.warnings.insert(0, format!("data is deleted for good: {}", some(&self.lost)));
        }
        if self.count > MOST {
            self.warnings.push(format!("only the first {MOST} of {} objects are listed", self.count));
        }
        let warnings = self.warnings;
        let (verb, reason, mentions) = ("impact", "Impact", Vec::new());
        Plan { verb, reason, summary, warnings, mentions, steps: self.steps }
    }
}

/// `using` are the pods that name the claim.
fn claim(view: &ClusterView<'_>, claim: &Object, using: &[PodUse], found: &mut Effects) {
    // As the protection controller counts: all pods with a node, ended or not.
    let mut holding: Vec<String> = Vec::new();
    for pod in using {
        let about = |words: String| About { uid: pod.uid.clone(), words };
        if pod.has_node {
            holding.push(format!("pod {}", pod.key));
            found.waits.push(about(format!("pod {}", pod.key)));
        } else if !pod.is_over {
            found.stranded.push(about(pod.key.clone()));
        }
    }
    let message = match holding.len() {
        0 if held(claims(), claim).is_empty() => "deleted immediately".to_owned(),
        0 => "no pod uses it".to_owned(),
        1 => format!("deleted when {} is gone", some(&holding)),
        _ => format!("deleted when {} are gone", some(&holding)),
    };
    found.step(claims(), claim, message);
    let bound = view.get(volumes(), "", volume_name(claim));
    let bound =
        bound.filter(|volume| claim_ref(volume).is_some_and(|reference| reference.uid == claim.uid()));
    if let Some(volume) = bound {
        released(&volume, found);
    }
}

/// Adds the effects on a volume whose claim is deleted.
fn released(volume: &Object, found: &mut Effects) {
    // The volume is deleted itself and has its own step.
    if found.going.contains(volume.uid()) {
        return;
    }
    let name = volume.name().to_owned();
    match policy(volume) {
        "Delete" => {
            found.lost.push(name);
            found.step(volumes(), volume, "its policy is Delete: the asset and the object go");
        }
        "Recycle" => {
            found.lost.push(name);
            let step = "its policy is Recycle: it is scrubbed and offered again";
            found.add(volume, || PlanStep::update(volumes(), outline(volume), outline(volume), step));
        }
        _ => {
            let step = "its policy is Retain: it becomes Released with its data; `orlop pv reclaim` makes it available again";
            found.add(volume, || PlanStep::update(volumes(), outline(volume), outline(volume), step));
        }
    }
}

fn volume(view: &ClusterView<'_>, volume: &Object, found: &mut Effects) {
    let reference = claim_ref(volume);
    let claim = reference.as_ref().and_then(|at| view.get(claims(), &at.namespace, &at.name));
    let bound = claim.as_ref().filter(|claim| volume_name(claim) == volume.name());
    let using = users(view, volume, claim.as_ref());
    let deletes = policy(volume) == "Delete"
        && volume.finalizers().any(|held| held == VOLUME_CONTROLLER || held == PROVISIONER);
    let message = match (bound, deletes) {
        (Some(claim), _) => format!("stays Terminating while the claim {} is bound to it", key_of(claim)),
        (None, true) => "the asset and the object go".to_owned(),
        (None, false) => {
            "only the object is deleted; the storage remains, and no object refers to it any more; undelete brings \
             the object back with its handle while it is in the history"
                .to_owned()
        }
    };
    if let Some(claim) = bound {
        found.waits.push(About::new(claim, format!("claim {}", key_of(claim))));
    }
    found.waits.extend(using.into_iter().map(|words| About { uid: String::new(), words }));
    if deletes {
        found.lost.push(volume.name().to_owned());
    }
    found.step(volumes(), volume, message);
    for attachment in attachments_of(view, volume.name()) {
        let node = attachment.str_at(&["spec", "nodeName"]).to_owned();
        found.step(attachments(), &attachment, format!("has to be detached from {node} first"));
    }
}

fn namespace(view: &ClusterView<'_>, namespace: &Object, custom: &[KindRef], found: &mut Effects) {
    found.step(super::cluster_view::kind("", "namespaces"), namespace, "deleted last, when it is empty");
    let using = uses(view, namespace.name());
    for kind in stored_kinds(custom).filter(|kind| kind.scope() == Scope::Namespaced) {
        let plural = kind.names().plural;
        for object in view.glance(&*kind, namespace.name(), |_| true) {
            if plural == "persistentvolumeclaims" {
                let using = using.get(object.name()).map(Vec::as_slice).unwrap_or_default();
                claim(view, &object, using, found);
            } else if plural != "events" {
                found.step(kind.clone(), &object, "deleted with its namespace");
            }
        }
    }
}

fn node(view: &ClusterView<'_>, node: &Object, found: &mut Effects) {
    let name = node.name();
    found.step(nodes(), node, "the object; what runs there is not stopped by that");
    for pod in view.glance(pods(), "", |record| mentions(record, name)) {
        if pod.str_at(&["spec", "nodeName"]) == name {
            found.step(pods(), &pod, "the pod garbage collector deletes pods without a node");
        }
    }
    for attachment in view.glance(attachments(), "", |record| mentions(record, name)) {
        if attachment.str_at(&["spec", "nodeName"]) == name {
            let volume = attachment.str_at(&["spec", "source", "persistentVolumeName"]).to_owned();
            found.step(attachments(), &attachment, format!("{volume} is detached by force after its wait"));
        }
    }
}

/// Adds the objects that the garbage collector deletes with their last owner, and the effects of that. `first` is
/// the uid of the target.
fn owned(view: &ClusterView<'_>, first: &str, custom: &[KindRef], found: &mut Effects) {
    if found.fresh.is_empty() {
        return;
    }
    let all = Owned::of(view, custom);
    for _ in 0..DEEPEST {
        let level = std::mem::take(&mut found.fresh);
        if level.is_empty() {
            return;
        }
        for (kind, record) in dependants(&all, &level, found) {
            let Ok(object) = stored::decode_as(&*kind, &record) else { continue };
            if found.listed.contains(object.uid()) {
                continue;
            }
            let because = because(&object, first);
            let at = found.steps.len();
            tell(view, &kind, &object, &because, custom, found);
            // The object's own step comes first; kinds with a specific message also state the owner.
            if let Some(step) = found.steps.get_mut(at).filter(|step| !step.message.starts_with(&because)) {
                step.message = format!("{because}: {}", step.message);
            }
        }
    }
    if !found.fresh.is_empty() {
        found.warnings.push(format!(
            "owners of owners are followed {DEEPEST} times; objects owned by the last of them are deleted too, but not listed"
        ));
    }
}

/// The dependents of one level that have no other owner left. No object is returned twice, so cycles of owners
/// end.
fn dependants(
    all: &Owned,
    level: &HashSet<String>,
    found: &mut Effects,
) -> Vec<(KindRef, Arc<Record<Projection>>)> {
    let mut list = Vec::new();
    for (kind, objects) in &all.0 {
        let going = &found.going;
        let is_of_level = |owners: &[String]| {
            owners.iter().any(|uid| level.contains(uid)) && owners.iter().all(|uid| going.contains(uid))
        };
        let of_level: Vec<_> = objects.iter().filter(|(_, owners)| is_of_level(owners)).collect();
        for (record, _) in of_level {
            let Ok(object) = stored::decode_as(&**kind, record) else { continue };
            if !found.listed.contains(object.uid()) && found.goes(&object) {
                list.push((kind.clone(), record.clone()));
            }
        }
    }
    list
}

fn because(object: &Object, first: &str) -> String {
    let owners = object.at(&["metadata", "ownerReferences"]).and_then(Value::as_array);
    let mut owners = owners.into_iter().flatten();
    let part = |owner: &Value, name: &str| owner[name].as_str().unwrap_or_default().to_owned();
    match (owners.next(), owners.next()) {
        (Some(owner), None) if part(owner, "uid") == first => "belongs to it alone".to_owned(),
        (Some(owner), None) => {
            format!("belongs to {} {} alone, which is deleted", part(owner, "kind"), part(owner, "name"))
        }
        (Some(_), Some(_)) | (None, _) => "all its owners are deleted".to_owned(),
    }
}
