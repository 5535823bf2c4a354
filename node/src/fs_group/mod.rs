//! `fsGroup`: a volume belongs to a group of the pod, and the group may read and write it (upstream: pkg/volume/volume_linux.go). The walk follows
//! no link and stays in the mount of the volume; calls block as long as the volume has files.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, Stat, chmod, chownat, fstat};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;

use crate::rooted_fs::race_points::{self, RacePoint};
use crate::rooted_fs::{Resolver, RootedFsError, Stay, next_entry};

mod acl;
pub mod applier;

#[cfg(test)]
mod tests;

/// What the files of a volume are to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FsGroupChange {
    /// The group (`fsGroup`).
    pub gid: u32,
    /// The group may only read: what the agent has written itself (configMap and its like).
    pub read_only: bool,
    /// Nothing is done when the top of the volume is right already (`fsGroupChangePolicy: OnRootMismatch`).
    pub only_on_mismatch: bool,
}

/// When a long walk tells how far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgressInterval {
    /// First after so long.
    pub first: Duration,
    /// Then so often.
    pub then: Duration,
}

impl Default for ProgressInterval {
    /// Upstream's: after 30 s, then every 60 s.
    fn default() -> Self {
        Self { first: Duration::from_secs(30), then: Duration::from_secs(60) }
    }
}

/// What a walk has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FsGroupOutcome {
    /// Files, directories and links that were seen.
    pub seen: u64,
    /// Those that were changed.
    pub changed: u64,
    /// Mounts below the volume, and what is behind them: left alone.
    pub mounts: u64,
    /// Those that could not be changed. Upstream goes on and mounts the volume all the same.
    pub failed: u64,
    /// Why not, of the first of them.
    pub first_failure: Option<String>,
    /// The top was right already, and nothing else was looked at.
    pub is_skipped: bool,
}

/// A walk did not get to its end. What it has done stays; the top of the volume is changed last, so that the next one knows.
#[derive(Debug, thiserror::Error)]
pub enum FsGroupError {
    /// A directory cannot be opened or read.
    #[error("setting the group of the volume: {0}")]
    RootedFs(#[from] RootedFsError),
    /// It was told to stop.
    #[error("setting the group of {}: broken off after {seen} files", path.display())]
    Cancelled {
        /// The volume.
        path: PathBuf,
        /// So far it got.
        seen: u64,
    },
}

/// Text of the first event of a walk that takes long; `dir` from the UID of the pod on.
pub fn slow_message(dir: &str) -> String {
    format!(
        "Setting volume ownership for {dir} is taking longer than expected, consider using OnRootMismatch - \
         https://kubernetes.io/docs/tasks/configure-pod-container/security-context/\
         #configure-volume-permission-and-ownership-change-policy-for-pods"
    )
}

/// Text of the events after it.
pub fn progress_message(dir: &str, files: u64) -> String {
    format!("Setting volume ownership for {dir}, processed {files} files.")
}

/// Mode bits that everything has to have at least. Pure.
fn bits(wanted: FsGroupChange, is_dir: bool) -> u32 {
    let access = if wanted.read_only { 0o440 } else { 0o660 };
    if is_dir { access | 0o2110 } else { access }
}

/// Whether something is as it has to be. Pure.
fn is_right(wanted: FsGroupChange, gid: u32, mode: u32, is_dir: bool) -> bool {
    let bits = bits(wanted, is_dir);
    gid == wanted.gid && mode & bits == bits
}

/// Gives a volume, at `path` below `root`, to a group. `progress` is told the number of files seen, at the pace.
///
/// # Errors
/// It did not get to the end.
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
    // Directories that are still to be read, by their names from the top: opened one at a time, however deep they are. The kernel sees to it
    // that nothing leads out.
    let mut left = if is_dir { vec![PathBuf::new()] } else { Vec::new() };
    while let Some(at) = left.pop() {
        race_points::at(RacePoint::Descend, &path.join(&at));
        let dir = match walk.open(&top, &at, OFlags::RDONLY | OFlags::DIRECTORY, Stay::InMount) {
            Ok(dir) => dir,
            // It was taken away, or swapped for something else: whoever did that has the file system in use.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) if at != Path::new("") => continue,
            Err(errno) => return Err(wrong(&at, "the directory cannot be opened", errno).into()),
        };
        let mut dir = Dir::new(dir).map_err(|errno| wrong(&at, "the directory cannot be read", errno))?;
        while let Some(entry) = next_entry(&mut dir) {
            let (name, _) = entry.map_err(|errno| wrong(&at, "the directory cannot be read", errno))?;
            if cancel.is_cancelled() {
                return Err(FsGroupError::Cancelled { path: path.to_owned(), seen: done.seen });
            }
            let there = at.join(&name);
            let place = dir.fd().map_err(|errno| wrong(&at, "the directory cannot be read", errno))?;
            race_points::at(RacePoint::Seen, &path.join(&there));
            let opened = walk.open(place, Path::new(&name), OFlags::PATH, Stay::InMount);
            race_points::at(RacePoint::Opened, &path.join(&there));
            let found = match opened {
                Ok(fd) => fstat(&fd).and_then(|found| Ok((change(&fd, &found, wanted)?, kind(&found)))),
                // A link gets the group itself; it has no mode of its own.
                Err(Errno::LOOP) => {
                    let group = Some(Gid::from_raw(wanted.gid));
                    chownat(place, Path::new(&name), None, group, AtFlags::SYMLINK_NOFOLLOW)
                        .map(|()| (true, FileType::Symlink))
                }
                Err(errno) => Err(errno),
            };
            match found {
                Ok((is_changed, file_type)) => {
                    done.seen += 1;
                    done.changed += u64::from(is_changed);
                    if file_type == FileType::Directory {
                        left.push(there);
                    }
                }
                Err(Errno::NOENT) => {}
                Err(Errno::XDEV) => done.mounts += 1,
                Err(errno) => {
                    done.seen += 1;
                    done.fail(&path.join(&there), errno);
                    // What is in it is not lost for that.
                    left.push(there);
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

/// Changes what was opened, which is no link. Says whether there was anything to change.
fn change(fd: &std::os::fd::OwnedFd, found: &Stat, wanted: FsGroupChange) -> Result<bool, Errno> {
    let is_dir = kind(found) == FileType::Directory;
    let is_given = found.st_gid != wanted.gid;
    if is_given {
        chownat(fd, "", None, Some(Gid::from_raw(wanted.gid)), AtFlags::EMPTY_PATH)?;
    }
    // What was opened as a place has no other way in.
    let name = crate::mount::name_of(fd);
    let now = found.st_mode & 0o7777;
    let then = now | bits(wanted, is_dir);
    // The kernel takes setuid and setgid from programs that are given away.
    let is_moded = now != then || (is_given && now & 0o6000 != 0);
    // Before the mode: with an ACL, the bits of the group are those of its mask.
    let is_listed = acl::raise(&name, (bits(wanted, is_dir) >> 3) & 7)?;
    if is_moded {
        chmod(&name, Mode::from_raw_mode(then))?;
    }
    Ok(is_given || is_moded || is_listed)
}
