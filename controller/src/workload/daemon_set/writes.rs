//! The client of the controller, with the requests of DaemonSets.

use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetStatus};
use kube::{Client, Resource};
use orlop_client::api::Api;

use super::status::is_same_status;
use crate::workload::error::WorkloadError;
use crate::workload::owned::Namespaced;
use crate::workload::writes::{api_of, write_status};

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
        write_status(&self.0, &DaemonSet { status: Some(status), ..set.clone() }).await
    }

    /// The API for a kind in the namespace of `neighbour`.
    pub(super) fn api<K: Namespaced>(&self, neighbour: &impl Resource) -> Api<K> {
        api_of(&self.0, neighbour)
    }
}
