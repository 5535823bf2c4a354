//! Flags of `orlop volumes`.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use orlop_csi::drivers::Endpoint;

use super::remote::RemoteArgs;
use super::storage::Output;
use super::values;

/// What `volumes audit --help` says of exit codes and of what it does.
const AUDIT_HELP: &str = "\
Nothing is changed unless it is asked for. On a terminal every volume that the API does not know is asked about: make a \
PersistentVolume for it, delete it in the driver, or leave it. Right before either the driver and the API are looked at again.

Exit codes: 0 nothing is amiss; 1 there are differences; 2 could not look, or could not do what was asked.";

/// `orlop volumes`.
#[derive(Debug, Subcommand)]
pub(crate) enum VolumesCommand {
    /// Compare what CSI drivers have with what the API knows
    #[command(after_help = AUDIT_HELP)]
    Audit(Box<AuditArgs>),
}

/// How a volume is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum VolumeMode {
    /// As files
    #[value(name = "Filesystem")]
    Filesystem,
    /// As a device
    #[value(name = "Block")]
    Block,
}

/// `orlop volumes audit`.
#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// CSI driver to look at, as NAME=unix:///path; may be given several times
    #[arg(long, value_name = "NAME=ENDPOINT", required = true, value_parser = values::csi_endpoint)]
    pub(crate) csi_endpoint: Vec<Endpoint>,
    /// Longest time that a call to a CSI driver may take
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = values::duration)]
    pub(crate) csi_timeout: Duration,
    /// How the answer is written
    #[arg(short, long, value_enum, default_value = "table")]
    pub(crate) output: Output,
    /// Make a PersistentVolume (policy Retain, no claim) for this volume that the API does not know; may be given several times
    #[arg(long, value_name = "HANDLE")]
    pub(crate) adopt: Vec<String>,
    /// Access modes of PersistentVolumes that are made
    #[arg(long, value_name = "MODES", value_delimiter = ',', default_value = "ReadWriteOnce")]
    pub(crate) access_modes: Vec<String>,
    /// How PersistentVolumes that are made are used
    #[arg(long, value_enum, default_value = "Filesystem")]
    pub(crate) volume_mode: VolumeMode,
    /// Delete this volume, which the API does not know, in its driver; may be given several times
    #[arg(long, value_name = "HANDLE")]
    pub(crate) delete: Vec<String>,
    /// Do not ask before --adopt and --delete
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}
