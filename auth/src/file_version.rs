//! Detects that a file was replaced or changed, without reading it.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Identifies the content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileVersion {
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileVersion {
    /// The version of a file. `None` if its metadata cannot be read.
    pub fn of(path: &Path) -> Option<Self> {
        let found = std::fs::metadata(path).ok()?;
        let modified = (found.mtime(), found.mtime_nsec());
        let changed = (found.ctime(), found.ctime_nsec());
        Some(FileVersion { inode: found.ino(), bytes: found.len(), modified, changed })
    }
}
