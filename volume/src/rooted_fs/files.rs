//! Operations on files and links: atomic writes, and reads up to a limit.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, fchmod, fstat, fsync, openat, readlinkat, renameat, symlinkat,
    unlinkat,
};
use rustix::io::Errno;

use super::dirs::refused;
use super::open::{Resolver, is_passing, passing_name};
use super::{RootedFsError, next_entry};
use crate::crash_points;

/// The crash that a written file survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// A crash of the machine.
    Disk,
    /// A crash of this process.
    Process,
}

impl Resolver {
    /// Writes a file atomically. Its directory must exist. An existing file is replaced.
    ///
    /// # Errors
    /// A directory has the name, or a system call fails. The old file is unchanged.
    pub fn write_file(
        self,
        root: &Path,
        path: &Path,
        bytes: &[u8],
        mode: u32,
        sync: Durability,
    ) -> Result<(), RootedFsError> {
        let (parent, name) = self.parent(root, path)?;
        let passing = PathBuf::from(passing_name(&name));
        crash_points::reached("write file", path);
        let write = || -> io::Result<()> {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mut file = File::from(openat(&parent, &passing, flags, Mode::from_raw_mode(0o600))?);
            fchmod(&file, Mode::from_raw_mode(mode))?;
            file.write_all(bytes)?;
            crash_points::reached("put written file", path);
            if sync == Durability::Disk {
                file.sync_all()?;
            }
            renameat(&parent, &passing, &parent, Path::new(&name))?;
            if sync == Durability::Disk {
                sync_dir(&parent)?;
            }
            Ok(())
        };
        write().map_err(|source| {
            // The temporary file is removed; the first error is returned.
            let _ = unlinkat(&parent, &passing, AtFlags::empty());
            RootedFsError::Refused {
                path: path.to_owned(),
                why: format!("the file cannot be written: {source}"),
                source,
            }
        })
    }

    pub(super) fn read_file(self, root: &Path, path: &Path, limit: u64) -> Result<Vec<u8>, RootedFsError> {
        // Opening a pipe without a writer must not block.
        let file = self.open_path(root, path, OFlags::RDONLY | OFlags::NONBLOCK)?;
        let wrong = |source: io::Error| RootedFsError::Refused {
            path: path.to_owned(),
            why: format!("the file cannot be read: {source}"),
            source,
        };
        let found = fstat(&file).map_err(|errno| wrong(errno.into()))?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(wrong(io::Error::other("it is not a regular file")));
        }
        let mut bytes = Vec::new();
        File::from(file).take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(wrong)?;
        if bytes.len() as u64 > limit {
            return Err(wrong(io::Error::other(format!("it has more than {limit} bytes"))));
        }
        Ok(bytes)
    }

    pub(super) fn remove_file(self, root: &Path, path: &Path) -> Result<(), RootedFsError> {
        let (parent, name) = match self.parent(root, path) {
            Err(error) if error.is_missing() => return Ok(()),
            other => other?,
        };
        crash_points::reached("remove file", path);
        match unlinkat(&parent, Path::new(&name), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => clear_passing(&parent, &name)
                .map_err(|errno| refused(path, "the temporary file of a write cannot be removed", errno)),
            Err(errno @ Errno::ISDIR) => Err(refused(path, "it is a directory, not a file", errno)),
            Err(errno @ Errno::BUSY) => Err(refused(path, "something is mounted on it", errno)),
            Err(errno) => Err(refused(path, "it cannot be removed", errno)),
        }
    }

    pub(super) fn link(self, root: &Path, path: &Path, to: &Path) -> Result<(), RootedFsError> {
        let (parent, name) = self.parent(root, path)?;
        let passing = PathBuf::from(passing_name(&name));
        let link = || -> io::Result<()> {
            crash_points::reached("make link", path);
            symlinkat(to, &parent, &passing)?;
            crash_points::reached("put made link", path);
            renameat(&parent, &passing, &parent, Path::new(&name))?;
            sync_dir(&parent)
        };
        link().map_err(|source| {
            let _ = unlinkat(&parent, &passing, AtFlags::empty());
            RootedFsError::Refused {
                path: path.to_owned(),
                why: format!("the link cannot be made: {source}"),
                source,
            }
        })
    }

    pub(super) fn read_link(self, root: &Path, path: &Path) -> Result<PathBuf, RootedFsError> {
        let (parent, name) = self.parent(root, path)?;
        match readlinkat(&parent, Path::new(&name), Vec::new()) {
            Ok(says) => Ok(PathBuf::from(std::ffi::OsString::from_vec(says.into_bytes()))),
            Err(Errno::NOENT) => Err(RootedFsError::Missing { path: path.to_owned() }),
            Err(errno @ Errno::INVAL) => Err(refused(path, "it is not a link", errno)),
            Err(errno) => Err(refused(path, "the link cannot be read", errno)),
        }
    }
}

/// Removes the temporary file that a crash during a write left behind; otherwise its directory could not be
/// removed.
fn clear_passing(parent: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut dir = match openat(parent, ".", flags, Mode::empty()) {
        Ok(dir) => Dir::new(dir)?,
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(errno),
    };
    while let Some(entry) = next_entry(&mut dir) {
        let (found, _) = entry?;
        if is_passing(&found, name) {
            match unlinkat(parent, Path::new(&found), AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
    Ok(())
}

/// Flushes the renames in a directory to disk. The directory was opened with `O_PATH`, so it is reopened first.
fn sync_dir(dir: &OwnedFd) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    fsync(openat(dir, ".", flags, Mode::empty())?)?;
    Ok(())
}
