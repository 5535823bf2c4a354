//! Flags of the commands that explain, rewind and repair: `orlop why`, `impact`, `history`, `diff`, `get`, `list`, `undelete`, `record`, `unblock`,
//! `pv`, `pvc` and `attachment`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};

use super::remote::RemoteArgs;

/// What `why --help` says of exit codes and of names.
pub(crate) const WHY_HELP: &str = "\
KIND is what kubectl takes: pvc, pv, pod, node, persistentvolumeclaims, deployments.apps ... and attachment for \
volumeattachments.

Exit codes: 0 nothing has to be done (it may wait for something that comes by itself); 1 it needs attention: it does not end by \
itself; 2 the question could not be answered.

Without --server and --kubeconfig the server at http://127.0.0.1:8080 is asked; as a plugin of kubectl, that of its kubeconfig.";

/// What `impact --help` says.
pub(crate) const IMPACT_HELP: &str = "\
Nothing is deleted. Told are the objects that would go with it, what it would wait for, and whose data would be lost.

Exit codes: 0 here it is; 2 it could not be had.";

/// What `--help` of those that look says of exit codes.
pub(crate) const LOOK_HELP: &str = "\
Everything older than what the server keeps (--store-retention-age and its siblings) is gone; the server says what the oldest \
revision is.

Exit codes: 0 here it is; 2 it could not be had.";

/// What `--help` of those that change something says of how they go about it and of exit codes.
pub(crate) const CHANGE_HELP: &str = "\
The plan is shown first and then asked about; what is carried out is that plan or nothing: when something has changed meanwhile, nothing is \
done. Without a terminal to ask on, --yes is needed.

Exit codes: 0 done, or shown with --dry-run; 1 not wanted by the person that was asked; 2 it could not be done.";

/// How an answer is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum TextOrJson {
    /// For people
    #[default]
    Text,
    /// As the server has it
    Json,
}

/// How objects are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ObjectOutput {
    /// A line for each
    #[default]
    Table,
    /// As YAML
    Yaml,
    /// As JSON
    Json,
}

/// Which server, as whom, and in which namespace.
#[derive(Debug, Default, Args)]
pub(crate) struct WhereArgs {
    /// Namespace of the object [default: the one of the kubeconfig's context, else default]
    #[arg(short, long, value_name = "NS")]
    pub(crate) namespace: Option<String>,
    /// Context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME", help_heading = "API server to work on")]
    pub(crate) context: Option<String>,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

/// `orlop why` and `orlop impact`.
#[derive(Debug, Args)]
pub(crate) struct WhyArgs {
    /// The object: pvc/NAME, pv/NAME, pod/NAME, node/NAME, attachment/NAME
    #[arg(value_name = "KIND/NAME")]
    pub(crate) object: String,
    /// How the answer is written
    #[arg(short, long, value_enum, default_value = "text")]
    pub(crate) output: TextOrJson,
    #[command(flatten)]
    pub(crate) server: WhereArgs,
}

/// `orlop history`.
#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    /// The object; it may be deleted already
    #[arg(value_name = "KIND/NAME")]
    pub(crate) object: String,
    /// So many writes at most, the newest first
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
    /// Go on where the last answer ended
    #[arg(id = "continue", long = "continue", value_name = "TOKEN")]
    pub(crate) token: Option<String>,
    /// How the answer is written
    #[arg(short, long, value_enum, default_value = "text")]
    pub(crate) output: TextOrJson,
    #[command(flatten)]
    pub(crate) server: WhereArgs,
}

/// `orlop diff`.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// The object and two revisions or times (2026-01-31T12:00:00Z); without the second one: as it is now
    #[arg(value_name = "KIND/NAME@REV..REV")]
    pub(crate) object: String,
    /// How the answer is written
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
    /// A revision or a time (2026-01-31T12:00:00Z) [default: now]
    #[arg(long, value_name = "REV|TIME")]
    pub(crate) as_of: Option<String>,
    /// The objects of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub(crate) all_namespaces: bool,
    /// Only objects with these labels, as kubectl's --selector
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub(crate) selector: Option<String>,
    /// How the answer is written
    #[arg(short, long, value_enum, default_value = "table")]
    pub(crate) output: ObjectOutput,
    #[command(flatten)]
    pub(crate) server: WhereArgs,
}

/// `orlop record`.
#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    /// The file, which only its owner may read; - is stdout. One that is there is replaced when the new one is whole
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// From this revision or time (2026-01-31T12:00:00Z) on [default: the oldest that the server keeps]
    #[arg(long, value_name = "REV|TIME")]
    pub(crate) from: Option<String>,
    /// Context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME", help_heading = "API server to work on")]
    pub(crate) context: Option<String>,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

/// How something is changed.
#[derive(Debug, Default, Args)]
pub(crate) struct ChangeArgs {
    /// Show the plan and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask
    #[arg(short, long, conflicts_with = "dry_run")]
    pub(crate) yes: bool,
    /// How plan and answer are written
    #[arg(short, long, value_enum, default_value = "text")]
    pub(crate) output: TextOrJson,
    #[command(flatten)]
    pub(crate) server: WhereArgs,
}

/// `orlop undelete`.
#[derive(Debug, Args)]
pub(crate) struct UndeleteArgs {
    /// The object, and the revision or time (2026-01-31T12:00:00Z) at which it was as it shall be again; without one: as it
    /// was last
    #[arg(value_name = "KIND/NAME@REV")]
    pub(crate) object: String,
    #[command(flatten)]
    pub(crate) change: ChangeArgs,
}

/// `orlop unblock`.
#[derive(Debug, Args)]
pub(crate) struct UnblockArgs {
    /// The object that is Terminating
    #[arg(value_name = "KIND/NAME")]
    pub(crate) object: String,
    /// Although its driver may still be at work: the finalizer of a driver that is registered nowhere goes, too, and what
    /// the driver had still to clean up stays
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
    /// The next claim gets it with all that is on it
    #[arg(long, group = "data")]
    pub(crate) keep_data: bool,
    /// What is on it is deleted first, where its plugin can do that
    #[arg(long, group = "data")]
    pub(crate) scrub: bool,
    /// Only this claim gets it
    #[arg(long = "for", value_name = "NS/CLAIM", requires = "keep_data", conflicts_with = "scrub")]
    pub(crate) claim: Option<String>,
    #[command(flatten)]
    pub(crate) change: ChangeArgs,
}

/// `orlop pvc`.
#[derive(Debug, Subcommand)]
pub(crate) enum PvcCommand {
    /// Give a Lost claim its volume back
    #[command(after_help = CHANGE_HELP)]
    Recover(Box<RecoverArgs>),
    /// Move a Bound claim that no pod uses to another namespace, with its volume
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
    /// The namespace that it goes to
    #[arg(long, value_name = "NS")]
    pub(crate) to: String,
    /// Its name there [default: the same]
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) new_name: Option<String>,
    #[command(flatten)]
    pub(crate) change: ChangeArgs,
}

/// `orlop attachment`.
#[derive(Debug, Subcommand)]
pub(crate) enum AttachmentCommand {
    /// End an attachment whose node is gone or is out of service
    #[command(after_help = CHANGE_HELP)]
    Release(Box<ReleaseArgs>),
}

/// `orlop attachment release`.
#[derive(Debug, Args)]
pub(crate) struct ReleaseArgs {
    /// The VolumeAttachment
    pub(crate) name: String,
    /// Although its node may be writing to the volume: two nodes that write destroy what is on it. The finalizer of a driver
    /// that is registered nowhere goes, too
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) change: ChangeArgs,
}
