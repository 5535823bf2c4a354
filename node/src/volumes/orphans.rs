//! Cleans up directories of unknown pods. A directory that is provably unmounted and contains only directories is
//! removed with `rmdir`. Any other is moved into quarantine, on the same file system, and reported; nothing is
//! ever deleted. A directory with a mount point in it is left unchanged.
//!
//! Directories are opened one below the other without following links or crossing into another file system.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::ObjectReference;
use orlop_client::names::reason;
use orlop_client::recorder::EventType::Warning;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, fstat, openat, unlinkat};

use super::quarantine;
use crate::host::Host;

/// Deeper trees are not searched; they count as content.
const DEEPEST: usize = 64;

/// The result for a directory of an unknown pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrphanOutcome {
    /// It was empty and is removed.
    Removed,
    /// It contains these mounts and is left unchanged.
    Mounted(Vec<PathBuf>),
    /// It was moved to this path.
    Quarantined(PathBuf),
    /// It is left unchanged for this reason.
    Kept(String),
}

/// A directory of an unknown pod, and the performed or planned action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// UID of the pod.
    pub uid: String,
    /// The directory.
    pub path: PathBuf,
    /// The result.
    pub fate: OrphanOutcome,
}

/// The extent of a cleanup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CleanupMode {
    /// Only report.
    Look,
    /// Remove empty directories.
    Tidy,
    /// Also move other directories into quarantine.
    Quarantine,
}

/// Cleans up the directory of an unknown pod. `None`: it does not exist.
pub(super) async fn treat(host: &Host, uid: &str, zeal: CleanupMode) -> Option<Finding> {
    let path = host.paths.pod(uid);
    let fate = fate(host, uid, &path, zeal).await?;
    Some(Finding { uid: uid.to_owned(), path, fate })
}

async fn fate(host: &Host, uid: &str, path: &Path, zeal: CleanupMode) -> Option<OrphanOutcome> {
    let mounted = match mounted_below(host, path) {
        Ok(mounted) => mounted,
        Err(why) => return Some(OrphanOutcome::Kept(why)),
    };
    if !mounted.is_empty() {
        return Some(OrphanOutcome::Mounted(mounted));
    }
    let looked_at = path.to_owned();
    let empty = blocking(move || holds_only_directories(&looked_at)).await;
    let fate = match empty {
        Ok(None) => return None,
        Ok(Some(true)) if zeal == CleanupMode::Look => OrphanOutcome::Removed,
        Ok(Some(true)) => {
            let removed = path.to_owned();
            match blocking(move || remove(&removed)).await {
                Ok(()) => OrphanOutcome::Removed,
                Err(error) => OrphanOutcome::Kept(error.to_string()),
            }
        }
        Ok(Some(false)) => put_away(host, uid, path, zeal).await,
        Err(error) => OrphanOutcome::Kept(error.to_string()),
    };
    Some(fate)
}

async fn put_away(host: &Host, uid: &str, path: &Path, zeal: CleanupMode) -> OrphanOutcome {
    let room = host.paths.quarantine();
    let name = quarantine::name(host.clock.now(), uid);
    match zeal {
        CleanupMode::Look => return OrphanOutcome::Quarantined(room.join(name)),
        CleanupMode::Tidy => return OrphanOutcome::Kept("it is not empty".to_owned()),
        CleanupMode::Quarantine => {}
    }
    let from = path.to_owned();
    match blocking(move || quarantine::move_in(&from, &room, &name)).await {
        Ok(to) => {
            host.mounts.renamed();
            if let Some(fate) = taken_back(host, path, &to).await {
                return fate;
            }
            tell(host, uid, path, &to);
            OrphanOutcome::Quarantined(to)
        }
        Err(error) => OrphanOutcome::Kept(format!("it cannot be moved into quarantine: {error}")),
    }
}

