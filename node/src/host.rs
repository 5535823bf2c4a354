//! The interface of plugins to the machine and the cluster. Clones share it.

use std::sync::Arc;

use kube::Client;
use orlop_apimachinery::clock::Clock;
use orlop_client::recorder::Recorder;
use orlop_csi::drivers::Drivers;

use crate::config::NodeConfig;
use crate::mount::Mounts;
use crate::paths::Paths;

/// The machine and the cluster, as plugins see them.
#[derive(Clone)]
pub struct Host {
    /// Settings.
    pub config: Arc<NodeConfig>,
    /// The paths of all files.
    pub paths: Paths,
    /// Mounts with deadlines.
    pub mounts: Mounts,
    /// Client of the API server.
    pub client: Client,
    /// CSI drivers registered on this node.
    pub drivers: Drivers,
    /// Recorder of events, with component `kubelet` and this node as host.
    pub events: Recorder,
    /// Wall-clock time.
    pub clock: Clock,
}
