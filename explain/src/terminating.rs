//! Explains why a terminating object still exists: for every finalizer the component that removes it, and the
//! objects that the component waits for.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::VolumeAttachment;

use orlop_client::names::{self, controller};
use orlop_client::pods;
use orlop_controller::node_lifecycle::health::Readiness;
use orlop_controller::protection::claim::uses;
use orlop_volume::object::{self, VolumePhase};

use super::cluster_view::ClusterView;
use super::finalizer_block::FinalizerBlock;
use super::model::{Blocker, Cause, Code, Fix, Reference, Severity, Why};
use super::subject::Subject;
use super::words;
use super::{attachment, namespace, volume};

/// Maximum number of finalizers that are explained: each may need a search through the pods of a claim.
const FINALIZERS: usize = 20;

/// Explains an object that is being deleted.
pub fn explain(world: &dyn ClusterView, subject: &Subject, why: &mut Why) {
    why.state = "Terminating".to_owned();
    let reference = subject.reference();
    let mut finalizers = subject.meta().finalizers.clone().unwrap_or_default();
    let of_metadata = finalizers.len();
    let as_namespace = namespace::of(subject);
    finalizers.extend(as_namespace.iter().flat_map(|other| namespace::finalizers(other)).map(str::to_owned));
    let mut said = Vec::new();
    for (at, finalizer) in finalizers.iter().enumerate().take(FINALIZERS) {
        let block = match as_namespace {
            Some(other) if at >= of_metadata => namespace::held(world, other, finalizer),
            Some(_) | None => held(world, subject, finalizer),
        };
        let FinalizerBlock { owner, message, objects, severity, fix } = block;
        why.severity = why.severity.max(severity);
        said.push(message.clone());
        why.blocked_by.push(Blocker { finalizer: finalizer.clone(), owner, message, objects, fix });
    }
    if finalizers.len() > FINALIZERS {
        said.push(format!("It has {}.", words::count(finalizers.len() - FINALIZERS, "more finalizer")));
    }
    if !finalizers.is_empty() {
        let message = format!("{} is being deleted and waits. {}", reference.words(), said.join(" "));
        let objects = why.blocked_by.iter().flat_map(|blocker| blocker.objects.clone()).collect();
        why.push(Severity::Waiting, Cause::new(Code::Finalizers, message, objects));
    }
    match subject {
        Subject::Attachment(object) => attachment::leaving(world, object, why),
        Subject::Pod(pod) => leaving_pod(world, pod, why),
        Subject::Claim(_) | Subject::Volume(_) | Subject::Node(_) | Subject::Other(_) => {}
    }
    if why.causes.is_empty() {
        why.severity = why.severity.max(Severity::Waiting);
        why.summary = format!(
            "{} is being deleted, and nothing blocks it any more: it will be deleted soon.",
            reference.words()
        );
    }
}

fn held(world: &dyn ClusterView, subject: &Subject, finalizer: &str) -> FinalizerBlock {
    if let Some(driver) = finalizer.strip_prefix(names::FINALIZER_EXTERNAL_ATTACHER_PREFIX) {
        return by_attacher(world, subject, driver);
    }
    match (finalizer, subject) {
        (names::FINALIZER_PVC_PROTECTION, Subject::Claim(claim)) => by_pods(world, claim),
        (names::FINALIZER_PV_PROTECTION, Subject::Volume(volume)) => by_claim(world, volume),
        (names::FINALIZER_PV_CONTROLLER | names::FINALIZER_EXTERNAL_PROVISIONER, Subject::Volume(volume)) => {
            by_asset(world, volume, finalizer)
        }
        (names::FINALIZER_PROVISIONING, Subject::Claim(_)) => FinalizerBlock::waiting(
            controller::CSI_PROVISIONER,
            "A driver was called to create the volume of this claim. The outcome must be known before the claim is removed.",
            Vec::new(),
        ),
        (names::FINALIZER_CLONING, Subject::Claim(_)) => {
            FinalizerBlock::waiting("the provisioner", "Clones of this claim are being created.", Vec::new())
        }
        (names::FINALIZER_SNAPSHOT_CLAIM, Subject::Claim(_)) => FinalizerBlock::waiting(
            controller::SNAPSHOT,
            "A snapshot of this claim is being taken.",
            Vec::new(),
        ),
        (names::FINALIZER_VAC_PROTECTION, _) => FinalizerBlock::waiting(
            controller::VAC_PROTECTION,
            "A volume or claim still uses this class.",
            Vec::new(),
        ),
        (names::FINALIZER_SERVICE_CIDR, _) => FinalizerBlock::waiting(
            controller::SERVICE_CIDR,
            "Services still use addresses of this range, or the range was deleted less than 10 s ago.",
            Vec::new(),
        ),
        (names::FINALIZER_DELETE_PROTECTION, _) => FinalizerBlock::waiting(
            controller::RESOURCE_CLAIM,
            "Devices are allocated for this claim, and a pod may use them.",
            Vec::new(),
        ),
        (names::FINALIZER_SNAPSHOT_SOURCE | names::FINALIZER_SNAPSHOT_AS_SOURCE, _) => {
            FinalizerBlock::waiting(
                controller::SNAPSHOT,
                "Volumes are being created from this snapshot.",
                Vec::new(),
            )
        }
        (names::FINALIZER_SNAPSHOT_BOUND, _) => FinalizerBlock::waiting(
            controller::SNAPSHOT,
            "The content of this snapshot still exists.",
            Vec::new(),
        ),
        (names::FINALIZER_SNAPSHOT_CONTENT, _) => FinalizerBlock::waiting(
            controller::SNAPSHOT,
            "The snapshot in the storage is being deleted.",
            Vec::new(),
        ),
        (names::FINALIZER_FOREGROUND, _) => FinalizerBlock::waiting(
            controller::GARBAGE_COLLECTOR,
            "Its dependents are deleted first.",
            Vec::new(),
        ),
        (names::FINALIZER_ORPHAN, _) => FinalizerBlock::waiting(
            controller::GARBAGE_COLLECTOR,
            "Its dependents are orphaned first.",
            Vec::new(),
        ),
        (finalizer, _) => FinalizerBlock::attention(
            "unknown",
            format!(
                "Finalizer {finalizer} must be removed by the component that added it. If that component was removed \
                 permanently, remove the finalizer manually; the cleanup that the finalizer protects is then skipped."
            ),
            Vec::new(),
        ),
    }
}

