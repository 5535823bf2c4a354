//! Settings of an agent. Names and defaults are those of the kubelet's flags where it has them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::core::v1::Taint;
use orlop_csi::drivers::Endpoint;

use crate::eviction::Thresholds;

/// Settings of an agent.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeConfig {
    /// `--name`: name of the Node.
    pub name: String,
    /// `--root-dir`: where its volumes are; absolute.
    pub root_dir: PathBuf,
    /// `--node-labels`.
    pub labels: BTreeMap<String, String>,
    /// `--register-with-taints`.
    pub taints: Vec<Taint>,
    /// `--node-ip`: the address that the Node tells; none to find it.
    pub address: Option<std::net::IpAddr>,
    /// `--max-pods`.
    pub max_pods: u32,
    /// `--node-status-update-frequency`: the longest time between two looks at the conditions.
    pub status_period: Duration,
    /// `--node-lease-duration-seconds`; the Lease is renewed four times in it.
    pub lease: Duration,
    /// `--eviction-hard`: what the machine must have left to be without pressure.
    pub thresholds: Thresholds,
    /// `--mount-timeout`, a flag of our own: after it a mount counts as hanging.
    pub mount_timeout: Duration,
    /// Mounts are recorded and not made.
    pub is_virtual: bool,
    /// `--runtime`: what runs pods.
    pub runtime: RuntimeKind,
    /// `--hooks-dir`: programs that are told what happens to pods; for a runtime that runs nothing.
    pub hooks_dir: Option<PathBuf>,
    /// `--csi-endpoint`: drivers besides those that register in the directory.
    pub csi_endpoints: Vec<Endpoint>,
    /// `--address` and `--port`: where logs of containers are served, encrypted unless it is loopback; none if there are none.
    pub log_address: Option<std::net::SocketAddr>,
}

/// What runs pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RuntimeKind {
    /// Nothing: somebody else uses the volumes.
    #[default]
    None,
    /// Containers are processes of this machine.
    Process,
}

impl NodeConfig {
    /// The defaults for a node of this name.
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
            csi_endpoints: Vec::new(),
            log_address: None,
        }
    }
}
