//! The writes of the scheduler. Each is conditional on the state that was read (I5): volumes and claims on their version, the
//! pod on its UID and on having no node.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Binding, ObjectReference, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use orlop_client::api::Api;

use super::super::state::Scheduler;
use super::work::{BindError, Work};
use orlop_apimachinery::clock::Backoff;
use orlop_client::client::status_of;
use orlop_client::informer::split_key;
use orlop_client::pods;
use orlop_volume::object;

impl Scheduler {
    pub(super) async fn write_volume(
        &self,
        volume: &PersistentVolume,
    ) -> Result<PersistentVolume, BindError> {
        let name = object::name(&volume.metadata);
        let api: Api<PersistentVolume> = Api::all(self.client.clone());
        let _permit = self.writes.acquire().await;
        let written = api.replace(name, &PostParams::default(), &volume.clone()).await;
        let written = written;
        written.map_err(|source| BindError::Volume { volume: name.to_owned(), source })
    }

    pub(super) async fn write_claim(
        &self,
        claim: &PersistentVolumeClaim,
    ) -> Result<PersistentVolumeClaim, BindError> {
        let key = object::claim_key(claim);
        let (namespace, name) = split_key(&key);
        let api: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), namespace);
        let _permit = self.writes.acquire().await;
        let written = api.replace(name, &PostParams::default(), &claim.clone()).await;
        let written = written;
        written.map_err(|source| BindError::Claim { claim: key.clone(), source })
    }

    /// Binds the pod to its node. Without a response the pod is read from the server: a pod that has its node uses resources
    /// there, which must not be assigned to another one.
    pub(super) async fn tell_node(&self, work: &Work) -> Result<(), BindError> {
        let (namespace, name) = Self::names(work);
        let binding = Binding {
            metadata: ObjectMeta {
                namespace: Some(namespace.to_owned()),
                name: Some(name.to_owned()),
                uid: work.pod.metadata.uid.clone(),
                ..ObjectMeta::default()
            },
            target: ObjectReference {
                kind: Some("Node".to_owned()),
                name: Some(work.node.clone()),
                ..ObjectReference::default()
            },
        };
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let permit = self.writes.acquire().await;
        let result: Result<serde_json::Value, _> =
            api.create_subresource("binding", name, &PostParams::default(), &binding).await;
        // Reading it may take long: other writes continue meanwhile.
        drop(permit);
        let Err(error) = result else { return Ok(()) };
        if status_of(&error).is_some_and(|status| status.code == 404) {
            return Err(BindError::Gone);
        }
        let refused = status_of(&error).is_some_and(|status| (400..500).contains(&status.code));
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(10));
        loop {
            match api.get_opt(name).await {
                Ok(Some(pod)) if pod.metadata.uid == work.pod.metadata.uid => {
                    return match pods::node_name(&pod) {
                        Some(node) if node == work.node => Ok(()),
                        Some(_) | None => Err(BindError::Pod(error)),
                    };
                }
                Ok(Some(_) | None) => return Err(BindError::Gone),
                Err(_) if refused => return Err(BindError::Pod(error)),
                Err(_) => tokio::time::sleep(backoff.advance()).await,
            }
        }
    }
}
