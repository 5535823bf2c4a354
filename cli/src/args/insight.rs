//! Flags of the commands that explain objects, show their history and repair them: `orlop why`, `impact`,
//! `history`, `diff`, `get`, `list`, `undelete`, `record`, `unblock`, `pv`, `pvc` and `attachment`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};

use super::remote::RemoteArgs;

/// Footer of `why --help`: names of kinds, exit codes and the default server.
pub(crate) const WHY_HELP: &str = "\
KIND is a resource name as in kubectl (pvc, pv, pod, node, persistentvolumeclaims, deployments.apps ...), or attachment for \
volumeattachments. For several objects, use KIND NAME NAME... or KIND/NAME KIND/NAME..., as in kubectl.

Exit codes: 0 the object is healthy, continues by itself, or waits for something that usually follows; 1 the object needs attention; \
2 the command failed. With several objects, the highest of their codes.

The default server is http://127.0.0.1:8080. As a kubectl plugin, the command uses the server of the kubeconfig instead.";

/// Footer of `impact --help`.
pub(crate) const IMPACT_HELP: &str = "\
Deletes nothing. Lists the objects that a deletion would remove, the objects for which it would wait, and the data that would be lost.

Exit codes: 0 done; 2 the command failed.";

/// Footer of `--help` of the commands that only read: limits of the history, and exit codes.
pub(crate) const LOOK_HELP: &str = "\
The server retains a limited history (--store-retention-age and related flags). If you request an older \
revision, the error names the oldest available one.

Exit codes: 0 done; 2 the command failed.";

/// Footer of `--help` of the commands that change objects: the plan, and exit codes.
pub(crate) const CHANGE_HELP: &str = "\
The command shows its plan and asks for confirmation. It executes exactly this plan: if an object has changed in the meantime, \
the command changes nothing. Without a terminal, --yes is required. If you name several objects, each has a plan of its own, and \
the command stops at the first failure.

Exit codes: 0 done, or shown with --dry-run; 1 declined; 2 the command failed.";

/// Output format of an explanation, history or plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum TextOrJson {
    /// Human-readable text
    #[default]
    Text,
    /// JSON as the server sends it
    Json,
}

/// Output format of objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ObjectOutput {
    /// One line for each object
    #[default]
    Table,
    /// YAML
    Yaml,
    /// JSON
    Json,
}

/// The server, the credentials and the namespace.
#[derive(Debug, Default, Args)]
pub(crate) struct WhereArgs {
    /// Namespace of the object [default: the namespace of the kubeconfig's context, or else the namespace default]
    #[arg(short, long, value_name = "NS")]
    pub(crate) namespace: Option<String>,
    /// Context of the kubeconfig [default: the current context]
    #[arg(long, value_name = "NAME", help_heading = "API server to work on")]
    pub(crate) context: Option<String>,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

/// `orlop why` and `orlop impact`.
#[derive(Debug, Args)]
pub(crate) struct WhyArgs {
    /// The objects: pvc/NAME, pv/NAME, pod/NAME, node/NAME, attachment/NAME; also as KIND NAME...
    #[arg(value_name = "KIND/NAME", required = true, num_args = 1..)]
    pub(crate) objects: Vec<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value = "text")]
    pub(crate) output: TextOrJson,
    #[command(flatten)]
    pub(crate) server: WhereArgs,
}

/// `orlop history`.
#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    /// The objects, which may already be deleted; also as KIND NAME...
    #[arg(value_name = "KIND/NAME", required = true, num_args = 1..)]
    pub(crate) objects: Vec<String>,
    /// Maximum number of writes to show for each object, newest first
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
    /// Show the next page; TOKEN is at the end of the previous page
    #[arg(id = "continue", long = "continue", value_name = "TOKEN")]
    pub(crate) token: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value = "text")]
    pub(crate) output: TextOrJson,
    #[command(flatten)]
    pub(crate) server: WhereArgs,
}

/// `orlop diff`.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// The object and two revisions or times (2026-01-31T12:00:00Z); the default of the second is the current state. Several objects, and
    /// KIND NAME@REV..REV, are possible
    #[arg(value_name = "KIND/NAME@REV..REV", required = true, num_args = 1..)]
    pub(crate) objects: Vec<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value = "text")]
    pub(crate) output: TextOrJson,
    #[command(flatten)]
    pub(crate) server: WhereArgs,
}

/// `orlop get` and `orlop list`.
#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// KIND, KIND NAME or KIND/NAME
    #[arg(value_name = "KIND", required = true, num_args = 1..=2)]
    pub(crate) what: Vec<String>,
    /// Revision or time (2026-01-31T12:00:00Z) of the objects [default: now]
    #[arg(long, value_name = "REV|TIME")]
    pub(crate) as_of: Option<String>,
    /// List the objects of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub(crate) all_namespaces: bool,
    /// Label selector, as in kubectl
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub(crate) selector: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value = "table")]
    pub(crate) output: ObjectOutput,
    #[command(flatten)]
    pub(crate) server: WhereArgs,
}

