//! Directories that a deletion must not touch, by identity: a bind mount or another process may have put them anywhere.

use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::{Errno, fcntl_dupfd_cloexec};

use super::RootedFsError;
use super::dirs::refused;
use super::open::Resolver;
use crate::file_location::{FileIds, FoundFile};

impl Resolver {
    pub(super) fn ensure_outside(
        self,
        root: &Path,
        path: &Path,
        protected: &FileIds,
    ) -> Result<(), RootedFsError> {
        match self.parent(root, path) {
            Err(error) if error.is_missing() => Ok(()),
            other => ensure_dir_outside(other?.0, path, protected),
        }
    }
}

/// Verifies that an open directory is neither protected nor in a protected directory, through whatever mount. `path` is for
/// the error.
///
/// # Errors
/// It is, or a directory above it cannot be opened.
pub fn ensure_dir_outside(dir: impl AsFd, path: &Path, protected: &FileIds) -> Result<(), RootedFsError> {
    if protected.is_empty() {
        return Ok(());
    }
    let unknown = |errno| unknown(path, errno);
    let mut above = fcntl_dupfd_cloexec(dir, 0).map_err(unknown)?;
    let mut found = FoundFile::at(&above, Path::new("")).map_err(unknown)?;
    while !protected.contains(&found.id) {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        above = openat(&above, "..", flags, Mode::empty()).map_err(unknown)?;
        let next = FoundFile::at(&above, Path::new("")).map_err(unknown)?;
        // Only the root of the machine is its own parent in the same mount.
        if next == found {
            return Ok(());
        }
        found = next;
    }
    Err(protects(path, "it or a directory above it"))
}

/// Verifies that an entry of a directory, or with an empty name the directory itself, is not protected. A missing entry is
/// not an error.
pub(super) fn ensure_unprotected(
    dir: impl AsFd,
    name: &Path,
    path: &Path,
    protected: &FileIds,
) -> Result<(), RootedFsError> {
    if protected.is_empty() {
        return Ok(());
    }
    match FoundFile::at(dir, name) {
        Ok(found) if protected.contains(&found.id) => Err(protects(path, "it")),
        Ok(_) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(unknown(path, errno)),
    }
}

fn protects(path: &Path, what: &str) -> RootedFsError {
    let why = format!(
        "{what} is the storage of another volume or a directory of orlop, which is mounted elsewhere; nothing in it was touched"
    );
    RootedFsError::Unsafe { path: path.to_owned(), why }
}

fn unknown(path: &Path, errno: Errno) -> RootedFsError {
    refused(path, "it cannot be compared with protected directories", errno)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;
    use std::path::PathBuf;

    use tempfile::TempDir;

    use super::super::race_points::{self, RacePoint};
    use super::super::{ensure_outside, remove_unprotected_below};
    use super::*;

    /// A root, with files in `v/a/b/c` and beside it.
    fn tree() -> (TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("v/a/b/c")).unwrap();
        fs::write(root.join("v/a/b/c/dear"), "dear").unwrap();
        fs::write(root.join("v/a/file"), "").unwrap();
        (dir, root)
    }

    fn ids(paths: &[&Path]) -> FileIds {
        paths.iter().map(|path| FoundFile::at(rustix::fs::CWD, path).unwrap().id).collect()
    }

    #[test]
    fn deletion_stops_at_a_protected_directory() {
        for (protected, path, is_deleted) in [
            ("v", "v", false),
            ("v/a/b", "v", false),
            ("v/a/b/c", "v", false),
            ("v/a/b/c", "v/a/b/c", false),
            ("v/a/file", "v/a/file", false),
            ("v/a/b", "v/a/file", true),
            // This is checked before.
            ("v/a", "v/a/b", true),
            // A name of the file; the file itself is wherever it is mounted.
            ("v/a/file", "v", true),
        ] {
            for resolver in [Resolver::Kernel, Resolver::Steps] {
                let (_dir, root) = tree();
                let ids = ids(&[&root.join(protected)]);
                let outcome = resolver.remove_unprotected(&root, Path::new(path), &ids);
                assert_eq!(outcome.is_ok(), is_deleted, "{protected}, {path}: {outcome:?}");
                assert_eq!(!root.join(path).exists(), is_deleted, "{protected}, {path}");
                let is_left = root.join("v/a/b/c/dear").exists();
                assert!(
                    is_deleted || is_left,
                    "{protected}, {path}: a file in a protected directory is gone"
                );
            }
        }
    }

    #[test]
    fn protected_directories_above_are_found() {
        let (_dir, root) = tree();
        let outside = tempfile::tempdir().unwrap();
        for (protected, path, is_outside) in [
            (root.join("v/a"), "v/a/b", false),
            (root.join("v"), "v/a/b/c", false),
            (root.clone(), "v", false),
            (PathBuf::from("/"), "v", false),
            (root.join("v/a/b"), "v/a", true),
            (root.join("v/a/b"), "v/a/b", true),
            (root.join("v/a/b"), "v/a/file", true),
            (root.clone(), "no/such", true),
            (outside.path().to_owned(), "v/a/b/c", true),
        ] {
            let outcome = ensure_outside(&root, Path::new(path), &ids(&[&protected]));
            assert_eq!(outcome.is_ok(), is_outside, "{}, {path}: {outcome:?}", protected.display());
        }
    }

    #[test]
    fn protected_directory_that_is_moved_into_the_tree_is_not_deleted() {
        for (moment, place) in [
            (RacePoint::Seen, "v"),
            (RacePoint::Descend, "v"),
            (RacePoint::Opened, "v/a"),
            (RacePoint::Seen, "v/a"),
            (RacePoint::Descend, "v/a"),
        ] {
            let (_dir, root) = tree();
            let moved = if place == "v" && moment == RacePoint::Seen { "v" } else { "v/a" };
            fs::create_dir_all(root.join("other/inner")).unwrap();
            fs::write(root.join("other/inner/dear"), "dear").unwrap();
            let protected = ids(&[&root.join("other")]);
            let swap = {
                let (root, mut is_done) = (root.clone(), false);
                move |at: RacePoint, path: &Path| {
                    if !is_done && at == moment && path == Path::new(place) {
                        is_done = true;
                        let flags = rustix::fs::RenameFlags::EXCHANGE;
                        let (from, to) = (root.join("other"), root.join(moved));
                        rustix::fs::renameat_with(rustix::fs::CWD, from, rustix::fs::CWD, to, flags).unwrap();
                    }
                }
            };
            // At the last point, the walk has left the name; the deletion of a directory that is not empty fails.
            let outcome =
                race_points::with(swap, || remove_unprotected_below(&root, Path::new("v"), &protected));
            assert!(outcome.is_err(), "{moment:?} of {place}");
            assert!(root.join(moved).join("inner/dear").exists(), "{moment:?} of {place}");
        }
    }
}
