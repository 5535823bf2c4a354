//! Writes driver facts to Node and CSINode. Each write is conditional on the version that was read; after a
//! conflict the object is read again.

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::CSINode;
use kube::Client;
use kube::api::{Patch, PatchParams, PostParams};
use orlop_client::api::Api;
use orlop_client::client::{is_already_exists, is_conflict, is_not_found, message_of};

use super::driver_info::{self, DriverError, DriverInfo};

/// How often a conflicting write is retried before it is reported.
const TRIES: usize = 8;

/// Why Node or CSINode could not be updated.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    #[error("error updating Node object with CSI driver node info: {0}")]
    Node(String),
    #[error("error updating CSINode object with CSI driver node info: {0}")]
    CsiNode(String),
    #[error("error updating Node object with CSI driver node info: {0}")]
    Refused(#[from] DriverError),
}

/// The Node and CSINode of this machine.
pub(super) struct NodeObjects {
    name: String,
    nodes: Api<Node>,
    csi_nodes: Api<CSINode>,
}

impl NodeObjects {
    pub(super) fn new(client: &Client, name: &str) -> Self {
        let (nodes, csi_nodes) = (Api::all(client.clone()), Api::all(client.clone()));
        Self { name: name.to_owned(), nodes, csi_nodes }
    }

    /// The Node, for events.
    pub(super) async fn node(&self) -> Option<Node> {
        self.nodes.get(&self.name).await.ok()
    }

    /// Creates the CSINode if there is none, and annotates it with the migrated plugins.
    pub(super) async fn begin(&self) -> Result<(), WriteError> {
        self.write_csi_node(driver_info::annotated).await
    }

    /// Adds a driver. The Node is written first: consumers of the CSINode rely on the labels.
    pub(super) async fn install(&self, driver: &str, facts: &DriverInfo) -> Result<(), WriteError> {
        self.write_node(|node| driver_info::node_patch(node, driver, facts)).await?;
        self.write_csi_node(|csi_node| driver_info::installed(csi_node, driver, facts)).await
    }

    /// Removes a driver.
    pub(super) async fn uninstall(&self, driver: &str) -> Result<(), WriteError> {
        match self.csi_nodes.get_opt(&self.name).await {
            Ok(Some(_)) => self.write_csi_node(|csi_node| driver_info::removed(csi_node, driver)).await?,
            Ok(None) => {}
            Err(error) => return Err(WriteError::CsiNode(message_of(&error))),
        }
        match self.write_node(|node| driver_info::node_patch_removed(node, driver)).await {
            Err(WriteError::Node(_)) if matches!(self.nodes.get_opt(&self.name).await, Ok(None)) => Ok(()),
            written => written,
        }
    }

    async fn write_node(
        &self,
        patch_of: impl Fn(&Node) -> Result<Option<serde_json::Value>, DriverError>,
    ) -> Result<(), WriteError> {
        let write_error = |error: &kube::Error| WriteError::Node(message_of(error));
        for _ in 0..TRIES {
            let node = self.nodes.get(&self.name).await.map_err(|error| write_error(&error))?;
            let Some(patch) = patch_of(&node)? else { return Ok(()) };
            match self.nodes.patch(&self.name, &PatchParams::default(), &Patch::Merge(&patch)).await {
                Ok(_) => return Ok(()),
                Err(error) if is_conflict(&error) => {}
                Err(error) => return Err(write_error(&error)),
            }
        }
        Err(WriteError::Node("others change it all the time".to_owned()))
    }

    /// Writes until no change is left.
    async fn write_csi_node(&self, next: impl Fn(&CSINode) -> Option<CSINode>) -> Result<(), WriteError> {
        let write_error = |error: kube::Error| WriteError::CsiNode(message_of(&error));
        for _ in 0..TRIES {
            let Some(csi_node) = self.csi_nodes.get_opt(&self.name).await.map_err(write_error)? else {
                self.create().await?;
                continue;
            };
            let Some(next) = next(&csi_node) else { return Ok(()) };
            match self.csi_nodes.replace(&self.name, &PostParams::default(), &next).await {
                Ok(_) => {}
                Err(error) if is_conflict(&error) || is_not_found(&error) => {}
                Err(error) => return Err(write_error(error)),
            }
        }
        Err(WriteError::CsiNode("others change it all the time".to_owned()))
    }

    async fn create(&self) -> Result<(), WriteError> {
        let write_error = |error: kube::Error| WriteError::CsiNode(message_of(&error));
        let node = self.nodes.get(&self.name).await.map_err(write_error)?;
        match self.csi_nodes.create(&PostParams::default(), &driver_info::new_csi_node(&node)).await {
            Ok(_) => Ok(()),
            Err(error) if is_already_exists(&error) => Ok(()),
            Err(error) => Err(write_error(error)),
        }
    }
}
