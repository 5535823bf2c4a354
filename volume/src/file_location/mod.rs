//! Which file or directory a path refers to. A bind mount adds a second path that no link shows, so paths alone do not reveal
//! that two of them lead to the same files.

use std::collections::HashSet;
use std::iter;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxFlags, makedev, statat, statx};
use rustix::io::Errno;

mod mount_table;
#[cfg(test)]
mod tests;

pub use mount_table::{MountTable, unescaped};

/// The identity of a file or directory; all of its paths share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId {
    /// The device number (`st_dev`).
    pub device: u64,
    /// The inode number.
    pub inode: u64,
}

/// A set of files, for example those that a deletion must not touch.
pub type FileIds = HashSet<FileId>;

/// A file that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FoundFile {
    pub(crate) id: FileId,
    /// The ID of the mount that the path leads through. `None` before Linux 5.8 and in sandboxes.
    mount: Option<u64>,
}

impl FoundFile {
    /// The file at a path relative to `dir`, or `dir` itself if the path is empty. A link is not followed.
    pub(crate) fn at(dir: impl AsFd, path: &Path) -> rustix::io::Result<Self> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::EMPTY_PATH;
        match statx(&dir, path, flags, StatxFlags::INO | StatxFlags::MNT_ID) {
            Ok(found) => {
                let device = makedev(found.stx_dev_major, found.stx_dev_minor);
                let has_mount = found.stx_mask & StatxFlags::MNT_ID.bits() != 0;
                let id = FileId { device, inode: found.stx_ino };
                Ok(Self { id, mount: has_mount.then_some(found.stx_mnt_id) })
            }
            // Container sandboxes return EPERM for unknown system calls.
            Err(Errno::NOSYS | Errno::PERM) => {
                let found = statat(&dir, path, flags)?;
                Ok(Self { id: FileId { device: found.st_dev, inode: found.st_ino }, mount: None })
            }
            Err(errno) => Err(errno),
        }
    }
}

/// The location of a file or directory that may not exist yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileLocation {
    /// `None` if it does not exist.
    id: Option<FileId>,
    /// The directories above it that exist.
    above: Vec<FileId>,
    /// The device of its file system, and its path in that file system. This also shows nesting that no directory above shows:
    /// a bind mount of a subdirectory has other parents.
    inside: Option<((u32, u32), PathBuf)>,
}

impl FileLocation {
    /// The location of a path without symbolic links. Reads the file system.
    pub fn of(path: &Path, mounts: &MountTable) -> Self {
        let existing = |place| Some((place, FoundFile::at(CWD, place).ok()?));
        let mut found = path.ancestors().filter_map(existing);
        let Some((nearest, first)) = found.next() else { return Self::default() };
        let rest = path.strip_prefix(nearest).unwrap_or(Path::new(""));
        let inside = first.mount.and_then(|mount| mounts.inside(mount, nearest));
        let inside = inside.map(|(device, dir)| (device, dir.join(rest)));
        let above = found.map(|(_, dir)| dir.id);
        match nearest == path {
            true => Self { id: Some(first.id), above: above.collect(), inside },
            false => Self { id: None, above: iter::once(first.id).chain(above).collect(), inside },
        }
    }

    /// The identity of the file, if it exists.
    pub fn id(&self) -> Option<FileId> {
        self.id
    }

    /// Whether they are the same file or directory, or one is inside the other.
    pub fn overlaps(&self, other: &Self) -> bool {
        let contains = |outer: &Self, inner: &Self| {
            outer.id.is_some_and(|id| inner.id == Some(id) || inner.above.contains(&id))
        };
        let nests = match (&self.inside, &other.inside) {
            (Some((device, a)), Some((other_device, b))) => {
                device == other_device && (a.starts_with(b) || b.starts_with(a))
            }
            (Some(_) | None, _) => false,
        };
        nests || contains(self, other) || contains(other, self)
    }
}
