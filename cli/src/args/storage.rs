//! Flags of `orlop snapshot`, `orlop store` and `orlop keys`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::remote::RemoteArgs;
use super::values;

/// `orlop snapshot`.
#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotCommand {
    /// Save all objects of a running server or a stopped store to a file, at the current revision
    Save(Box<SaveArgs>),
    /// Verify every byte of a file, and show a summary of its content
    Status {
        /// The file
        file: PathBuf,
        /// Output format
        #[arg(short, long, value_enum, default_value = "table")]
        output: Output,
    },
    /// Create a new store from a snapshot file; you can then start a server on the store
    Restore(RestoreArgs),
}

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Human-readable text
    Table,
    /// JSON
    Json,
}

/// `orlop snapshot save`.
#[derive(Debug, Args)]
pub(crate) struct SaveArgs {
    /// The file
    pub(crate) file: PathBuf,
    /// Replace an existing file, when the new one is complete
    #[arg(long)]
    pub(crate) force: bool,
    /// Directory of a stopped store to save
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
    /// Directory of the new store; it must not exist or must be empty
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: PathBuf,
    /// Amount to add to every resourceVersion
    ///
    /// It must exceed the number of revisions of the old store since the snapshot, so that resourceVersions do not
    /// decrease for clients. At most 2^53.
    #[arg(long, value_name = "N", default_value_t = orlop_store::archive::BUMP)]
    pub(crate) bump_revision: u64,
}

/// `orlop store`.
#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Check every file of a store, and whether the store opens; without --accept-loss, changes nothing
    Check {
        /// Directory of a stopped store
        dir: PathBuf,
        /// If the store does not open because acknowledged writes are lost, accept the loss and continue with the
        /// remaining data
        #[arg(long)]
        accept_loss: bool,
    },
    /// Erase the former versions of an object from all files of a stopped store; its current version stays
    ///
    /// Also works for a deleted object. For Secrets, a running server erases former versions automatically
    /// (--store-retention-secrets).
    Purge {
        /// The object, such as secrets/default/token, storageclasses.storage.k8s.io/fast or widgets.example.com/default/w
        object: String,
        /// Directory of a stopped store
        #[arg(long, value_name = "DIR")]
        data_dir: PathBuf,
    },
    /// Shrink the directory: remove data that is no longer needed, and rewrite the rest without gaps
    Compact {
        /// Directory of a stopped store
        #[arg(long, value_name = "DIR")]
        data_dir: PathBuf,
    },
}

/// `orlop keys`.
#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Replace the key that signs service account tokens; existing tokens become invalid, immediately or after --keep-old
    ///
    /// A running server uses the new key within a second. Pods get new tokens when their node agents next renew them.
    Rotate(RotateArgs),
}

/// `orlop keys rotate`.
#[derive(Debug, Args)]
pub(crate) struct RotateArgs {
    /// Data directory of a running or stopped server
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: PathBuf,
    /// How long tokens of the previous key stay valid; 0s invalidates them immediately
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = values::duration)]
    pub(crate) keep_old: Duration,
}
