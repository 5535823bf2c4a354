//! A fault-injection file system: chosen operations fail, and a power failure drops unsynced data: all of it,
//! or pages chosen by a seed.
//!
//! It runs on the real disk, counts every operation, and tracks for each written file what a disk is
//! guaranteed to have of it. As on Linux, data of a failed sync stays readable and is not written by a later
//! sync, unless it is written again.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use super::image::Dice;
use super::image::Image;
use crate::embedded::files::{Disk, File, Files};

/// The kinds of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Reading a file or a directory.
    Read,
    /// Creating a directory.
    CreateDir,
    /// Creating a file.
    Create,
    /// Writing to a file.
    Write,
    /// Filling a file with zeros.
    Allocate,
    /// Truncating a file.
    Truncate,
    /// Syncing a file.
    Sync,
    /// Renaming a file or directory.
    Rename,
    /// Removing a file.
    Remove,
    /// Syncing a directory.
    SyncDir,
}

/// All kinds.
pub const OPS: [Op; 10] = [
    Op::Read,
    Op::CreateDir,
    Op::Create,
    Op::Write,
    Op::Allocate,
    Op::Truncate,
    Op::Sync,
    Op::Rename,
    Op::Remove,
    Op::SyncDir,
];

/// The operations that fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Only this kind is counted; `None` counts every operation that changes something.
    pub op: Option<Op>,
    /// The first operation that fails, from 0.
    pub nth: u64,
    /// All later ones fail too.
    pub for_good: bool,
    /// "No space left on device" instead of an I/O error.
    pub is_full: bool,
}

/// The file system. Clones share their state.
#[derive(Clone)]
pub struct Faulty(Arc<Mutex<FaultyState>>);

#[derive(Default)]
struct FaultyState {
    counts: HashMap<Op, u64>,
    changes: u64,
    fault: Option<Fault>,
    /// The error of the system that the fault returns instead of its own.
    errno: Option<i32>,
    /// The written files, by number, and the current name of each.
    files: Vec<Image>,
    names: HashMap<PathBuf, usize>,
    /// All names that a file has ever had.
    touched: BTreeSet<PathBuf>,
    /// The changes that a power failure reverts, with the directory whose sync makes each durable, oldest first.
    undo: Vec<(PathBuf, Undo)>,
}

enum Undo {
    Created(PathBuf),
    Renamed { from: PathBuf, to: PathBuf, replaced: Option<usize> },
    RenamedDir { from: PathBuf, to: PathBuf },
    Removed { path: PathBuf, file: usize },
}

impl Faulty {
    /// A file system on which the n-th change (from 0) and all later ones fail.
    pub fn new(fails_at: u64) -> Self {
        Faulty::with(Fault { op: None, nth: fails_at, for_good: true, is_full: false })
    }

    /// A file system with this fault.
    pub fn with(fault: Fault) -> Self {
        Faulty(Arc::new(Mutex::new(FaultyState { fault: Some(fault), ..FaultyState::default() })))
    }

    /// The number of attempted changes.
    pub fn done(&self) -> u64 {
        self.state().changes
    }

    /// The number of attempted operations of a kind.
    pub fn count(&self, op: Op) -> u64 {
        self.state().counts.get(&op).copied().unwrap_or(0)
    }

    /// Makes the change after `more` further ones fail.
    pub fn fail_after(&self, more: u64) {
        let nth = self.done() + more;
        self.state().fault = Some(Fault { op: None, nth, for_good: true, is_full: false });
    }

    /// Makes the operation of this kind after `more` further ones fail, and all later ones.
    pub fn fail_op_after(&self, op: Op, more: u64) {
        let nth = self.count(op) + more;
        self.state().fault = Some(Fault { op: Some(op), nth, for_good: true, is_full: false });
    }

    /// Sets the fault; its number counts from the very first operation.
    pub fn fail(&self, fault: Fault) {
        self.state().fault = Some(fault);
    }

    /// Sets the fault, with this error of the system until [`heal`](Self::heal).
    pub fn fail_as(&self, fault: Fault, errno: i32) {
        let mut state = self.state();
        (state.fault, state.errno) = (Some(fault), Some(errno));
    }

    /// Clears the fault.
    pub fn heal(&self) {
        let mut state = self.state();
        (state.fault, state.errno) = (None, None);
    }

    /// Simulates a power failure that drops everything unsynced.
    pub fn cut(&self) -> io::Result<()> {
        self.lose(None)
    }

    /// Simulates a power failure that drops or tears any unsynced pages; the last renames may be reverted.
    pub fn cut_by(&self, seed: u64) -> io::Result<()> {
        self.lose(Some(Dice::new(seed)))
    }

    fn lose(&self, mut rng: Option<Dice>) -> io::Result<()> {
        let mut state = self.state();
        let kept = rng.as_mut().map_or(0, |rng| rng.below(state.undo.len() + 1));
        let mut dirs = Vec::new();
        for (_, undo) in state.undo.split_off(kept).into_iter().rev() {
            match undo {
                Undo::Created(path) => drop(state.names.remove(&path)),
                Undo::Renamed { from, to, replaced } => {
                    if let Some(file) = state.names.remove(&to) {
                        state.names.insert(from, file);
                    }
                    if let Some(file) = replaced {
                        state.names.insert(to, file);
                    }
                }
                Undo::RenamedDir { from, to } => dirs.push((from, to)),
                Undo::Removed { path, file } => drop(state.names.insert(path, file)),
            }
        }
        for (from, to) in dirs {
            if from.exists() {
                std::fs::remove_dir_all(&from)?;
            }
            std::fs::rename(to, from)?;
        }
        let FaultyState { files, names, touched, undo, .. } = &mut *state;
        undo.clear();
        for path in std::mem::take(touched) {
            match names.get(&path) {
                Some(file) => std::fs::write(&path, files[*file].after_a_cut(rng.as_mut()))?,
                None if path.exists() => std::fs::remove_file(&path)?,
                None => {}
            }
        }
        names.clear();
        files.clear();
        Ok(())
    }

