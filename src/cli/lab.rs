//! Flags of `orlop lab`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::values;

/// What `lab --help` says of it.
pub(super) const HELP: &str = "\
Without a command it serves until it is stopped: the API and the page on loopback, everything in memory, nodes virtual-1, virtual-2 and \
virtual-3 whose mounts are only recorded, a CSI driver whose volumes are directories of this machine, the classes lab (the default) \
and lab-first-consumer. It needs no root. `orlop lab run NAME` plays a story, in a laboratory that runs (--server) or in one of its \
own. docs/learn has a text for each.

Exit codes: 0 stopped, or everything came as the story says; 1 something else came, which is told, or it failed; 2 the command line \
is wrong.";

/// `orlop lab`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    pub(crate) command: Option<LabCommand>,
    #[command(flatten)]
    pub(crate) ground: GroundArgs,
}

/// What is done with stories.
#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// The stories, with a line about each
    List,
    /// Play a story, and check that everything comes as it says
    Run(Box<LabRunArgs>),
}

/// How a laboratory is.
#[derive(Clone, Debug, Args)]
pub(crate) struct GroundArgs {
    /// Address of this machine and port to serve on; port 0 takes a free one [default: 127.0.0.1:8080; with `run` a free port]
    #[arg(long, value_name = "ADDR:PORT", value_parser = values::listen_address)]
    pub(crate) listen: Option<SocketAddr>,
    /// Write the URL that is served here once the laboratory is ready, for scripts
    #[arg(long, value_name = "FILE")]
    pub(crate) address_file: Option<PathBuf>,
    /// Silence after which a node is lost; it says a word every second
    #[arg(long, value_name = "DURATION", default_value = "6s", value_parser = values::duration)]
    pub(crate) node_monitor_grace_period: Duration,
    /// How long a node that is not ready may keep a volume that no pod wants there
    #[arg(long, value_name = "DURATION", default_value = "20s", value_parser = values::duration)]
    pub(crate) attach_detach_force_detach_after: Duration,
    /// What is logged (to stderr): error, warn, info, debug, trace, or per part
    #[arg(long, value_name = "FILTER", default_value = "error")]
    pub(crate) log_level: String,
}

/// `orlop lab run`.
#[derive(Debug, Args)]
pub(crate) struct LabRunArgs {
    /// Which story
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// URL of a laboratory that runs
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// Wait so long after each step, to look at it; seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 2, conflicts_with = "step")]
    pub(crate) pace: u64,
    /// Wait for Enter after each step
    #[arg(long)]
    pub(crate) step: bool,
    /// How long anything that must come may take; most needs less than a second
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = values::duration)]
    pub(crate) patience: Duration,
    #[command(flatten)]
    pub(crate) ground: GroundArgs,
}
