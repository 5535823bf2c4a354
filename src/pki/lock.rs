//! The lock that limits the authority of a data directory to one process.
//!
//! The lock of the store does not: a server with `--store-backend=memory` opens no store, but it uses the authority of its data directory
//! and writes the administrator's kubeconfig there.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use orlop_apimachinery::input_file;
use orlop_store::embedded::lock_within;
use rustix::fs::{Mode, OFlags};

/// The file. A directory itself cannot be locked on NFS.
const LOCK: &str = "lock";
/// How long a server waits for a process that is exiting. A program that a killed server was about to start
/// inherits the lock until its exec.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// Why a directory is not locked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LockError {
    #[error(
        "another server uses the certificate authority in {}: stop that server, or set --data-dir DIR to a directory of this server \
         alone", dir.display()
    )]
    InUse { dir: PathBuf },
    #[error("{} cannot be locked: {error}", path.display())]
    File { path: PathBuf, error: io::Error },
}

/// Locks an existing directory until the returned file is dropped.
pub(super) fn take(dir: &Path, patience: Duration) -> Result<File, LockError> {
    let path = dir.join(LOCK);
    let failed = |error: io::Error| LockError::File { path: path.clone(), error };
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open(&path, flags, Mode::from_raw_mode(0o600));
    let file = file.map(File::from).map_err(|errno| failed(errno.into()))?;
    input_file::check_regular(&file).map_err(failed)?;
    match lock_within(&file, patience).map_err(failed)? {
        true => Ok(file),
        false => Err(LockError::InUse { dir: dir.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn lock_has_one_owner_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let owned = take(dir.path(), PATIENCE).unwrap();
        let error = take(dir.path(), Duration::ZERO).unwrap_err().to_string();
        let shown = dir.path().display().to_string();
        assert!(error.contains(&shown) && error.contains("--data-dir DIR"), "{error}");
        drop(owned);
        // Programs that other tests are starting also own the lock until their exec.
        take(dir.path(), Duration::from_secs(60)).unwrap();
    }

    #[test]
    fn missing_directory_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let error = take(&dir.path().join("pki"), Duration::ZERO).unwrap_err();
        assert!(matches!(error, LockError::File { .. }), "{error}");
    }
}
