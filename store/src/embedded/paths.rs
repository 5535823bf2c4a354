//! The paths of a store below its data directory, and the errors that name them.

use std::path::{Path, PathBuf};

use super::sled::ServedError;
use crate::OpenError;

/// The suffix of the names of journal segments.
pub(super) const SEGMENT_SUFFIX: &str = ".wal";

/// The fix that is always available.
pub(super) const RESTORE: &str = "restore it from a snapshot (orlop snapshot restore)";

/// The files and directories that the store creates in its data directory, apart from `STORE`.
pub const ENTRIES: [&str; 5] = ["LOCK", "STORE.tmp", "journal", "snapshot", "sled"];

/// The paths below the data directory.
pub(crate) struct StorePaths<'a> {
    pub(crate) root: &'a Path,
    pub(crate) journal: PathBuf,
    pub(crate) snapshots: PathBuf,
    pub(crate) sled: PathBuf,
}

impl<'a> StorePaths<'a> {
    pub(crate) fn below(root: &'a Path) -> Self {
        StorePaths {
            root,
            journal: root.join("journal"),
            snapshots: root.join("snapshot"),
            sled: root.join("sled"),
        }
    }

    pub(super) fn damaged(&self, what: impl Into<String>) -> OpenError {
        OpenError::Damaged { path: self.root.to_owned(), what: what.into() }
    }

    pub(super) fn io(
        &self,
        action: &'static str,
        path: &Path,
    ) -> impl FnOnce(std::io::Error) -> OpenError + use<> {
        let path = path.to_owned();
        move |source| OpenError::Io { action, path, source }
    }

    pub(super) fn served(&self, error: ServedError) -> OpenError {
        match error {
            ServedError::System(source) => self.io("use", &self.sled)(source),
            ServedError::Unusable(why) => self.damaged(format!("the rebuilt copy cannot be used: {why}")),
        }
    }
}
