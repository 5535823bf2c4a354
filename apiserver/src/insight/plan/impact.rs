//! `impact`: what a deletion would do: what goes, what loses its data, what waits and for what. Pure; never carried out.

use std::collections::{HashMap, HashSet};

use super::facts::{
    attachments_of, claim_ref, claims_of, is_over, key_of, phase, pods_of, policy, some, users, volume_name,
};
use super::model::{Plan, Refusal, Step};
use super::world::{World, attachments, claims, mentions, nodes, pods, volumes};
use crate::insight::Target;
use crate::object::Object;
use crate::registry::{KINDS, KindRef, Scope};

/// Steps that are told one by one.
const MOST: usize = 200;

/// What has been found so far.
#[derive(Default)]
struct Found {
    /// The first [`MOST`] of them.
    steps: Vec<Step>,
    /// All of them.
    count: usize,
    /// The uids of their objects.
    told: HashSet<String>,
    warnings: Vec<String>,
    /// Volumes whose data is deleted.
    lost: Vec<String>,
    waits: Vec<String>,
}

/// `custom` are the kinds that definitions have brought.
pub(super) fn plan(world: &World<'_>, target: &Target, custom: &[KindRef]) -> Result<Plan, Refusal> {
    let object = world.target(target)?;
    let names = target.kind.names();
    let mut found = Found::default();
    match (names.group, names.plural) {
        ("", "persistentvolumeclaims") => {
            let using = pods_of(world, object.namespace(), object.name());
            claim(world, &object, &using.iter().collect::<Vec<_>>(), &mut found);
        }
        ("", "persistentvolumes") => volume(world, &object, &mut found),
        ("", "namespaces") => namespace(world, &object, custom, &mut found),
        ("", "nodes") => node(world, &object, &mut found),
        ("storage.k8s.io", "volumeattachments") => {
            let node = object.str_at(&["spec", "nodeName"]).to_owned();
            let volume = object.str_at(&["spec", "source", "persistentVolumeName"]).to_owned();
            if world.get(nodes(), "", &node).is_some() {
                found
                    .warnings
                    .push(format!("pods on {node} that still use {volume} lose it under their hands"));
            }
            found.step(target.kind.clone(), &object, format!("{volume} is detached from {node}"));
        }
        ("storage.k8s.io", "storageclasses") => {
            let name = object.name();
            found.step(target.kind.clone(), &object, "the class");
            let waiting: Vec<String> = world
                .list(claims(), "", |record| mentions(record, name))
                .iter()
                .filter(|claim| {
                    claim.str_at(&["spec", "storageClassName"]) == name && phase(claim) == "Pending"
                })
                .map(key_of)
                .collect();
            if !waiting.is_empty() {
                found
                    .warnings
                    .push(format!("claims that wait for a volume of it wait for ever: {}", some(&waiting)));
            }
        }
        _ => found.step(target.kind.clone(), &object, "the object"),
    }
    owned(world, &object, custom, &mut found);
    let held: Vec<&str> = object.finalizers().collect();
    if !held.is_empty() && found.waits.is_empty() {
        found.warnings.push(format!("it goes when these are taken away: {}", held.join(", ")));
    }
    Ok(found.told(&format!("{} {}", names.singular, key_of(&object))))
}

impl Found {
    fn step(&mut self, kind: impl Into<KindRef>, object: &Object, message: impl Into<String>) {
        let left: Vec<String> = object.finalizers().map(str::to_owned).collect();
        self.add(object, || Step::delete(kind, object.clone(), &left, message));
    }

    fn add(&mut self, object: &Object, step: impl FnOnce() -> Step) {
        self.count += 1;
        self.told.insert(object.uid().to_owned());
        if self.steps.len() < MOST {
            self.steps.push(step());
        }
    }

    fn told(mut self, what: &str) -> Plan {
        let others = self.count.saturating_sub(1);
        let mut summary = match others {
            0 => format!("{what} goes"),
            1 => format!("{what} goes, and 1 more changes or goes with it"),
            _ => format!("{what} goes, and {others} more change or go with it"),
        };
        if !self.waits.is_empty() {
            summary = format!("{summary}; it waits for {}", some(&self.waits));
        }
        if !self.lost.is_empty() {
            summary = format!("{summary}; the data of {} is deleted", some(&self.lost));
            self.warnings.insert(0, format!("data is deleted for good: {}", some(&self.lost)));
        }
        if self.count > MOST {
            self.warnings.push(format!("only the first {MOST} of {} objects are told", self.count));
        }
        let warnings = self.warnings;
        Plan { verb: "impact", reason: "Impact", summary, warnings, steps: self.steps }
    }
}

/// `using` are the pods that name the claim.
fn claim(world: &World<'_>, claim: &Object, using: &[&Object], found: &mut Found) {
    // As protection counts: whoever has a node, over or not.
    let holding: Vec<String> = using
        .iter()
        .filter(|pod| !pod.str_at(&["spec", "nodeName"]).is_empty())
        .map(|pod| format!("pod {}", key_of(pod)))
        .collect();
    let message = match holding.len() {
        0 => "goes at once".to_owned(),
        1 => format!("goes when {} is gone", some(&holding)),
        _ => format!("goes when {} are gone", some(&holding)),
    };
    found.waits.extend(holding);
    found.step(claims(), claim, message);
    let waiting = using.iter().filter(|pod| pod.str_at(&["spec", "nodeName"]).is_empty() && !is_over(pod));
    let waiting: Vec<String> = waiting.map(|pod| key_of(pod)).collect();
    if !waiting.is_empty() {
        found
            .warnings
            .push(format!("pods that have no node yet cannot start without it: {}", some(&waiting)));
    }
    let bound = world.get(volumes(), "", volume_name(claim));
    let bound =
        bound.filter(|volume| claim_ref(volume).is_some_and(|reference| reference.uid == claim.uid()));
    if let Some(volume) = bound {
        released(&volume, found);
    }
}

