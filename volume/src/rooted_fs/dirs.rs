//! Operations on directories: create, remove when empty, list.

use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fchmod, fstat, mkdirat, statat, unlinkat};
use rustix::io::Errno;

use super::open::{Resolver, Stay, explained};
use super::{DirEntry, FileKind, RootedFsError, next_entry};
use crate::crash_points;

/// Mode of parent directories that are created implicitly (upstream: pkg/volume, every directory of a volume).
const PARENTS: u32 = 0o750;

impl Resolver {
    pub(super) fn make_dir(self, root: &Path, path: &Path, mode: u32) -> Result<(), RootedFsError> {
        let (dir, relative) = self.start(root, path)?;
        let wrong = |errno| explained(&dir, &relative, path, "the directory cannot be made", errno);
        match self.open(&dir, &relative, OFlags::PATH | OFlags::DIRECTORY, Stay::Anywhere) {
            Ok(_) => return Ok(()),
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(wrong(errno)),
        }
        let mut current = rustix::io::fcntl_dupfd_cloexec(&dir, 0).map_err(wrong)?;
        let mut names = relative.iter().peekable();
        while let Some(name) = names.next() {
            let mode = Mode::from_raw_mode(if names.peek().is_none() { mode } else { PARENTS });
            let name = Path::new(name);
            crash_points::reached("make directory", path);
            let is_new = match mkdirat(&current, name, mode) {
                Ok(()) => true,
                Err(Errno::EXIST) => false,
                Err(errno) => return Err(wrong(errno)),
            };
            let kind = if is_new { OFlags::RDONLY } else { OFlags::PATH };
            let next = self.open(&current, name, kind | OFlags::DIRECTORY, Stay::Anywhere).map_err(wrong)?;
            if is_new {
                let found = Mode::from_raw_mode(fstat(&next).map_err(wrong)?.st_mode);
                // The setgid bit, which it inherits from its parent, stays.
                let wanted = mode | (found & (Mode::SUID | Mode::SGID | Mode::SVTX));
                if found != wanted {
                    fchmod(&next, wanted).map_err(wrong)?;
                }
            }
            current = next;
        }
        Ok(())
    }

    pub(super) fn remove_dir(self, root: &Path, path: &Path) -> Result<(), RootedFsError> {
        let (parent, name) = match self.parent(root, path) {
            Err(error) if error.is_missing() => return Ok(()),
            other => other?,
        };
        let name = Path::new(&name);
        crash_points::reached("remove directory", path);
        match unlinkat(&parent, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno @ (Errno::NOTEMPTY | Errno::EXIST)) => {
                Err(refused(path, "the directory is not empty; it was left as it is", errno))
            }
            Err(errno @ Errno::BUSY) => Err(refused(path, "something is mounted on it", errno)),
            Err(errno) => Err(explained(&parent, name, path, "the directory cannot be removed", errno)),
        }
    }

    pub(super) fn list(self, root: &Path, path: &Path) -> Result<Vec<DirEntry>, RootedFsError> {
        let dir = self.open_path(root, path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let wrong = |errno: Errno| refused(path, "the directory cannot be read", errno);
        let mut dir = Dir::new(dir).map_err(wrong)?;
        let mut entries = Vec::new();
        while let Some(entry) = next_entry(&mut dir) {
            let (name, mut file_type) = entry.map_err(wrong)?;
            if file_type == FileType::Unknown {
                match statat(dir.fd().map_err(wrong)?, Path::new(&name), AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(found) => file_type = FileType::from_raw_mode(found.st_mode),
                    Err(Errno::NOENT) => continue,
                    Err(errno) => return Err(wrong(errno)),
                }
            }
            entries.push(DirEntry { name, kind: FileKind::of(file_type) });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    pub(super) fn kind(self, root: &Path, path: &Path) -> Result<Option<FileKind>, RootedFsError> {
        let (parent, name) = match self.parent(root, path) {
            Err(error) if error.is_missing() => return Ok(None),
            other => other?,
        };
        match statat(&parent, Path::new(&name), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(Some(FileKind::of(FileType::from_raw_mode(found.st_mode)))),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(refused(path, "it cannot be looked at", errno)),
        }
    }
}

/// An error with a description and the system error.
pub(super) fn refused(path: &Path, why: &str, errno: Errno) -> RootedFsError {
    RootedFsError::Refused { path: path.to_owned(), why: format!("{why}: {errno}"), source: errno.into() }
}
