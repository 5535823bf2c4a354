//! Applies `fsGroup`: the files of a volume get the pod's supplemental group, which may read and write them
//! (upstream: pkg/volume/volume_linux.go). The walk follows no symbolic link and stays on the mount of the
//! volume; calls block for as long as the walk takes.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Stat, chmod, chownat, fstat};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;

use orlop_volume::rooted_fs::race_points::{self, RacePoint};
use orlop_volume::rooted_fs::{Resolver, RootedFsError, Stay, Tree};

mod acl;
pub mod applier;

#[cfg(test)]
mod tests;

/// The group and access to apply to the files of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FsGroupChange {
    /// The group (`fsGroup`).
    pub gid: u32,
    /// The group may only read: for files that the agent itself writes (configMap and similar).
    pub read_only: bool,
    /// Skips the walk when the root of the volume is already right (`fsGroupChangePolicy: OnRootMismatch`).
    pub only_on_mismatch: bool,
}

/// When a long walk reports its progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgressInterval {
    /// Delay of the first report.
    pub first: Duration,
    /// Interval of the following reports.
    pub then: Duration,
}

impl Default for ProgressInterval {
    /// Upstream's intervals: after 30 s, then every 60 s.
    fn default() -> Self {
        Self { first: Duration::from_secs(30), then: Duration::from_secs(60) }
    }
}

/// The result of a walk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FsGroupOutcome {
    /// Number of files, directories and links visited.
    pub seen: u64,
    /// Number of them changed.
    pub changed: u64,
    /// Number of mounts below the volume, which are skipped with their contents.
    pub mounts: u64,
    /// Number of files that could not be changed. As upstream, the volume is mounted nevertheless.
    pub failed: u64,
    /// The first failure.
    pub first_failure: Option<String>,
    /// The root was right already, so the walk was skipped.
    pub is_skipped: bool,
}