fn by_pods(world: &dyn ClusterView, claim: &Arc<PersistentVolumeClaim>) -> FinalizerBlock {
    let pods: Vec<_> =
        world.pods_of_claim(&object::claim_key(claim)).into_iter().filter(|pod| uses(pod, claim)).collect();
    let objects: Vec<Reference> = pods.iter().map(|pod| Reference::to(pod.as_ref())).collect();
    let owner = controller::PVC_PROTECTION;
    if pods.is_empty() {
        return FinalizerBlock::waiting(
            owner,
            "No pod uses the claim any more: it will be deleted soon.",
            objects,
        );
    }
    let users: Vec<String> = pods
        .iter()
        .map(|pod| {
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            let node = pods::node_name(pod).unwrap_or_default();
            match pod.metadata.deletion_timestamp.is_some() {
                true => format!("pod {name} on node {node} (being deleted)"),
                false => format!("pod {name} on node {node}"),
            }
        })
        .collect();
    let leaving = pods.iter().all(|pod| pod.metadata.deletion_timestamp.is_some());
    let over = pods.iter().all(|pod| pods::is_finished(pod));
    let next = match (leaving, over, pods.len()) {
        (true, _, 1) => "The claim is deleted after that pod.",
        (true, _, _) => "The claim is deleted after these pods.",
        (false, true, 1) => "That pod has finished, but blocks until it is deleted: delete it.",
        (false, true, _) => "These pods have finished, but block until they are deleted: delete them.",
        (false, false, 1) => "Delete that pod, or its controller.",
        (false, false, _) => "Delete these pods, or their controllers.",
    };
    let message = format!("The claim is still used by {}. {next}", words::list(&users));
    if leaving {
        return FinalizerBlock::waiting(owner, message, objects);
    }
    // A single pod without an owner would not be recreated, so deleting it is sufficient.
    let fix = match pods.as_slice() {
        [one] if one.metadata.owner_references.iter().flatten().next().is_none() => {
            let pod = Reference::to(one.as_ref());
            let message = format!(
                "Deletes pod {}. The claim is then deleted, and the reclaim policy of its volume applies to the data.",
                pod.name
            );
            Some(Fix::delete(pod, message))
        }
        _ => None,
    };
    FinalizerBlock::attention(owner, message, objects).fixed_by(fix)
}

fn by_claim(world: &dyn ClusterView, volume: &Arc<PersistentVolume>) -> FinalizerBlock {
    let owner = controller::PV_PROTECTION;
    if VolumePhase::of(volume) != VolumePhase::Bound {
        return FinalizerBlock::waiting(
            owner,
            "The volume is not bound any more: the finalizer will be removed soon.",
            Vec::new(),
        );
    }
    let Some(reference) = object::claim_ref(volume) else {
        return FinalizerBlock::waiting(
            owner,
            "The volume is Bound without a claimRef; the binder corrects that.",
            Vec::new(),
        );
    };
    let key = object::reference_key(reference);
    match world.claim(&key) {
        Some(claim) => {
            let object = Reference::to(claim.as_ref());
            let message = format!("The volume is bound to claim {key}: it is deleted after that claim.");
            let fix = Fix::delete(
                object.clone(),
                format!(
                    "Also deletes claim {key}; policy {} then applies to the data.",
                    object::reclaim_policy(volume)
                ),
            );
            FinalizerBlock::attention(owner, message, vec![object]).fixed_by(Some(fix))
        }
        None => FinalizerBlock::waiting(
            owner,
            format!("Claim {key} was deleted; the volume will be released soon."),
            Vec::new(),
        ),
    }
}

