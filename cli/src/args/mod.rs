//! The command line: all commands and flags, with their defaults and help texts.
//!
//! Declarations only. `config` validates combinations of flags and adds the other sources of values (`ORLOP_*`
//! variables, the file of `--config`), so no flag here names a variable. Flags that upstream has keep upstream's
//! name and default.

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use orlop_bench::BenchArgs;

pub(crate) use self::audit::{AuditLogArgs, AuditLogFormat, AuditMode};
pub(crate) use self::authentication::{
    AuthenticationArgs, FrontProxyArgs, OidcArgs, ReviewVersionArg, ServiceAccountArgs, TokenWebhookArgs,
};
pub use self::authorization::{AuthorizationArgs, AuthorizationModeArg};
pub use self::controllers::LoopArgs;
#[cfg(test)]
pub(crate) use self::credentials::UsageArg;
pub(crate) use self::credentials::{KubeconfigCommand, KubeconfigCreateArgs, TokenCommand, TokenCreateArgs};
pub(crate) use self::driver::CsiHostpathArgs;
pub(crate) use self::insight::{
    AttachmentCommand, ChangeArgs, DiffArgs, GetArgs, HistoryArgs, ObjectOutput, PvCommand, PvcCommand,
    RecordArgs, TextOrJson, UnblockArgs, UndeleteArgs, WhereArgs, WhyArgs,
};
pub use self::lab::{EnvironmentArgs, LabArgs, LabCommand, LabRunArgs};
pub(crate) use self::node::{
    AgentArgs, DrainArgs, GcArgs, JoinArgs, MachineArgs, NodeArgs, NodeCommand, RuntimeArg, ServedNodeArgs,
};
pub(crate) use self::page::PageArgs;
pub use self::process::{LogFormat, ProcessArgs};
pub(crate) use self::remote::RemoteArgs;
pub use self::server::{ApiArgs, EncryptionArgs, KubeletArgs, StoreArgs, StoreBackend};
pub(crate) use self::server::{ListenArgs, SnapshotArgs};
pub(crate) use self::storage::{
    KeysCommand, Output, RestoreArgs, RotateArgs, SaveArgs, SnapshotCommand, StoreCommand,
};
pub(crate) use self::volumes::{AuditArgs, VolumeMode, VolumesCommand};

mod audit;
mod authentication;
mod authorization;
mod controllers;
mod credentials;
mod driver;
mod insight;
mod lab;
mod node;
mod page;
mod process;
mod remote;
mod server;
mod storage;
pub mod values;
mod volumes;

/// Footer of `--help`: sources of values, and exit codes.
const AFTER_HELP: &str = "\
The value of a flag of serve, apiserver, controller, node and csi-hostpath comes from the first of these sources that sets it: the \
command line, an environment variable, the YAML file of --config, the default. The variable of --data-dir is ORLOP_DATA_DIR, and its \
key in the YAML file is data-dir.

Exit codes: 0 stopped cleanly; 1 failed; 2 the command line or the configuration is wrong; \
130 or 143 a second SIGINT or SIGTERM ended the process before it had stopped cleanly.";

/// Footer of `bench --help`: servers, output and exit codes.
const BENCH_HELP: &str = "\
Without --server, the command starts and stops its own servers, on free ports of this machine and in a temporary \
directory. Results go to stdout, progress to stderr. docs/performance.md describes each row.

Exit codes: 0 measured without errors; 1 requests failed, events were lost, or a row could not \
be measured; 2 the command line is wrong; 129, 130 or 143 stopped by \
SIGHUP, SIGINT or SIGTERM.";

/// The storage half of Kubernetes in one small binary.
#[derive(Debug, Parser)]
#[command(name = "orlop", version, after_help = AFTER_HELP, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The command.
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
    /// Make this machine a node: mount the volumes of its pods, and optionally run the pods
    #[command(after_help = AFTER_HELP)]
    Node(Box<NodeArgs>),
    /// Explain the state of an object, and how to fix it
    #[command(after_help = insight::WHY_HELP)]
    Why(Box<WhyArgs>),
    /// Show what deleting an object would remove, including data
    #[command(after_help = insight::IMPACT_HELP)]
    Impact(Box<WhyArgs>),
    /// Show the changes to an object: field manager, fields and time
    #[command(after_help = insight::LOOK_HELP)]
    History(Box<HistoryArgs>),
    /// Show the differences of an object between two revisions
    #[command(after_help = insight::LOOK_HELP)]
    Diff(Box<DiffArgs>),
    /// Show objects as they are, or as they were at a revision or time
    #[command(visible_alias = "list", after_help = insight::LOOK_HELP)]
    Get(Box<GetArgs>),
    /// Save the history of the server to a file that the web page can replay
    #[command(after_help = insight::LOOK_HELP)]
    Record(Box<RecordArgs>),
    /// Restore a deleted object as it was at a revision
    #[command(after_help = insight::CHANGE_HELP)]
    Undelete(Box<UndeleteArgs>),
    /// Remove orphaned finalizers from a terminating object
    #[command(after_help = insight::CHANGE_HELP)]
    Unblock(Box<UnblockArgs>),
    /// Manage PersistentVolumes
    #[command(subcommand)]
    Pv(PvCommand),
    /// Manage PersistentVolumeClaims
    #[command(subcommand)]
    Pvc(PvcCommand),
    /// Manage VolumeAttachments
    #[command(subcommand)]
    Attachment(AttachmentCommand),
    /// Create, list and delete bootstrap tokens, which machines use to join as nodes
    #[command(subcommand)]
    Token(TokenCommand),
    /// Create kubeconfigs for users
    #[command(subcommand)]
    Kubeconfig(KubeconfigCommand),
    /// Print a link that signs you in to the web page
    ///
    /// The link is valid once, for 5 minutes. You need it if the server listens on a loopback address, creates its own
    /// certificates and requires credentials.
    Page(Box<PageArgs>),
    /// Save, verify and restore snapshots of all objects
    #[command(subcommand)]
    Snapshot(SnapshotCommand),
    /// Check or compact a stopped store, or erase former versions of an object from it
    #[command(subcommand)]
    Store(StoreCommand),
    /// Manage the keys of service account tokens
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Compare the volumes of CSI drivers with the API
    #[command(subcommand)]
    Volumes(VolumesCommand),
    /// Run a CSI driver for tests; its volumes are directories and files of this machine
    #[command(after_help = AFTER_HELP)]
    CsiHostpath(Box<CsiHostpathArgs>),
    /// Run an in-memory server with nodes, a driver and guided scenarios
    #[command(after_help = lab::HELP)]
    Lab(Box<LabArgs>),
    /// Measure the performance of a server
    #[command(after_help = BENCH_HELP)]
    Bench(Box<BenchArgs>),
    /// Print the version
    Version,
    /// Print a completion script for a shell
    Completion {
        /// The shell
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
    pub(crate) authentication: AuthenticationArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) encryption: EncryptionArgs,
    #[command(flatten)]
    pub(crate) snapshots: SnapshotArgs,
    #[command(flatten)]
    pub(crate) authorization: AuthorizationArgs,
    #[command(flatten)]
    pub(crate) api: ApiArgs,
    #[command(flatten)]
    pub(crate) audit: AuditLogArgs,
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
    pub(crate) authentication: AuthenticationArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) encryption: EncryptionArgs,
    #[command(flatten)]
    pub(crate) snapshots: SnapshotArgs,
    #[command(flatten)]
    pub(crate) authorization: AuthorizationArgs,
    #[command(flatten)]
    pub(crate) api: ApiArgs,
    #[command(flatten)]
    pub(crate) audit: AuditLogArgs,
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
