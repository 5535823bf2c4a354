//! Detects that a file was replaced or changed, and repeats reads that have failed.

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

/// The version of a file that was read, for a process that reads it again when it changes.
#[derive(Debug, Default)]
pub struct ReadVersion {
    version: Option<FileVersion>,
    /// The problem of the last read, if it failed.
    problem: Option<String>,
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileCheck {
    /// The file has not changed since it was read.
    Unchanged,
    /// The file was read.
    Read,
    /// Reading it failed; the next check reads it again. The text is for the log.
    Failed(String),
    /// Reading it has failed with the same text as the last time.
    StillFailed,
}

impl ReadVersion {
    /// After a read: `version` is that of the file before it was read, so that a change during the read is noticed.
    pub fn of(version: Option<FileVersion>) -> Self {
        ReadVersion { version, problem: None }
    }

    /// Whether a file certainly has not changed since it was read successfully.
    pub fn is_unchanged(&self, path: &Path) -> bool {
        self.problem.is_none() && self.version.is_some() && self.version == FileVersion::of(path)
    }

    /// Reads a file if it has changed since it was read successfully.
    pub fn check(&mut self, path: &Path, read: impl FnOnce() -> Result<(), String>) -> FileCheck {
        let version = FileVersion::of(path);
        if version.is_some() && version == self.version {
            self.problem = None;
            return FileCheck::Unchanged;
        }
        match read() {
            Ok(()) => {
                *self = ReadVersion::of(version);
                FileCheck::Read
            }
            Err(problem) if self.problem.as_ref() == Some(&problem) => FileCheck::StillFailed,
            Err(problem) => {
                self.problem = Some(problem.clone());
                FileCheck::Failed(problem)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn failed_read_is_repeated_until_it_succeeds() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut read = ReadVersion::default();
        let failed = |text: &str| Err(text.to_owned());
        for (case, result, want) in [
            ("1 a problem is reported", failed("a"), FileCheck::Failed("a".to_owned())),
            ("2 once", failed("a"), FileCheck::StillFailed),
            ("3 another one too", failed("b"), FileCheck::Failed("b".to_owned())),
            ("4 the same file can be read", Ok(()), FileCheck::Read),
            ("5 it is not read again", failed("c"), FileCheck::Unchanged),
        ] {
            assert_eq!(read.check(file.path(), || result), want, "{case}");
            let is_read = matches!(want, FileCheck::Read | FileCheck::Unchanged);
            assert_eq!(read.is_unchanged(file.path()), is_read, "{case}");
        }
        std::fs::write(file.path(), "changed").unwrap();
        assert_eq!(read.check(file.path(), || Ok(())), FileCheck::Read);
        file.close().unwrap();
        let missing = Path::new("/nonexistent/file");
        assert_eq!(read.check(missing, || Err("gone".to_owned())), FileCheck::Failed("gone".to_owned()));
    }
}
