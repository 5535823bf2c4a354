//! Flags of every long-running process: configuration file and log.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Human-readable text
    Text,
    /// One JSON object per line
    Json,
}

/// Flags of every process.
#[derive(Debug, Args)]
#[command(next_help_heading = "Process")]
pub struct ProcessArgs {
    /// YAML file with values of flags; its keys are the names of the flags
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Format of log lines (on stderr)
    #[arg(long, value_enum, default_value = "text")]
    pub log_format: LogFormat,
    /// Log level: error, warn, info, debug, trace, or per module such as info,orlop_store=debug
    #[arg(long, value_name = "FILTER")]
    pub log_level: Option<String>,
    /// Numeric log level as in Kubernetes: 0 to 3 is info, 4 and 5 debug, 6 and more trace
    #[arg(short = 'v', long = "v", value_name = "N")]
    pub v: Option<u8>,
}
