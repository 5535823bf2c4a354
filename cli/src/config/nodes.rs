//! Validation of the flags of nodes.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use orlop_client::bootstrap_token::BootstrapToken;
use orlop_client::client::Endpoint;
use orlop_csi::drivers::Endpoint as DriverEndpoint;
use orlop_node::config::{NodeConfig, RuntimeKind};
use orlop_node::join::JoinOptions;

use super::error::{ConfigError, wrong};
use super::remote::{is_here, read_token};
use crate::args::{JoinArgs, LoopArgs, MachineArgs, ProcessArgs, RuntimeArg, ServedNodeArgs};

/// Nodes in the process of the API server.
#[derive(Debug, Default)]
pub struct Nodes {
    /// This machine.
    pub machine: Option<Box<NodeConfig>>,
    /// Number of virtual nodes, whose mounts are only recorded.
    pub virtual_nodes: u32,
}

impl Nodes {
    /// Whether there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.machine.is_none() && self.virtual_nodes == 0
    }
}

/// The nodes in the process of the API server.
pub(super) fn served(
    mut args: ServedNodeArgs,
    loops: &LoopArgs,
    data_dir: Option<&Path>,
) -> Result<Nodes, ConfigError> {
    if args.node_name.is_some() && !args.node {
        return Err(wrong("--node-name requires --node"));
    }
    if args.virtual_nodes > 1000 {
        return Err(wrong("--virtual-nodes must be at most 1000"));
    }
    let machine = match args.node {
        false => None,
        true => {
            let name = args
                .node_name
                .or_else(host_name)
                .ok_or_else(|| wrong("--node needs --node-name NAME: this machine has no host name"))?;
            if let (None, Some(dir)) = (&args.machine.root_dir, data_dir) {
                // With `--data-dir`, the directory of the node is inside the data directory.
                let dir = std::path::absolute(dir)
                    .map_err(|error| wrong(&format!("--data-dir {}: {error}", dir.display())))?;
                args.machine.root_dir = Some(dir.join("node"));
            }
            let config = machine(name, args.machine, loops.csi_endpoint.clone(), true)?;
            let host_path_roots = loops.host_path_roots.iter().cloned().collect();
            Some(Box::new(NodeConfig { host_path_roots, ..config }))
        }
    };
    Ok(Nodes { machine, virtual_nodes: args.virtual_nodes })
}

/// The part of an agent's settings that locates its directory.
pub(super) fn directory(
    name: Option<String>,
    root_dir: PathBuf,
    mount_timeout: Duration,
) -> Result<NodeConfig, ConfigError> {
    if mount_timeout.is_zero() {
        return Err(wrong("--mount-timeout must be more than 0"));
    }
    let name = name
        .or_else(host_name)
        .ok_or_else(|| wrong("gc needs --name NAME: this machine has no host name"))?;
    Ok(NodeConfig { mount_timeout, ..NodeConfig::new(name, root_dir) })
}

/// How this machine joins, and the settings of its agent.
pub(super) fn joining(args: JoinArgs) -> Result<(ProcessArgs, JoinOptions, NodeConfig), ConfigError> {
    let name = args
        .name
        .or_else(host_name)
        .ok_or_else(|| wrong("join needs --name NAME: this machine has no host name"))?;
    let token = match args.token_file {
        Some(path) => Some(read_token(&path)?),
        None => args.token,
    };
    if let Some(Err(error)) = token.as_ref().map(|token| token.parse::<BootstrapToken>()) {
        return Err(wrong(&error.to_string()));
    }
    let server = Endpoint::Url { url: args.url.clone(), token: None, ca_file: None, insecure: false };
    let config = machine(name.clone(), args.machine, args.csi_endpoint, is_here(&server))?;
    let config = NodeConfig { host_path_roots: args.host_path_roots.into_iter().collect(), ..config };
    let root_dir = config.root_dir.clone();
    Ok((args.process, JoinOptions { url: args.url, token, ca_hashes: args.ca_hash, name, root_dir }, config))
}

/// The host name, normalized as the kubelet does it.
fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_lowercase()).filter(|name| !name.is_empty() && name != "(none)")
}

/// The settings of an agent. `is_beside_server`: the API server runs on the same machine.
pub(super) fn machine(
    name: String,
    args: MachineArgs,
    csi_endpoints: Vec<DriverEndpoint>,
    is_beside_server: bool,
) -> Result<NodeConfig, ConfigError> {
    if let Some(problem) = orlop_apimachinery::names::dns_subdomain(&name).first() {
        return Err(wrong(&format!("{name:?} cannot be the name of a node: {problem}")));
    }
    for (flag, time) in [
        ("--mount-timeout", args.mount_timeout),
        ("--node-status-update-frequency", args.node_status_update_frequency),
        ("--node-lease-duration-seconds", Duration::from_secs(args.node_lease_duration_seconds.into())),
    ] {
        if time.is_zero() {
            return Err(wrong(&format!("{flag} must be more than 0")));
        }
    }
    let root_dir = args.root_dir.unwrap_or_else(|| PathBuf::from("/var/lib/orlop/node"));
    if !root_dir.is_absolute() {
        return Err(wrong("--root-dir must be an absolute path: CSI drivers receive paths below it"));
    }
    let by_default = if is_beside_server { Ipv4Addr::LOCALHOST } else { Ipv4Addr::UNSPECIFIED };
    let log_address = args.address.unwrap_or(by_default.into());
    let runtime = match args.runtime {
        RuntimeArg::None => RuntimeKind::None,
        RuntimeArg::Process => RuntimeKind::Process,
    };
    if runtime == RuntimeKind::Process && args.hooks_dir.is_some() {
        return Err(wrong("--hooks-dir is for --runtime none: processes need no hooks"));
    }
    Ok(NodeConfig {
        labels: args.node_labels.into_iter().collect(),
        taints: args.register_with_taints,
        address: args.node_ip,
        max_pods: args.max_pods,
        status_period: args.node_status_update_frequency,
        lease: Duration::from_secs(args.node_lease_duration_seconds.into()),
        thresholds: args.eviction_hard,
        mount_timeout: args.mount_timeout,
        runtime,
        hooks_dir: args.hooks_dir,
        csi_endpoints,
        log_address: (runtime == RuntimeKind::Process).then(|| (log_address, args.port).into()),
        ..NodeConfig::new(name, root_dir)
    })
}
