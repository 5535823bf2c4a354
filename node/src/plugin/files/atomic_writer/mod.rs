//! Writes the files of a volume atomically (upstream: pkg/volume/util/atomic_writer.go). The visible entries of
//! the volume are links:
//!
//! ```text
//! key      -> ..data/key
//! ..data   -> ..2026_01_31_10_00_00.0123456789abcdef
//! ..2026_01_31_10_00_00.0123456789abcdef/key
//! ```
//!
//! A new directory is filled, with the group and the modes of its files, and then `..data` is renamed to it: a
//! process that opens a file gets either the complete old or the complete new version. Names that begin with `..`
//! belong to the writer; all other links of the volume without a file are stale.
//!
//! All operations are relative to the opened directory of the volume, and follow no links. Nothing is synced to
//! disk: after a power loss no pod that could read it is running, and the next set-up compares all content before
//! using it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Uid, fchmod, fchown, mkdirat, openat, readlinkat, renameat,
    symlinkat, unlinkat,
};
use rustix::io::Errno;

use orlop_volume::rooted_fs::{self, Resolver, RootedFsError, Stay};

mod current_content;
mod paths;
#[cfg(test)]
mod tests;

use current_content::entries;
pub(super) use paths::cleaned;
use paths::{is_own, tops};

/// The link to the current files.
const DATA: &str = "..data";
/// The temporary link that is renamed to it.
const NEXT: &str = "..data_tmp";

/// The desired content of a file.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Content {
    /// The bytes. They may be a secret, and are never printed.
    pub(super) bytes: Vec<u8>,
    /// The permissions.
    pub(super) mode: u32,
    /// The owner; none for root.
    pub(super) uid: Option<u32>,
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes {:o}", self.bytes.len(), self.mode)
    }
}

/// Files by their path in the volume.
pub(super) type Payload = BTreeMap<String, Content>;

/// The result of a write, for tests and logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteOutcome {
    /// Nothing was written: all content was current.
    Nothing,
    /// The files were current; links were repaired.
    Links,
    /// New files were written.
    Files,
}

/// The steps of a write. Tests stop it there, or kill the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteStep {
    MakeDir,
    WriteFile,
    OpenDir,
    Link,
    LinkData,
    Swap,
    RemoveLink,
    RemoveOld,
}

/// Why a volume could not be written. It has either its complete old content or the complete new one.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    /// The path of a file is invalid; the text is upstream's.
    #[error("{0}")]
    Path(String),
    /// The system refused.
    #[error("{what}: {source}")]
    Refused {
        /// The operation.
        what: &'static str,
        /// The error.
        source: io::Error,
    },
    /// Old content cannot be removed.
    #[error("removing old content: {0}")]
    Old(RootedFsError),
}

fn refused(what: &'static str) -> impl Fn(Errno) -> WriteError {
    move |errno| WriteError::Refused { what, source: errno.into() }
}

/// A writer of one volume.
pub(super) struct Writer<'a> {
    /// The directory of the volume, opened for reading.
    pub(super) volume: &'a OwnedFd,
    /// `fsGroup`: all files belong to this group, which may read them.
    pub(super) group: Option<u32>,
    /// The time for the name of the new directory.
    pub(super) now: Timestamp,
}

