//! The command line: every command and every flag, with its default and its help.
//!
//! Only declarations. What flags mean together is checked in `config`; where else a value may come
//! from (`ORLOP_*` variables, the file of `--config`) is added there too, for all flags alike, so
//! no flag here names a variable. Flags that upstream has keep upstream's name and default.

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use orlop_bench::BenchArgs;

pub use self::controllers::LoopArgs;
pub(crate) use self::driver::CsiHostpathArgs;
pub(crate) use self::insight::{
    AttachmentCommand, ChangeArgs, DiffArgs, GetArgs, HistoryArgs, ObjectOutput, PvCommand, PvcCommand,
    RecordArgs, TextOrJson, UnblockArgs, UndeleteArgs, WhereArgs, WhyArgs,
};
pub use self::lab::{EnvironmentArgs, LabArgs, LabCommand, LabRunArgs};
pub(crate) use self::node::{
    AgentArgs, DrainArgs, GcArgs, MachineArgs, NodeArgs, NodeCommand, RuntimeArg, ServedNodeArgs,
};
pub use self::process::{LogFormat, ProcessArgs};
pub(crate) use self::remote::RemoteArgs;
pub use self::server::{ApiArgs, StoreArgs, StoreBackend};
pub(crate) use self::server::{ListenArgs, SnapshotArgs};
pub(crate) use self::storage::{Output, RestoreArgs, SaveArgs, SnapshotCommand, StoreCommand};
pub(crate) use self::volumes::{AuditArgs, VolumeMode, VolumesCommand};

mod controllers;
mod driver;
mod insight;
mod lab;
mod node;
mod process;
mod remote;
mod server;
mod storage;
pub mod values;
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