    fn ask(&self, op: Op) -> io::Result<()> {
        let mut state = self.state();
        let count = state.counts.entry(op).or_default();
        *count += 1;
        let of_kind = *count - 1;
        let changes = state.changes;
        if op != Op::Read {
            state.changes += 1;
        }
        let Some(fault) = state.fault else { return Ok(()) };
        let at = match fault.op {
            Some(kind) if kind == op => of_kind,
            None if op != Op::Read => changes,
            Some(_) | None => return Ok(()),
        };
        if at < fault.nth || (at > fault.nth && !fault.for_good) {
            return Ok(());
        }
        if let Some(errno) = state.errno {
            return Err(io::Error::from_raw_os_error(errno));
        }
        let what = format!("{op:?} {at} was made to fail");
        let kind = if fault.is_full { io::ErrorKind::StorageFull } else { io::ErrorKind::Other };
        Err(io::Error::new(kind, what))
    }

    fn state(&self) -> MutexGuard<'_, FaultyState> {
        self.0.lock()
    }
}

impl FaultyState {
    /// The number of a file; a file from an earlier process counts as synced.
    fn number(&mut self, path: &Path) -> io::Result<usize> {
        if let Some(file) = self.names.get(path) {
            return Ok(*file);
        }
        let bytes = Disk.read(path)?.unwrap_or_default();
        self.files.push(Image::durable(bytes));
        let file = self.files.len() - 1;
        self.names.insert(path.to_owned(), file);
        self.touched.insert(path.to_owned());
        Ok(file)
    }

    fn note(&mut self, path: &Path, undo: Undo) {
        let dir = path.parent().unwrap_or(path).to_owned();
        self.touched.insert(path.to_owned());
        self.undo.push((dir, undo));
    }
}

impl Files for Faulty {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.ask(Op::CreateDir)?;
        Disk.create_dir(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.ask(Op::Read)?;
        Disk.list(path)
    }

    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        self.ask(Op::Read)?;
        Disk.read(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        self.ask(Op::Create)?;
        let mut state = self.state();
        if path.exists() {
            let number = state.number(path)?;
            state.files[number].cut(0);
        } else {
            state.names.remove(path);
            state.note(path, Undo::Created(path.to_owned()));
        }
        let file = Disk.create(path)?;
        let number = state.number(path)?;
        Ok(Box::new(FaultyFile { file, number, end: 0, files: self.clone() }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let file = Disk.open(path)?;
        let mut state = self.state();
        let number = state.number(path)?;
        let end = state.files[number].current.len();
        Ok(Box::new(FaultyFile { file, number, end, files: self.clone() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.ask(Op::Rename)?;
        let mut state = self.state();
        let undo = if from.is_dir() {
            Undo::RenamedDir { from: from.to_owned(), to: to.to_owned() }
        } else {
            let replaced = if to.is_file() { Some(state.number(to)?) } else { None };
            let file = state.number(from)?;
            state.names.remove(from);
            state.names.insert(to.to_owned(), file);
            Undo::Renamed { from: from.to_owned(), to: to.to_owned(), replaced }
        };
        Disk.rename(from, to)?;
        let dir = to.parent().unwrap_or(to).to_owned();
        if !to.is_dir() {
            state.touched.insert(to.to_owned());
        }
        state.undo.push((dir, undo));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.ask(Op::Remove)?;
        let mut state = self.state();
        if !path.exists() {
            return Disk.remove(path);
        }
        let file = state.number(path)?;
        Disk.remove(path)?;
        state.names.remove(path);
        state.note(path, Undo::Removed { path: path.to_owned(), file });
        Ok(())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.ask(Op::SyncDir)?;
        Disk.sync_dir(path)?;
        self.state().undo.retain(|(dir, _)| dir != path);
        Ok(())
    }
}

struct FaultyFile {
    file: Box<dyn File>,
    number: usize,
    end: usize,
    files: Faulty,
}

impl FaultyFile {
    fn write(&mut self, offset: usize, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(offset as u64, bytes)?;
        let mut state = self.files.state();
        // After a power failure the file is no longer tracked.
        if let Some(image) = state.files.get_mut(self.number) {
            image.write(offset, bytes);
        }
        self.end = self.end.max(offset + bytes.len());
        Ok(())
    }

    /// A failed write may have written a part.
    fn write_or_fail(&mut self, op: Op, offset: usize, bytes: &[u8]) -> io::Result<()> {
        if let Err(error) = self.files.ask(op) {
            self.write(offset, &bytes[..bytes.len() / 2])?;
            return Err(error);
        }
        self.write(offset, bytes)
    }
}

impl File for FaultyFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_or_fail(Op::Write, self.end, bytes)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_or_fail(Op::Write, offset as usize, bytes)
    }

    fn allocate(&mut self, length: u64) -> io::Result<()> {
        let zeros = vec![0; (length as usize).saturating_sub(self.end)];
        self.write_or_fail(Op::Allocate, self.end, &zeros)
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.files.ask(Op::Truncate)?;
        self.file.truncate(length)?;
        self.end = length as usize;
        if let Some(image) = self.files.state().files.get_mut(self.number) {
            image.cut(length as usize);
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let result = self.files.ask(Op::Sync).and_then(|()| self.file.sync());
        let mut state = self.files.state();
        if let Some(image) = state.files.get_mut(self.number) {
            match &result {
                Ok(()) => image.sync(),
                Err(_) => image.fail_to_sync(),
            }
        }
        result
    }
}
