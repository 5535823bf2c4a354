//! Flags of `orlop volumes`.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use orlop_csi::drivers::Endpoint;

use super::remote::RemoteArgs;
use super::storage::Output;
use super::values;

/// Footer of `volumes audit --help`: prompts, and exit codes.
const AUDIT_HELP: &str = "\
On a terminal, the command asks what to do with each volume that is not in the API: create a PersistentVolume for it, delete it in \
the driver, or skip it. The command changes only the volumes that you choose there, or with --adopt and --delete. Immediately before \
each change, it checks the driver and the API again.

Exit codes: 0 no differences; 1 differences found; 2 the command failed.";

/// `orlop volumes`.
#[derive(Debug, Subcommand)]
pub(crate) enum VolumesCommand {
    /// Compare the volumes of CSI drivers with the API
    #[command(after_help = AUDIT_HELP)]
    Audit(Box<AuditArgs>),
}

/// The mode of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum VolumeMode {
    /// As a file system
    #[value(name = "Filesystem")]
    Filesystem,
    /// As a block device
    #[value(name = "Block")]
    Block,
}

/// `orlop volumes audit`.
#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// CSI driver to check, as NAME=unix:///path; can be repeated
    #[arg(long, value_name = "NAME=ENDPOINT", required = true, value_parser = values::csi_endpoint)]
    pub(crate) csi_endpoint: Vec<Endpoint>,
    /// Timeout of a call to a CSI driver
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = values::duration)]
    pub(crate) csi_timeout: Duration,
    /// Output format
    #[arg(short, long, value_enum, default_value = "table")]
    pub(crate) output: Output,
    /// Handle of a volume that is not in the API: create a PersistentVolume (policy Retain, no claim) for it; can be repeated
    #[arg(long, value_name = "HANDLE")]
    pub(crate) adopt: Vec<String>,
    /// Access modes of the created PersistentVolumes
    #[arg(long, value_name = "MODES", value_delimiter = ',', default_value = "ReadWriteOnce")]
    pub(crate) access_modes: Vec<String>,
    /// Volume mode of the created PersistentVolumes
    #[arg(long, value_enum, default_value = "Filesystem")]
    pub(crate) volume_mode: VolumeMode,
    /// Handle of a volume that is not in the API: delete the volume in its driver; can be repeated
    #[arg(long, value_name = "HANDLE")]
    pub(crate) delete: Vec<String>,
    /// Do not ask for confirmation before --adopt and --delete
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}
