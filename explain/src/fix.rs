//! Fixes that make a volume fit a claim: one merge patch of the volume that resolves every failed rule. If no
//! patch can do that (a mode cannot be changed), an object without data is recreated: the claim, its pod, or the
//! object of a terminating volume. If another claim owns the volume, there is no fix.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde_json::{Map, Value, json};

use orlop_client::names;
use orlop_volume::affinity::accepts_node;
use orlop_volume::class;
use orlop_volume::fit;
use orlop_volume::object::{self, VolumeMode, VolumePhase};

use super::cluster_view::ClusterView;
use super::eligible_nodes::{AllowedNodes, may_run};
use super::model::{Fix, Reference, Rule};
use super::words;

/// The change that resolves all of these rules. `eligible`: where the claim's pod may run, if that matters.
pub fn of_candidate(
    world: &dyn ClusterView,
    volume: &PersistentVolume,
    claim: &PersistentVolumeClaim,
    against: &[Rule],
    eligible: Option<&AllowedNodes>,
) -> Option<Fix> {
    let mut change = Change::default();
    if against.iter().all(|rule| change.take_away(world, volume, claim, *rule).is_some()) {
        return Some(change.into_fix(volume));
    }
    match against {
        [Rule::Terminating] => recreate_volume(world, volume, claim),
        [Rule::NodeAffinity] => recreate_pod(world, volume, eligible?.pod.as_ref()?),
        rules if rules.iter().all(|rule| matches!(rule, Rule::VolumeMode | Rule::AttributesClass)) => {
            let name = object::name(&volume.metadata);
            let mut spec = Map::new();
            let mut does = Vec::new();
            if rules.contains(&Rule::VolumeMode) {
                let mode = VolumeMode::of_volume(volume);
                spec.insert("volumeMode".to_owned(), json!(format!("{mode:?}")));
                does.push(format!("volumeMode {mode:?}"));
            }
            if rules.contains(&Rule::AttributesClass) {
                let class = class::volume_attributes_class(volume);
                let value = if class.is_empty() { Value::Null } else { json!(class) };
                spec.insert("volumeAttributesClassName".to_owned(), value);
                does.push(format!("the volume attributes class {}", words::or_none(class)));
            }
            recreate_claim(
                claim,
                &Value::Object(spec),
                &format!("with {}, like volume {name}", does.join(" and ")),
            )
        }
        _ => None,
    }
}

/// The metadata that a recreated object keeps: its name, labels and annotations.
fn identity(meta: &ObjectMeta) -> Value {
    let ours =
        |key: &&String| !key.starts_with("pv.kubernetes.io/") && !key.contains("volume.kubernetes.io/");
    let annotations: Map<String, Value> = meta
        .annotations
        .iter()
        .flatten()
        .filter(|(key, _)| ours(key))
        .map(|(key, value)| (key.clone(), json!(value)))
        .collect();
    let mut metadata = json!({"name": meta.name});
    if let Some(namespace) = &meta.namespace {
        metadata["namespace"] = json!(namespace);
    }
    if let Some(labels) = &meta.labels {
        metadata["labels"] = json!(labels);
    }
    if !annotations.is_empty() {
        metadata["annotations"] = Value::Object(annotations);
    }
    metadata
}

/// Whether a controller owns the object and would recreate it unchanged.
fn is_made_by_another(meta: &ObjectMeta) -> bool {
    meta.owner_references.iter().flatten().any(|owner| owner.controller == Some(true))
}

fn spec_of(spec: &impl Serialize) -> Option<Value> {
    serde_json::to_value(spec).ok()
}

fn merged(mut spec: Value, changes: &Value) -> Value {
    for (key, value) in changes.as_object().into_iter().flatten() {
        match value {
            Value::Null => {
                if let Some(spec) = spec.as_object_mut() {
                    spec.remove(key);
                }
            }
            value => spec[key] = value.clone(),
        }
    }
    spec
}

/// Recreates a pending claim with these fields in its spec: it has no data yet, and its spec is immutable.
pub fn recreate_claim(claim: &PersistentVolumeClaim, changes: &Value, how: &str) -> Option<Fix> {
    if is_made_by_another(&claim.metadata) {
        return None;
    }
    let spec = merged(spec_of(claim.spec.as_ref()?)?, changes);
    let object = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": identity(&claim.metadata), "spec": spec});
    let message = format!("Recreates claim {} {how}; the claim has no data yet.", object::claim_key(claim));
    Some(Fix::recreate(Reference::to(claim), object, message))
}

