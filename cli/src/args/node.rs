//! Flags of `orlop node`, and of the node in `orlop serve`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use k8s_openapi::api::core::v1::Taint;
use orlop_csi::drivers::Endpoint;
use orlop_node::eviction::{self, Thresholds};

use super::process::ProcessArgs;
use super::remote::RemoteArgs;
use super::values;

/// Footer of `node drain --help`.
const DRAIN_HELP: &str = "\
Cordons the node, and then evicts its pods through the Eviction API, which respects PodDisruptionBudgets. The node stays cordoned: \
see orlop node uncordon. Pods of DaemonSets stay, with their volumes. If a pod has no controller, the command requires --force; if a pod \
has emptyDir volumes, it requires --delete-emptydir-data. Without the required flag, the command evicts no pod. The command ends when \
the pods are deleted and their volumes are unmounted and detached.

Exit codes: 0 the node is drained, or --dry-run is set and no required flag is missing; 1 --force or --delete-emptydir-data is required \
and missing, the timeout expired, or a request failed; 2 the command line is wrong.";

/// Footer of `node gc --help`.
const GC_HELP: &str = "\
Run this command on the machine of the node. The command searches for directories of pods that do not exist in the API. It removes \
empty directories, and moves directories with files to the subdirectory `quarantine` of --root-dir. If a directory contains a mount or \
records of containers, the command only reports it. While an agent runs with this --root-dir, the command only reports directories: \
the agent itself removes the empty ones and moves those with files. The command reports the volumes of pods that do not exist in the API, \
but does not unmount them: the running node agent unmounts these volumes, or the next agent that starts. Only --purge-quarantine deletes \
from the quarantine. This deletion does not follow links, and skips entries of the quarantine that contain a mount.

Exit codes: 0 no leftovers; 1 leftovers remain, or --dry-run found some; 2 the command failed, or the command line is wrong.";

/// `orlop node`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct NodeArgs {
    #[command(subcommand)]
    pub(crate) command: Option<NodeCommand>,
    #[command(flatten)]
    pub(crate) agent: AgentArgs,
}

/// Footer of `node join --help`.
const JOIN_HELP: &str = "\
On the server, `orlop token create --print-join-command` prints the join command with its flags. The join command verifies the server \
with the digest in --ca-hash, requests a client certificate with the bootstrap token, and then runs as `orlop node`. On a machine that \
has joined before, it only runs as `orlop node`, and needs no valid token. The agent renews the certificate while it runs.";

/// Commands on nodes.
#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    /// Join a cluster with a bootstrap token, and run as a node
    #[command(after_help = JOIN_HELP)]
    Join(Box<JoinArgs>),
    /// Drain a node: cordon it, evict its pods and wait until its volumes are detached
    #[command(after_help = DRAIN_HELP)]
    Drain(Box<DrainArgs>),
    /// Make a node schedulable again
    Uncordon(Box<UncordonArgs>),
    /// Report and clean up leftovers of pods in the directory of a node agent and in its quarantine
    #[command(after_help = GC_HELP)]
    Gc(Box<GcArgs>),
}

/// `orlop node uncordon`.
#[derive(Debug, Args)]
pub(crate) struct UncordonArgs {
    /// The node
    #[arg(value_name = "NAME")]
    pub(crate) node: String,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

/// `orlop node gc`.
#[derive(Debug, Args)]
pub(crate) struct GcArgs {
    /// Name of the Node, for events [default: the host name]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Directory of the node agent
    #[arg(long, value_name = "DIR", default_value = "/var/lib/orlop/node")]
    pub(crate) root_dir: PathBuf,
    /// Print the actions and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Permanently delete data that has been in the quarantine for at least --older-than
    #[arg(long, requires = "older_than")]
    pub(crate) purge_quarantine: bool,
    /// Delete only data that has been in the quarantine for at least this time; a day is 24h
    #[arg(long, value_name = "DURATION", requires = "purge_quarantine", value_parser = values::duration)]
    pub(crate) older_than: Option<Duration>,
    /// Time after which a disk access counts as hung
    #[arg(long, value_name = "DURATION", default_value = "1m0s", value_parser = values::duration)]
    pub(crate) mount_timeout: Duration,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

/// `orlop node drain`.
#[derive(Debug, Args)]
pub(crate) struct DrainArgs {
    /// The node
    #[arg(value_name = "NAME")]
    pub(crate) node: String,
    /// Timeout of the drain; 0s is unlimited
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = values::duration)]
    pub(crate) timeout: Duration,
    /// Termination grace period of the pods, in seconds [default: the period of each pod]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) grace_period: Option<u32>,
    /// Also evict pods without a controller, which are not created again
    #[arg(long)]
    pub(crate) force: bool,
    /// Also evict pods with emptyDir volumes, whose data is lost
    #[arg(long)]
    pub(crate) delete_emptydir_data: bool,
    /// Print the pods that the command would evict; check disruption budgets, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

/// `orlop node join`. Accepts the names of kubeadm's flags, too.
#[derive(Debug, Args)]
pub(crate) struct JoinArgs {
    /// URL of the API server, such as https://10.0.0.1:6443
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// Bootstrap token; other users of this machine can read the command line, so prefer --token-file
    #[arg(long, value_name = "TOKEN", conflicts_with = "token_file")]
    pub(crate) token: Option<String>,
    /// File with a bootstrap token
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Digest of the public key of the server's certificate authority, as sha256:HEX; can be repeated, and one digest must
    /// match
    #[arg(long, visible_alias = "discovery-token-ca-cert-hash", value_name = "DIGEST", required = true)]
    pub(crate) ca_hash: Vec<String>,
    /// Name of the Node [default: the host name]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// CSI driver to call, as NAME=unix:///path, in addition to those that register below --root-dir; can be
    /// repeated
    #[arg(long, value_name = "NAME=ENDPOINT", value_parser = values::csi_endpoint)]
    pub(crate) csi_endpoint: Vec<Endpoint>,
    /// Local directory in which the agent may empty hostPath volumes (reclaim policy Recycle) and change the group of local
    /// volumes (fsGroup); can be repeated [default: none]
    #[arg(long, value_name = "DIR", value_parser = values::host_path_root)]
    pub(crate) host_path_roots: Vec<orlop_volume::host_path_roots::HostPathRoots>,
    #[command(flatten)]
    pub(crate) machine: MachineArgs,
    #[command(flatten)]
    pub(crate) process: ProcessArgs,
}

/// `orlop node` without a command: the agent.
#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    /// Name of the Node, which identifies this machine to the scheduler and to CSI drivers
    #[arg(long, value_name = "NAME", required = true)]
    pub(crate) name: Option<String>,
    /// CSI driver to call, as NAME=unix:///path, in addition to those that register below --root-dir; can be
    /// repeated
    #[arg(long, value_name = "NAME=ENDPOINT", value_parser = values::csi_endpoint)]
    pub(crate) csi_endpoint: Vec<Endpoint>,
    /// Local directory in which the agent may empty hostPath volumes (reclaim policy Recycle) and change the group of local
    /// volumes (fsGroup); can be repeated [default: none]
    #[arg(long, value_name = "DIR", value_parser = values::host_path_root)]
    pub(crate) host_path_roots: Vec<orlop_volume::host_path_roots::HostPathRoots>,
    #[command(flatten)]
    pub(crate) machine: MachineArgs,
    #[command(flatten)]
    pub(crate) process: ProcessArgs,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

/// The container runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RuntimeArg {
    /// None: the agent mounts volumes at stable paths, and calls the programs in --hooks-dir
    None,
    /// Processes of this machine, without a sandbox: a user who can create pods for this node has root access to the
    /// machine
    Process,
}

