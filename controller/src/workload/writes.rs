//! Requests that several workloads send.

use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Client, Resource, ResourceExt};
use orlop_client::api::Api;
use orlop_client::client::is_not_found;
use serde_json::{Value, json};

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

/// Changes the number of a revision, if it is still of this version. A patch, because the workload has no data of the revision.
pub async fn renumber_revision(
    client: &Client,
    part: &ControllerRevision,
    number: i64,
) -> Result<(), WorkloadError> {
    patch_revision(client, part, json!({"revision": number}), "renumber").await.map(|_| ())
}

/// Applies a merge patch to a revision, if it is still of this version.
pub async fn patch_revision(
    client: &Client,
    part: &ControllerRevision,
    mut patch: Value,
    what: &'static str,
) -> Result<ControllerRevision, WorkloadError> {
    patch["metadata"]["uid"] = json!(part.metadata.uid);
    patch["metadata"]["resourceVersion"] = json!(part.metadata.resource_version);
    let api = api_of::<ControllerRevision>(client, part);
    let written = api.patch(&part.name_any(), &PatchParams::default(), &Patch::Merge(&patch)).await;
    written.map_err(WorkloadError::api(what, named(part)))
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