fn by_asset(world: &dyn ClusterView, volume: &Arc<PersistentVolume>, finalizer: &str) -> FinalizerBlock {
    let (who, there) = volume::deleter(world, volume);
    let owner = match finalizer {
        names::FINALIZER_PV_CONTROLLER => controller::PV_BINDER.to_owned(),
        _ => who.clone(),
    };
    let attached = world.attachments_of_volume(object::name(&volume.metadata));
    let objects: Vec<Reference> = attached.iter().map(|one| Reference::to(one.as_ref())).collect();
    if VolumePhase::of(volume) == VolumePhase::Bound {
        let key = object::claim_ref(volume).map(object::reference_key).unwrap_or_default();
        return FinalizerBlock::waiting(
            &owner,
            format!("{who} deletes the storage after claim {key} is deleted."),
            objects,
        );
    }
    if !there {
        let message =
            format!("{who} must delete the storage, and no driver of that name is registered: install it.");
        return FinalizerBlock::attention(&owner, message, objects);
    }
    let nodes: Vec<String> = attached.iter().map(|one| one.spec.node_name.clone()).collect();
    let waits = if nodes.is_empty() {
        String::new()
    } else {
        format!(" after it is detached from {}", words::list(&nodes))
    };
    FinalizerBlock::waiting(&owner, format!("{who} deletes the storage{waits}."), objects)
}

fn by_attacher(world: &dyn ClusterView, subject: &Subject, name: &str) -> FinalizerBlock {
    match subject {
        Subject::Attachment(attachment) => detaching(world, attachment),
        Subject::Volume(volume) => {
            let attached = world.attachments_of_volume(object::name(&volume.metadata));
            let objects = attached.iter().map(|one| Reference::to(one.as_ref())).collect();
            let nodes: Vec<String> = attached.iter().map(|one| one.spec.node_name.clone()).collect();
            let message = match nodes.is_empty() {
                true => "The volume is not attached any more: the finalizer will be removed soon.".to_owned(),
                false => {
                    format!(
                        "The volume is attached to {}; it is deleted after it is detached.",
                        words::list(&nodes)
                    )
                }
            };
            FinalizerBlock::waiting(&format!("the attacher of {name}"), message, objects)
        }
        Subject::Claim(_) | Subject::Pod(_) | Subject::Node(_) | Subject::Other(_) => {
            FinalizerBlock::attention(
                &format!("the attacher of {name}"),
                "Objects of this kind are not attached.",
                Vec::new(),
            )
        }
    }
}

fn detaching(world: &dyn ClusterView, attachment: &VolumeAttachment) -> FinalizerBlock {
    let driver = attachment.spec.attacher.as_str();
    let owner = format!("the attacher of {driver}");
    if !world.has_driver(driver) {
        // Text without a button: removing the finalizer gives up a volume that may still be written to.
        let message = format!(
            "Driver {driver} is not installed, so the volume cannot be detached. Install the driver; if it was removed permanently and the node can no longer write to the storage, remove the attachment with `orlop attachment release {} --force`.",
            attachment.metadata.name.as_deref().unwrap_or_default()
        );
        return FinalizerBlock::attention(&owner, message, Vec::new());
    }
    FinalizerBlock::waiting(
        &owner,
        format!("{driver} detaches the volume from node {}.", attachment.spec.node_name),
        Vec::new(),
    )
}

fn leaving_pod(world: &dyn ClusterView, pod: &Arc<k8s_openapi::api::core::v1::Pod>, why: &mut Why) {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let Some(node) = pods::node_name(pod) else { return };
    let by = pod.metadata.deletion_timestamp.as_ref().map(|time| time.0);
    let object = vec![Reference::named::<k8s_openapi::api::core::v1::Node>(None, node)];
    match world.node(node) {
        None => {
            let message =
                format!("Node {node} of pod {name} does not exist any more; the pod will be deleted soon.");
            why.push(Severity::Waiting, Cause::new(Code::NodeGone, message, object));
        }
        Some(there) if Readiness::of(&there) != Readiness::Ready => {
            super::node::health(world, &there, why);
        }
        Some(_) if by.is_some_and(|by| by > world.now()) => {
            let by = by.map(|by| by.to_string());
            let message = format!("Pod {name} may run until {}.", by.as_deref().unwrap_or_default());
            why.push(Severity::Waiting, Cause::new(Code::GracePeriod, message, object).until(by.as_deref()));
        }
        Some(_) => {
            let message = format!("Node {node} is stopping pod {name} and unmounting its volumes.");
            why.push(Severity::Waiting, Cause::new(Code::GracePeriod, message, object));
        }
    }
}
