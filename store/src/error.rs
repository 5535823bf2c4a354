//! What can go wrong, one type per operation.

use std::path::PathBuf;
use std::sync::Arc;

use crate::{Key, Record, Revision};

/// A commit was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum CommitError<V> {
    /// An expectation did not hold; nothing was written.
    #[error("{key} is not as expected: it is at revision {}", actual.as_ref().map_or(Revision::ZERO, |r| r.mod_revision))]
    Conflict {
        /// The first key whose expectation failed.
        key: Key,
        /// The record that is there; `None` when there is none.
        actual: Option<Arc<Record<V>>>,
    },
    /// A value is larger than the store takes; nothing was written.
    #[error("the value of {key} has {size} bytes; the store takes {limit} at the most")]
    TooLarge {
        /// The key.
        key: Key,
        /// Bytes.
        size: usize,
        /// Bytes.
        limit: usize,
    },
    /// There is too little room on the disk; nothing was written. Deletes are still taken, unless the
    /// file system refuses them too, or the served copy has had no room for so long that no more may
    /// wait for it.
    #[error(
        "too little room on the disk of the store: {} bytes are missing in {place} ({free} are free, {needed} must be)",
        needed.saturating_sub(*free)
    )]
    Full {
        /// Bytes.
        free: u64,
        /// Bytes that must be free before such a write is taken.
        needed: u64,
        /// The directory whose disk it is.
        place: Arc<str>,
    },
    /// The outcome is unknown, and the store takes no more writes until it is opened again.
    #[error("the store has stopped taking writes: {0}")]
    Poisoned(String),
    /// The store is closed or closing; nothing was written.
    #[error("the store is closed")]
    Closed,
}

/// A read could not be answered.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The revision lies before what the store still knows.
    #[error("revision {wanted} is compacted; the oldest is {oldest}")]
    Expired {
        /// Asked for.
        wanted: Revision,
        /// The oldest revision that can be read.
        oldest: Revision,
    },
    /// The revision has not happened yet.
    #[error("revision {wanted} is in the future; the newest is {head}")]
    Future {
        /// Asked for.
        wanted: Revision,
        /// The newest.
        head: Revision,
    },
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
        /// The last revision that was delivered (or asked for).
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
    /// Another process has it open.
    #[error("{path} is in use by another process ({holder}); stop it, or choose another --data-dir")]
    Locked {
        /// The data directory.
        path: PathBuf,
        /// What the lock file says of the holder.
        holder: String,
    },
    /// The file system refused.
    #[error("cannot {action} {path}")]
    Io {
        /// Such as `create` or `sync`.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The files are not what they should be; nothing was changed.
    #[error("the store in {path} is damaged: {what}")]
    Damaged {
        /// The data directory.
        path: PathBuf,
        /// Which record of which file, and the way on.
        what: String,
    },
    /// The files were written by a newer version.
    #[error("{path} has format {found}; this version reads up to {supported}")]
    TooNew {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The newest format that can be read.
        supported: u32,
    },
}
