//! Requests that several workloads send.

use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::{Client, Resource, ResourceExt};
use orlop_client::api::Api;
use orlop_client::client::is_not_found;

use super::adopt::named;
use super::error::WorkloadError;
use super::owned::Namespaced;

/// The API for a kind in the namespace of `neighbour`.
pub fn api_of<K: Namespaced>(client: &Client, neighbour: &impl Resource) -> Api<K> {
    let namespace = neighbour.meta().namespace.as_deref().unwrap_or_default();
    Api::namespaced(client.clone(), namespace)
}

/// Writes the status of an object, if the object still exists.
pub async fn write_status<K: Namespaced>(client: &Client, changed: &K) -> Result<(), WorkloadError> {
    match api_of::<K>(client, changed)
        .replace_status(&changed.name_any(), &PostParams::default(), changed)
        .await
    {
        Ok(_) => Ok(()),
        Err(error) if is_not_found(&error) => Ok(()),
        Err(cause) => Err(WorkloadError::Api { what: "write the status of", object: named(changed), cause }),
    }
}

/// Deletes a revision, if it still exists.
pub async fn delete_revision(client: &Client, revision: &ControllerRevision) -> Result<(), WorkloadError> {
    let exactly = Preconditions { uid: revision.metadata.uid.clone(), resource_version: None };
    let parameters = DeleteParams::default().preconditions(exactly);
    match api_of::<ControllerRevision>(client, revision).delete(&revision.name_any(), &parameters).await {
        Ok(_) => Ok(()),
        Err(error) if is_not_found(&error) => Ok(()),
        Err(cause) => Err(WorkloadError::Api { what: "delete", object: named(revision), cause }),
    }
}
