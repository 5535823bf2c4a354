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

/// What `node drain --help` says of it.
const DRAIN_HELP: &str = "\
The node is cordoned and stays so (orlop node uncordon ends it). Pods are asked to go by the Eviction API, which respects \
PodDisruptionBudgets; pods of DaemonSets stay, with their volumes. Nobody is asked while there are pods that nobody makes \
again, or whose data goes with them, unless a flag allows it. It ends when the pods are gone and what they had is unmounted and detached.

Exit codes: 0 the node is empty, or would be asked for it; 1 it is not, in time, or may not be emptied; 2 the command line is wrong.";

/// What `node gc --help` says of it.
const GC_HELP: &str = "\
Run it on the machine of the node. A directory of a pod that the API does not know is removed when it is provably empty and nothing is \
mounted in it, and moved into quarantine when it is not empty; volumes are left to the agent. While an agent has the \
directory it does that itself, and this command only looks. What is in quarantine is deleted by --purge-quarantine \
alone, never through a link, and nothing of it while something is mounted in it.

Exit codes: 0 nothing is left; 1 something is left, or would be changed; 2 could not look, or the command line is wrong.";

/// `orlop node`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct NodeArgs {
    #[command(subcommand)]
    pub(crate) command: Option<NodeCommand>,
    #[command(flatten)]
    pub(crate) agent: AgentArgs,
}

/// What else can be done with nodes.
#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    /// Empty a node: no new pods, those that are there go, their volumes are detached
    #[command(after_help = DRAIN_HELP)]
    Drain(Box<DrainArgs>),
    /// Let new pods come to a node again
    Uncordon(Box<UncordonArgs>),
    /// Look after what is left in the directory of an agent: what no pod has any more, and the quarantine
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
    /// Name of the Node, for events [default: the machine's name]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Directory of the agent
    #[arg(long, value_name = "DIR", default_value = "/var/lib/orlop/node")]
    pub(crate) root_dir: PathBuf,
    /// Only tell what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Delete what has been in quarantine for --older-than; for good
    #[arg(long, requires = "older_than")]
    pub(crate) purge_quarantine: bool,
    /// Only what has been in quarantine for so long; a day is 24h
    #[arg(long, value_name = "DURATION", requires = "purge_quarantine", value_parser = values::duration)]
    pub(crate) older_than: Option<Duration>,
    /// After this time a look at the disk counts as hanging
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
    /// Give up after this time; 0s never does
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = values::duration)]
    pub(crate) timeout: Duration,
    /// How long pods have to end; without it what each says itself
    #[arg(long, value_name = "SECONDS")]
    pub(crate) grace_period: Option<u32>,
    /// Let pods go that no controller makes again
    #[arg(long)]
    pub(crate) force: bool,
    /// Let pods go with the data in their emptyDir volumes
    #[arg(long)]
    pub(crate) delete_emptydir_data: bool,
    /// Only tell who would be asked to go; budgets are asked, and nothing is changed
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

/// `orlop node` without a command: the agent.
#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    #[command(flatten)]
    pub(crate) process: ProcessArgs,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
    /// Name of the Node; the scheduler and CSI drivers know this machine by it
    #[arg(long, value_name = "NAME", required = true)]
    pub(crate) name: Option<String>,
    /// CSI driver that is called from here, as NAME=unix:///path, besides those that register below --root-dir; may be
    /// given several times
    #[arg(long, value_name = "NAME=ENDPOINT", value_parser = values::csi_endpoint)]
    pub(crate) csi_endpoint: Vec<Endpoint>,
    #[command(flatten)]
    pub(crate) machine: MachineArgs,
}

/// What runs pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RuntimeArg {
    /// Nothing: volumes are mounted at stable paths, and programs of --hooks-dir are told
    None,
    /// Processes of this machine. No sandbox: who may create pods for this node is root on it
    Process,
}

/// How a machine is a node.
#[derive(Debug, Args)]
#[command(next_help_heading = "Node")]
pub(crate) struct MachineArgs {
    /// Directory of the volumes; laid out as the kubelet's [default: /var/lib/orlop/node; with `serve` the directory node
    /// below --data-dir]
    #[arg(long, value_name = "DIR")]
    pub(crate) root_dir: Option<PathBuf>,
    /// Labels of the Node
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = values::label)]
    pub(crate) node_labels: Vec<(String, String)>,
    /// Taints that the Node is made with
    #[arg(long, value_name = "KEY=VALUE:EFFECT", value_delimiter = ',', value_parser = values::taint)]
    pub(crate) register_with_taints: Vec<Taint>,
    /// Address that the Node tells [default: the one that the server is reached from]
    #[arg(long, value_name = "ADDR")]
    pub(crate) node_ip: Option<IpAddr>,
    /// Pods that the node takes at most
    #[arg(long, value_name = "N", default_value_t = 110)]
    pub(crate) max_pods: u32,
    /// What runs pods when their volumes are there
    #[arg(long, value_enum, default_value = "none")]
    pub(crate) runtime: RuntimeArg,
    /// Programs that are told what happens to pods and volumes (docs/node.md)
    #[arg(long, value_name = "DIR")]
    pub(crate) hooks_dir: Option<PathBuf>,
    /// After this time a mount counts as hanging
    #[arg(long, value_name = "DURATION", default_value = "1m0s", value_parser = values::duration)]
    pub(crate) mount_timeout: Duration,
    /// How often the machine is looked at
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = values::duration)]
    pub(crate) node_status_update_frequency: Duration,
    /// What the machine must have left: below it the Node says so (MemoryPressure, DiskPressure, PIDPressure) and takes no new
    /// pods; none is evicted. What is not named has no threshold
    #[arg(long, value_name = "SIGNAL<LEAST,...>", default_value = eviction::DEFAULT)]
    pub(crate) eviction_hard: Thresholds,
    /// How long the node counts as there without a word from it, seconds; four are said in that time
    #[arg(long, value_name = "SECONDS", default_value_t = 40)]
    pub(crate) node_lease_duration_seconds: u32,
    /// Address on which logs of containers are served to the API server, encrypted unless it is loopback [default: 127.0.0.1 where
    /// the API server is on this machine, else all addresses]
    #[arg(long, value_name = "ADDR")]
    pub(crate) address: Option<IpAddr>,
    /// Port for logs; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 10_250)]
    pub(crate) port: u16,
}

/// The nodes in `orlop serve`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Nodes in this process")]
pub(crate) struct ServedNodeArgs {
    /// Make this machine a node too; needs root
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = values::boolean, action = clap::ArgAction::Set)]
    pub(crate) node: bool,
    /// Name of that Node [default: the machine's name]
    #[arg(long, value_name = "NAME")]
    pub(crate) node_name: Option<String>,
    /// So many nodes named virtual-1, virtual-2 ..., whose mounts are only recorded, to watch whole lives of pods and
    /// volumes without a machine
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) virtual_nodes: u32,
    #[command(flatten)]
    pub(crate) machine: MachineArgs,
}