/// `orlop record`.
#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    /// Output file, readable only by its owner; - is stdout. The command replaces an existing file when the new one is
    /// complete
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Revision or time (2026-01-31T12:00:00Z) to start at [default: the oldest available]
    #[arg(long, value_name = "REV|TIME")]
    pub(crate) from: Option<String>,
    /// Context of the kubeconfig [default: the current context]
    #[arg(long, value_name = "NAME", help_heading = "API server to work on")]
    pub(crate) context: Option<String>,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

/// Flags of the commands that change objects.
#[derive(Debug, Default, Args)]
pub(crate) struct ChangeArgs {
    /// Print the plan and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask for confirmation
    #[arg(short, long, conflicts_with = "dry_run")]
    pub(crate) yes: bool,
    /// Output format of plan and result
    #[arg(short, long, value_enum, default_value = "text")]
    pub(crate) output: TextOrJson,
    #[command(flatten)]
    pub(crate) server: WhereArgs,
}

/// `orlop undelete`.
#[derive(Debug, Args)]
pub(crate) struct UndeleteArgs {
    /// The object, and the revision or time (2026-01-31T12:00:00Z) to restore; by default its last state. Several objects, and KIND
    /// NAME@REV, are possible
    #[arg(value_name = "KIND/NAME@REV", required = true, num_args = 1..)]
    pub(crate) objects: Vec<String>,
    #[command(flatten)]
    pub(crate) change: ChangeArgs,
}

/// `orlop unblock`.
#[derive(Debug, Args)]
pub(crate) struct UnblockArgs {
    /// The terminating objects; also as KIND NAME...
    #[arg(value_name = "KIND/NAME", required = true, num_args = 1..)]
    pub(crate) objects: Vec<String>,
    /// Also remove the finalizer of a driver that is not registered anywhere. The server cannot verify that this driver
    /// has stopped; resources that it has not cleaned up remain
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) change: ChangeArgs,
}

/// `orlop pv`.
#[derive(Debug, Subcommand)]
pub(crate) enum PvCommand {
    /// Make a Released or Failed volume available again
    #[command(after_help = CHANGE_HELP)]
    Reclaim(Box<ReclaimArgs>),
}

/// `orlop pv reclaim`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("data").required(true))]
pub(crate) struct ReclaimArgs {
    /// The PersistentVolume
    pub(crate) name: String,
    /// Retain the data for the next claim
    #[arg(long, group = "data")]
    pub(crate) keep_data: bool,
    /// Delete the data first, if the volume's plugin supports it
    #[arg(long, group = "data")]
    pub(crate) scrub: bool,
    /// Reserve the volume for this claim
    #[arg(long = "for", value_name = "NS/CLAIM", requires = "keep_data", conflicts_with = "scrub")]
    pub(crate) claim: Option<String>,
    #[command(flatten)]
    pub(crate) change: ChangeArgs,
}

/// `orlop pvc`.
#[derive(Debug, Subcommand)]
pub(crate) enum PvcCommand {
    /// Restore the volume of a Lost claim
    #[command(after_help = CHANGE_HELP)]
    Recover(Box<RecoverArgs>),
    /// Move a Bound claim and its volume to another namespace; no pod may use the claim
    #[command(after_help = CHANGE_HELP)]
    Transfer(Box<TransferArgs>),
}

/// `orlop pvc recover`.
#[derive(Debug, Args)]
pub(crate) struct RecoverArgs {
    /// The PersistentVolumeClaim
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) change: ChangeArgs,
}

/// `orlop pvc transfer`.
#[derive(Debug, Args)]
pub(crate) struct TransferArgs {
    /// The PersistentVolumeClaim
    pub(crate) name: String,
    /// The target namespace
    #[arg(long, value_name = "NS")]
    pub(crate) to: String,
    /// New name of the claim [default: the same name]
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) new_name: Option<String>,
    #[command(flatten)]
    pub(crate) change: ChangeArgs,
}

/// `orlop attachment`.
#[derive(Debug, Subcommand)]
pub(crate) enum AttachmentCommand {
    /// Release an attachment whose node was deleted or is out of service
    #[command(after_help = CHANGE_HELP)]
    Release(Box<ReleaseArgs>),
}

/// `orlop attachment release`.
#[derive(Debug, Args)]
pub(crate) struct ReleaseArgs {
    /// The VolumeAttachment
    pub(crate) name: String,
    /// Release the attachment even if its node may still write to the volume. If two nodes write to the volume, they
    /// corrupt its data
    ///
    /// Also removes the finalizer of a driver that is not registered anywhere.
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) change: ChangeArgs,
}
