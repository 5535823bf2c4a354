//! The command line: every command and every flag, with its default and its help.
//!
//! Only declarations. What flags mean together is checked in `config`; where else a value may come
//! from (`ORLOP_*` variables, the file of `--config`) is added there too, for all flags alike, so
//! no flag here names a variable. Flags that upstream has keep upstream's name and default.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use orlop_apiserver::insight::replay::Until;
use orlop_apiserver::server::DEFAULT_ISSUER;
use orlop_apiserver::services::range::{self, AddressRange};

pub(crate) use self::driver::CsiHostpathArgs;
pub(crate) use self::insight::{
    AttachmentCommand, ChangeArgs, DiffArgs, GetArgs, HistoryArgs, ObjectOutput, PvCommand, PvcCommand,
    RecordArgs, TextOrJson, UnblockArgs, UndeleteArgs, WhereArgs, WhyArgs,
};
pub(crate) use self::keep::{Output, RestoreArgs, SaveArgs, SnapshotCommand, StoreCommand};
pub(crate) use self::lab::{GroundArgs, LabArgs, LabCommand, LabRunArgs};
pub(crate) use self::node::{
    AgentArgs, DrainArgs, GcArgs, MachineArgs, NodeArgs, NodeCommand, RuntimeArg, ServedNodeArgs,
};
pub(crate) use self::volumes::{AuditArgs, VolumeMode, VolumesCommand};
use crate::bench::args::BenchArgs;
use crate::values;

mod driver;
mod insight;
mod keep;
mod lab;
mod node;
mod volumes;

/// What `--help` says of exit codes and of where values come from.
const AFTER_HELP: &str = "\
Values come from flags, else from ORLOP_* variables (--data-dir is ORLOP_DATA_DIR), else from the YAML
file of --config (its keys are flag names), else from the defaults.

Exit codes: 0 stopped cleanly; 1 failed; 2 the command line or the configuration is wrong;
130 or 143 a second SIGINT or SIGTERM ended it before it had stopped cleanly.";

/// What `bench --help` says of what it does and of exit codes.
const BENCH_HELP: &str = "\
Without --server it starts servers of its own, on free ports of this machine and in a temporary \
directory, and stops them. Results go to stdout, progress to stderr. docs/performance.md says what \
each row measures.

Exit codes: 0 measured, and nothing was wrong; 1 requests failed, events were lost, or a row could not \
be measured; 2 the command line is wrong; 129, 130 or 143 stopped by
SIGHUP, SIGINT or SIGTERM.";

