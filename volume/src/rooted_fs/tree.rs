//! Visits everything below a directory, depth first, in memory and files that do not depend on its size: at most
//! [`MAX_OPEN`] directories are open, and per level of depth only a few numbers are stored. No path is built, so
//! the depth is unlimited (a path of more than 4,095 bytes cannot be opened).

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use rustix::fs::{Dir, FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;

/// The maximum number of open directories.
const MAX_OPEN: usize = 48;
/// Names are stored down to this depth, for messages.
const NAMED: usize = 16;

/// A directory that is being read.
struct Level {
    /// `None` while directories further below are open in its place.
    dir: Option<Dir>,
    /// The position after the last entry that was returned.
    offset: i64,
    /// Device and inode.
    identity: (u64, u64),
}

/// A walk. Other processes may change the tree meanwhile: entries may be missed, and none outside the tree is visited.
pub struct Tree {
    levels: Vec<Level>,
    names: Vec<OsString>,
}

impl Tree {
    /// Begins with the entries of `top`.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn new(top: OwnedFd) -> rustix::io::Result<Self> {
        Ok(Self { levels: vec![Level::new(top)?], names: Vec::new() })
    }

    /// The next entry of the current directory, or after its last one of the directory above; `None` at the end.
    ///
    /// # Errors
    /// A directory cannot be read, or was moved to another parent (`ESTALE`).
    pub fn next_entry(&mut self) -> Option<rustix::io::Result<(OsString, FileType)>> {
        loop {
            let level = self.levels.last_mut()?;
            let dir = level.dir.as_mut()?;
            match dir.read() {
                Some(Ok(entry)) => {
                    level.offset = entry.offset();
                    let name = entry.file_name().to_bytes();
                    if name != b"." && name != b".." {
                        let name = OsString::from_vec(name.to_vec());
                        return Some(Ok((name, entry.file_type())));
                    }
                }
                Some(Err(error)) => return Some(Err(error)),
                None => {
                    if let Err(error) = self.ascend() {
                        return Some(Err(error));
                    }
                }
            }
        }
    }

    /// The current directory; `None` at the end.
    pub fn dir(&self) -> Option<BorrowedFd<'_>> {
        self.levels.last()?.dir.as_ref()?.fd().ok()
    }

    /// The path of the current directory below the top, without the names beyond a depth of 16.
    pub fn place(&self) -> PathBuf {
        let mut place: PathBuf = self.names.iter().collect();
        if self.levels.len() > self.names.len() + 1 {
            place.push("...");
        }
        place
    }

    /// Continues with the entries of a directory in the current one.
    ///
    /// # Errors
    /// It cannot be read. The walk continues with the current directory.
    pub fn descend(&mut self, name: OsString, dir: OwnedFd) -> rustix::io::Result<()> {
        let level = Level::new(dir)?;
        if let Some(first_open) = self.levels.len().checked_sub(MAX_OPEN - 1)
            && let Some(above) = self.levels.get_mut(first_open)
        {
            above.dir = None;
        }
        if self.levels.len() == self.names.len() + 1 && self.names.len() < NAMED {
            self.names.push(name);
        }
        self.levels.push(level);
        Ok(())
    }

    /// Returns to the directory above, and opens it again if necessary.
    fn ascend(&mut self) -> rustix::io::Result<()> {
        let Some(left) = self.levels.pop() else { return Ok(()) };
        self.names.truncate(self.levels.len().saturating_sub(1));
        let Some(above) = self.levels.last_mut().filter(|above| above.dir.is_none()) else { return Ok(()) };
        let below = left.dir.as_ref().map(Dir::fd).transpose()?.ok_or(Errno::STALE)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat(below, "..", flags, Mode::empty())?;
        // A directory that was moved meanwhile has another parent, which may be outside the tree.
        if identity(&opened)? != above.identity {
            return Err(Errno::STALE);
        }
        let mut dir = Dir::new(opened)?;
        dir.seek(above.offset)?;
        above.dir = Some(dir);
        Ok(())
    }
}

impl Level {
    fn new(dir: OwnedFd) -> rustix::io::Result<Self> {
        let identity = identity(&dir)?;
        Ok(Self { dir: Some(Dir::new(dir)?), offset: 0, identity })
    }
}

fn identity(dir: impl AsFd) -> rustix::io::Result<(u64, u64)> {
    let found = fstat(dir)?;
    Ok((found.st_dev, found.st_ino))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::path::Path;

    use rustix::fs::{mkdirat, open};

    use super::super::{Resolver, Stay};
    use super::*;

    const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

    /// All names, in no particular order.
    fn visit(top: &Path) -> rustix::io::Result<Vec<OsString>> {
        let mut tree = Tree::new(open(top, DIRECTORY, Mode::empty())?)?;
        let mut found = Vec::new();
        while let Some(entry) = tree.next_entry() {
            let (name, file_type) = entry?;
            found.push(name.clone());
            if file_type == FileType::Directory {
                let here = tree.dir().unwrap();
                let dir = Resolver::best().open(here, Path::new(&name), DIRECTORY, Stay::InMount)?;
                tree.descend(name, dir)?;
            }
            let open = tree.levels.iter().filter(|level| level.dir.is_some()).count();
            assert!(open <= MAX_OPEN && tree.names.len() <= NAMED, "{open} directories are open");
        }
        Ok(found)
    }

    #[test]
    fn entries_below_the_longest_path_are_visited() {
        let top = tempfile::tempdir().unwrap();
        let long = "d".repeat(250);
        let mut dir = open(top.path(), DIRECTORY, Mode::empty()).unwrap();
        for depth in 0..500 {
            for name in [long.as_str(), "early", "late"] {
                mkdirat(&dir, name, Mode::RWXU).unwrap();
            }
            drop(openat(&dir, format!("file-{depth}"), OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).unwrap());
            dir = openat(&dir, long.as_str(), DIRECTORY, Mode::empty()).unwrap();
        }
        let found = visit(top.path()).unwrap();
        assert_eq!(found.len(), 500 * 4, "each entry is visited once");
        assert!((0..500).all(|depth| found.iter().any(|name| *name == *format!("file-{depth}"))));
        super::super::remove_content_below(top.path().parent().unwrap(), top.path()).unwrap();
    }

    #[test]
    fn directory_that_is_moved_away_ends_the_walk() {
        let (top, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut at = top.path().to_owned();
        for _ in 0..MAX_OPEN + 2 {
            at.push("d");
            std::fs::create_dir(&at).unwrap();
        }
        let mut tree = Tree::new(open(top.path(), DIRECTORY, Mode::empty()).unwrap()).unwrap();
        let mut ended = None;
        while let Some(entry) = tree.next_entry() {
            let Ok((name, _)) = entry else {
                ended = entry.err();
                break;
            };
            let here = tree.dir().unwrap();
            let dir = Resolver::best().open(here, Path::new(&name), DIRECTORY, Stay::InMount).unwrap();
            tree.descend(name, dir).unwrap();
            if tree.levels.len() == MAX_OPEN + 3 {
                std::fs::rename(top.path().join("d/d"), outside.path().join("d")).unwrap();
            }
        }
        assert_eq!(ended, Some(Errno::STALE));
    }
}
