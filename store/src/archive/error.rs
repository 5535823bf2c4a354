//! What can go wrong with a snapshot file.

use std::io;
use std::path::PathBuf;

use crate::OpenError;

/// A snapshot file could not be written, read or restored.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The file system refused.
    #[error("cannot {action} {path}")]
    Io {
        /// Such as `read` or `write`.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It is something else.
    #[error("{path} is no snapshot of orlop (or its very beginning is damaged); choose another file")]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// Its bytes are not what was written.
    #[error("the snapshot {path} is damaged: {what}; choose another one")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where.
        what: String,
    },
    /// It has a format that this version does not read.
    #[error(
        "the snapshot {path} has format {found}; this version reads format {supported}: use the version that wrote it"
    )]
    Format {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The one that can be read.
        supported: u32,
    },
    /// There is something where a store was to be made.
    #[error("{path} is not empty; a snapshot is restored into a directory that is new or empty")]
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },
    /// Revisions cannot be moved so far.
    #[error("revision {revision} cannot be moved up by {bump}; give a smaller number")]
    Bump {
        /// Of the snapshot.
        revision: u64,
        /// Asked for.
        bump: u64,
    },
    /// What was restored cannot be opened.
    #[error("the restored store cannot be opened")]
    Open(#[source] OpenError),
}
