//! A file system on which a chosen operation fails, and which forgets at a power cut what was not
//! synced.
//!
//! It sits on the real disk and keeps count. From the operation that fails on, all fail: for the
//! store the machine is gone. [`Faulty::cut`] then brings the directory to what a disk is sure to
//! have: files at their synced length, names as of the last sync of their directory. As on Linux,
//! what a failed sync was to write stays readable and is not written by a later one, unless it is
//! written again.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::embedded::files::{Disk, File, Files};

/// The file system. Clones share their state.
#[derive(Clone)]
pub struct Faulty(Arc<Shared>);

struct Shared {
    /// Operations that change something, so far.
    done: AtomicU64,
    /// The first of them that fails.
    fails_at: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// How much of each file that was written is synced.
    synced: HashMap<PathBuf, u64>,
    /// From where on a failed sync has left a file unwritten.
    dropped: HashMap<PathBuf, u64>,
    /// What a power cut undoes, by the directory whose sync makes it last, oldest first.
    undo: Vec<(PathBuf, Undo)>,
}

enum Undo {
    Created(PathBuf),
    Renamed { from: PathBuf, to: PathBuf, replaced: Option<Vec<u8>> },
    Removed { path: PathBuf, bytes: Vec<u8> },
}

impl Faulty {
    /// One on which the n-th change (from 0) and all later ones fail.
    pub fn new(fails_at: u64) -> Self {
        Faulty(Arc::new(Shared {
            done: AtomicU64::new(0),
            fails_at: AtomicU64::new(fails_at),
            state: Mutex::default(),
        }))
    }

    /// How many changes were asked for.
    pub fn done(&self) -> u64 {
        self.0.done.load(Ordering::SeqCst)
    }

    /// Makes the change after so many more fail.
    pub fn fail_after(&self, more: u64) {
        self.0.fails_at.store(self.done() + more, Ordering::SeqCst);
    }

    /// Nothing fails any more.
    pub fn heal(&self) {
        self.0.fails_at.store(u64::MAX, Ordering::SeqCst);
    }

    /// The power goes: everything that was not synced is lost.
    pub fn cut(&self) -> io::Result<()> {
        let mut state = self.state();
        state.dropped.clear();
        for (path, synced) in state.synced.drain() {
            if let Ok(file) = std::fs::OpenOptions::new().write(true).open(&path) {
                let length = file.metadata()?.len();
                file.set_len(length.min(synced))?;
            }
        }
        while let Some((_, undo)) = state.undo.pop() {
            match undo {
                Undo::Created(path) => std::fs::remove_file(path)?,
                Undo::Renamed { from, to, replaced } => {
                    std::fs::rename(&to, from)?;
                    if let Some(bytes) = replaced {
                        std::fs::write(to, bytes)?;
                    }
                }
                Undo::Removed { path, bytes } => std::fs::write(path, bytes)?,
            }
        }
        Ok(())
    }

    fn change(&self) -> io::Result<()> {
        let at = self.0.done.fetch_add(1, Ordering::SeqCst);
        if at >= self.0.fails_at.load(Ordering::SeqCst) {
            return Err(io::Error::other(format!("operation {at} was made to fail")));
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, path: &Path, undo: Undo) {
        let dir = path.parent().unwrap_or(path).to_owned();
        self.state().undo.push((dir, undo));
    }
}

impl Files for Faulty {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.change()?;
        Disk.create_dir(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        Disk.list(path)
    }

    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        Disk.read(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        self.change()?;
        if !path.exists() {
            self.note(path, Undo::Created(path.to_owned()));
        }
        self.state().synced.insert(path.to_owned(), 0);
        let file = Disk.create(path)?;
        Ok(Box::new(FaultyFile { file, path: path.to_owned(), length: 0, files: self.clone() }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let file = Disk.open(path)?;
        let length = std::fs::metadata(path)?.len();
        // What an earlier process has left is taken for synced.
        self.state().synced.entry(path.to_owned()).or_insert(length);
        Ok(Box::new(FaultyFile { file, path: path.to_owned(), length, files: self.clone() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change()?;
        let replaced = if to.is_file() { Disk.read(to)? } else { None };
        Disk.rename(from, to)?;
        let mut state = self.state();
        if let Some(synced) = state.synced.remove(from) {
            state.synced.insert(to.to_owned(), synced);
        }
        drop(state);
        self.note(to, Undo::Renamed { from: from.to_owned(), to: to.to_owned(), replaced });
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.change()?;
        let bytes = Disk.read(path)?.unwrap_or_default();
        Disk.remove(path)?;
        self.state().synced.remove(path);
        self.note(path, Undo::Removed { path: path.to_owned(), bytes });
        Ok(())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.change()?;
        Disk.sync_dir(path)?;
        self.state().undo.retain(|(dir, _)| dir != path);
        Ok(())
    }
}

struct FaultyFile {
    file: Box<dyn File>,
    path: PathBuf,
    length: u64,
    files: Faulty,
}

impl File for FaultyFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Err(error) = self.files.change() {
            // A part may have got there.
            self.file.append(&bytes[..bytes.len() / 2])?;
            return Err(error);
        }
        self.file.append(bytes)?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.files.change()?;
        self.written_from(offset);
        self.file.write_at(offset, bytes)
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.files.change()?;
        self.length = length;
        self.written_from(length);
        self.file.truncate(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        let failed = self.files.change().and_then(|()| self.file.sync());
        let mut state = self.files.state();
        if failed.is_err() {
            let from = state.synced.get(&self.path).copied().unwrap_or(self.length);
            state.dropped.entry(self.path.clone()).or_insert(from);
            return failed;
        }
        let written = state.dropped.get(&self.path).copied().unwrap_or(self.length);
        state.synced.insert(self.path.clone(), written);
        Ok(())
    }
}

impl FaultyFile {
    /// What was dropped behind this offset is gone or written again.
    fn written_from(&self, offset: u64) {
        let mut state = self.files.state();
        if state.dropped.get(&self.path).is_some_and(|from| offset <= *from) {
            state.dropped.remove(&self.path);
        }
    }
}
