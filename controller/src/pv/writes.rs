//! All reads from and writes to the server by this controller. Every write is a replacement conditional on the
//! version that the decision was based on (I5): the first writer wins, and the others sync again. The response is
//! stored immediately, so that the next sync does not act on the previous state.

use std::iter;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::api::{ListParams, PostParams};
use orlop_client::api::Api;

use super::binder::Binder;
use super::error::SyncError;
use super::pods::users;
use orlop_client::informer::split_key;
use orlop_client::pods::claim_keys;
use orlop_client::time_slice::TimeSlice;
use orlop_volume::object::{claim_key, name};

/// Pods per request.
const PAGE: u32 = 500;

impl Binder {
    pub(super) fn volumes_api(&self) -> Api<PersistentVolume> {
        Api::all(self.client.clone())
    }

    pub(super) fn claims_api(&self, namespace: &str) -> Api<PersistentVolumeClaim> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Writes spec and metadata of a volume.
    pub(super) async fn write_volume(
        &self,
        volume: PersistentVolume,
    ) -> Result<Arc<PersistentVolume>, SyncError> {
        let name = name(&volume.metadata).to_owned();
        match self.volumes_api().replace(&name, &PostParams::default(), &volume).await {
            Ok(written) => self.store_written_volume(written),
            Err(source) => Err(SyncError::WriteVolume { volume: name, source }),
        }
    }

    /// Writes the status of a volume.
    pub(super) async fn write_volume_status(
        &self,
        volume: PersistentVolume,
    ) -> Result<Arc<PersistentVolume>, SyncError> {
        let name = name(&volume.metadata).to_owned();
        let api = self.volumes_api();
        match api.replace_subresource("status", &name, &PostParams::default(), &volume).await {
            Ok(written) => self.store_written_volume(written),
            Err(source) => Err(SyncError::WriteVolumeStatus { volume: name, source }),
        }
    }

    /// Writes spec and metadata of a claim.
    pub(super) async fn write_claim(
        &self,
        claim: PersistentVolumeClaim,
    ) -> Result<Arc<PersistentVolumeClaim>, SyncError> {
        let key = claim_key(&claim);
        let (namespace, name) = split_key(&key);
        match self.claims_api(namespace).replace(name, &PostParams::default(), &claim).await {
            Ok(written) => self.store_written_claim(written),
            Err(source) => Err(SyncError::WriteClaim { claim: key, source }),
        }
    }

    /// Writes the status of a claim.
    pub(super) async fn write_claim_status(
        &self,
        claim: PersistentVolumeClaim,
    ) -> Result<Arc<PersistentVolumeClaim>, SyncError> {
        let key = claim_key(&claim);
        let (namespace, name) = split_key(&key);
        let api = self.claims_api(namespace);
        match api.replace_subresource("status", name, &PostParams::default(), &claim).await {
            Ok(written) => self.store_written_claim(written),
            Err(source) => Err(SyncError::WriteClaimStatus { claim: key, source }),
        }
    }

    /// Reads a volume from the server.
    pub(super) async fn read_volume(&self, name: &str) -> Result<Option<PersistentVolume>, SyncError> {
        let answer = self.volumes_api().get_opt(name).await;
        answer.map_err(|source| SyncError::ReadVolume { volume: name.to_owned(), source })
    }

    /// Reads the pods that use a claim from the server, and returns the keys of those that have not finished, sorted.
    pub(super) async fn read_users_of_claim(&self, key: &str) -> Result<Vec<String>, SyncError> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), split_key(key).0);
        let names_it = |pod: &Pod| claim_keys(pod).iter().any(|named| named == key);
        let (mut found, mut slice) = (Vec::new(), TimeSlice::start());
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let failed = |source| SyncError::ListPods { claim: key.to_owned(), source };
            let (page, pods) = slice.wait(api.list_lazily(&params)).await.map_err(failed)?;
            for pod in pods {
                found.extend(users(iter::once(pod.map_err(failed)?).filter(names_it).map(Arc::new)));
                slice.yield_if_over().await;
            }
            match page.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => break,
            }
        }
        found.sort();
        Ok(found)
    }

    /// Reads a claim from the server.
    pub(super) async fn read_claim(&self, key: &str) -> Result<Option<PersistentVolumeClaim>, SyncError> {
        let (namespace, name) = split_key(key);
        let answer = self.claims_api(namespace).get_opt(name).await;
        answer.map_err(|source| SyncError::ReadClaim { claim: key.to_owned(), source })
    }
}
