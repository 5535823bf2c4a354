//! A CSI driver for test environments: its volumes are directories and image files below one directory of one
//! machine. It follows the CSI specification (idempotent calls, error codes, capabilities),
//! preserves its state across crashes, and fails where a script requests it ([`faults`]).
//!
//! * [`records`]: records of volumes and snapshots, one file each, written before the response.
//! * `private_dir`: directories that other users can neither enter nor replace.
//! * [`rules`]: the response to each request, as pure functions over the records.
//! * `identity`, `controller`, `node`: thin implementations of the services.
//! * [`mounts`]: mounts and other side effects on this machine.

mod content;
mod controller;
mod ephemeral;
mod faults;
mod identity;
mod mounts;
mod node;
mod pages;
mod private_dir;
mod records;
mod registration;
mod rules;
#[cfg(test)]
mod tests;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use orlop_csi::registration::registration_server::RegistrationServer;
use orlop_csi::socket::{self, SocketError};
use orlop_csi::v1::controller_server::ControllerServer;
use orlop_csi::v1::identity_server::IdentityServer;
use orlop_csi::v1::node_server::NodeServer;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;

use self::faults::{Faults, FaultsLayer};
use self::records::Records;

/// The default name of the driver.
pub const NAME: &str = "hostpath.csi.orlop.dev";

/// Configuration of the driver.
#[derive(Clone, Debug)]
pub struct Options {
    /// The driver's name: a DNS subdomain.
    pub name: String,
    /// The endpoint to listen on: `unix:///path`.
    pub endpoint: String,
    /// The directory of its volumes and records.
    pub data_dir: PathBuf,
    /// The ID of its node.
    pub node_id: String,
    /// Other nodes that volumes may be published to. They exist only in records; nothing is mounted there.
    pub other_nodes: BTreeSet<String>,
    /// Nodes with one socket each, for several agents on one machine: volumes are mounted on the node whose agent
    /// requests it. A node of such a driver mounts only the volumes published to it.
    pub node_endpoints: BTreeMap<String, String>,
    /// Whether a volume is on one node and accessible from that node only.
    pub topology: bool,
    /// Whether volumes must be published to a node before they are used there.
    pub attach: bool,
    /// Whether volumes are mounted. Otherwise the driver only creates the staging and target directories, for nodes
    /// that record mounts without performing them; this does not need root.
    pub mounts: bool,
    /// Maximum number of volumes published to one node; 0 means unlimited.
    pub max_volumes_per_node: i64,
    /// Maximum total bytes of all volumes (with topology: of one node); `None` means unlimited.
    pub capacity: Option<i64>,
    /// Maximum size of a volume in bytes.
    pub max_volume_bytes: i64,
    /// Names of parameters that may be changed later; empty for any.
    pub mutable_parameters: BTreeSet<String>,
    /// A file with scripted faults; read again when it changes.
    pub faults: Option<PathBuf>,
    /// A socket in a node's plugin registration directory, through which the driver registers with the node.
    pub registration: Option<PathBuf>,
}

impl Options {
    /// A driver with defaults: no topology, publishing to nodes required, volumes of at most 1 TiB.
    pub fn new(
        endpoint: impl Into<String>,
        data_dir: impl Into<PathBuf>,
        node_id: impl Into<String>,
    ) -> Self {
        Options {
            name: NAME.to_owned(),
            endpoint: endpoint.into(),
            data_dir: data_dir.into(),
            node_id: node_id.into(),
            other_nodes: BTreeSet::new(),
            node_endpoints: BTreeMap::new(),
            topology: false,
            attach: true,
            mounts: true,
            max_volumes_per_node: 0,
            capacity: None,
            max_volume_bytes: 1 << 40,
            mutable_parameters: BTreeSet::new(),
            faults: None,
            registration: None,
        }
    }

    /// The key of the topology segment that names a volume's node.
    fn topology_key(&self) -> String {
        format!("topology.{}/node", self.name)
    }

    fn knows_node(&self, node: &str) -> bool {
        node == self.node_id || self.other_nodes.contains(node) || self.node_endpoints.contains_key(node)
    }

    /// Whether a volume may be mounted on this node. If several nodes of this driver can mount, the volume must be
    /// published to this one, so that two nodes never write to a volume at the same time.
    fn may_mount(&self, volume: &records::Volume) -> bool {
        !self.attach || self.node_endpoints.is_empty() || volume.published.contains_key(&self.node_id)
    }
}