impl Writer<'_> {
    /// Replaces the files of the volume by these. Unchanged content is not written again.
    ///
    /// # Errors
    /// The volume has the old content, or the new content with remains of the old one, which the next write removes.
    #[cfg(test)]
    pub(super) fn write(&self, payload: &Payload) -> Result<WriteOutcome, WriteError> {
        self.write_by(payload, &mut |_| Ok(()))
    }

    /// The same; `at` is called before every step, and may cancel it.
    ///
    /// # Errors
    /// The same, and those of `at`.
    pub(super) fn write_by(
        &self,
        payload: &Payload,
        at: &mut dyn FnMut(WriteStep) -> Result<(), Errno>,
    ) -> Result<WriteOutcome, WriteError> {
        let mut clean = Payload::new();
        for (path, content) in payload {
            clean.insert(cleaned(path)?, content.clone());
        }
        let above = |path: &str| -> Option<String> {
            path.match_indices('/')
                .map(|(end, _)| path[..end].to_owned())
                .find(|above| clean.contains_key(above))
        };
        if let Some(path) = clean.keys().find_map(|path| above(path)) {
            return Err(WriteError::Path(format!("invalid path: {path} is a file and a directory")));
        }
        let current = self.current()?;
        let is_there = current.as_ref().is_some_and(|dir| self.holds(dir, &clean));
        let (current, mut wrote) = match current {
            Some(current) if is_there => (current, WriteOutcome::Nothing),
            Some(_) | None => (self.fill(&clean, at)?, WriteOutcome::Files),
        };
        let outcome = self.show(&clean, at);
        let outcome = outcome.and_then(|is_changed| {
            if wrote == WriteOutcome::Files {
                self.swap(&current, at)?;
            } else if is_changed {
                wrote = WriteOutcome::Links;
            }
            Ok(())
        });
        if let Err(error) = outcome {
            if wrote == WriteOutcome::Files {
                self.drop_unused(&current);
            }
            return Err(error);
        }
        if self.clear(&clean, &current, at)? && wrote == WriteOutcome::Nothing {
            wrote = WriteOutcome::Links;
        }
        Ok(wrote)
    }

    fn file_mode(&self, content: &Content) -> u32 {
        // Upstream: the minimum rights of the group in a read-only volume.
        if self.group.is_some() { content.mode & 0o777 | 0o440 } else { content.mode & 0o777 }
    }

    fn dir_mode(&self) -> u32 {
        if self.group.is_some() { 0o2755 } else { 0o755 }
    }

    /// Creates a directory with the files.
    fn fill(
        &self,
        payload: &Payload,
        at: &mut dyn FnMut(WriteStep) -> Result<(), Errno>,
    ) -> Result<OsString, WriteError> {
        let name = new_name(self.now);
        let mut make = || -> Result<(), WriteError> {
            let wrong = refused("making the directory of the new content");
            at(WriteStep::MakeDir).map_err(&wrong)?;
            // The directory is private until it is complete.
            mkdirat(self.volume, Path::new(&name), Mode::RWXU).map_err(&wrong)?;
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            let dir =
                Resolver::best().open(self.volume, Path::new(&name), flags, Stay::InMount).map_err(&wrong)?;
            for (path, content) in payload {
                let wrong = refused("writing the new content");
                at(WriteStep::WriteFile).map_err(&wrong)?;
                self.write_file(&dir, Path::new(path), content)
                    .map_err(|source| WriteError::Refused { what: "writing the new content", source })?;
            }
            let wrong = refused("giving the new content its mode");
            at(WriteStep::OpenDir).map_err(&wrong)?;
            self.finish_dir(&dir).map_err(&wrong)
        };
        match make() {
            Ok(()) => Ok(name),
            Err(error) => {
                self.drop_unused(&name);
                Err(error)
            }
        }
    }

    fn write_file(&self, top: &OwnedFd, path: &Path, content: &Content) -> io::Result<()> {
        let mut dir = rustix::io::fcntl_dupfd_cloexec(top, 0)?;
        let (above, name) = (path.parent().unwrap_or(Path::new("")), path.file_name().unwrap_or_default());
        for step in above.iter() {
            match mkdirat(&dir, Path::new(step), Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            dir = Resolver::best().open(&dir, Path::new(step), flags, Stay::InMount)?;
            self.finish_dir(&dir)?;
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(&dir, Path::new(name), flags, Mode::RUSR | Mode::WUSR)?);
        let (uid, gid) = (content.uid.map(Uid::from_raw), self.group.map(Gid::from_raw));
        if uid.is_some() || gid.is_some() {
            fchown(&file, uid, gid)?;
        }
        fchmod(&file, Mode::from_raw_mode(self.file_mode(content)))?;
        file.write_all(&content.bytes)
    }

    fn finish_dir(&self, dir: &OwnedFd) -> Result<(), Errno> {
        if let Some(group) = self.group {
            fchown(dir, None, Some(Gid::from_raw(group)))?;
        }
        fchmod(dir, Mode::from_raw_mode(self.dir_mode()))
    }

    /// Creates the visible links. A directory with the name of a link stays: another volume is mounted there.
    fn show(
        &self,
        payload: &Payload,
        at: &mut dyn FnMut(WriteStep) -> Result<(), Errno>,
    ) -> Result<bool, WriteError> {
        let wrong = refused("making a link");
        let mut is_changed = false;
        for name in tops(payload) {
            let to = Path::new(DATA).join(name);
            match readlinkat(self.volume, name, Vec::new()) {
                Ok(says) if says.as_bytes() == to.as_os_str().as_bytes() => continue,
                Err(Errno::INVAL) if self.is_dir(name) => continue,
                Ok(_) | Err(Errno::NOENT | Errno::INVAL) => {}
                Err(errno) => return Err(wrong(errno)),
            }
            at(WriteStep::Link).map_err(&wrong)?;
            self.link(name, &to).map_err(&wrong)?;
            is_changed = true;
        }
        Ok(is_changed)
    }

    fn is_dir(&self, name: &str) -> bool {
        rustix::fs::statat(self.volume, name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Directory)
    }

    /// Creates a link atomically, and replaces any file of that name.
    fn link(&self, name: &str, to: &Path) -> Result<(), Errno> {
        match symlinkat(to, self.volume, name) {
            Err(Errno::EXIST) => {}
            other => return other,
        }
        let passing = new_link_name();
        symlinkat(to, self.volume, &*passing)?;
        renameat(self.volume, &*passing, self.volume, name).inspect_err(|_| {
            let _ = unlinkat(self.volume, &*passing, AtFlags::empty());
        })
    }

    /// Switches to the new content.
    fn swap(
        &self,
        new: &OsStr,
        at: &mut dyn FnMut(WriteStep) -> Result<(), Errno>,
    ) -> Result<(), WriteError> {
        let wrong = refused("changing to the new content");
        at(WriteStep::LinkData).map_err(&wrong)?;
        match unlinkat(self.volume, NEXT, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(wrong(errno)),
        }
        symlinkat(Path::new(new), self.volume, NEXT).map_err(&wrong)?;
        let swapped = at(WriteStep::Swap).and_then(|()| renameat(self.volume, NEXT, self.volume, DATA));
        swapped.map_err(|errno| {
            let _ = unlinkat(self.volume, NEXT, AtFlags::empty());
            wrong(errno)
        })
    }

    /// Removes everything that is not part of the content: stale links, older content, and the temporary files of a
    /// crashed writer.
    fn clear(
        &self,
        payload: &Payload,
        current: &OsStr,
        at: &mut dyn FnMut(WriteStep) -> Result<(), Errno>,
    ) -> Result<bool, WriteError> {
        let wrong = refused("removing old content");
        let wanted: BTreeSet<&OsStr> = tops(payload).into_iter().map(OsStr::new).collect();
        let mut is_changed = false;
        let mut old = Vec::new();
        for (name, kind) in entries(self.volume).map_err(&wrong)? {
            if name == DATA || name == current || wanted.contains(name.as_os_str()) {
                continue;
            }
            if is_own(&name) {
                old.push(name);
            } else if kind == FileType::Symlink {
                at(WriteStep::RemoveLink).map_err(&wrong)?;
                match unlinkat(self.volume, Path::new(&name), AtFlags::empty()) {
                    Ok(()) | Err(Errno::NOENT) => is_changed = true,
                    Err(errno) => return Err(wrong(errno)),
                }
            }
        }
        for name in old {
            at(WriteStep::RemoveOld).map_err(&wrong)?;
            rooted_fs::remove_content_below(&self.place(), Path::new(&name)).map_err(WriteError::Old)?;
            is_changed = true;
        }
        Ok(is_changed)
    }

    /// Removes content that was never visible. The next write retries a removal that fails.
    fn drop_unused(&self, name: &OsStr) {
        if let Err(error) = rooted_fs::remove_content_below(&self.place(), Path::new(name)) {
            tracing::debug!(%error, "new content that was not used stays until the next write");
        }
    }

    /// The path of the volume's opened directory, independent of its current name.
    fn place(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.volume.as_raw_fd()))
    }
}

/// `..2006_01_02_15_04_05.<random>`.
fn new_name(now: Timestamp) -> OsString {
    format!("{}{:016x}", now.strftime("..%Y_%m_%d_%H_%M_%S."), rand::random::<u64>()).into()
}

fn new_link_name() -> OsString {
    format!("..link.{:016x}", rand::random::<u64>()).into()
}
