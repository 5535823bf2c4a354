//! Builds the reference from a volume to the claim that it is bound to.

use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolumeClaim};

/// The `spec.claimRef` of a volume bound to this claim, with the claim's UID and version.
pub fn claim_reference(claim: &PersistentVolumeClaim) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("PersistentVolumeClaim".to_owned()),
        namespace: claim.metadata.namespace.clone(),
        name: claim.metadata.name.clone(),
        uid: claim.metadata.uid.clone(),
        resource_version: claim.metadata.resource_version.clone(),
        field_path: None,
    }
}
