//! Flags of `orlop lab`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::values;

/// What `lab --help` says of it.
pub(crate) const HELP: &str = "\
Without a command it serves until it is stopped: the API and the page on loopback, everything in memory, nodes virtual-1, virtual-2 and \
virtual-3 whose mounts are only recorded, a CSI driver whose volumes are directories of this machine, the classes lab (the default) \
and lab-first-consumer. It needs no root. `orlop lab run NAME` plays a story, in a laboratory that runs (--server) or in one of its \
own. docs/learn has a text for each.

Exit codes: 0 stopped, or everything came as the story says; 1 something else came, which is told, or it failed; 2 the command line \
is wrong.";

/// `orlop lab`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct LabArgs {
    /// The command; `None` serves until a signal.
    #[command(subcommand)]
    pub command: Option<LabCommand>,
    /// The laboratory.
    #[command(flatten)]
    pub environment: EnvironmentArgs,
}

/// What is done with stories.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// The stories, with a line about each
    List,
    /// Play a story, and check that everything comes as it says
    Run(Box<LabRunArgs>),
}

/// How a laboratory is.
#[derive(Clone, Debug, Args)]
pub struct EnvironmentArgs {
    /// Address of this machine and port to serve on; port 0 takes a free one [default: 127.0.0.1:8080; with `run` a free port]
    #[arg(long, value_name = "ADDR:PORT", value_parser = values::listen_address)]
    pub listen: Option<SocketAddr>,
    /// Write the URL that is served here once the laboratory is ready, for scripts
    #[arg(long, value_name = "FILE")]
    pub address_file: Option<PathBuf>,
    /// Silence after which a node is lost; it says a word every second
    #[arg(long, value_name = "DURATION", default_value = "6s", value_parser = values::duration)]
    pub node_monitor_grace_period: Duration,
    /// How long a node that is not ready may keep a volume that no pod wants there
    #[arg(long, value_name = "DURATION", default_value = "20s", value_parser = values::duration)]
    pub attach_detach_force_detach_after: Duration,
    /// What is logged (to stderr): error, warn, info, debug, trace, or per part
    #[arg(long, value_name = "FILTER", default_value = "error")]
    pub log_level: String,
}

/// `orlop lab run`.
#[derive(Debug, Args)]
pub struct LabRunArgs {
    /// Which story
    #[arg(value_name = "NAME")]
    pub name: String,
    /// URL of a laboratory that runs
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// Wait so long after each step, to look at it; seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 2, conflicts_with = "step")]
    pub pace: u64,
    /// Wait for Enter after each step
    #[arg(long)]
    pub step: bool,
    /// How long anything that must come may take; most needs less than a second
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = values::duration)]
    pub patience: Duration,
    /// The laboratory.
    #[command(flatten)]
    pub environment: EnvironmentArgs,
}
