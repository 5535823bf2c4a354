//! Settings of an agent. Names and defaults are those of the kubelet's flags where it has them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::core::v1::Taint;
use orlop_csi::drivers::Endpoint;
use orlop_volume::host_path_roots::HostPathRoots;

use crate::eviction::Thresholds;

/// Settings of an agent.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeConfig {
    /// `--name`: name of the Node.
    pub name: String,
    /// `--root-dir`: the directory of volumes and agent state; absolute.
    pub root_dir: PathBuf,
    /// `--node-labels`.
    pub labels: BTreeMap<String, String>,
    /// `--register-with-taints`.
    pub taints: Vec<Taint>,
    /// `--node-ip`: the address published in the Node; none to detect it.
    pub address: Option<std::net::IpAddr>,
    /// `--max-pods`.
    pub max_pods: u32,
    /// `--node-status-update-frequency`: the longest time between two checks of the node conditions.
    pub status_period: Duration,
    /// `--node-lease-duration-seconds`; the Lease is renewed four times per duration.
    pub lease: Duration,
    /// `--eviction-hard`: the resources that must be free for the node to be without pressure.
    pub thresholds: Thresholds,
    /// `--mount-timeout`, a flag of orlop: after this time a mount counts as hung.
    pub mount_timeout: Duration,
    /// Mounts are recorded but not performed.
    pub is_virtual: bool,
    /// `--runtime`: the container runtime.
    pub runtime: RuntimeKind,
    /// `--hooks-dir`: programs that are run on pod events; for the runtime that runs no containers.
    pub hooks_dir: Option<PathBuf>,
    /// `--host-path-roots`: where hostPath volumes may be emptied, and the group of local volumes changed.
    pub host_path_roots: HostPathRoots,
    /// `--csi-endpoint`: CSI drivers in addition to those that register in the directory.
    pub csi_endpoints: Vec<Endpoint>,
    /// `--address` and `--port`: where container logs are served, with TLS unless the address is loopback; none to
    /// serve no logs.
    pub log_address: Option<std::net::SocketAddr>,
}

/// The container runtime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RuntimeKind {
    /// No runtime: the agent prepares volumes for another program.
    #[default]
    None,
    /// Containers are processes of this machine.
    Process,
}

impl NodeConfig {
    /// The defaults for a node with this name.
    pub fn new(name: impl Into<String>, root_dir: impl Into<PathBuf>) -> Self {
        Self {
            name: name.into(),
            root_dir: root_dir.into(),
            labels: BTreeMap::new(),
            taints: Vec::new(),
            address: None,
            max_pods: 110,
            status_period: Duration::from_secs(10),
            lease: Duration::from_secs(40),
            thresholds: Thresholds::usual(),
            mount_timeout: Duration::from_secs(60),
            is_virtual: false,
            runtime: RuntimeKind::None,
            hooks_dir: None,
            host_path_roots: HostPathRoots::default(),
            csi_endpoints: Vec::new(),
            log_address: None,
        }
    }
}
