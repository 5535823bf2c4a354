//! Where mounts are made ready: a directory of the agent's own, which nobody else gets to see.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use super::MountError;
use super::errno::{failed, other};
use super::fd_path::below;
use crate::rooted_fs::{self, Resolver, Stay, mount_id};

/// Its name below the agent's directory.
const DIR: &str = "mounting";
/// Mounts on one another; more than one was made by a helper that lost its way.
const MOST_LAYERS: usize = 16;

/// A place for one mount. What is mounted there goes with it.
#[derive(Debug)]
pub(super) struct StagingDir {
    dir: OwnedFd,
    name: String,
    path: PathBuf,
    home: u64,
}

impl StagingDir {
    /// A new place: a directory or an empty file.
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

    /// Its name, for programs.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The mount that it is in itself.
    pub(super) fn home(&self) -> u64 {
        self.home
    }

    /// What is seen there now.
    pub(super) fn open(&self) -> Result<OwnedFd, MountError> {
        Resolver::best().open(&self.dir, Path::new(&self.name), OFlags::PATH, Stay::Anywhere).map_err(
            |errno| failed(&format!("opening {}", self.path.display()), "it cannot be opened", errno),
        )
    }

    /// Takes away all places, with what is mounted there.
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
            // One that stays is no reason to leave the others.
            outcome = outcome.and(cleared);
        }
        outcome
    }
}

impl Drop for StagingDir {
    fn drop(&mut self) {
        if let Err(errno) = taken_away(&self.dir, OsStr::new(&self.name)) {
            tracing::warn!(path = %self.path.display(), %errno, "where a mount was made ready is not taken away");
        }
    }
}

fn taken_away(dir: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
    let place = below(dir, name);
    let name = Path::new(name);
    for _ in 0..MOST_LAYERS {
        // At once also when something still looks at it: nobody is meant to.
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
            // A helper that outlived its agent has just mounted it.
            Err(Errno::BUSY) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::BUSY)
}
