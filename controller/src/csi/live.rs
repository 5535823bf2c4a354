//! Reads and patches of a claim and its volume on the server, for decisions that must not rest on a stale cache.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimCondition};
use kube::Client;
use kube::api::{Patch, PatchParams};
use orlop_client::api::Api;
use serde_json::Value;

use orlop_client::client::is_not_found;
use orlop_client::informer::split_key;

/// Why they cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The claim could not be read.
    #[error("cannot read claim {claim}: {cause}")]
    Claim {
        /// Its namespace and name.
        claim: String,
        /// The server's error.
        cause: kube::Error,
    },
    /// The volume could not be read.
    #[error("cannot read volume {volume}: {cause}")]
    Volume {
        /// Its name.
        volume: String,
        /// The server's error.
        cause: kube::Error,
    },
}

/// Reads a claim and the volume that it names. None when one of them does not exist, or no volume is named.
///
/// # Errors
/// One of them cannot be read.
pub async fn claim_and_volume(
    client: &Client,
    key: &str,
) -> Result<Option<(PersistentVolumeClaim, PersistentVolume)>, LiveError> {
    let (namespace, name) = split_key(key);
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), namespace);
    let claim = match claims.get(name).await {
        Ok(claim) => claim,
        Err(error) if is_not_found(&error) => return Ok(None),
        Err(cause) => return Err(LiveError::Claim { claim: key.to_owned(), cause }),
    };
    let volume = claim.spec.as_ref().and_then(|spec| spec.volume_name.clone());
    let Some(volume) = volume.filter(|name| !name.is_empty()) else { return Ok(None) };
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    match volumes.get(&volume).await {
        Ok(volume) => Ok(Some((claim, volume))),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(cause) => Err(LiveError::Volume { volume, cause }),
    }
}

/// The conditions in the status of a claim.
pub fn conditions(claim: &PersistentVolumeClaim) -> &[PersistentVolumeClaimCondition] {
    claim.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default()
}

/// Applies a merge patch to the status of the claim with this key.
///
/// # Errors
/// The API server rejected the patch or did not answer.
pub async fn patch_claim_status(
    client: &Client,
    key: &str,
    patch: &Value,
) -> kube::Result<PersistentVolumeClaim> {
    let (namespace, name) = split_key(key);
    let api: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), namespace);
    api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await
}

/// Applies a merge patch to a volume.
///
/// # Errors
/// The API server rejected the patch or did not answer.
pub async fn patch_volume(client: &Client, name: &str, patch: &Value) -> kube::Result<()> {
    let api: Api<PersistentVolume> = Api::all(client.clone());
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;
    use crate::testing::FakeApi;

    #[tokio::test]
    async fn claim_is_returned_only_with_its_volume() {
        let api = FakeApi::new();
        let claim = |name: &str, volume: &str| {
            json!({"kind": "PersistentVolumeClaim", "metadata": {"namespace": "ns", "name": name},
                "spec": {"volumeName": volume}})
        };
        for (name, volume) in [("bound", "v"), ("lost", "gone"), ("open", "")] {
            api.seed(claim(name, volume));
        }
        api.seed(json!({"kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": {}}));
        for (key, expected) in
            [("ns/bound", true), ("ns/lost", false), ("ns/open", false), ("ns/none", false)]
        {
            let found = claim_and_volume(&api.client(), key).await.unwrap();
            let names =
                found.map(|(claim, volume)| (claim.metadata.name.unwrap(), volume.metadata.name.unwrap()));
            assert_eq!(names, expected.then(|| ("bound".to_owned(), "v".to_owned())), "{key}");
        }
    }
}