/// Why the driver cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The socket cannot be used.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The records cannot be read.
    #[error(transparent)]
    Records(#[from] records::RecordsError),
    /// The fault script cannot be read.
    #[error(transparent)]
    Faults(#[from] faults::FaultsError),
    /// The server ended with an error.
    #[error("the driver's server ended: {0}")]
    Server(#[from] tonic::transport::Error),
}

/// State shared by the services.
#[derive(Clone)]
struct Driver {
    options: Options,
    records: Arc<Records>,
}

/// Serves until `shutdown` completes. Calls `ready` once the server accepts calls.
///
/// # Errors
/// The socket is in use, a record is damaged (the error names the file), or the fault script cannot be read.
pub fn serve(
    options: Options,
    ready: impl FnOnce() + Send + 'static,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> BoxFuture<'static, Result<(), ServeError>> {
    serve_boxed(options, Box::new(ready), shutdown.boxed())
}

// Not generic, so that the server is compiled with this crate: the compiler generates the code of a future where it is boxed.
fn serve_boxed(
    options: Options,
    ready: Box<dyn FnOnce() + Send>,
    shutdown: BoxFuture<'static, ()>,
) -> BoxFuture<'static, Result<(), ServeError>> {
    serve_until(options, ready, shutdown).boxed()
}

async fn serve_until(
    options: Options,
    ready: Box<dyn FnOnce() + Send>,
    shutdown: BoxFuture<'static, ()>,
) -> Result<(), ServeError> {
    let faults = Faults::open(options.faults.clone())?;
    let path = socket::path_of(&options.endpoint)?;
    let records = Arc::new(Records::open(&options.data_dir)?);
    let listener = socket::listen(&path).await?;
    let registering = match &options.registration {
        Some(path) => {
            let listener = socket::listen(path).await?;
            let service = registration::Registration {
                name: options.name.clone(),
                endpoint: socket::path_of(&options.endpoint)?,
            };
            let server = Server::builder().add_service(RegistrationServer::new(service));
            Some(tokio::spawn(server.serve_with_incoming(UnixListenerStream::new(listener))))
        }
        None => None,
    };
    let driver = Arc::new(Driver { options, records });
    driver.settle()?;
    let nodes = serve_nodes(&driver, &faults).await?;
    ready();
    let served = Server::builder()
        .layer(FaultsLayer::new(faults))
        .add_service(IdentityServer::from_arc(Arc::clone(&driver)))
        .add_service(ControllerServer::from_arc(Arc::clone(&driver)))
        .add_service(NodeServer::from_arc(Arc::clone(&driver)))
        .serve_with_incoming_shutdown(UnixListenerStream::new(listener), shutdown)
        .await;
    if let Some(registering) = registering {
        registering.abort();
    }
    for (path, serving) in nodes {
        serving.abort();
        let _ = std::fs::remove_file(path);
    }
    // Remove the socket: a leftover socket would indicate that a driver crashed here.
    let _ = std::fs::remove_file(&path);
    if let Some(path) = &driver.options.registration {
        let _ = std::fs::remove_file(path);
    }
    Ok(served?)
}

/// Serves each node that has its own socket, concurrently with the caller.
async fn serve_nodes(
    driver: &Driver,
    faults: &Faults,
) -> Result<Vec<(PathBuf, tokio::task::JoinHandle<()>)>, ServeError> {
    let mut serving = Vec::new();
    for (node, endpoint) in &driver.options.node_endpoints {
        let mut of_node = driver.clone();
        of_node.options.other_nodes.insert(std::mem::replace(&mut of_node.options.node_id, node.clone()));
        let of_node = Arc::new(of_node);
        let path = socket::path_of(endpoint)?;
        let listener = socket::listen(&path).await?;
        let server = Server::builder()
            .layer(FaultsLayer::new(faults.clone()))
            .add_service(IdentityServer::from_arc(Arc::clone(&of_node)))
            .add_service(ControllerServer::from_arc(Arc::clone(&of_node)))
            .add_service(NodeServer::from_arc(of_node))
            .serve_with_incoming(UnixListenerStream::new(listener));
        let node = node.clone();
        let task = tokio::spawn(async move {
            if let Err(error) = server.await {
                tracing::error!("the driver serves node {node} no more: {error}");
            }
        });
        serving.push((path, task));
    }
    Ok(serving)
}
