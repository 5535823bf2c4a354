//! A directory tree in memory and the operations that change it: the mounted layer serves and records it, and
//! replaying the operations computes what a disk would contain. Pure.
//!
//! Inode numbers are never reused, and an operation is self-contained. So a subset of the operations can be
//! applied, as after a power failure.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

pub(crate) type Ino = u64;

/// The inode of the root directory.
pub(crate) const ROOT: Ino = 1;

/// The unit that a page cache writes back.
pub(crate) const PAGE: usize = 4096;

/// An operation on a file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// A file or a directory was created.
    Create { dir: Ino, name: String, ino: Ino, is_dir: bool },
    /// A name was removed.
    Remove { dir: Ino, name: String, ino: Ino },
    /// A file or directory was renamed, replacing an existing one.
    Rename { from: Ino, name: String, to: Ino, new_name: String, ino: Ino },
    /// Bytes were written.
    Write { ino: Ino, offset: u64, bytes: Vec<u8> },
    /// A file was truncated, or extended with zeros.
    Resize { ino: Ino, length: u64 },
    /// An fsync or fdatasync of a file or a directory has returned.
    Sync { ino: Ino },
    /// An fsync or fdatasync has failed: its data is readable and never written by a later one.
    SyncFailed { ino: Ino },
    /// A report of the process, at its position between the operations.
    Mark(String),
}

impl Op {
    /// The file whose bytes the operation changes.
    pub(crate) fn changes(&self) -> Option<Ino> {
        match self {
            Op::Write { ino, .. } | Op::Resize { ino, .. } => Some(*ino),
            Op::Create { .. }
            | Op::Remove { .. }
            | Op::Rename { .. }
            | Op::Sync { .. }
            | Op::SyncFailed { .. }
            | Op::Mark(_) => None,
        }
    }

    /// The directories whose names the operation changes; the same one twice unless it moves a file between two.
    pub(crate) fn names(&self) -> Option<(Ino, Ino)> {
        match self {
            Op::Create { dir, .. } | Op::Remove { dir, .. } => Some((*dir, *dir)),
            Op::Rename { from, to, .. } => Some((*from, *to)),
            Op::Write { .. } | Op::Resize { .. } | Op::Sync { .. } | Op::SyncFailed { .. } | Op::Mark(_) => {
                None
            }
        }
    }
}

/// Names and bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tree {
    pub(crate) dirs: BTreeMap<Ino, BTreeMap<String, Ino>>,
    /// Including files without a name.
    pub(crate) files: BTreeMap<Ino, Vec<u8>>,
}

impl Tree {
    /// An empty directory.
    pub(crate) fn new() -> Tree {
        Tree { dirs: BTreeMap::from([(ROOT, BTreeMap::new())]), files: BTreeMap::new() }
    }

    /// Applies one operation, whichever of the earlier ones were applied.
    pub(crate) fn apply(&mut self, op: &Op) {
        match op {
            Op::Create { dir, name, ino, is_dir } => {
                self.dirs.entry(*dir).or_default().insert(name.clone(), *ino);
                if *is_dir {
                    self.dirs.entry(*ino).or_default();
                } else {
                    self.files.entry(*ino).or_default();
                }
            }
            Op::Remove { dir, name, ino } => self.forget(*dir, name, *ino),
            Op::Rename { from, name, to, new_name, ino } => {
                self.forget(*from, name, *ino);
                self.dirs.entry(*to).or_default().insert(new_name.clone(), *ino);
            }
            Op::Write { ino, offset, bytes } => {
                write(self.files.entry(*ino).or_default(), *offset as usize, bytes);
            }
            Op::Resize { ino, length } => self.files.entry(*ino).or_default().resize(*length as usize, 0),
            Op::Sync { .. } | Op::SyncFailed { .. } | Op::Mark(_) => {}
        }
    }

    fn forget(&mut self, dir: Ino, name: &str, ino: Ino) {
        let names = self.dirs.entry(dir).or_default();
        if names.get(name) == Some(&ino) {
            names.remove(name);
        }
    }

    /// The inode of a path with slashes.
    pub(crate) fn find(&self, path: &str) -> Option<Ino> {
        let mut at = ROOT;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            at = *self.dirs.get(&at)?.get(name)?;
        }
        Some(at)
    }

    /// Every directory and file that has a name, with its path; directories before their contents.
    pub(crate) fn walk(&self) -> Vec<(String, Ino)> {
        let mut found = Vec::new();
        let mut dirs = vec![(String::new(), ROOT)];
        while let Some((path, dir)) = dirs.pop() {
            for (name, ino) in self.dirs.get(&dir).into_iter().flatten() {
                let path = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
                if self.dirs.contains_key(ino) {
                    dirs.push((path.clone(), *ino));
                }
                found.push((path, *ino));
            }
        }
        found.sort();
        found
    }

    /// The operations that create this tree, all of it synced.
    pub(crate) fn made_by(&self) -> Vec<Op> {
        let mut ops = Vec::new();
        for (path, ino) in self.walk() {
            let (parent, name) = path.rsplit_once('/').unwrap_or(("", &path));
            let dir = self.find(parent).expect("a parent is walked before what is in it");
            let is_dir = self.dirs.contains_key(&ino);
            ops.push(Op::Create { dir, name: name.to_owned(), ino, is_dir });
            if let Some(bytes) = self.files.get(&ino) {
                ops.push(Op::Write { ino, offset: 0, bytes: bytes.clone() });
                ops.push(Op::Sync { ino });
            }
        }
        ops.extend(self.dirs.keys().map(|ino| Op::Sync { ino: *ino }));
        ops
    }

    /// Writes the tree into a real directory. Pages of zeros become holes.
    pub(crate) fn write_to(&self, dir: &Path) -> io::Result<()> {
        for (path, ino) in self.walk() {
            let path = dir.join(path);
            let Some(bytes) = self.files.get(&ino) else {
                std::fs::create_dir_all(path)?;
                continue;
            };
            let file = std::fs::File::create(path)?;
            file.set_len(bytes.len() as u64)?;
            for (at, page) in bytes.chunks(PAGE).enumerate() {
                if page != &[0; PAGE][..page.len()] {
                    file.write_all_at(page, (at * PAGE) as u64)?;
                }
            }
        }
        Ok(())
    }
}

/// Writes into a buffer, with zeros in gaps.
pub(crate) fn write(file: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if file.len() < end {
        file.resize(end, 0);
    }
    file[offset..end].copy_from_slice(bytes);
}
