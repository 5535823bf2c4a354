//! Reads the current content of a volume. It is never trusted: every byte is compared with the desired content.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, OFlags, fstat, readlinkat};
use rustix::io::Errno;

use super::paths::is_own;
use super::{Content, DATA, Payload, WriteError, Writer, refused};
use orlop_volume::rooted_fs::{Resolver, Stay};

impl Writer<'_> {
    /// The name of the directory that `..data` refers to, if the writer created it.
    pub(super) fn current(&self) -> Result<Option<OsString>, WriteError> {
        match readlinkat(self.volume, DATA, Vec::new()) {
            Ok(name) => {
                let name = OsString::from_vec(name.into_bytes());
                let is_ours =
                    is_own(&name) && !name.as_bytes().contains(&b'/') && name != ".." && name != DATA;
                Ok(is_ours.then_some(name))
            }
            // Not a link: the swap replaces it, or reports the error.
            Err(Errno::NOENT | Errno::INVAL) => Ok(None),
            Err(errno) => Err(refused("reading the link to the content")(errno)),
        }
    }

    /// Whether a directory has exactly these files. An unreadable file counts as missing.
    pub(super) fn holds(&self, name: &OsStr, payload: &Payload) -> bool {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let Ok(dir) = Resolver::best().open(self.volume, Path::new(name), flags, Stay::InMount) else {
            return false;
        };
        if !fstat(&dir).is_ok_and(|found| self.is_dir_right(&found)) {
            return false;
        }
        let Ok(found) = files_of(&dir) else { return false };
        found.len() == payload.len()
            && payload.iter().all(|(path, content)| {
                found.contains(Path::new(path))
                    && self.is_same(&dir, Path::new(path), content).unwrap_or(false)
            })
    }

    fn is_dir_right(&self, found: &rustix::fs::Stat) -> bool {
        found.st_mode & 0o7777 == self.dir_mode() && self.group.is_none_or(|group| found.st_gid == group)
    }

    fn is_same(&self, dir: &OwnedFd, path: &Path, content: &Content) -> io::Result<bool> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let file = File::from(Resolver::best().open(dir, path, flags, Stay::InMount)?);
        let found = fstat(&file)?;
        let is_right = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
            && found.st_mode & 0o7777 == self.file_mode(content)
            && found.st_uid == content.uid.unwrap_or_else(own_uid)
            && self.group.is_none_or(|group| found.st_gid == group)
            && u64::try_from(found.st_size).is_ok_and(|size| size == content.bytes.len() as u64);
        if !is_right {
            return Ok(false);
        }
        let mut bytes = Vec::with_capacity(content.bytes.len());
        file.take(content.bytes.len() as u64 + 1).read_to_end(&mut bytes)?;
        Ok(bytes == content.bytes)
    }
}

fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Names and types of the entries of a directory.
pub(super) fn entries(dir: impl AsFd) -> Result<Vec<(OsString, FileType)>, Errno> {
    let mut dir = Dir::read_from(dir)?;
    let mut found = Vec::new();
    while let Some(entry) = dir.read() {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes()).to_owned();
        if name == "." || name == ".." {
            continue;
        }
        let mut kind = entry.file_type();
        if kind == FileType::Unknown {
            let stat = rustix::fs::statat(dir.fd()?, Path::new(&name), AtFlags::SYMLINK_NOFOLLOW)?;
            kind = FileType::from_raw_mode(stat.st_mode);
        }
        found.push((name, kind));
    }
    Ok(found)
}

/// The paths of all entries below a directory that are not directories.
fn files_of(top: &OwnedFd) -> Result<BTreeSet<PathBuf>, Errno> {
    let mut files = BTreeSet::new();
    let mut left = vec![PathBuf::new()];
    while let Some(at) = left.pop() {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let dir = Resolver::best().open(top, &at, flags, Stay::InMount)?;
        for (name, kind) in entries(&dir)? {
            let path = at.join(name);
            if kind == FileType::Directory {
                left.push(path);
            } else {
                files.insert(path);
            }
        }
    }
    Ok(files)
}
