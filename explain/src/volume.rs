//! Explains what a volume waits for: a claim, its reclamation, or a decision about its data.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use serde_json::json;

use orlop_client::names::{self, reason};
use orlop_volume::object::{self, VolumePhase, claim_ref, reclaim_policy, reference_key, reference_uid};

use super::cluster_view::ClusterView;
use super::model::{Cause, Code, Fix, Reference, Severity, Why};
use super::provisioning::same_object;
use super::words;

/// Explains a volume that is not being deleted.
pub fn explain(world: &dyn ClusterView, volume: &Arc<PersistentVolume>, why: &mut Why) {
    let phase = VolumePhase::of(volume);
    why.state = match phase {
        VolumePhase::Unset | VolumePhase::Unknown => "Pending".to_owned(),
        VolumePhase::Pending
        | VolumePhase::Available
        | VolumePhase::Bound
        | VolumePhase::Released
        | VolumePhase::Failed => phase.as_str().to_owned(),
    };
    let holder = claim_ref(volume).map(|reference| Holder {
        key: reference_key(reference),
        there: world
            .claim(&reference_key(reference))
            .filter(|claim| same_object(claim, reference_uid(reference))),
        by_uid: !reference_uid(reference).is_empty(),
    });
    match phase {
        VolumePhase::Unset | VolumePhase::Pending | VolumePhase::Unknown => {
            let message = "No controller has processed the volume yet. If this persists, check that the controllers are running.";
            why.push(Severity::Waiting, Cause::new(Code::NotLookedAt, message, Vec::new()));
        }
        VolumePhase::Available => available(volume, holder.as_ref(), why),
        VolumePhase::Bound => bound(world, volume, holder.as_ref(), why),
        VolumePhase::Released => released(world, volume, holder.as_ref(), why),
        VolumePhase::Failed => failed(world, volume, why),
    }
}

struct Holder {
    key: String,
    there: Option<Arc<PersistentVolumeClaim>>,
    by_uid: bool,
}

impl Holder {
    fn reference(&self) -> Reference {
        match &self.there {
            Some(claim) => Reference::to(claim.as_ref()),
            None => {
                let (namespace, name) = orlop_client::informer::split_key(&self.key);
                Reference::named::<PersistentVolumeClaim>(Some(namespace), name)
            }
        }
    }
}

fn name(volume: &PersistentVolume) -> &str {
    object::name(&volume.metadata)
}

/// Clears the claimRef of a deleted claim: the volume becomes Available to the next claim, with its data.
fn free(volume: &PersistentVolume, message: String) -> Fix {
    Fix::merge(Reference::to(volume), json!({"spec": {"claimRef": null}}), message)
}

/// The plan that reclaims a volume whose claim was deleted.
fn reclaim(volume: &PersistentVolume) -> Fix {
    let command = format!("orlop pv reclaim {} --keep-data", name(volume));
    Fix::plan(Reference::to(volume), "reclaim", json!({"keepData": true}), command, "")
}

fn available(volume: &PersistentVolume, holder: Option<&Holder>, why: &mut Why) {
    let Some(holder) = holder else {
        why.summary = format!("Volume {} is available to claims that it fits.", name(volume));
        let message = why.summary.clone();
        why.push(Severity::Ok, Cause::new(Code::FreeVolume, message, Vec::new()));
        return;
    };
    let key = &holder.key;
    if let Some(claim) = &holder.there {
        let message = format!(
            "The volume is reserved for claim {key} and not bound to it yet. Explain the claim: `orlop why pvc/{} -n {}`.",
            object::name(&claim.metadata),
            claim.metadata.namespace.as_deref().unwrap_or_default()
        );
        why.push(Severity::Waiting, Cause::new(Code::ReservedForPending, message, vec![holder.reference()]));
        return;
    }
    let message = format!(
        "The volume is reserved for claim {key}, which does not exist. It waits until that claim is created."
    );
    let fix = free(
        volume,
        format!("Removes the reservation: {} is available to any claim that it fits.", name(volume)),
    );
    let cause = Cause::new(Code::ReservedForAbsent, message, vec![holder.reference()]).fixed_by(Some(fix));
    why.push(Severity::Waiting, cause);
}

/// The health of so many nodes is explained for a volume that is attached to more.
const NODES: usize = 20;

fn bound(world: &dyn ClusterView, volume: &PersistentVolume, holder: Option<&Holder>, why: &mut Why) {
    let Some(holder) = holder else {
        let message = "The volume is Bound without a claimRef; the binder will correct that soon.";
        why.push(Severity::Waiting, Cause::new(Code::NotLookedAt, message, Vec::new()));
        return;
    };
    let attached: Vec<String> = world
        .attachments_of_volume(name(volume))
        .iter()
        .filter(|one| one.status.as_ref().is_some_and(|status| status.attached))
        .map(|one| one.spec.node_name.clone())
        .collect();
    let place = match attached.is_empty() {
        true => String::new(),
        false => format!(", attached to {}", words::list(&attached)),
    };
    let pods: Vec<String> = world
        .pods_of_claim(&holder.key)
        .iter()
        .filter(|pod| !orlop_client::pods::is_finished(pod))
        .filter_map(|pod| pod.metadata.name.clone())
        .collect();
    let pods =
        if pods.is_empty() { "no pod uses it".to_owned() } else { format!("used by {}", words::list(&pods)) };
    why.summary = format!("Volume {} is bound to claim {}{place}; {pods}.", name(volume), holder.key);
    for node in attached.iter().take(NODES) {
        super::node::silence(world, node, why);
    }
    if holder.there.is_none() {
        let message = format!("Claim {} was deleted; the volume will be released soon.", holder.key);
        why.push(Severity::Waiting, Cause::new(Code::NotLookedAt, message, vec![holder.reference()]));
    } else if !holder.by_uid {
        let message =
            format!("The volume is reserved for claim {} and will be bound to it soon.", holder.key);
        why.push(Severity::Waiting, Cause::new(Code::ReservedForPending, message, vec![holder.reference()]));
    }
}

