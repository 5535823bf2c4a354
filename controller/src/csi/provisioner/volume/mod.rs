//! Converts a driver's response to the volume's object. Pure. A response is checked first: a driver that returns no id, or too
//! small a volume, has not fulfilled the request.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    CSIPersistentVolumeSource, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PersistentVolume,
    PersistentVolumeClaim, PersistentVolumeSpec, VolumeNodeAffinity,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use kube::core::ObjectMeta;
use orlop_apimachinery::quantity::Quantity;
use orlop_csi::v1;

use super::intent::Intent;
use crate::claim_reference::claim_reference;
use orlop_client::names::{
    ANN_DELETION_SECRET_NAME, ANN_DELETION_SECRET_NAMESPACE, ANN_MODIFY_SECRET_NAME,
    ANN_MODIFY_SECRET_NAMESPACE, ANN_PROVISIONED_BY, FINALIZER_EXTERNAL_PROVISIONER, migrated_driver,
};
use orlop_volume::translate;

/// Volume attribute with the provisioner that created it.
const IDENTITY: &str = "storage.kubernetes.io/csiProvisionerIdentity";

/// Why a response is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Flaw {
    /// Nothing can be saved or deleted: only repeating the call can clarify.
    #[error("the response of the CSI driver has no {0}; the controller repeats the call until it has one")]
    Nothing(&'static str),
    /// The volume has to be deleted again.
    #[error("created volume capacity {has} less than requested capacity {asked}")]
    TooSmall { has: i64, asked: i64 },
    /// The volume has to be deleted again.
    #[error("volume content source missing")]
    NoContent,
    /// The class belongs to a plugin migrated to the driver, and the volume cannot be translated back to it.
    #[error("failed to translate CSI PV to in-tree: the driver calls it {0:?}")]
    NotInTree(String),
}

/// Checks a response.
pub(super) fn checked(
    intent: &Intent,
    answer: v1::CreateVolumeResponse,
) -> Result<v1::Volume, (Flaw, String)> {
    let Some(mut volume) = answer.volume else { return Err((Flaw::Nothing("volume"), String::new())) };
    let id = volume.volume_id.clone();
    if id.is_empty() {
        return Err((Flaw::Nothing("volume id"), id));
    }
    // Zero means that the driver does not know the capacity.
    if volume.capacity_bytes == 0 {
        volume.capacity_bytes = intent.bytes;
    }
    if volume.capacity_bytes < intent.bytes {
        return Err((Flaw::TooSmall { has: volume.capacity_bytes, asked: intent.bytes }, id));
    }
    if intent.content.is_some() && volume.content_source.is_none() {
        return Err((Flaw::NoContent, id));
    }
    Ok(volume)
}

/// The object of a volume with the source of its class: that of a migrated plugin, or CSI's.
pub(super) fn object(
    intent: &Intent,
    claim: &PersistentVolumeClaim,
    volume: v1::Volume,
    has_topology: bool,
) -> Result<PersistentVolume, Flaw> {
    let id = volume.volume_id.clone();
    let object = csi_object(intent, claim, volume, has_topology);
    match migrated_driver(&intent.volume.provisioner) {
        None => Ok(object),
        Some(_) => translate::from_csi(&object).ok_or(Flaw::NotInTree(id)),
    }
}

/// The object of a volume created for a claim. The binder sets its phase and binding.
fn csi_object(
    intent: &Intent,
    claim: &PersistentVolumeClaim,
    volume: v1::Volume,
    has_topology: bool,
) -> PersistentVolume {
    let (plan, spec) = (&intent.volume, claim.spec.clone().unwrap_or_default());
    let capacity = Text(Quantity::from_bytes(volume.capacity_bytes).to_string());
    let mut attributes: BTreeMap<String, String> = volume.volume_context.into_iter().collect();
    attributes.insert(IDENTITY.to_owned(), format!("orlop-{}", intent.driver));
    let secrets = plan.secrets.clone();
    let source = CSIPersistentVolumeSource {
        driver: intent.driver.clone(),
        volume_handle: volume.volume_id,
        volume_attributes: Some(attributes),
        fs_type: Some(intent.fs_type.clone()).filter(|fs_type| !intent.block && !fs_type.is_empty()),
        read_only: None,
        controller_publish_secret_ref: secrets.controller_publish,
        node_stage_secret_ref: secrets.node_stage,
        node_publish_secret_ref: secrets.node_publish,
        controller_expand_secret_ref: secrets.controller_expand,
        node_expand_secret_ref: secrets.node_expand,
    };
    PersistentVolume {
        metadata: ObjectMeta {
            name: Some(intent.name.clone()),
            annotations: Some(annotations(intent)),
            // Under another policy it would be removed again immediately.
            finalizers: (plan.reclaim_policy == "Delete")
                .then(|| vec![FINALIZER_EXTERNAL_PROVISIONER.to_owned()]),
            ..Default::default()
        },
        spec: Some(PersistentVolumeSpec {
            access_modes: spec.access_modes,
            capacity: Some([("storage".to_owned(), capacity)].into()),
            claim_ref: Some(claim_reference(claim)),
            csi: Some(source),
            mount_options: Some(intent.mount_options.clone()).filter(|options| !options.is_empty()),
            node_affinity: if has_topology { affinity(&volume.accessible_topology) } else { None },
            persistent_volume_reclaim_policy: Some(plan.reclaim_policy.clone()),
            storage_class_name: Some(plan.class.clone()),
            volume_attributes_class_name: plan.attributes_class.clone(),
            volume_mode: spec.volume_mode,
            ..Default::default()
        }),
        status: None,
    }
}

fn annotations(intent: &Intent) -> BTreeMap<String, String> {
    let plan = &intent.volume;
    let mut all = BTreeMap::from([(ANN_PROVISIONED_BY.to_owned(), plan.provisioner.clone())]);
    // Empty values mean that there is no secret; without them the class would be read when the volume is deleted.
    let deletion = plan.secrets.provisioner.clone().unwrap_or_default();
    all.insert(ANN_DELETION_SECRET_NAME.to_owned(), deletion.name.unwrap_or_default());
    all.insert(ANN_DELETION_SECRET_NAMESPACE.to_owned(), deletion.namespace.unwrap_or_default());
    if let Some(modify) = plan.secrets.controller_modify.clone() {
        all.insert(ANN_MODIFY_SECRET_NAME.to_owned(), modify.name.unwrap_or_default());
        all.insert(ANN_MODIFY_SECRET_NAMESPACE.to_owned(), modify.namespace.unwrap_or_default());
    }
    all
}

/// Where the volume is accessible: the segments are ORed. A segment without labels would match no node.
fn affinity(topology: &[v1::Topology]) -> Option<VolumeNodeAffinity> {
    let term = |segments: &std::collections::HashMap<String, String>| {
        let ordered: BTreeMap<_, _> = segments.iter().collect();
        let is = |(key, value): (&String, &String)| NodeSelectorRequirement {
            key: key.clone(),
            operator: "In".to_owned(),
            values: Some(vec![value.clone()]),
        };
        let match_expressions = Some(ordered.into_iter().map(is).collect());
        NodeSelectorTerm { match_expressions, match_fields: None }
    };
    let node_selector_terms: Vec<NodeSelectorTerm> =
        topology.iter().filter(|one| !one.segments.is_empty()).map(|one| term(&one.segments)).collect();
    if node_selector_terms.is_empty() {
        return None;
    }
    Some(VolumeNodeAffinity { required: Some(NodeSelector { node_selector_terms }) })
}

#[cfg(test)]
mod tests;
