//! `node.status.volumesAttached`: the volumes that a node may mount. Changes of a node that arrive while its status is being written
//! are combined in the next write.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use orlop_client::api::Api;
use serde_json::json;

use super::controller::Controller;
use super::node_status::volumes_in_use;
use orlop_client::client::is_not_found;

impl Controller {
    /// Writes the list of a node if it has changed since the last write. After a return without an error, the status on the server
    /// is at least as new as the list at the time of the call, or the node was deleted.
    ///
    /// # Errors
    /// The write failed; the list still has to be written.
    // Tests: AD-042, AD-078, AD-082
    pub(super) async fn write_report(&self, node: &Arc<str>) -> kube::Result<()> {
        let writer = self.writers.of(node);
        let outcome = {
            let _turn = writer.lock().await;
            self.write_report_now(node).await
        };
        self.writers.done(node);
        outcome
    }

    async fn write_report_now(&self, node: &Arc<str>) -> kube::Result<()> {
        let Some(list) = self.state().actual.take_unwritten(node) else { return Ok(()) };
        let entries: Vec<_> = list.iter().map(|name| json!({"name": &**name, "devicePath": ""})).collect();
        let patch = json!({"status": {"volumesAttached": entries}});
        let api: Api<Node> = Api::all(self.client.clone());
        match api.patch_status(node, &PatchParams::default(), &Patch::Merge(&patch)).await {
            Ok(written) => {
                let in_use = volumes_in_use(&written);
                let mut state = self.state();
                state.actual.written(node, &list, in_use);
                drop(state);
                self.wake_unwanted(node);
                Ok(())
            }
            Err(error) if is_not_found(&error) => Ok(()),
            Err(error) => {
                self.state().actual.set_unwritten(node);
                Err(error)
            }
        }
    }
}