/// The storage half of Kubernetes in one small binary.
#[derive(Debug, Parser)]
#[command(name = "orlop", version, after_help = AFTER_HELP, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the API server and the controllers in one process
    #[command(after_help = AFTER_HELP)]
    Serve(Box<ServeArgs>),
    /// Run the API server alone
    #[command(after_help = AFTER_HELP)]
    Apiserver(Box<ApiserverArgs>),
    /// Run the controllers against an API server
    #[command(after_help = AFTER_HELP)]
    Controller(Box<ControllerArgs>),
    /// Make this machine a node: mount the volumes of its pods, and run pods where asked to
    #[command(after_help = AFTER_HELP)]
    Node(Box<NodeArgs>),
    /// Say why an object is as it is, and what would help
    #[command(after_help = insight::WHY_HELP)]
    Why(Box<WhyArgs>),
    /// Say what would go with an object if it were deleted, and whose data
    #[command(after_help = insight::IMPACT_HELP)]
    Impact(Box<WhyArgs>),
    /// Show who changed what of an object, and when
    #[command(after_help = insight::LOOK_HELP)]
    History(Box<HistoryArgs>),
    /// Show what is different in an object between two revisions
    #[command(after_help = insight::LOOK_HELP)]
    Diff(Box<DiffArgs>),
    /// Show objects as they are, or as they were at a revision or time
    #[command(visible_alias = "list", after_help = insight::LOOK_HELP)]
    Get(Box<GetArgs>),
    /// Save all that the server knows of the past in a file that the page can play
    #[command(after_help = insight::LOOK_HELP)]
    Record(Box<RecordArgs>),
    /// Bring back what was deleted, as it was at a revision
    #[command(after_help = insight::CHANGE_HELP)]
    Undelete(Box<UndeleteArgs>),
    /// Take from an object that is Terminating the finalizers that nobody would take any more
    #[command(after_help = insight::CHANGE_HELP)]
    Unblock(Box<UnblockArgs>),
    /// Look after PersistentVolumes
    #[command(subcommand)]
    Pv(PvCommand),
    /// Look after PersistentVolumeClaims
    #[command(subcommand)]
    Pvc(PvcCommand),
    /// Look after VolumeAttachments
    #[command(subcommand)]
    Attachment(AttachmentCommand),
    /// Save all objects in a file, look at such a file, make a new store of it
    #[command(subcommand)]
    Snapshot(SnapshotCommand),
    /// Look after the directory of a store that is not running
    #[command(subcommand)]
    Store(StoreCommand),
    /// Look after the volumes that CSI drivers have
    #[command(subcommand)]
    Volumes(VolumesCommand),
    /// Run a CSI driver for laboratories: its volumes are directories and files of this machine
    #[command(after_help = AFTER_HELP)]
    CsiHostpath(Box<CsiHostpathArgs>),
    /// A laboratory in memory, with nodes and a driver, and stories that are played in it
    #[command(after_help = lab::HELP)]
    Lab(Box<LabArgs>),
    /// Measure how fast this machine serves
    #[command(after_help = BENCH_HELP)]
    Bench(Box<BenchArgs>),
    /// Print the version
    Version,
    /// Print a completion script for a shell
    Completion {
        /// For which shell
        shell: Shell,
    },
}

/// `orlop serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) process: ProcessArgs,
    #[command(flatten)]
    pub(crate) listen: ListenArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) snapshots: SnapshotArgs,
    #[command(flatten)]
    pub(crate) api: ApiArgs,
    #[command(flatten)]
    pub(crate) loops: LoopArgs,
    #[command(flatten)]
    pub(crate) nodes: ServedNodeArgs,
}

/// `orlop apiserver`.
#[derive(Debug, Args)]
pub(crate) struct ApiserverArgs {
    #[command(flatten)]
    pub(crate) process: ProcessArgs,
    #[command(flatten)]
    pub(crate) listen: ListenArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) snapshots: SnapshotArgs,
    #[command(flatten)]
    pub(crate) api: ApiArgs,
}

/// `orlop controller`.
#[derive(Debug, Args)]
pub(crate) struct ControllerArgs {
    #[command(flatten)]
    pub(crate) process: ProcessArgs,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
    #[command(flatten)]
    pub(crate) loops: LoopArgs,
}

/// How a log line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    Text,
    /// One JSON object per line
    Json,
}

/// Every process has these.
#[derive(Debug, Args)]
#[command(next_help_heading = "Process")]
pub(crate) struct ProcessArgs {
    /// YAML file with values for flags; its keys are flag names
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// How log lines are written (to stderr)
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) log_format: LogFormat,
    /// What is logged: error, warn, info, debug, trace, or per part such as info,orlop_store=debug
    #[arg(long, value_name = "FILTER")]
    pub(crate) log_level: Option<String>,
    /// Verbosity by number, as upstream: 0 to 3 is info, 4 and 5 debug, 6 and more trace
    #[arg(short = 'v', long = "v", value_name = "N")]
    pub(crate) v: Option<u8>,
}

