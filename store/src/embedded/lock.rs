//! The lock that limits a data directory to one process.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use orlop_apimachinery::input_file;

use crate::OpenError;

/// The lock of a directory; dropping it releases the directory.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Locks a directory. Waits up to `patience` for a process that is exiting: one killed during a sync keeps
    /// the lock until the sync has finished.
    pub(crate) fn take(dir: &Path, patience: Duration) -> Result<Lock, OpenError> {
        let path = dir.join("LOCK");
        let io = |action| {
            let path = path.clone();
            move |source| OpenError::Io { action, path, source }
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = input_file::open(&path, &mut options).map_err(io("open"))?;
        if !lock_within(&file, patience).map_err(io("lock"))? {
            let mut holder = String::new();
            // The holder is read on a best-effort basis.
            let _ = file.read_to_string(&mut holder);
            let holder = match holder.trim() {
                "" => "an unidentified process".to_owned(),
                holder => holder.to_owned(),
            };
            return Err(OpenError::Locked { path: dir.to_owned(), holder });
        }
        let content = format!("pid {} on {}\n", std::process::id(), host());
        let written =
            file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(content.as_bytes()));
        if let Err(error) = written {
            // Only the lock matters; a full disk must not keep the store from opening.
            tracing::warn!(%error, path = %path.display(), "cannot write the holder into the lock file");
        }
        Ok(Lock { _file: file })
    }
}

/// Locks a file until it is closed. Returns false if another process still has the lock after `patience`.
///
/// # Errors
/// The file system cannot lock the file.
pub fn lock_within(file: &File, patience: Duration) -> std::io::Result<bool> {
    let until = Instant::now() + patience;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// The process that has the directory open, found without locking or changing anything. `None` if there is
/// none.
pub(crate) fn holder(dir: &Path) -> std::io::Result<Option<String>> {
    let mut file = match input_file::open(&dir.join("LOCK"), OpenOptions::new().read(true)) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            file.read_to_string(&mut holder)?;
            Ok(Some(holder.trim().to_owned()))
        }
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "an unnamed host".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn lock_error_names_the_holder_and_drop_releases_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let lock = Lock::take(dir.path(), Duration::ZERO).unwrap();
        let error = Lock::take(dir.path(), Duration::ZERO).unwrap_err();
        assert!(error.to_string().contains(&format!("pid {} on ", std::process::id())), "{error}");
        drop(lock);
        Lock::take(dir.path(), Duration::ZERO).unwrap();
    }
}