/// What becomes of a volume whose claim goes.
fn released(volume: &Object, found: &mut Found) {
    let name = volume.name().to_owned();
    match policy(volume) {
        "Delete" => {
            found.lost.push(name);
            found.step(volumes(), volume, "its policy is Delete: the asset and the object go");
        }
        "Recycle" => {
            found.lost.push(name);
            let step = "its policy is Recycle: it is scrubbed and offered again";
            found.add(volume, || Step::update(volumes(), volume.clone(), volume.clone(), step));
        }
        _ => {
            let step =
                "its policy is Retain: it becomes Released and keeps its data; reclaim offers it again";
            found.add(volume, || Step::update(volumes(), volume.clone(), volume.clone(), step));
        }
    }
}

fn volume(world: &World<'_>, volume: &Object, found: &mut Found) {
    let reference = claim_ref(volume);
    let claim = reference.as_ref().and_then(|at| world.get(claims(), &at.namespace, &at.name));
    let bound = claim.as_ref().filter(|claim| volume_name(claim) == volume.name());
    let using = users(world, volume, claim.as_ref());
    let deletes = policy(volume) == "Delete"
        && volume.finalizers().any(|held| {
            held == "kubernetes.io/pv-controller"
                || held == "external-provisioner.volume.kubernetes.io/finalizer"
        });
    let message = match (bound, deletes) {
        (Some(claim), _) => format!("stays Terminating while the claim {} is bound to it", key_of(claim)),
        (None, true) => "the asset and the object go".to_owned(),
        (None, false) => {
            "the object goes; the asset stays in the storage without anybody who knows of it".to_owned()
        }
    };
    if let Some(claim) = bound {
        found.waits.push(format!("claim {}", key_of(claim)));
    }
    found.waits.extend(using);
    if deletes {
        found.lost.push(volume.name().to_owned());
    } else {
        found
            .warnings
            .push("undelete brings the object back with its handle while it is in the history".to_owned());
    }
    found.step(volumes(), volume, message);
    for attachment in attachments_of(world, volume.name()) {
        let node = attachment.str_at(&["spec", "nodeName"]).to_owned();
        found.step(attachments(), &attachment, format!("has to be detached from {node} first"));
    }
}

fn namespace(world: &World<'_>, namespace: &Object, custom: &[KindRef], found: &mut Found) {
    found.step(super::world::kind("", "namespaces"), namespace, "goes last, when it is empty");
    // The pods by the claims that they name: claims and pods may both be many.
    let all = world.glance(pods(), namespace.name(), |_| true);
    let mut using: HashMap<String, Vec<&Object>> = HashMap::new();
    for pod in &all {
        let named: HashSet<String> = claims_of(pod).collect();
        named.into_iter().for_each(|claim| using.entry(claim).or_default().push(pod));
    }
    let given = KINDS.iter().copied().map(KindRef::Given);
    for kind in given.chain(custom.iter().cloned()) {
        if kind.scope() != Scope::Namespaced || !kind.is_stored() || kind.is_view() {
            continue;
        }
        let plural = kind.names().plural;
        for object in world.glance(&*kind, namespace.name(), |_| true) {
            if plural == "persistentvolumeclaims" {
                let using = using.get(object.name()).map(Vec::as_slice).unwrap_or_default();
                claim(world, &object, using, found);
            } else if plural != "events" {
                found.step(kind.clone(), &object, "goes with its namespace");
            }
        }
    }
}

fn node(world: &World<'_>, node: &Object, found: &mut Found) {
    let name = node.name();
    found.step(nodes(), node, "the object; what runs there is not stopped by that");
    for pod in world.glance(pods(), "", |record| mentions(record, name)) {
        if pod.str_at(&["spec", "nodeName"]) == name {
            found.step(pods(), &pod, "the collector takes pods without a node away");
        }
    }
    for attachment in world.glance(attachments(), "", |record| mentions(record, name)) {
        if attachment.str_at(&["spec", "nodeName"]) == name {
            let volume = attachment.str_at(&["spec", "source", "persistentVolumeName"]).to_owned();
            found.step(attachments(), &attachment, format!("{volume} is detached by force after its wait"));
        }
    }
}

/// What the collector takes away with its last owner.
fn owned(world: &World<'_>, owner: &Object, custom: &[KindRef], found: &mut Found) {
    if owner.uid().is_empty() {
        return;
    }
    let given = KINDS.iter().copied().map(KindRef::Given);
    for kind in given.chain(custom.iter().cloned()).filter(|kind| kind.is_stored() && !kind.is_view()) {
        for object in world.glance(&*kind, "", |record| mentions(record, owner.uid())) {
            let owners = object.at(&["metadata", "ownerReferences"]).and_then(serde_json::Value::as_array);
            let mut owners = owners.into_iter().flatten().peekable();
            let only = owners.peek().is_some()
                && owners.all(|one| one.get("uid").is_some_and(|uid| uid == owner.uid()));
            let told = found.told.contains(object.uid());
            if only && !told {
                found.step(kind.clone(), &object, "belongs to it alone");
            }
        }
    }
}