/// Where and how to listen.
#[derive(Debug, Args)]
#[command(next_help_heading = "Listening")]
pub(crate) struct ListenArgs {
    /// Address and port to serve on; port 0 takes a free one. Without TLS and authentication only
    /// addresses of this machine (loopback) are allowed
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8080", value_parser = values::listen_address)]
    pub(crate) listen: SocketAddr,
    /// Write the URL that is served here once requests are taken, for scripts
    #[arg(long, value_name = "FILE")]
    pub(crate) address_file: Option<PathBuf>,
    /// Certificate for TLS (PEM, with its chain)
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_cert_file: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_private_key_file: Option<PathBuf>,
    /// Authorities for client certificates (PEM): the CN of a certificate is the user, its O are groups
    #[arg(long, value_name = "FILE")]
    pub(crate) client_ca_file: Option<PathBuf>,
    /// CSV of bearer tokens: token,user,uid,"group1,group2"
    #[arg(long, value_name = "FILE")]
    pub(crate) token_auth_file: Option<PathBuf>,
    /// After a stop signal: how long requests are still taken while /readyz fails
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = values::duration)]
    pub(crate) shutdown_delay_duration: Duration,
    /// Connections at the same time, as far as the limit of open files carries them; 0 is no limit
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub(crate) max_connections: usize,
    /// How long the head of a request may take from its first byte, and the first head of a connection
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = values::duration)]
    pub(crate) read_header_timeout: Duration,
    /// How long a connection is kept without a request
    #[arg(long, value_name = "DURATION", default_value = "1m30s", value_parser = values::duration)]
    pub(crate) idle_timeout: Duration,
    /// How long a client may read nothing of what waits for it before its connection is closed
    #[arg(long, value_name = "DURATION", default_value = "1m0s", value_parser = values::duration)]
    pub(crate) write_timeout: Duration,
}

/// Where objects are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreBackend {
    /// On disk, in --data-dir
    Embedded,
    /// In memory: everything is gone with the process
    Memory,
}

/// The store.
#[derive(Debug, Args)]
#[command(next_help_heading = "Store")]
pub(crate) struct StoreArgs {
    /// Where the store's files are [default: /var/lib/orlop for root, else $XDG_DATA_HOME/orlop or
    /// ~/.local/share/orlop]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// What keeps the objects
    #[arg(long, value_enum, default_value = "embedded")]
    pub(crate) store_backend: StoreBackend,
    /// Begin with what a file of `orlop record` tells: its objects and its history, with revisions of their own. The
    /// store has to be empty
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
    /// The revision or time (2026-01-31T12:00:00Z) of that file to stop at [default: its end]
    #[arg(long, value_name = "REV|TIME", requires = "from")]
    pub(crate) at: Option<Until>,
    /// How long old versions of objects are kept at least, for watches and history
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = values::duration)]
    pub(crate) store_retention_age: Duration,
    /// How many revisions are kept at least
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub(crate) store_retention_revisions: u64,
    /// Beyond this many bytes, old versions go before their age (but never below the number above)
    #[arg(long, value_name = "BYTES", default_value_t = 256 << 20)]
    pub(crate) store_retention_bytes: u64,
    /// Free bytes on the disk below which only deletes and updates that do not grow are taken; Events
    /// are refused below twice as many [default: 64 MiB or a tenth of the store, whichever is more, but
    /// at most an eighth of the disk]
    #[arg(long, value_name = "BYTES")]
    pub(crate) store_min_free_bytes: Option<u64>,
}

/// Snapshots by the clock.
#[derive(Debug, Args)]
#[command(next_help_heading = "Snapshots")]
pub(crate) struct SnapshotArgs {
    /// How often all objects are saved in a file of --snapshot-dir, if anything has changed; 0s is never
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = values::duration)]
    pub(crate) snapshot_every: Duration,
    /// Where those files go; best on another disk. Secrets are in them
    #[arg(long, value_name = "DIR")]
    pub(crate) snapshot_dir: Option<PathBuf>,
    /// How many of them are kept
    #[arg(long, value_name = "N", default_value_t = 7)]
    pub(crate) snapshot_keep: usize,
}