/// Recreates the object of a terminating volume under another name. With policy Retain the storage stays, and a
/// terminating volume is never bound again, so the storage does not get two users.
fn recreate_volume(
    world: &dyn ClusterView,
    volume: &PersistentVolume,
    claim: &PersistentVolumeClaim,
) -> Option<Fix> {
    let name = object::name(&volume.metadata);
    let free = object::claim_ref(volume).is_none()
        && object::reclaim_policy(volume) == "Retain"
        && world.attachments_of_volume(name).is_empty();
    let new = format!("{name}-anew");
    if !free || world.volume(&new).is_some() {
        return None;
    }
    let mut meta = identity(&volume.metadata);
    meta["name"] = json!(new);
    let reference = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": claim.metadata.namespace,
        "name": claim.metadata.name});
    let spec = merged(spec_of(volume.spec.as_ref()?)?, &json!({"claimRef": reference}));
    let object = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": meta, "spec": spec});
    let message = format!(
        "Creates volume {new} for the claim, with the storage of {name}: that volume is being deleted, and its policy Retain keeps the storage."
    );
    Some(Fix::create(object, message))
}

/// Recreates an unscheduled pod without those parts of its node selector that exclude the nodes of the volume.
fn recreate_pod(world: &dyn ClusterView, volume: &PersistentVolume, pod: &Arc<Pod>) -> Option<Fix> {
    if is_made_by_another(&pod.metadata) {
        return None;
    }
    let empty = Default::default();
    let mut moved = Pod::clone(pod);
    // Without the parts of the selector that exclude a node, the rest of the pod decides.
    let selector = moved.spec.as_mut()?.node_selector.as_mut().map(std::mem::take)?;
    let found = world.nodes().into_iter().find(|node: &Arc<Node>| {
        accepts_node(volume, node.metadata.labels.as_ref().unwrap_or(&empty)) && may_run(&moved, node)
    })?;
    let labels = found.metadata.labels.as_ref().unwrap_or(&empty);
    let kept = selector.into_iter().filter(|(key, value)| labels.get(key) == Some(value)).collect();
    moved.spec.as_mut()?.node_selector = Some(kept);
    let keeps = moved.spec.as_ref()?.node_selector.clone().unwrap_or_default();
    let gone: Vec<String> = pod
        .spec
        .as_ref()?
        .node_selector
        .iter()
        .flatten()
        .filter(|(key, _)| !keeps.contains_key(*key))
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let name = object::name(&pod.metadata);
    let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": identity(&pod.metadata), "spec": spec_of(moved.spec.as_ref()?)?});
    let message = format!(
        "Recreates pod {name} without the node selector {}: it can then run on node {}, where the volume is.",
        gone.join(", "),
        object::name(&found.metadata)
    );
    Some(Fix::recreate(Reference::to(pod.as_ref()), object, message))
}