fn released(world: &dyn ClusterView, volume: &PersistentVolume, holder: Option<&Holder>, why: &mut Why) {
    let key = holder.map_or("", |holder| holder.key.as_str());
    let objects: Vec<Reference> = holder.map(Holder::reference).into_iter().collect();
    match reclaim_policy(volume) {
        "Retain" => {
            let message = format!(
                "Claim {key} was deleted, and policy Retain keeps the volume with its data until you reclaim it. Make it \
                 available to the next claim that fits, or delete the PersistentVolume: this removes only the object, not the storage."
            );
            let fix = free(
                volume,
                format!("Makes the volume, with the data of {key}, available to the next claim that fits."),
            );
            let fix = fix.or_plan(reclaim(volume));
            why.push(Severity::Attention, Cause::new(Code::Retained, message, objects).fixed_by(Some(fix)));
        }
        "Delete" => {
            let (who, there) = deleter(world, volume);
            let attached: Vec<String> = world
                .attachments_of_volume(name(volume))
                .iter()
                .map(|one| one.spec.node_name.clone())
                .collect();
            let waits = match attached.is_empty() {
                true => String::new(),
                false => format!(
                    " It is still attached to {} and will be deleted after it is detached.",
                    words::list(&attached)
                ),
            };
            let said = failure(world, volume, reason::VOLUME_FAILED_DELETE);
            let (severity, tail) = match (there, said.is_empty()) {
                (true, true) => (Severity::Waiting, String::new()),
                (true, false) => (Severity::Attention, said),
                (false, _) => {
                    (Severity::Attention, format!(" No driver of that name is registered: install it.{said}"))
                }
            };
            let message = format!(
                "Claim {key} was deleted, and the policy is Delete: {who} deletes the storage.{waits}{tail}"
            );
            why.push(severity, Cause::new(Code::DeletionPending, message, objects));
        }
        "Recycle" => {
            let users: Vec<String> = world
                .pods_of_claim(key)
                .iter()
                .filter(|pod| !orlop_client::pods::is_terminated(pod))
                .filter_map(|pod| pod.metadata.name.clone())
                .collect();
            let waits = match users.is_empty() {
                true => String::new(),
                false => format!(" Scrubbing waits for the pods that still use it: {}.", words::list(&users)),
            };
            let said = failure(world, volume, reason::VOLUME_FAILED_RECYCLE);
            let message = format!(
                "Claim {key} was deleted, and the policy is Recycle: the volume is scrubbed and then becomes Available.{waits}{said}"
            );
            why.push(Severity::Waiting, Cause::new(Code::RecyclePending, message, objects));
        }
        policy => {
            let message = format!(
                "Claim {key} was deleted, and the policy {policy:?} is unknown: set Retain, Delete or Recycle."
            );
            why.push(Severity::Attention, Cause::new(Code::UnknownPolicy, message, objects));
        }
    }
}

fn failed(world: &dyn ClusterView, volume: &PersistentVolume, why: &mut Why) {
    let status = volume.status.as_ref().and_then(|status| status.message.as_deref()).unwrap_or_default();
    let said = if status.is_empty() {
        failure(world, volume, reason::VOLUME_FAILED_DELETE)
    } else {
        format!(" Message: {}.", words::open(status))
    };
    let (severity, message, fix) = match reclaim_policy(volume) {
        "Retain" => {
            let message = format!(
                "The volume could not be reclaimed, and its policy is now Retain: reclaiming is not retried, and the data is retained.{said}"
            );
            let fix = free(
                volume,
                "Makes the volume with its data available to the next claim that fits.".to_owned(),
            );
            (Severity::Attention, message, fix.or_plan(reclaim(volume)))
        }
        policy => {
            let message = format!(
                "The volume could not be reclaimed (policy {policy}).{said} Reclaiming is retried with increasing delay until it succeeds \
                 or the policy is Retain."
            );
            let keep = json!({"spec": {"persistentVolumeReclaimPolicy": "Retain"}});
            let message_of_fix = format!(
                "Keeps the data and stops the retries. After that, `orlop pv reclaim {} --keep-data` makes it available again.",
                name(volume)
            );
            (Severity::Attention, message, Fix::merge(Reference::to(volume), keep, message_of_fix))
        }
    };
    why.push(severity, Cause::new(Code::ReclaimFailed, message, Vec::new()).fixed_by(Some(fix)));
}

/// The newest event with this reason, as a sentence to append.
fn failure(world: &dyn ClusterView, volume: &PersistentVolume, reason: &str) -> String {
    let said = world.event(&Reference::to(volume), &[reason]).and_then(|event| event.message.as_deref());
    said.map(|said| format!(" Message: {}.", words::open(said))).unwrap_or_default()
}

/// The component that deletes the storage of a volume, and whether it is installed.
pub(super) fn deleter(world: &dyn ClusterView, volume: &PersistentVolume) -> (String, bool) {
    let by = object::annotation(&volume.metadata, names::ANN_PROVISIONED_BY).filter(|name| !name.is_empty());
    let csi = volume.spec.as_ref().and_then(|spec| spec.csi.as_ref()).map(|csi| csi.driver.as_str());
    let Some(driver) = by.or(csi) else { return ("the controller".to_owned(), true) };
    let driver = names::migrated_driver(driver).unwrap_or(driver);
    let own = driver.starts_with(names::IN_TREE_PREFIX);
    let there = own || world.has_driver(driver);
    (format!("driver {driver}"), there)
}