/// The API.
#[derive(Debug, Args)]
#[command(next_help_heading = "API server")]
pub(crate) struct ApiArgs {
    /// Admission plugins that are switched off
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) disable_admission_plugins: Vec<String>,
    /// Reading requests that are served at the same time; 0 is no limit
    #[arg(long, value_name = "N", default_value_t = 400)]
    pub(crate) max_requests_inflight: usize,
    /// Writing requests that are served at the same time; 0 is no limit
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub(crate) max_mutating_requests_inflight: usize,
    /// How long a request waits for its turn when too many are served, before it is told to come again
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = values::duration)]
    pub(crate) max_request_wait: Duration,
    /// Watches that are open at the same time; 0 is no limit
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub(crate) max_watches: usize,
    /// How long a request may take; watches are not meant
    #[arg(long, value_name = "DURATION", default_value = "1m0s", value_parser = values::duration)]
    pub(crate) request_timeout: Duration,
    /// The least time that a watch is kept open when the client does not say, seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1800)]
    pub(crate) min_request_timeout: u32,
    /// How long events are kept
    #[arg(long, value_name = "DURATION", default_value = "1h0m0s", value_parser = values::duration)]
    pub(crate) event_ttl: Duration,
    /// Addresses that services get theirs from; the first one is the API server's
    #[arg(long, value_name = "CIDR", default_value = "10.0.0.0/24")]
    pub(crate) service_cluster_ip_range: AddressRange,
    /// Ports of every node that services get theirs from
    #[arg(long, value_name = "FIRST-LAST", default_value = "30000-32767", value_parser = range::parse_ports)]
    pub(crate) service_node_port_range: RangeInclusive<u16>,
    /// How tokens of service accounts call this server, and whom they are for unless they say otherwise
    #[arg(long, value_name = "URL", default_value = DEFAULT_ISSUER)]
    pub(crate) service_account_issuer: String,
    /// Address that the service kubernetes leads to [default: the one of --listen, or of this machine
    /// when that is all of them]
    #[arg(long, value_name = "ADDR")]
    pub(crate) advertise_address: Option<IpAddr>,

    /// Select volumes, claims and attachments also by fields that upstream refuses (status.phase,
    /// spec.volumeName, spec.storageClassName, spec.nodeName ...); default: true for serve, false
    /// for apiserver
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_parser = values::boolean
    )]
    pub(crate) extra_field_selectors: Option<bool>,
}

/// Which API server the controllers work on.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "API server to work on")]
pub(crate) struct RemoteArgs {
    /// URL of the API server, such as http://127.0.0.1:8080
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// Upstream's name for --server; wins over the address in the kubeconfig, as --server does
    #[arg(long, value_name = "URL")]
    pub(crate) master: Option<String>,
    /// Client configuration with address and credentials
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Bearer token; other users of this machine can read a command line, so prefer --token-file
    #[arg(long, value_name = "TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// File that holds a bearer token
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Authorities that the server's certificate is checked against (PEM)
    #[arg(long, value_name = "FILE")]
    pub(crate) certificate_authority: Option<PathBuf>,
    /// Trust any certificate of the server; for trials only
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        default_value = "false",
        value_parser = values::boolean,
        action = ArgAction::Set
    )]
    pub(crate) insecure_skip_tls_verify: bool,
    /// Only false is possible: run one controller process
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = values::boolean, action = ArgAction::Set)]
    pub(crate) leader_elect: bool,
}

