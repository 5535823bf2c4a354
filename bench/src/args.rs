//! The command line of `orlop bench`: declarations only.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// A row of the table: one workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum RowName {
    /// Creates of volumes, 64 in flight
    #[value(name = "create-64")]
    Create64,
    /// Creates of volumes, one at a time
    #[value(name = "create-1")]
    Create1,
    /// Reads of single volumes, 64 in flight
    #[value(name = "get-64")]
    Get64,
    /// Lists of 5,000 volumes, one at a time
    #[value(name = "list-5000")]
    List5000,
    /// Merge patches of volumes, 64 in flight
    #[value(name = "patch-64")]
    Patch64,
    /// 1,000 watchers of 200 writes per second
    Watch,
    /// Claims bound to existing volumes
    Bind,
    /// Volumes of a CSI driver: provision, attach, detach, move to another node
    Csi,
    /// A node agent: mounts and unmounts for pods with one volume each, and the cost of an idle agent; needs root
    Node,
    /// Memory of the server process
    Memory,
    /// Time from exec to ready
    Start,
    /// Processor time of an idle server
    Idle,
    /// Bytes on disk after many updates
    Disk,
}

impl RowName {
    /// All rows, in the order of the table.
    pub(crate) const ALL: [RowName; 13] = [
        RowName::Create64,
        RowName::Create1,
        RowName::Get64,
        RowName::List5000,
        RowName::Patch64,
        RowName::Watch,
        RowName::Bind,
        RowName::Csi,
        RowName::Node,
        RowName::Memory,
        RowName::Start,
        RowName::Idle,
        RowName::Disk,
    ];

    /// The name on the command line and in results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            RowName::Create64 => "create-64",
            RowName::Create1 => "create-1",
            RowName::Get64 => "get-64",
            RowName::List5000 => "list-5000",
            RowName::Patch64 => "patch-64",
            RowName::Watch => "watch",
            RowName::Bind => "bind",
            RowName::Csi => "csi",
            RowName::Node => "node",
            RowName::Memory => "memory",
            RowName::Start => "start",
            RowName::Idle => "idle",
            RowName::Disk => "disk",
        }
    }

    /// Why this row requires a server that bench has started itself.
    pub(crate) fn needs_own_process(self) -> Option<&'static str> {
        match self {
            RowName::Csi => Some("it starts a CSI driver beside the server"),
            RowName::Node => Some("it makes this machine a node of the server"),
            RowName::Memory => Some("it reads the memory of the server's process"),
            RowName::Start => Some("it starts the server again and again"),
            RowName::Idle => Some("it reads the processor time of the server's process"),
            RowName::Disk => Some("it reads the server's data directory"),
            RowName::Create64
            | RowName::Create1
            | RowName::Get64
            | RowName::List5000
            | RowName::Patch64
            | RowName::Watch
            | RowName::Bind => None,
        }
    }
}

/// The amount of work of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scale {
    /// Seconds: a smoke test; the figures are not comparable
    Small,
    /// Minutes: the figures of docs/performance.md
    Full,
}

impl Scale {
    /// The name on the command line and in results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Scale::Small => "small",
            Scale::Full => "full",
        }
    }
}

/// The format of the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// A table for the terminal
    Table,
    /// One JSON document
    Json,
    /// A Markdown table for documents
    Markdown,
}

/// `orlop bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Rows to measure [default: all]
    #[arg(value_enum, value_name = "ROW")]
    pub(crate) rows: Vec<RowName>,
    /// orlop binary that bench starts as the server to measure, for example an older version [default: the binary that
    /// runs bench]
    #[arg(long, value_name = "FILE", conflicts_with = "server")]
    pub(crate) program: Option<PathBuf>,
    /// URL of a running server to measure; by default, bench starts its own servers and stops them
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// File with a bearer token for --server
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// CA certificates (PEM) to verify the certificate of --server
    #[arg(long, value_name = "FILE")]
    pub(crate) certificate_authority: Option<PathBuf>,
    /// URL of a second server, which can be any Kubernetes API server: bench alternates between both servers and prints
    /// ratios
    #[arg(long, value_name = "URL")]
    pub(crate) against: Option<String>,
    /// File with a bearer token for --against
    #[arg(long, value_name = "FILE")]
    pub(crate) against_token_file: Option<PathBuf>,
    /// CA certificates (PEM) to verify the certificate of --against
    #[arg(long, value_name = "FILE")]
    pub(crate) against_certificate_authority: Option<PathBuf>,
    /// Amount of work of a run
    #[arg(long, value_enum, default_value = "full")]
    pub(crate) scale: Scale,
    /// Number of operations (overrides --scale): requests in the rows create-*, get-64 and patch-64, writes in watch, claims
    /// (each with one volume) in bind and csi, pods in node
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) operations: Option<u32>,
    /// Seconds to observe idle servers and agents (overrides --scale)
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(crate) idle_seconds: Option<u32>,
    /// Format of the results on stdout
    #[arg(short = 'o', long, value_enum, default_value = "table")]
    pub(crate) output: Output,
    /// Directory for the data of the servers that bench starts, on the disk to measure [default: the system's directory
    /// for temporary files]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
}
