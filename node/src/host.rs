//! What plugins are given of the machine and of the cluster. Clones share it.

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
    /// Where everything is.
    pub paths: Paths,
    /// Mounts, with deadlines.
    pub mounts: Mounts,
    /// Reaches the API server.
    pub client: Client,
    /// CSI drivers that registered on this node.
    pub drivers: Drivers,
    /// Takes events, as component `kubelet` with this node as its host.
    pub events: Recorder,
    /// Wall-clock time.
    pub clock: Clock,
}