/// Reserves a volume for a claim, which then binds regardless of phase, class and labels.
pub fn reserve(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Fix {
    let mut change = Change::default();
    change.reserve(claim);
    change.into_fix(volume)
}

#[derive(Default)]
struct Change {
    spec: Map<String, Value>,
    annotations: Map<String, Value>,
    does: Vec<String>,
    before: Vec<String>,
    reserves: bool,
}

impl Change {
    /// `None` if no change of the volume resolves the rule.
    fn take_away(
        &mut self,
        world: &dyn ClusterView,
        volume: &PersistentVolume,
        claim: &PersistentVolumeClaim,
        rule: Rule,
    ) -> Option<()> {
        match rule {
            // The mode and the node affinity of a volume are immutable, and a deletion cannot be undone.
            Rule::VolumeMode | Rule::NodeAffinity | Rule::Terminating => return None,
            Rule::ClaimRef => {
                let reference = object::claim_ref(volume)?;
                let (key, uid) = (object::reference_key(reference), object::reference_uid(reference));
                let holder = world.claim(&key);
                // The volume of another claim is not reassigned.
                if holder.is_some_and(|holder| uid.is_empty() || uid == object::uid(&holder.metadata)) {
                    return None;
                }
                // A volume that is being scrubbed or deleted loses its data.
                if VolumePhase::of(volume).is_reclaiming() && object::reclaim_policy(volume) != "Retain" {
                    return None;
                }
                let owner = match key == object::claim_key(claim) {
                    true => format!("an earlier claim {key}"),
                    false => format!("claim {key}, which was deleted"),
                };
                self.before.push(match VolumePhase::of(volume) {
                    VolumePhase::Available => {
                        format!("it is reserved for claim {key}, which does not exist")
                    }
                    VolumePhase::Unset
                    | VolumePhase::Pending
                    | VolumePhase::Bound
                    | VolumePhase::Released
                    | VolumePhase::Failed
                    | VolumePhase::Unknown => format!("it still has the data of {owner}"),
                });
                self.reserve(claim);
            }
            Rule::AccessModes => {
                let mut modes = fit::offered_modes(volume).to_vec();
                let known = |mode: &String| {
                    ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"]
                        .contains(&mode.as_str())
                };
                if !fit::requested_modes(claim).iter().all(known) {
                    return None;
                }
                // ReadWriteOncePod excludes all other modes.
                let exclusive = |modes: &[String]| modes.iter().any(|mode| mode == "ReadWriteOncePod");
                if exclusive(&modes) || exclusive(fit::requested_modes(claim)) {
                    modes.clear();
                }
                for mode in fit::requested_modes(claim) {
                    if !modes.contains(mode) {
                        modes.push(mode.clone());
                    }
                }
                self.before.push(format!("the storage must support {}", words::modes(&modes)));
                self.does.push(format!("adds the access modes {}", words::modes(&modes)));
                self.spec.insert("accessModes".to_owned(), json!(modes));
            }
            Rule::Size => {
                let wants = fit::request(claim)?.to_string();
                self.before.push(format!("the storage behind it must have a capacity of {wants}"));
                self.does.push(format!("sets its capacity to {wants}"));
                self.spec.insert("capacity".to_owned(), json!({"storage": wants}));
            }
            Rule::AttributesClass => {
                let wants = class::claim_attributes_class(claim);
                // A volume's attributes class can be changed but not removed, and only CSI volumes have one.
                if wants.is_empty() || volume.spec.as_ref().is_none_or(|spec| spec.csi.is_none()) {
                    return None;
                }
                self.does.push(format!("sets its volume attributes class to {wants}"));
                self.spec.insert("volumeAttributesClassName".to_owned(), json!(wants));
            }
            Rule::Class => {
                let wants = class::claim_class(claim);
                self.does.push(match wants {
                    "" => "removes its storage class".to_owned(),
                    wants => format!("sets its storage class to {wants}"),
                });
                self.spec.insert("storageClassName".to_owned(), json!(wants));
                if object::has_annotation(&volume.metadata, names::ANN_BETA_STORAGE_CLASS) {
                    self.annotations.insert(names::ANN_BETA_STORAGE_CLASS.to_owned(), Value::Null);
                }
            }
            Rule::Phase => {
                if VolumePhase::of(volume).is_reclaiming() && object::reclaim_policy(volume) != "Retain" {
                    return None;
                }
                self.reserve(claim);
            }
            Rule::Selector => self.reserve(claim),
        }
        Some(())
    }

    fn reserve(&mut self, claim: &PersistentVolumeClaim) {
        if std::mem::replace(&mut self.reserves, true) {
            return;
        }
        self.does.push(format!("reserves it for claim {}", object::claim_key(claim)));
        let reference = json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": claim.metadata.namespace,
            "name": claim.metadata.name,
            "uid": claim.metadata.uid,
            // Clears the value of the previous claim.
            "resourceVersion": null,
        });
        self.spec.insert("claimRef".to_owned(), reference);
    }

    fn into_fix(self, volume: &PersistentVolume) -> Fix {
        let mut body = json!({"spec": self.spec});
        if !self.annotations.is_empty() {
            body["metadata"] = json!({"annotations": self.annotations});
        }
        let name = object::name(&volume.metadata);
        let mut message = format!("Changes volume {name}: {}.", self.does.join(", "));
        if !self.before.is_empty() {
            message.push_str(&format!(" Note: {}.", self.before.join(", and ")));
        }
        Fix::merge(Reference::to(volume), body, message)
    }
}
