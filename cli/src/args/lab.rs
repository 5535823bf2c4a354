//! Flags of `orlop lab`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::values;

/// Footer of `lab --help`.
pub(crate) const HELP: &str = "\
Without a command, serves the API and the web page on loopback until you stop it. The objects are in memory. The nodes virtual-1, \
virtual-2 and virtual-3 only record mounts. The volumes of the CSI driver are temporary directories of this machine. The storage \
classes are lab (the default) and lab-first-consumer. Root is not required. `orlop lab run NAME` runs a scenario in a running lab \
(--server) or in a new one. docs/learn describes each scenario.

Exit codes: 0 stopped, or every step had the expected result; 1 a step had another result, or the command failed; 2 the command \
line is wrong.";

/// `orlop lab`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct LabArgs {
    /// The command; `None` serves until a signal.
    #[command(subcommand)]
    pub command: Option<LabCommand>,
    /// The lab.
    #[command(flatten)]
    pub environment: EnvironmentArgs,
}

/// Commands on scenarios.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// List the scenarios
    List,
    /// Run a scenario and verify each step
    Run(Box<LabRunArgs>),
}

/// Flags of the lab.
#[derive(Clone, Debug, Args)]
pub struct EnvironmentArgs {
    /// Loopback address and port to serve on; port 0 selects a free one [default: 127.0.0.1:8080; with `run`, a
    /// free port]
    #[arg(long, value_name = "ADDR:PORT", value_parser = values::listen_address)]
    pub listen: Option<SocketAddr>,
    /// File to which the lab writes its URL when it is ready, for scripts
    #[arg(long, value_name = "FILE")]
    pub address_file: Option<PathBuf>,
    /// Time without a heartbeat after which a node is marked unhealthy; nodes send one every second
    #[arg(long, value_name = "DURATION", default_value = "6s", value_parser = values::duration)]
    pub node_monitor_grace_period: Duration,
    /// Timeout after which a volume is detached by force from an unhealthy node, if no pod uses it there
    #[arg(long, value_name = "DURATION", default_value = "20s", value_parser = values::duration)]
    pub attach_detach_force_detach_after: Duration,
    /// Log level (logs go to stderr): error, warn, info, debug, trace, or per module
    #[arg(long, value_name = "FILTER", default_value = "error")]
    pub log_level: String,
}

/// `orlop lab run`.
#[derive(Debug, Args)]
pub struct LabRunArgs {
    /// Name of the scenario
    #[arg(value_name = "NAME")]
    pub name: String,
    /// URL of a running lab
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// Seconds to pause after each step
    #[arg(long, value_name = "SECONDS", default_value_t = 2, conflicts_with = "step")]
    pub pace: u64,
    /// Wait for Enter after each step
    #[arg(long)]
    pub step: bool,
    /// Timeout of each expected result; most results arrive in less than a second
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = values::duration)]
    pub patience: Duration,
    /// The lab.
    #[command(flatten)]
    pub environment: EnvironmentArgs,
}
