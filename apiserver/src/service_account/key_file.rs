//! The file with the keys of service account tokens, in the data directory and outside the store: snapshots of the store, recordings
//! and backups of its files never contain the keys.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use orlop_apimachinery::input_file::{self, MAX_CONFIG};
use orlop_auth::service_account::key::NoRandom;
use orlop_auth::service_account::key_set::KeySet;
use orlop_pki::private_file;

/// Why the keys cannot be used or replaced.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// The file cannot be read.
    #[error("the service account keys in {} cannot be read: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the file system.
        #[source]
        error: io::Error,
    },
    /// The file cannot be written.
    #[error("the service account keys in {} cannot be written: {error}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the file system.
        #[source]
        error: io::Error,
    },
    /// The file contains no keys.
    #[error(
        "the service account keys in {} are damaged; restore the file, or remove it: the server then creates a new key, and \
         existing tokens become invalid", path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// The operating system returned no random numbers.
    #[error(transparent)]
    Random(#[from] NoRandom),
}

/// The path of the file in a data directory.
pub const KEY_FILE: &str = "pki/service-account.keys";

/// The file of a data directory.
pub fn key_file(data_dir: &Path) -> PathBuf {
    data_dir.join(KEY_FILE)
}

/// Replaces the signing key. A running server uses the new keys within a second. Tokens of the previous key stay valid for
/// `keep_old`. Without a file, creates the first key. Rotations at the same time run one after the other.
///
/// # Errors
/// The file cannot be read or written, or the system returned no random numbers. The previous keys then stay in use.
pub fn rotate(path: &Path, now: Timestamp, keep_old: SignedDuration) -> Result<KeySet, KeyFileError> {
    let _lock = lock(path)?;
    let next = match read(path)? {
        Some(keys) => keys.rotate(now, keep_old)?,
        None => KeySet::generate()?,
    };
    write(path, &next)?;
    Ok(next)
}

/// Reads the keys; `None` if there is no file.
pub(super) fn read(path: &Path) -> Result<Option<KeySet>, KeyFileError> {
    match input_file::read(path, MAX_CONFIG) {
        Ok(text) => match KeySet::parse(&text) {
            Some(keys) => Ok(Some(keys)),
            None => Err(KeyFileError::Damaged { path: path.to_owned() }),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(KeyFileError::Read { path: path.to_owned(), error }),
    }
}

/// Replaces the file atomically and durably. Only its owner can read it. Its directory exists.
pub(super) fn write(path: &Path, keys: &KeySet) -> Result<(), KeyFileError> {
    private_file::replace(path, &keys.text()).map_err(failed(path))
}

/// Creates the directory of the file, and locks it: other processes that change the file wait until the lock is dropped.
pub(super) fn lock(path: &Path) -> Result<File, KeyFileError> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let is_new = !dir.try_exists().map_err(failed(path))?;
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed(path))?;
    if is_new && let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        File::open(parent).and_then(|parent| parent.sync_all()).map_err(failed(path))?;
    }
    let lock = File::open(dir).map_err(failed(path))?;
    lock.lock().map_err(failed(path))?;
    Ok(lock)
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> KeyFileError {
    let path = path.to_owned();
    move |error| KeyFileError::Write { path, error }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn rotation_replaces_the_file_and_only_its_owner_reads_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = key_file(dir.path());
        assert!(read(&path).unwrap().is_none());
        let (now, keep) = (Timestamp::UNIX_EPOCH, SignedDuration::from_secs(60));
        let first = rotate(&path, now, keep).unwrap();
        let second = rotate(&path, now, keep).unwrap();
        assert_eq!(second.accepted(now).count(), 2);
        assert!(second.accepted(now).any(|key| key == first.signing().public()));
        let stored = read(&path).unwrap().unwrap();
        assert_eq!(stored.text(), second.text());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no temporary file stays");
    }

    #[test]
    fn concurrent_rotations_see_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = key_file(dir.path());
        let (now, keep) = (Timestamp::UNIX_EPOCH, SignedDuration::from_secs(60));
        let rotations = 8;
        std::thread::scope(|scope| {
            for _ in 0..rotations {
                scope.spawn(|| rotate(&path, now, keep).unwrap());
            }
        });
        // Each rotation has kept the key of the one before it.
        assert_eq!(read(&path).unwrap().unwrap().accepted(now).count(), rotations);
    }

    #[test]
    fn damaged_file_is_reported_without_its_content() {
        let dir = tempfile::tempdir().unwrap();
        let path = key_file(dir.path());
        std::fs::create_dir(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "{\"signing\":{\"pkcs8\":\"marker\"}}").unwrap();
        let error = rotate(&path, Timestamp::UNIX_EPOCH, SignedDuration::ZERO).unwrap_err().to_string();
        assert!(error.contains("service-account.keys") && !error.contains("marker"), "{error}");
        assert!(std::fs::read_to_string(&path).unwrap().contains("marker"), "it is not replaced");
    }
}
