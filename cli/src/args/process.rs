//! Flags of every long-running process: its configuration file and its log.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// How a log line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people
    Text,
    /// One JSON object per line
    Json,
}

/// Every process has these.
#[derive(Debug, Args)]
#[command(next_help_heading = "Process")]
pub struct ProcessArgs {
    /// YAML file with values for flags; its keys are flag names
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// How log lines are written (to stderr)
    #[arg(long, value_enum, default_value = "text")]
    pub log_format: LogFormat,
    /// What is logged: error, warn, info, debug, trace, or per part such as info,orlop_store=debug
    #[arg(long, value_name = "FILTER")]
    pub log_level: Option<String>,
    /// Verbosity by number, as upstream: 0 to 3 is info, 4 and 5 debug, 6 and more trace
    #[arg(short = 'v', long = "v", value_name = "N")]
    pub v: Option<u8>,
}