/// The control loops.
#[derive(Debug, Args)]
#[command(next_help_heading = "Controllers")]
pub(crate) struct LoopArgs {
    /// Controllers to run: * is all that run by default, NAME runs one, -NAME leaves one out
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "*",
        allow_hyphen_values = true
    )]
    pub(crate) controllers: Vec<String>,
    /// How often the volume binder looks at all claims and volumes again, changed or not
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = values::duration)]
    pub(crate) pvclaimbinder_sync_period: Duration,
    /// Make volumes for claims whose class names a provisioner
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "true", value_parser = values::boolean, action = ArgAction::Set)]
    pub(crate) enable_dynamic_provisioning: bool,
    /// Make volumes from directories of this machine when no other provisioner does; for tests only
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = values::boolean, action = ArgAction::Set)]
    pub(crate) enable_hostpath_provisioner: bool,
    /// File with the pod that scrubs NFS volumes
    #[arg(long, value_name = "FILE")]
    pub(crate) pv_recycler_pod_template_filepath_nfs: Option<PathBuf>,
    /// Least time that scrubbing an NFS volume may take, seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub(crate) pv_recycler_minimum_timeout_nfs: u32,
    /// Time added for each Gi of an NFS volume, seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub(crate) pv_recycler_increment_timeout_nfs: u32,
    /// File with the pod that scrubs hostPath volumes; for tests only
    #[arg(long, value_name = "FILE")]
    pub(crate) pv_recycler_pod_template_filepath_hostpath: Option<PathBuf>,
    /// Least time that scrubbing a hostPath volume may take, seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) pv_recycler_minimum_timeout_hostpath: u32,
    /// Time added for each Gi of a hostPath volume, seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub(crate) pv_recycler_timeout_increment_hostpath: u32,
    /// Finished pods that are kept before the oldest are deleted; 0 or less keeps all
    #[arg(long, value_name = "N", default_value_t = 12_500, allow_negative_numbers = true)]
    pub(crate) terminated_pod_gc_threshold: i32,
    /// How long this process may stand still before it counts as one that has heard nothing of any node
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = values::duration)]
    pub(crate) node_monitor_period: Duration,
    /// Silence after which a node is lost
    #[arg(long, value_name = "DURATION", default_value = "50s", value_parser = values::duration)]
    pub(crate) node_monitor_grace_period: Duration,
    /// The same for a node that has said nothing yet
    #[arg(long, value_name = "DURATION", default_value = "1m0s", value_parser = values::duration)]
    pub(crate) node_startup_grace_period: Duration,
    /// Nodes that never had a Lease (made by hand) are lost after their time too; false leaves them as they are
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "true", value_parser = values::boolean, action = ArgAction::Set)]
    pub(crate) monitor_nodes_without_lease: bool,
    /// Lost nodes per second and zone from which pods begin to be driven off
    #[arg(long, value_name = "RATE", default_value_t = 0.1)]
    pub(crate) node_eviction_rate: f32,
    /// The same in a large zone of which much is lost
    #[arg(long, value_name = "RATE", default_value_t = 0.01)]
    pub(crate) secondary_node_eviction_rate: f32,
    /// Zones with more nodes are large
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(crate) large_cluster_size_threshold: usize,
    /// Share of lost nodes from which on pods are driven off slowly (large zones) or not at all (others)
    #[arg(long, value_name = "SHARE", default_value_t = 0.55)]
    pub(crate) unhealthy_zone_threshold: f32,
    /// How long a node that is not ready may keep a volume that no pod wants there, before it is detached by force; annotations
    /// (orlop.dev/force-detach-after) of classes, volumes and nodes win
    #[arg(long, value_name = "DURATION", default_value = "6m0s", value_parser = values::duration)]
    pub(crate) attach_detach_force_detach_after: Duration,
    /// Detach nothing by force but where an annotation or the out-of-service taint asks for it
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = values::boolean, action = ArgAction::Set)]
    pub(crate) disable_force_detach_on_timeout: bool,
    /// Believe for ever that what was attached is attached
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = values::boolean, action = ArgAction::Set)]
    pub(crate) disable_attach_detach_reconcile_sync: bool,
    /// How often all attached volumes are compared with their VolumeAttachments, changed or not
    #[arg(long, value_name = "DURATION", default_value = "1m0s", value_parser = values::duration)]
    pub(crate) attach_detach_reconcile_sync_period: Duration,
    /// Workers that make claims for ephemeral volumes
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) concurrent_ephemeralvolume_syncs: usize,
    /// Accepted for upstream's command lines: a namespace is looked at when it changes, not by period
    #[arg(long, value_name = "DURATION", default_value = "5m0s", value_parser = values::duration)]
    pub(crate) namespace_sync_period: Duration,
    /// Delete objects whose owners are gone
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        default_value = "true",
        value_parser = values::boolean,
        action = ArgAction::Set
    )]
    pub(crate) enable_garbage_collector: bool,
    /// Certificates (PEM) that every namespace's kube-root-ca.crt shall hold [default: the last one of
    /// --tls-cert-file; for a controller process those that it trusts the server by]
    #[arg(long, value_name = "FILE")]
    pub(crate) root_ca_file: Option<PathBuf>,
    /// How often the usage of every resource quota is counted again, changed or not
    #[arg(long, value_name = "DURATION", default_value = "5m0s", value_parser = values::duration)]
    pub(crate) resource_quota_sync_period: Duration,
    /// Workers that count the usage of resource quotas
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) concurrent_resource_quota_syncs: usize,
    /// Workers that empty namespaces that are being deleted
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) concurrent_namespace_syncs: usize,
    /// Workers that delete objects whose owners are gone
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) concurrent_gc_syncs: usize,
    /// Workers that keep the number of pods of ReplicationControllers
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) concurrent_rc_syncs: usize,
    /// Workers that keep the number of pods of ReplicaSets
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) concurrent_replicaset_syncs: usize,
    /// Workers that roll out Deployments
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) concurrent_deployment_syncs: usize,
    /// How long a pod that was given a node waits for its claims before another node is looked for
    #[arg(long, value_name = "DURATION", default_value = "10m0s", value_parser = values::duration)]
    pub(crate) scheduler_bind_timeout: Duration,
    /// Workers that keep the pods and claims of StatefulSets
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) concurrent_statefulset_syncs: usize,
    /// CSI driver that is called from here, as NAME=unix:///path; may be given several times
    #[arg(long, value_name = "NAME=ENDPOINT", value_parser = values::csi_endpoint)]
    pub(crate) csi_endpoint: Vec<orlop_controller::csi::drivers::Endpoint>,
    /// Directory in which CSI drivers register, as they do with a kubelet
    #[arg(long, value_name = "DIR")]
    pub(crate) csi_plugin_dir: Option<PathBuf>,
    /// Longest time that a call to a CSI driver may take
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = values::duration)]
    pub(crate) csi_timeout: Duration,
    /// Calls of one kind that one CSI driver is asked at the same time
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) csi_worker_threads: usize,
    /// How often attachments are compared with the list of their CSI driver, where it gives one
    #[arg(long, value_name = "DURATION", default_value = "1m0s", value_parser = values::duration)]
    pub(crate) csi_reconcile_sync: Duration,
    /// Tell CSI drivers the names of claim and volume with every new volume
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = values::boolean, action = ArgAction::Set)]
    pub(crate) csi_extra_create_metadata: bool,
    /// File system of new CSI volumes whose class names none [default: what the driver chooses]
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub(crate) csi_default_fstype: String,
    /// Tell CSI drivers only the segment of the node that was chosen for a pod
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = values::boolean, action = ArgAction::Set)]
    pub(crate) csi_strict_topology: bool,
    /// Tell CSI drivers all segments of the cluster when no node was chosen
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "true", value_parser = values::boolean, action = ArgAction::Set)]
    pub(crate) csi_immediate_topology: bool,
    /// Publish how much room CSI drivers have left (CSIStorageCapacity)
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "true", value_parser = values::boolean, action = ArgAction::Set)]
    pub(crate) csi_enable_capacity: bool,
}
