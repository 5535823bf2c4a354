//! Directories that other users can neither enter nor replace. Pods reach their volumes through mounts.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// The mode of the driver's own directories.
const PRIVATE: u32 = 0o700;
const STICKY: u32 = 0o1000;
const ROOT: u32 = 0;

/// Why a directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PrivateDirError {
    /// The directory cannot be created or read.
    #[error("{}: {source}", path.display())]
    File {
        /// The path of the directory.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// Another user can replace the directory, and with it the data of pods.
    #[error(
        "{} can be replaced by another user (owner {owner}, mode {mode:o}); set --data-dir to a new directory", path.display()
    )]
    OtherUser {
        /// The path of the directory, or of a link.
        path: PathBuf,
        /// The user that owns it.
        owner: u32,
        /// Its mode.
        mode: u32,
    },
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> PrivateDirError + '_ {
    move |source| PrivateDirError::File { path: path.to_owned(), source }
}

fn create(dir: &Path) -> Result<(), PrivateDirError> {
    fs::DirBuilder::new().recursive(true).mode(PRIVATE).create(dir).map_err(at(dir))
}

fn other_user(path: &Path, found: &fs::Metadata) -> PrivateDirError {
    PrivateDirError::OtherUser { path: path.to_owned(), owner: found.uid(), mode: found.mode() & 0o7777 }
}

/// Creates the data directory. Refuses one in which another user can rename `volumes`.
pub(crate) fn prepare_root(root: &Path) -> Result<(), PrivateDirError> {
    create(root)?;
    let user = rustix::process::geteuid().as_raw();
    // A trailing slash would follow the link.
    let link: PathBuf = root.components().collect();
    let entry = fs::symlink_metadata(&link).map_err(at(root))?;
    let found = fs::metadata(root).map_err(at(root))?;
    let is_trusted = |found: &fs::Metadata| found.uid() == user || found.uid() == ROOT;
    let is_shared = found.mode() & 0o002 != 0 && found.mode() & STICKY == 0;
    if !is_trusted(&entry) {
        return Err(other_user(root, &entry));
    }
    if !is_trusted(&found) || is_shared {
        return Err(other_user(root, &found));
    }
    Ok(())
}

/// Creates a directory of the driver, and restricts it to this user.
pub(crate) fn prepare(dir: &Path) -> Result<(), PrivateDirError> {
    create(dir)?;
    let found = fs::symlink_metadata(dir).map_err(at(dir))?;
    if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
        return Err(other_user(dir, &found));
    }
    if found.mode() & 0o777 & !PRIVATE != 0 {
        fs::set_permissions(dir, fs::Permissions::from_mode(PRIVATE)).map_err(at(dir))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::fs::{chown, symlink};

    use super::*;
    use crate::records::{Records, RecordsError};

    #[test]
    fn volumes_are_private() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("volumes")).unwrap();
        fs::set_permissions(dir.path().join("volumes"), fs::Permissions::from_mode(0o755)).unwrap();
        Records::open(dir.path()).unwrap();
        for name in ["volumes", "snapshots"] {
            assert_eq!(fs::metadata(dir.path().join(name)).unwrap().mode() & 0o7777, PRIVATE, "{name}");
        }
    }

    #[test]
    fn links_are_not_followed() {
        for name in ["volumes", "volumes/8c7b2a1e-6f0e-4a3e-9a52-0d7a8f4f1b11"] {
            let dir = tempfile::tempdir().unwrap();
            let victim = tempfile::tempdir().unwrap();
            fs::write(victim.path().join("data"), "unchanged").unwrap();
            let link = dir.path().join(name);
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            symlink(victim.path(), &link).unwrap();
            Records::open(dir.path()).unwrap_err();
            assert!(victim.path().join("data").exists(), "{name}");
        }
    }

    #[test]
    fn directories_of_other_users_are_refused() {
        let shared = tempfile::tempdir().unwrap();
        fs::set_permissions(shared.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(Records::open(shared.path()), Err(RecordsError::Directory { .. })));
        if !orlop_test_support::privileges::has_root("a directory of another user") {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        Records::open(dir.path()).unwrap();
        for name in ["volumes", ""] {
            chown(dir.path().join(name), Some(65_534), None).unwrap();
            let error = Records::open(dir.path()).unwrap_err().to_string();
            assert!(error.contains("owner 65534"), "{name}: {error}");
        }
    }
}