/// Why a walk did not finish. Its changes stay; the root of the volume is changed last, so the next walk does not
/// skip the volume.
#[derive(Debug, thiserror::Error)]
pub enum FsGroupError {
    /// A directory cannot be opened or read.
    #[error("setting the group of the volume: {0}")]
    RootedFs(#[from] RootedFsError),
    /// The walk was cancelled.
    #[error("setting the group of {}: broken off after {seen} files", path.display())]
    Cancelled {
        /// The volume.
        path: PathBuf,
        /// Number of files visited before.
        seen: u64,
    },
}

/// Message of the first event of a long walk; `dir` starts at the UID of the pod.
pub fn slow_message(dir: &str) -> String {
    format!(
        "Setting volume ownership for {dir} is taking longer than expected, consider using OnRootMismatch - \
         https://kubernetes.io/docs/tasks/configure-pod-container/security-context/\
         #configure-volume-permission-and-ownership-change-policy-for-pods"
    )
}

/// Message of the following events.
pub fn progress_message(dir: &str, files: u64) -> String {
    format!("Setting volume ownership for {dir}, processed {files} files.")
}

/// The mode bits that every file must have at least. Pure.
fn bits(wanted: FsGroupChange, is_dir: bool) -> u32 {
    let access = if wanted.read_only { 0o440 } else { 0o660 };
    if is_dir { access | 0o2110 } else { access }
}

/// Whether a file already has the group and the mode bits. Pure.
fn is_right(wanted: FsGroupChange, gid: u32, mode: u32, is_dir: bool) -> bool {
    let bits = bits(wanted, is_dir);
    gid == wanted.gid && mode & bits == bits
}

/// Changes the group of a volume at `path` below `root`. `progress` receives the number of visited files at the
/// interval.
///
/// # Errors
/// The walk did not finish.
pub fn give_to_group(
    root: &Path,
    path: &Path,
    wanted: FsGroupChange,
    pace: ProgressInterval,
    cancel: &CancellationToken,
    progress: &mut dyn FnMut(u64),
) -> Result<FsGroupOutcome, FsGroupError> {
    let walk = Resolver::best();
    let top = walk.open_path(root, path, OFlags::PATH)?;
    let wrong = |at: &Path, why: &str, errno: Errno| RootedFsError::Refused {
        path: path.join(at),
        why: format!("{why}: {errno}"),
        source: errno.into(),
    };
    let top_found = fstat(&top).map_err(|errno| wrong(Path::new(""), "it cannot be looked at", errno))?;
    let is_dir = kind(&top_found) == FileType::Directory;
    if wanted.only_on_mismatch && is_right(wanted, top_found.st_gid, top_found.st_mode, is_dir) {
        return Ok(FsGroupOutcome { is_skipped: true, ..FsGroupOutcome::default() });
    }
    let mut done = FsGroupOutcome::default();
    let mut next_word = Instant::now() + pace.first;
    if is_dir {
        race_points::at(RacePoint::Descend, path);
        let dir = walk.open(&top, Path::new(""), OFlags::RDONLY | OFlags::DIRECTORY, Stay::InMount);
        let dir = dir.map_err(|errno| wrong(Path::new(""), "the directory cannot be opened", errno))?;
        let mut tree =
            Tree::new(dir).map_err(|errno| wrong(Path::new(""), "the directory cannot be read", errno))?;
        while let Some(entry) = tree.next_entry() {
            let (name, _) =
                entry.map_err(|errno| wrong(&tree.place(), "the directory cannot be read", errno))?;
            if cancel.is_cancelled() {
                return Err(FsGroupError::Cancelled { path: path.to_owned(), seen: done.seen });
            }
            let there = tree.place().join(&name);
            let Some(place) = tree.dir() else { break };
            race_points::at(RacePoint::Seen, &path.join(&there));
            let opened = walk.open(place, Path::new(&name), OFlags::PATH, Stay::InMount);
            race_points::at(RacePoint::Opened, &path.join(&there));
            let found = match opened {
                Ok(fd) => fstat(&fd).and_then(|found| Ok((change(&fd, &found, wanted)?, kind(&found)))),
                // A symbolic link changes its own group; it has no mode.
                Err(Errno::LOOP) => {
                    let group = Some(Gid::from_raw(wanted.gid));
                    chownat(place, Path::new(&name), None, group, AtFlags::SYMLINK_NOFOLLOW)
                        .map(|()| (true, FileType::Symlink))
                }
                Err(errno) => Err(errno),
            };
            let may_be_dir = match found {
                Ok((is_changed, file_type)) => {
                    done.seen += 1;
                    done.changed += u64::from(is_changed);
                    file_type == FileType::Directory
                }
                Err(Errno::NOENT) => false,
                Err(Errno::XDEV) => {
                    done.mounts += 1;
                    false
                }
                Err(errno) => {
                    done.seen += 1;
                    done.fail(&path.join(&there), errno);
                    // Its contents are still visited.
                    true
                }
            };
            if may_be_dir {
                race_points::at(RacePoint::Descend, &path.join(&there));
                let opened =
                    walk.open(place, Path::new(&name), OFlags::RDONLY | OFlags::DIRECTORY, Stay::InMount);
                match opened.and_then(|dir| tree.descend(name, dir)) {
                    // The entry was removed or replaced during the walk: the file system is in use.
                    Ok(()) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => {}
                    Err(errno) => return Err(wrong(&there, "the directory cannot be opened", errno).into()),
                }
            }
            if Instant::now() >= next_word {
                progress(done.seen);
                next_word = Instant::now() + pace.then;
            }
        }
    }
    done.seen += 1;
    match change(&top, &top_found, wanted) {
        Ok(is_changed) => done.changed += u64::from(is_changed),
        Err(errno) => done.fail(path, errno),
    }
    Ok(done)
}

impl FsGroupOutcome {
    fn fail(&mut self, path: &Path, errno: Errno) {
        self.failed += 1;
        self.first_failure.get_or_insert_with(|| format!("{}: {errno}", path.display()));
    }
}

fn kind(found: &Stat) -> FileType {
    FileType::from_raw_mode(found.st_mode)
}

/// Changes the opened file, which is not a symbolic link. Returns whether it needed a change.
fn change(fd: &std::os::fd::OwnedFd, found: &Stat, wanted: FsGroupChange) -> Result<bool, Errno> {
    let is_dir = kind(found) == FileType::Directory;
    let is_given = found.st_gid != wanted.gid;
    if is_given {
        chownat(fd, "", None, Some(Gid::from_raw(wanted.gid)), AtFlags::EMPTY_PATH)?;
    }
    // A descriptor opened with O_PATH is accessible only through its /proc name.
    let name = crate::mount::name_of(fd);
    let now = found.st_mode & 0o7777;
    let then = now | bits(wanted, is_dir);
    // The kernel clears setuid and setgid when the owner or group of a program changes.
    let is_moded = now != then || (is_given && now & 0o6000 != 0);
    // Before the mode: with an ACL, the group bits of the mode are the mask.
    let is_listed = acl::raise(&name, (bits(wanted, is_dir) >> 3) & 7)?;
    if is_moded {
        chmod(&name, Mode::from_raw_mode(then))?;
    }
    Ok(is_given || is_moded || is_listed)
}
