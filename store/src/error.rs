//! Error types, one per operation.

use std::path::PathBuf;
use std::sync::Arc;

use crate::{Key, OutOfMemory, Record, Revision, TransformError};

/// A commit failed.
#[derive(Debug, thiserror::Error)]
pub enum CommitError<V> {
    /// An expectation was not met; nothing was written.
    #[error("{key} is not as expected: it is at revision {}", actual.as_ref().map_or(Revision::ZERO, |r| r.mod_revision))]
    Conflict {
        /// The first key whose expectation failed.
        key: Key,
        /// The current record; `None` when there is none.
        actual: Option<Arc<Record<V>>>,
    },
    /// A value is larger than the limit; nothing was written.
    #[error("the value of {key} has {size} bytes; the maximum is {limit}")]
    TooLarge {
        /// The key.
        key: Key,
        /// The size of the value in bytes.
        size: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The disk has too little free space; nothing was written. Deletes are still accepted, unless the file system
    /// has no space for them either, or the served copy has had none for so long that the backlog is full.
    #[error(
        "too little free space on the disk of the store: {} bytes are missing in {place} ({free} are free, {needed} must be)",
        needed.saturating_sub(*free)
    )]
    Full {
        /// Free bytes.
        free: u64,
        /// The free bytes required for such a write.
        needed: u64,
        /// The directory on that disk.
        place: Arc<str>,
    },
    /// The data would exceed the size limit; nothing was written. Deletes and updates that do not grow are still accepted.
    #[error("the store would contain {needed} bytes; the maximum is {limit}")]
    DataLimit {
        /// The size of the data with the write, bytes.
        needed: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// A value cannot be transformed to its stored form, for example encrypted; nothing was written.
    #[error("the value of {key} cannot be stored: {why}")]
    Transform {
        /// The key.
        key: Key,
        /// The reason.
        why: TransformError,
    },
    /// The outcome is unknown, and the store accepts no writes until it is reopened.
    #[error("the store has stopped taking writes: {0}")]
    Poisoned(String),
    /// The store is closed or closing; nothing was written.
    #[error("the store is closed")]
    Closed,
}

/// A read failed.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The revision is older than the retained history.
    #[error("revision {wanted} is compacted; the oldest is {oldest}")]
    Expired {
        /// The requested revision.
        wanted: Revision,
        /// The oldest revision that can be read.
        oldest: Revision,
    },
    /// The revision does not exist yet.
    #[error("revision {wanted} is in the future; the newest is {head}")]
    Future {
        /// The requested revision.
        wanted: Revision,
        /// The newest revision.
        head: Revision,
    },
    /// The memory for the state at an old revision is not available now.
    #[error("the state at an old revision cannot be read now: {0}")]
    OutOfMemory(#[from] OutOfMemory),
    /// The log could not be read.
    #[error("the log of the store could not be read: {0}")]
    Damaged(String),
}

/// A watch has ended.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The events after this point are compacted.
    #[error("the events after revision {after} are compacted; the oldest is {oldest}")]
    Expired {
        /// The last revision that was delivered (or requested).
        after: Revision,
        /// The oldest revision from which a watch can start.
        oldest: Revision,
    },
    /// The store is closed.
    #[error("the store is closed")]
    Closed,
    /// The log could not be read.
    #[error("the log of the store could not be read: {0}")]
    Damaged(String),
}

/// A store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has the store open.
    #[error("{path} is in use by another process ({holder}); stop it, or choose another --data-dir")]
    Locked {
        /// The data directory.
        path: PathBuf,
        /// The holder, according to the lock file.
        holder: String,
    },
    /// A file system operation failed.
    #[error("cannot {action} {path}")]
    Io {
        /// The operation, such as `create` or `sync`.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the file system.
        #[source]
        source: std::io::Error,
    },
    /// The files are damaged; nothing was changed.
    #[error("the store in {path} is damaged: {what}")]
    Damaged {
        /// The data directory.
        path: PathBuf,
        /// The damaged record and its file, and the fix.
        what: String,
    },
    /// The directory contains files of another program, and no store; nothing was changed.
    #[error(
        "{path} is not a data directory of orlop: it contains other files ({files}); choose a new or an empty directory"
    )]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// The names of some files.
        files: String,
    },
    /// The files were written by a newer version.
    #[error("{path} has format {found}; this version reads up to {supported}")]
    TooNew {
        /// The file.
        path: PathBuf,
        /// The format of the file.
        found: u32,
        /// The newest format that can be read.
        supported: u32,
    },
}
