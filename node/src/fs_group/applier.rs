//! Applies `fsGroup` for the volume manager, with the walk of [`crate::fs_group`]. A walk may take as long as it
//! has files: it counts as hung only when it has visited no file for the duration of the mount timeout. A hung
//! walk continues in its thread, and the volume is not walked a second time before that walk has ended.

use parking_lot::Mutex;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::fs_group::{FsGroupChange, FsGroupError, FsGroupOutcome, ProgressInterval, give_to_group};
use crate::host::Host;
use crate::plugin::PluginError;
use crate::volumes::{OwnershipRequest, VolumeOwnership};

/// How often a walk reports its progress.
const PACE: Duration = Duration::from_secs(1);

/// Runs the walks.
#[derive(Default)]
pub struct FsGroupApplier {
    running: Arc<Mutex<HashSet<PathBuf>>>,
}

/// Marks a running walk; dropped when the walk has ended.
struct RunningGuard {
    running: Arc<Mutex<HashSet<PathBuf>>>,
    path: PathBuf,
}

impl RunningGuard {
    fn take(running: &Arc<Mutex<HashSet<PathBuf>>>, path: &Path) -> Option<Self> {
        let is_free = running.lock().insert(path.to_path_buf());
        is_free.then(|| Self { running: Arc::clone(running), path: path.to_path_buf() })
    }
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.running.lock().remove(&self.path);
    }
}

#[async_trait]
impl VolumeOwnership for FsGroupApplier {
    async fn apply(&self, host: &Host, owned: OwnershipRequest) -> Result<(), PluginError> {
        let shown = owned.path.display().to_string();
        let plain = |why: String| PluginError::plain(format!("setting the group of {shown}: {why}"));
        let gid =
            u32::try_from(owned.fs_group).map_err(|_| plain("fsGroup is no group number".to_owned()))?;
        let turn = RunningGuard::take(&self.running, &owned.path);
        let turn = turn.ok_or_else(|| plain("the last walk through it is still on its way".to_owned()))?;
        let wanted = FsGroupChange { gid, read_only: false, only_on_mismatch: owned.on_root_mismatch };
        let (sender, mut answer) = oneshot::channel::<Result<FsGroupOutcome, FsGroupError>>();
        let (root, path, files) = (host.paths.root().to_owned(), owned.path, Arc::clone(&owned.files));
        let cancel = CancellationToken::new();
        // Cancels the walk when its caller is dropped.
        let _end = cancel.clone().drop_guard();
        let work = move || {
            let count = Arc::clone(&files);
            let mut progress = |seen| count.store(seen, Ordering::Relaxed);
            let pace = ProgressInterval { first: PACE, then: PACE };
            let done = give_to_group(&root, &path, wanted, pace, &cancel, &mut progress);
            drop(turn);
            let _ = sender.send(done);
        };
        let thread = std::thread::Builder::new().name("ownership".to_owned()).spawn(work);
        thread.map_err(|error| plain(error.to_string()))?;
        let done = loop {
            let before = owned.files.load(Ordering::Relaxed);
            match tokio::time::timeout(host.config.mount_timeout, &mut answer).await {
                Ok(Ok(done)) => {
                    break done.map_err(|error| PluginError::uncertain(error.to_string()).caused(error))?;
                }
                Ok(Err(_)) => return Err(plain("the walk through it ended by a fault".to_owned())),
                Err(_) if owned.files.load(Ordering::Relaxed) != before => {}
                Err(_) => {
                    let seconds = host.config.mount_timeout.as_secs();
                    let why = format!("setting the group of {shown}: no file was seen for {seconds} s");
                    return Err(PluginError::uncertain(why));
                }
            }
        };
        // As upstream: a file that could not be changed does not prevent the mount.
        if let Some(failure) = &done.first_failure {
            tracing::warn!(failed = done.failed, failure, "the group of {shown} could not be set everywhere");
        }
        Ok(())
    }
}

/// Changes nothing: for nodes whose mounts are only recorded.
#[derive(Debug, Default)]
pub struct NoFsGroup;

#[async_trait]
impl VolumeOwnership for NoFsGroup {
    async fn apply(&self, _: &Host, owned: OwnershipRequest) -> Result<(), PluginError> {
        let files: &AtomicU64 = &owned.files;
        files.store(0, Ordering::Relaxed);
        Ok(())
    }
}
