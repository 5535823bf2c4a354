//! The file system below one directory that is trusted, never through a link and never out of it. Others may rename and link
//! what is below it at any time, so nothing is looked at by name and then used by name: each step is opened, and what was opened is
//! used. Calls block.
//!
//! A path may be absolute, with the directory in front, or relative to it. Mounts on the way down are crossed (a volume is one), except where
//! it is said that they are not.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, FileType, OFlags};

mod dirs;
mod files;
mod open;
pub(crate) mod race_points;
mod remove;

#[cfg(test)]
mod tests;

pub(crate) use files::Durability;
pub(crate) use open::{Resolver, Stay, mount_id};

/// A step below the directory failed.
#[derive(Debug, thiserror::Error)]
pub enum RootedFsError {
    /// It is not there.
    #[error("{} does not exist", path.display())]
    Missing {
        /// What was to be reached.
        path: PathBuf,
    },
    /// The path leads through a link, or out of the directory.
    #[error("{}: {why}", path.display())]
    Unsafe {
        /// What was to be reached.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Something is in the way, or the system refused.
    #[error("{}: {why}", path.display())]
    Refused {
        /// What was to be reached.
        path: PathBuf,
        /// In words, what to do about it.
        why: String,
        /// The system's error.
        #[source]
        source: io::Error,
    },
}

impl RootedFsError {
    /// Whether it only is that nothing is there.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Missing { .. })
    }
}

/// What an entry of a directory is.
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
    /// What it is. What is mounted on it is not looked at.
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

/// Makes a directory with this mode, whatever the umask is, and its missing parents with 0750. One that exists is fine and stays as it is.
///
/// # Errors
/// A file or a link is in the way, or the system refuses.
pub fn make_dir_below(root: &Path, path: &Path, mode: u32) -> Result<(), RootedFsError> {
    Resolver::best().make_dir(root, path, mode)
}

/// Removes an empty directory. None there is fine.
///
/// # Errors
/// It is not empty, something is mounted on it, it is not a directory, or the system refuses.
pub fn remove_dir_below(root: &Path, path: &Path) -> Result<(), RootedFsError> {
    Resolver::best().remove_dir(root, path)
}

/// Deletes a file, or a directory with everything below it. Links are deleted and never followed. It stays in one mount: something that is
/// mounted on the path or below it is an error, and nothing behind it is touched. Nothing there is fine. The depth does not matter.
///
/// # Errors
/// Something is left: a mount, or what the system refuses to delete, or others fill it as fast as it is emptied.
pub fn remove_content_below(root: &Path, path: &Path) -> Result<(), RootedFsError> {
    Resolver::best().remove_content(root, path)
}

/// Opens a directory for reading.
///
/// # Errors
/// It is not there, is not a directory, or a link is in the way.
pub fn open_dir_below(root: &Path, path: &Path) -> Result<OwnedFd, RootedFsError> {
    Resolver::best().open_path(root, path, OFlags::RDONLY | OFlags::DIRECTORY)
}

/// Opens a directory, file or device without reading or writing it (`O_PATH`): to mount, or to hold it.
///
/// # Errors
/// It is not there, or a link is in the way.
pub fn open_path_below(root: &Path, path: &Path) -> Result<OwnedFd, RootedFsError> {
    Resolver::best().open_path(root, path, OFlags::PATH)
}

/// Writes a file: all of it or nothing, also over a crash. Its directory exists. What was there under this name is replaced.
///
/// # Errors
/// A directory has the name, or the system refuses. The old file is there then.
pub fn write_file_below(root: &Path, path: &Path, bytes: &[u8], mode: u32) -> Result<(), RootedFsError> {
    Resolver::best().write_file(root, path, bytes, mode, Durability::Disk)
}

/// Reads a regular file.
///
/// # Errors
/// It is not there, is not a regular file, or has more than `limit` bytes.
pub fn read_file_below(root: &Path, path: &Path, limit: u64) -> Result<Vec<u8>, RootedFsError> {
    Resolver::best().read_file(root, path, limit)
}

/// Removes a file or a link, and what a crash in the middle of writing it left. None there is fine.
///
/// # Errors
/// It is a directory, something is mounted on it, or the system refuses.
pub fn remove_file_below(root: &Path, path: &Path) -> Result<(), RootedFsError> {
    Resolver::best().remove_file(root, path)
}

/// Makes a symbolic link that says `to`, or replaces what has the name, in one step.
///
/// # Errors
/// A directory has the name, or the system refuses.
pub fn link_below(root: &Path, path: &Path, to: &Path) -> Result<(), RootedFsError> {
    Resolver::best().link(root, path, to)
}

/// What a link says. It is not followed.
///
/// # Errors
/// It is not there, or is not a link.
pub fn read_link_below(root: &Path, path: &Path) -> Result<PathBuf, RootedFsError> {
    Resolver::best().read_link(root, path)
}

/// What is in a directory, in the order of the names.
///
/// # Errors
/// It is not there, or is not a directory.
pub fn list_below(root: &Path, path: &Path) -> Result<Vec<DirEntry>, RootedFsError> {
    Resolver::best().list(root, path)
}

/// What has a name; none when nothing has. What is mounted on it is what is seen.
///
/// # Errors
/// A link is in the way to it, or the system refuses.
pub fn kind_below(root: &Path, path: &Path) -> Result<Option<FileKind>, RootedFsError> {
    Resolver::best().kind(root, path)
}

/// The entries of a directory without `.` and `..`, as they come.
pub(crate) fn next_entry(dir: &mut Dir) -> Option<rustix::io::Result<(OsString, FileType)>> {
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
