//! The lock of an agent's directory. Its owner is the agent of that directory, or a tool that works on it while
//! no agent runs.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use orlop_apimachinery::input_file;
use rustix::fs::{FlockOperation, flock};
use tokio::time::Instant;

/// Name of the file.
const LOCK: &str = "agent.lock";
/// How long an agent waits for the lock, and how often it tries.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(20);

/// Takes the lock until the returned file is dropped; none when another process owns it.
pub(crate) fn take(root: &Path) -> io::Result<Option<File>> {
    let mut options = File::options();
    options.create(true).truncate(false).read(true).write(true).mode(0o600);
    taken(input_file::open(&root.join(LOCK), &mut options)?)
}

/// Whether an agent has used the directory.
pub(crate) fn is_used(root: &Path) -> bool {
    root.join(LOCK).is_file()
}

/// Takes the lock, and waits for it if needed: a program that a killed agent was about to start inherits the
/// agent's lock until its exec.
pub(crate) async fn take_soon(root: &Path) -> io::Result<Option<File>> {
    take_within(root, PATIENCE).await
}

async fn take_within(root: &Path, patience: Duration) -> io::Result<Option<File>> {
    let until = Instant::now() + patience;
    loop {
        let taken = take(root)?;
        if taken.is_some() || Instant::now() >= until {
            return Ok(taken);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Whether another process owns the lock. Creates no file and does not retain the lock.
pub(crate) fn is_taken(root: &Path) -> io::Result<bool> {
    match input_file::open(&root.join(LOCK), File::options().read(true)) {
        Ok(file) => Ok(taken(file)?.is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn taken(file: File) -> io::Result<Option<File>> {
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// Long enough for any machine. Programs that other tests are starting also own a lock until their exec.
    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn lock_has_one_owner_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!is_taken(dir.path()).unwrap());
        assert!(std::fs::read_dir(dir.path()).unwrap().next().is_none(), "looking makes nothing");
        let held = take(dir.path()).unwrap();
        assert!(held.is_some() && is_taken(dir.path()).unwrap());
        assert!(take(dir.path()).unwrap().is_none());
        drop(held);
        assert!(take_within(dir.path(), LONG).await.unwrap().is_some());
    }

    /// Uses real time for the reason above; only the wait that fails runs on a paused clock.
    #[tokio::test]
    async fn lock_released_soon_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let held = take(dir.path()).unwrap();
        let goes = async {
            tokio::time::sleep(3 * PAUSE).await;
            drop(held);
        };
        let (taken, ()) = tokio::join!(take_within(dir.path(), LONG), goes);
        let _held = taken.unwrap().unwrap();
        tokio::time::pause();
        assert!(take_soon(dir.path()).await.unwrap().is_none(), "one that stays is not");
    }
}
