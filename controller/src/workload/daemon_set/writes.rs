//! The API of the namespace of a DaemonSet.

use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetStatus};
use kube::api::PostParams;
use kube::{Client, ResourceExt};
use orlop_client::api::Api;

use super::status::is_same_status;
use crate::workload::adopt::named;
use crate::workload::error::WorkloadError;
use crate::workload::owned::Namespaced;
use orlop_client::client::is_not_found;

/// Writes objects of DaemonSets.
pub(super) struct Writer(pub(super) Client);

impl Writer {
    /// Writes the status, unless it is the same.
    pub(super) async fn write_status(
        &self,
        set: &DaemonSet,
        status: DaemonSetStatus,
    ) -> Result<(), WorkloadError> {
        if set.status.as_ref().is_some_and(|old| is_same_status(old, &status)) {
            return Ok(());
        }
        let changed = DaemonSet { status: Some(status), ..set.clone() };
        let api: Api<DaemonSet> = self.api(set);
        match api.replace_subresource("status", &set.name_any(), &PostParams::default(), &changed).await {
            Ok(_) => Ok(()),
            Err(error) if is_not_found(&error) => Ok(()),
            Err(cause) => Err(WorkloadError::Api { what: "write the status of", object: named(set), cause }),
        }
    }

    /// The API for a kind in the namespace of `neighbour`.
    pub(super) fn api<K: Namespaced>(&self, neighbour: &impl kube::Resource) -> Api<K> {
        let namespace = neighbour.meta().namespace.as_deref().unwrap_or_default();
        Api::namespaced(self.0.clone(), namespace)
    }
}
