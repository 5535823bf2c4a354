//! The staging directory: a private directory of the agent in which mounts are prepared.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use super::MountError;
use super::errno::{failed, other};
use super::fd_path::below;
use orlop_volume::rooted_fs::{self, Resolver, Stay, mount_id};

/// Its name below the agent's directory.
const DIR: &str = "mounting";
/// The maximum number of stacked mounts; all but one are those of a faulty helper.
const MOST_LAYERS: usize = 16;

/// A staging path for one mount. Dropping it unmounts the mounts there.
#[derive(Debug)]
pub(super) struct StagingDir {
    dir: OwnedFd,
    name: String,
    path: PathBuf,
    home: u64,
}

impl StagingDir {
    /// Creates a staging path: a directory or an empty file.
    pub(super) fn new(root: &Path, is_dir: bool) -> Result<Self, MountError> {
        let path = root.join(DIR);
        rooted_fs::make_dir_below(root, &path, 0o700)?;
        let dir = rooted_fs::open_dir_below(root, &path)?;
        let what = format!("making a place below {}", path.display());
        let home = mount_id(&dir).map_err(|error| other(&what, error))?;
        let name = format!("{:016x}", rand::random::<u64>());
        let made = if is_dir {
            mkdirat(&dir, Path::new(&name), Mode::from_raw_mode(0o700))
        } else {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            openat(&dir, Path::new(&name), flags, Mode::from_raw_mode(0o600)).map(drop)
        };
        made.map_err(|errno| failed(&what, "it cannot be made", errno))?;
        Ok(Self { path: path.join(&name), dir, name, home })
    }

    /// Its path, for programs.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The id of the mount that contains it.
    pub(super) fn home(&self) -> u64 {
        self.home
    }

    /// Opens the topmost mount at the path.
    pub(super) fn open(&self) -> Result<OwnedFd, MountError> {
        Resolver::best().open(&self.dir, Path::new(&self.name), OFlags::PATH, Stay::Anywhere).map_err(
            |errno| failed(&format!("opening {}", self.path.display()), "it cannot be opened", errno),
        )
    }

    /// Removes all staging paths with their mounts.
    pub(super) fn clear(root: &Path) -> Result<(), MountError> {
        let path = root.join(DIR);
        let entries = match rooted_fs::list_below(root, &path) {
            Err(error) if error.is_missing() => return Ok(()),
            other => other?,
        };
        let dir = rooted_fs::open_dir_below(root, &path)?;
        let mut outcome = Ok(());
        for entry in entries {
            let place = path.join(&entry.name);
            let cleared = taken_away(&dir, &entry.name)
                .map_err(|errno| failed(&format!("clearing {}", place.display()), "it stays", errno));
            // An error does not stop the removal of the others.
            outcome = outcome.and(cleared);
        }
        outcome
    }
}

impl Drop for StagingDir {
    fn drop(&mut self) {
        if let Err(errno) = taken_away(&self.dir, OsStr::new(&self.name)) {
            tracing::warn!(path = %self.path.display(), %errno, "cannot remove the staging directory of a mount");
        }
    }
}

fn taken_away(dir: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
    let place = below(dir, name);
    let name = Path::new(name);
    for _ in 0..MOST_LAYERS {
        // Lazily, even when it is in use: the directory is private.
        match unmount(&place, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
            Ok(()) => continue,
            Err(Errno::INVAL | Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
        let removed = match unlinkat(dir, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTDIR) => unlinkat(dir, name, AtFlags::empty()),
            other => other,
        };
        match removed {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            // A helper that outlived its agent has mounted there in the meantime.
            Err(Errno::BUSY) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::BUSY)
}
