//! Errors of snapshot files.

use std::io;
use std::path::PathBuf;

use crate::OpenError;

/// A snapshot file could not be written, read or restored.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// A file system operation failed.
    #[error("cannot {action} {path}")]
    Io {
        /// The operation, such as `read` or `write`.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the file system.
        #[source]
        source: io::Error,
    },
    /// The file is not a snapshot.
    #[error("{path} is no snapshot of orlop (or its very beginning is damaged); choose another file")]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file is damaged.
    #[error("the snapshot {path} is damaged: {what}; choose another one")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The damage that was found.
        what: String,
    },
    /// The file has a format that this version does not read.
    #[error(
        "the snapshot {path} has format {found}; this version reads format {supported}: use the version that wrote it"
    )]
    Format {
        /// The file.
        path: PathBuf,
        /// The format of the file.
        found: u32,
        /// The format that this version reads.
        supported: u32,
    },
    /// The target directory is not empty.
    #[error("{path} is not empty; a snapshot is restored into a directory that is new or empty")]
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },
    /// Revisions cannot be moved up that far.
    #[error("revision {revision} cannot be moved up by {bump}; give a smaller number")]
    Bump {
        /// The revision of the snapshot.
        revision: u64,
        /// The requested bump.
        bump: u64,
    },
    /// The restored store cannot be opened.
    #[error("the restored store cannot be opened")]
    Open(#[source] OpenError),
}