/// Moves a directory back if something was mounted in it between the check and the move, so that its mounts are
/// found.
async fn taken_back(host: &Host, path: &Path, moved: &Path) -> Option<OrphanOutcome> {
    let mounted = match mounted_below(host, moved) {
        Ok(mounted) if mounted.is_empty() => return None,
        Ok(mounted) => mounted,
        Err(why) => {
            let moved = moved.display();
            return Some(OrphanOutcome::Kept(format!(
                "it was moved to {moved}, and the mounts in it cannot be determined: {why}"
            )));
        }
    };
    let (from, to) = (moved.to_owned(), path.to_owned());
    let back = blocking(move || quarantine::move_out(&from, &to)).await;
    host.mounts.renamed();
    if let Err(error) = back {
        let moved = moved.display();
        return Some(OrphanOutcome::Kept(format!(
            "it was moved to {moved}, where something is mounted in it, and cannot be moved back: {error}"
        )));
    }
    let here = mounted.iter().filter_map(|target| Some(path.join(target.strip_prefix(moved).ok()?)));
    Some(OrphanOutcome::Mounted(here.collect()))
}

fn tell(host: &Host, uid: &str, from: &Path, to: &Path) {
    let (from, to) = (from.display(), to.display());
    tracing::warn!(uid, %from, %to, "the directory of an unknown pod is not empty; it was moved");
    let node = ObjectReference {
        kind: Some("Node".to_owned()),
        name: Some(host.config.name.clone()),
        // Upstream: the kubelet identifies itself like this.
        uid: Some(host.config.name.clone()),
        ..ObjectReference::default()
    };
    let message = format!(
        "{from} belongs to no pod and is not empty. It was moved to {to}; nothing was deleted. Look whether it is still needed, and remove it"
    );
    host.events.event_for(node, Warning, reason::ORPHANED_POD_VOLUME, message);
}

/// Removes a directory if it contains only directories and nothing is mounted in it.
pub(super) async fn remove_empty(host: &Host, path: PathBuf) {
    if !mounted_below(host, &path).is_ok_and(|mounted| mounted.is_empty()) {
        return;
    }
    let shown = path.display().to_string();
    let outcome = blocking(move || match holds_only_directories(&path)? {
        Some(true) => remove(&path),
        Some(false) | None => Ok(()),
    });
    if let Err(error) = outcome.await {
        tracing::debug!(path = shown, %error, "a directory cannot be removed");
    }
}

/// Mount points at a path or below it.
fn mounted_below(host: &Host, path: &Path) -> Result<Vec<PathBuf>, String> {
    let points = host.mounts.points().map_err(|error| error.to_string())?;
    Ok(points.into_iter().map(|point| point.target).filter(|target| target.starts_with(path)).collect())
}

async fn blocking<T: Send + 'static>(call: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    match tokio::task::spawn_blocking(call).await {
        Ok(outcome) => outcome,
        Err(error) => Err(io::Error::other(error)),
    }
}

fn open(at: impl std::os::fd::AsFd, name: impl rustix::path::Arg) -> rustix::io::Result<OwnedFd> {
    openat(at, name, OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

/// `None`: it does not exist.
fn holds_only_directories(path: &Path) -> io::Result<Option<bool>> {
    let dir = match open(CWD, path) {
        Ok(dir) => dir,
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        // A link, or not a directory.
        Err(rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR) => return Ok(Some(false)),
        Err(error) => return Err(error.into()),
    };
    let device = fstat(&dir)?.st_dev;
    Ok(Some(only_directories(&dir, device, 0)?))
}

fn only_directories(dir: &OwnedFd, device: u64, depth: usize) -> io::Result<bool> {
    if depth > DEEPEST || fstat(dir)?.st_dev != device {
        return Ok(false);
    }
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        if matches!(entry.file_name().to_bytes(), b"." | b"..") {
            continue;
        }
        if entry.file_type() != FileType::Directory {
            return Ok(false);
        }
        if !only_directories(&open(dir, entry.file_name())?, device, depth + 1)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Removes empty directories, the innermost first. Stops at the first one that is not empty or is a mount point.
fn remove(path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::other("it has no parent"));
    };
    let parent = open(CWD, parent)?;
    remove_below(&open(&parent, name)?)?;
    unlinkat(&parent, name, AtFlags::REMOVEDIR)?;
    Ok(())
}

fn remove_below(dir: &OwnedFd) -> io::Result<()> {
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        remove_below(&open(dir, name)?)?;
        unlinkat(dir, name, AtFlags::REMOVEDIR)?;
    }
    Ok(())
}
