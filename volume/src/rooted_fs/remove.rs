//! Deletion of everything below a path, in one mount, with a bounded number of open files: entries deeper than
//! [`MOST_OPEN`] are moved to the top and deleted there.

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, OFlags, renameat, unlinkat};
use rustix::io::Errno;

use super::dirs::refused;
use super::open::{Resolver, Stay, passing_name};
use super::protected::ensure_unprotected;
use super::race_points::{self, RacePoint};
use super::{RootedFsError, next_entry};
use crate::crash_points;
use crate::file_location::FileIds;

/// The maximum number of open directories.
const MOST_OPEN: usize = 48;
/// A directory that gets new entries in this many passes is in use.
const MOST_PASSES: u32 = 16;

struct Frame {
    name: OsString,
    dir: Dir,
    passes: u32,
}

/// The result of removing an entry.
enum RemovedEntry {
    Gone,
    Dir(OwnedFd),
}

impl Resolver {
    pub(super) fn remove_content(self, root: &Path, path: &Path) -> Result<(), RootedFsError> {
        self.remove_unprotected(root, path, &FileIds::new())
    }

    pub(super) fn remove_unprotected(
        self,
        root: &Path,
        path: &Path,
        protected: &FileIds,
    ) -> Result<(), RootedFsError> {
        let (parent, name) = match self.parent(root, path) {
            Err(error) if error.is_missing() => return Ok(()),
            other => other?,
        };
        crash_points::reached("delete content", path);
        ensure_unprotected(&parent, Path::new(&name), path, protected)?;
        let RemovedEntry::Dir(top) = self.take(&parent, &name, FileType::Unknown, path)? else {
            return Ok(());
        };
        // The name may refer to another directory by now.
        ensure_unprotected(&top, Path::new(""), path, protected)?;
        let mut stack = vec![Frame::new(name, top, path)?];
        let mut has_moved = false;
        loop {
            let here = place(path, &stack);
            let Some(frame) = stack.last_mut() else {
                return Ok(());
            };
            crash_points::reached("delete in directory", &here);
            race_points::at(RacePoint::Descend, &here);
            match next_entry(&mut frame.dir) {
                Some(Ok((name, file_type))) => {
                    let there = here.join(&name);
                    race_points::at(RacePoint::Opened, &there);
                    let fd = frame.dir.fd().map_err(|errno| cannot_read(&here, errno))?;
                    match self.take(fd, &name, file_type, &there)? {
                        RemovedEntry::Gone => {}
                        RemovedEntry::Dir(dir) => {
                            ensure_unprotected(&dir, Path::new(""), &there, protected)?;
                            if stack.len() < MOST_OPEN {
                                stack.push(Frame::new(name, dir, &there)?);
                            } else {
                                move_up(&stack, &name, &there)?;
                                has_moved = true;
                            }
                        }
                    }
                }
                Some(Err(errno)) => return Err(cannot_read(&here, errno)),
                None => {
                    let frame = stack.pop();
                    let above = stack.last().map(|above| above.dir.fd()).transpose();
                    let above = above.map_err(|errno| cannot_read(&here, errno))?.unwrap_or(parent.as_fd());
                    let Some(mut frame) = frame else {
                        return Ok(());
                    };
                    match unlinkat(above, Path::new(&frame.name), AtFlags::REMOVEDIR) {
                        Ok(()) | Err(Errno::NOENT) => {}
                        Err(errno @ (Errno::NOTEMPTY | Errno::EXIST)) => {
                            // New entries may be directories that were moved up, so this pass does not count.
                            if !std::mem::take(&mut has_moved) {
                                frame.passes += 1;
                            }
                            if frame.passes > MOST_PASSES {
                                return Err(refused(&here, "others fill it while it is deleted", errno));
                            }
                            frame.dir.rewind();
                            stack.push(frame);
                        }
                        Err(errno @ Errno::BUSY) => return Err(mounted(&here, errno)),
                        Err(errno) => return Err(refused(&here, "it cannot be deleted", errno)),
                    }
                }
            }
        }
    }

    /// Deletes an entry, or opens it when it is a directory.
    fn take(
        self,
        dir: impl AsFd,
        name: &OsString,
        file_type: FileType,
        there: &Path,
    ) -> Result<RemovedEntry, RootedFsError> {
        let name = Path::new(name);
        let mut is_dir = file_type == FileType::Directory;
        // The entry may be replaced between the two calls, so the number of attempts is limited.
        for _ in 0..MOST_PASSES {
            if !is_dir {
                match unlinkat(&dir, name, AtFlags::empty()) {
                    Ok(()) | Err(Errno::NOENT) => return Ok(RemovedEntry::Gone),
                    Err(Errno::ISDIR) => {}
                    Err(errno @ Errno::BUSY) => return Err(mounted(there, errno)),
                    Err(errno) => return Err(refused(there, "it cannot be deleted", errno)),
                }
            }
            race_points::at(RacePoint::Seen, there);
            match self.open(&dir, name, OFlags::RDONLY | OFlags::DIRECTORY, Stay::InMount) {
                Ok(opened) => return Ok(RemovedEntry::Dir(opened)),
                Err(Errno::NOENT) => return Ok(RemovedEntry::Gone),
                Err(Errno::LOOP | Errno::NOTDIR) => is_dir = false,
                Err(errno @ Errno::XDEV) => return Err(mounted(there, errno)),
                Err(errno) => {
                    return Err(refused(there, "it cannot be opened to delete its content", errno));
                }
            }
        }
        Err(refused(there, "others change it while it is deleted", Errno::AGAIN))
    }
}

impl Frame {
    fn new(name: OsString, dir: OwnedFd, there: &Path) -> Result<Self, RootedFsError> {
        let dir = Dir::new(dir).map_err(|errno| cannot_read(there, errno))?;
        Ok(Self { name, dir, passes: 0 })
    }
}

/// The path of the last frame, for error messages.
fn place(path: &Path, stack: &[Frame]) -> PathBuf {
    let mut place = path.to_owned();
    place.extend(stack.iter().skip(1).map(|frame| &frame.name));
    place
}

fn move_up(stack: &[Frame], name: &OsString, there: &Path) -> Result<(), RootedFsError> {
    let (Some(top), Some(here)) = (stack.first(), stack.last()) else {
        return Ok(());
    };
    let moved = top.dir.fd().and_then(|top| {
        let to = passing_name(std::ffi::OsStr::new("deep"));
        renameat(here.dir.fd()?, Path::new(name), top, Path::new(&to))
    });
    match moved {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno @ (Errno::BUSY | Errno::XDEV)) => Err(mounted(there, errno)),
        Err(errno) => Err(refused(there, "it is too deep and cannot be moved up", errno)),
    }
}

fn mounted(there: &Path, errno: Errno) -> RootedFsError {
    refused(there, "something is mounted on it; nothing behind it was touched", errno)
}

fn cannot_read(there: &Path, errno: Errno) -> RootedFsError {
    refused(there, "the directory cannot be read", errno)
}
