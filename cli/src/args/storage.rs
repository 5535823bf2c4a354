//! The commands that keep what is stored: `orlop snapshot` and `orlop store`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::remote::RemoteArgs;

/// `orlop snapshot`.
#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotCommand {
    /// Save all objects of this moment in a file; the server goes on meanwhile
    Save(Box<SaveArgs>),
    /// Check every byte of a file, and say what is in it
    Status {
        /// The file
        file: PathBuf,
        /// How the answer is written
        #[arg(short, long, value_enum, default_value = "table")]
        output: Output,
    },
    /// Make a new store of a file; then start a server on it
    Restore(RestoreArgs),
}

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people
    Table,
    /// As JSON
    Json,
}

/// `orlop snapshot save`.
#[derive(Debug, Args)]
pub(crate) struct SaveArgs {
    /// The file; one that is there is replaced when the new one is whole
    pub(crate) file: PathBuf,
    /// Directory of a store that is not running, to save that one
    #[arg(long, value_name = "DIR", conflicts_with_all = ["server", "master", "kubeconfig"])]
    pub(crate) data_dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

/// `orlop snapshot restore`.
#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The file
    pub(crate) file: PathBuf,
    /// Where the new store is made: a directory that does not exist or is empty
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: PathBuf,
    /// By how much every resourceVersion is moved up. It must be more than the old store has come on since the
    /// snapshot, so that none goes back for clients that have seen it
    #[arg(long, value_name = "N", default_value_t = orlop_store::archive::BUMP)]
    pub(crate) bump_revision: u64,
}

/// `orlop store`.
#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Say of every file whether it is as it should be, and whether the store would open; changes nothing
    Check {
        /// Directory of a store that is not running
        dir: PathBuf,
        /// When the store does not open because acknowledged writes are lost: go on with what is left
        #[arg(long)]
        accept_loss: bool,
    },
    /// Make the directory as small as it can be: drop what is no longer needed, and copy the rest together
    Compact {
        /// Directory of a store that is not running
        #[arg(long, value_name = "DIR")]
        data_dir: PathBuf,
    },
}
