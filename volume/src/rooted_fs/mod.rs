//! File system operations below one trusted root directory that never follow a link and never leave the root.
//! Other processes may rename and link anything below the root at any time, so no path is first checked and then
//! used: each component is opened, and only the open file is used. Calls block.
//!
//! A path may be absolute, with the root as its prefix, or relative to the root. Mounts below the root are
//! crossed (a volume is one), except where documented.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, FileType, OFlags};

use crate::file_location::FileIds;

mod dirs;
mod files;
mod open;
mod protected;
pub mod race_points;
mod remove;
mod tree;

#[cfg(test)]
mod tests;

pub use files::Durability;
pub use open::{Resolver, Stay, mount_id, open_resolved};
pub use protected::ensure_dir_outside;
pub use tree::Tree;

/// An operation below the root failed.
#[derive(Debug, thiserror::Error)]
pub enum RootedFsError {
    /// The path does not exist.
    #[error("{} does not exist", path.display())]
    Missing {
        /// The requested path.
        path: PathBuf,
    },
    /// The path leads through a link, or out of the directory.
    #[error("{}: {why}", path.display())]
    Unsafe {
        /// The requested path.
        path: PathBuf,
        /// The problem with it.
        why: String,
    },
    /// The name is in use, or a system call failed.
    #[error("{}: {why}", path.display())]
    Refused {
        /// The requested path.
        path: PathBuf,
        /// The failure, and the fix.
        why: String,
        /// The system error.
        #[source]
        source: io::Error,
    },
}

impl RootedFsError {
    /// Whether the path does not exist.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Missing { .. })
    }
}

/// The type of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A directory.
    Dir,
    /// A regular file.
    File,
    /// A symbolic link.
    Link,
    /// A device, socket or pipe.
    Other,
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// Its name.
    pub name: OsString,
    /// Its type. A mount on the entry is ignored.
    pub kind: FileKind,
}

impl FileKind {
    fn of(file_type: FileType) -> Self {
        match file_type {
            FileType::Directory => Self::Dir,
            FileType::RegularFile => Self::File,
            FileType::Symlink => Self::Link,
            FileType::BlockDevice
            | FileType::CharacterDevice
            | FileType::Fifo
            | FileType::Socket
            | FileType::Unknown => Self::Other,
        }
    }
}

/// Creates a directory with this mode, regardless of the umask, and its missing parents with 0750. An existing
/// directory is left unchanged.
///
/// # Errors
/// A file or a link has the name, or a system call fails.
pub fn make_dir_below(root: &Path, path: &Path, mode: u32) -> Result<(), RootedFsError> {
    Resolver::best().make_dir(root, path, mode)
}

/// Removes an empty directory. A missing one is not an error.
///
/// # Errors
/// The directory is not empty, something is mounted on it, it is not a directory, or a system call fails.
pub fn remove_dir_below(root: &Path, path: &Path) -> Result<(), RootedFsError> {
    Resolver::best().remove_dir(root, path)
}

/// Deletes a file, or a directory with everything below it. Links are deleted and never followed. The deletion
/// stays in one mount: a mount on the path or below it is an error, and nothing in it is touched. A missing path
/// is not an error. The depth is unlimited.
///
/// # Errors
/// Not everything is deleted: there is a mount, a system call fails, or other processes add entries as fast as
/// they are deleted.
pub fn remove_content_below(root: &Path, path: &Path) -> Result<(), RootedFsError> {
    Resolver::best().remove_content(root, path)
}

/// As [`remove_content_below`], and the deletion stops at a protected directory: it does not read the directory, and removes
/// neither the directory nor anything in it. A protected file is compared only if it is the path itself: in a directory, only
/// a name of it is removed.
///
/// # Errors
/// Not everything is deleted. Entries beside a protected directory may be deleted.
pub fn remove_unprotected_below(root: &Path, path: &Path, protected: &FileIds) -> Result<(), RootedFsError> {
    Resolver::best().remove_unprotected(root, path, protected)
}

/// Verifies that the path is not in a protected directory, through whatever mount. A missing path is not an error.
///
/// # Errors
/// The path is in such a directory, or leads through a link.
pub fn ensure_outside(root: &Path, path: &Path, protected: &FileIds) -> Result<(), RootedFsError> {
    Resolver::best().ensure_outside(root, path, protected)
}

/// Opens a directory for reading.
///
/// # Errors
/// The path does not exist, is not a directory, or leads through a link.
pub fn open_dir_below(root: &Path, path: &Path) -> Result<OwnedFd, RootedFsError> {
    Resolver::best().open_path(root, path, OFlags::RDONLY | OFlags::DIRECTORY)
}

/// Opens a directory, file or device with `O_PATH`, without read or write access, for example to mount it.
///
/// # Errors
/// The path does not exist or leads through a link.
pub fn open_path_below(root: &Path, path: &Path) -> Result<OwnedFd, RootedFsError> {
    Resolver::best().open_path(root, path, OFlags::PATH)
}

/// Writes a file atomically, even across a crash. Its directory must exist. An existing file is replaced.
///
/// # Errors
/// A directory has the name, or a system call fails. The old file is unchanged.
pub fn write_file_below(root: &Path, path: &Path, bytes: &[u8], mode: u32) -> Result<(), RootedFsError> {
    Resolver::best().write_file(root, path, bytes, mode, Durability::Disk)
}

/// Reads a regular file.
///
/// # Errors
/// The path does not exist, is not a regular file, or has more than `limit` bytes.
pub fn read_file_below(root: &Path, path: &Path, limit: u64) -> Result<Vec<u8>, RootedFsError> {
    Resolver::best().read_file(root, path, limit)
}

/// Removes a file or a link, and the temporary file that a crash during a write left behind. A missing file is
/// not an error.
///
/// # Errors
/// The path is a directory, something is mounted on it, or a system call fails.
pub fn remove_file_below(root: &Path, path: &Path) -> Result<(), RootedFsError> {
    Resolver::best().remove_file(root, path)
}

/// Creates a symbolic link to `to`, or atomically replaces what has the name.
///
/// # Errors
/// A directory has the name, or a system call fails.
pub fn link_below(root: &Path, path: &Path, to: &Path) -> Result<(), RootedFsError> {
    Resolver::best().link(root, path, to)
}

/// The target of a link, which is not followed.
///
/// # Errors
/// The path does not exist or is not a link.
pub fn read_link_below(root: &Path, path: &Path) -> Result<PathBuf, RootedFsError> {
    Resolver::best().read_link(root, path)
}

/// The entries of a directory, sorted by name.
///
/// # Errors
/// The path does not exist or is not a directory.
pub fn list_below(root: &Path, path: &Path) -> Result<Vec<DirEntry>, RootedFsError> {
    Resolver::best().list(root, path)
}

/// The type of the entry at a path; `None` when nothing exists there. For a mount point, the type of what is
/// mounted.
///
/// # Errors
/// The path leads through a link, or a system call fails.
pub fn kind_below(root: &Path, path: &Path) -> Result<Option<FileKind>, RootedFsError> {
    Resolver::best().kind(root, path)
}

/// The next entry of a directory, in the order of the kernel, without `.` and `..`.
pub fn next_entry(dir: &mut Dir) -> Option<rustix::io::Result<(OsString, FileType)>> {
    loop {
        let entry = match dir.read()? {
            Ok(entry) => entry,
            Err(error) => return Some(Err(error)),
        };
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            return Some(Ok((OsString::from_vec(name.to_vec()), entry.file_type())));
        }
    }
}