/// Flags of a node.
#[derive(Debug, Args)]
#[command(next_help_heading = "Node")]
pub(crate) struct MachineArgs {
    /// Directory of the volumes, in the layout of the kubelet [default: /var/lib/orlop/node; with `serve`, the
    /// subdirectory `node` of --data-dir]
    #[arg(long, value_name = "DIR")]
    pub(crate) root_dir: Option<PathBuf>,
    /// Labels of the Node
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = values::label)]
    pub(crate) node_labels: Vec<(String, String)>,
    /// Taints with which the Node is created
    #[arg(long, value_name = "KEY=VALUE:EFFECT", value_delimiter = ',', value_parser = values::taint)]
    pub(crate) register_with_taints: Vec<Taint>,
    /// Address of the Node [default: the local address of the connection to the API server]
    #[arg(long, value_name = "ADDR")]
    pub(crate) node_ip: Option<IpAddr>,
    /// Maximum number of pods on the node
    #[arg(long, value_name = "N", default_value_t = 110)]
    pub(crate) max_pods: u32,
    /// Container runtime
    #[arg(long, value_enum, default_value = "none")]
    pub(crate) runtime: RuntimeArg,
    /// Directory of the programs that the agent runs when a pod or volume changes (docs/node.md)
    #[arg(long, value_name = "DIR")]
    pub(crate) hooks_dir: Option<PathBuf>,
    /// Time after which a mount counts as hung
    #[arg(long, value_name = "DURATION", default_value = "1m0s", value_parser = values::duration)]
    pub(crate) mount_timeout: Duration,
    /// Interval at which the agent checks the machine's resources
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = values::duration)]
    pub(crate) node_status_update_frequency: Duration,
    /// Thresholds of available resources, below which the Node reports MemoryPressure, DiskPressure or PIDPressure
    /// and accepts no new pods
    ///
    /// The agent evicts no running pods when a resource falls below its threshold. Resources that are not listed
    /// have no threshold.
    #[arg(long, value_name = "SIGNAL<LEAST,...>", default_value = eviction::DEFAULT)]
    pub(crate) eviction_hard: Thresholds,
    /// Duration of the node's Lease, in seconds; the Lease is renewed four times in this time
    #[arg(long, value_name = "SECONDS", default_value_t = 40)]
    pub(crate) node_lease_duration_seconds: u32,
    /// Address on which the agent serves container logs to the API server; the connection is encrypted unless the address
    /// is loopback [default: 127.0.0.1 if the API server is on this machine, else all addresses]
    #[arg(long, value_name = "ADDR")]
    pub(crate) address: Option<IpAddr>,
    /// Port of container logs; 0 selects a free one
    #[arg(long, value_name = "PORT", default_value_t = 10_250)]
    pub(crate) port: u16,
}

/// The nodes in `orlop serve`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Nodes in this process")]
pub(crate) struct ServedNodeArgs {
    /// Also run a node agent for this machine; requires root
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = values::boolean, action = clap::ArgAction::Set)]
    pub(crate) node: bool,
    /// Name of the Node [default: the host name]
    #[arg(long, value_name = "NAME")]
    pub(crate) node_name: Option<String>,
    /// Number of virtual nodes, named virtual-1, virtual-2 ...; they only record mounts, so that you can try the lifecycle
    /// of pods and volumes without machines
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) virtual_nodes: u32,
    #[command(flatten)]
    pub(crate) machine: MachineArgs,
}
