//! The command line of `orlop bench`: only declarations.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// A row of the table: one kind of work.
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
    /// Claims that meet their volumes
    Bind,
    /// Volumes of a CSI driver: claims provisioned, attached, detached, moved
    Csi,
    /// An agent of a node: pods with a volume each mounted and unmounted, and what it takes when nothing happens; needs root
    Node,
    /// Memory of the server process
    Memory,
    /// From exec to ready
    Start,
    /// Processor time of a server that has nothing to do
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

    /// As it is written on the command line and in results.
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

    /// Why it cannot be measured on a server that somebody else has started.
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

/// How much is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scale {
    /// Seconds: to see that it works. Its figures are not for comparing
    Small,
    /// Minutes: the figures of docs/performance.md
    Full,
}

impl Scale {
    /// As it is written on the command line and in results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Scale::Small => "small",
            Scale::Full => "full",
        }
    }
}

/// How results are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people
    Table,
    /// One JSON document
    Json,
    /// A table for documents
    Markdown,
}

/// `orlop bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// What is measured; all of it when none is named
    #[arg(value_enum, value_name = "ROW")]
    pub(crate) rows: Vec<RowName>,
    /// Start this orlop program instead of the one that measures, such as an older version
    #[arg(long, value_name = "FILE", conflicts_with = "server")]
    pub(crate) program: Option<PathBuf>,
    /// Measure this running server; without it bench starts servers of its own and stops them
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// File that holds a bearer token for --server
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Authorities that the certificate of --server is checked against (PEM)
    #[arg(long, value_name = "FILE")]
    pub(crate) certificate_authority: Option<PathBuf>,
    /// Give this second server the same work, in turns, and print ratios. Any Kubernetes API server
    #[arg(long, value_name = "URL")]
    pub(crate) against: Option<String>,
    /// File that holds a bearer token for --against
    #[arg(long, value_name = "FILE")]
    pub(crate) against_token_file: Option<PathBuf>,
    /// Authorities that the certificate of --against is checked against (PEM)
    #[arg(long, value_name = "FILE")]
    pub(crate) against_certificate_authority: Option<PathBuf>,
    /// How much is done
    #[arg(long, value_enum, default_value = "full")]
    pub(crate) scale: Scale,
    /// How much, instead of what the scale says: requests of create, get and patch, writes of watch, pairs
    /// of bind
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) operations: Option<u32>,
    /// How long idle servers and agents are looked at, seconds, instead of what the scale says
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(crate) idle_seconds: Option<u32>,
    /// How results are written, to stdout
    #[arg(short = 'o', long, value_enum, default_value = "table")]
    pub(crate) output: Output,
    /// Where the servers that bench starts keep their data, in a temporary directory: this disk is measured
    /// [default: the system's directory for temporary files]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
}
