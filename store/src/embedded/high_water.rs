//! The high-water mark: the newest revision known to be acknowledged, stored apart from the journal.
//!
//! A journal truncated at a frame boundary looks intact. The mark detects this: it contains a revision that
//! was acknowledged, and a checksum of its entry. It is written outside the path of writers, about once a
//! second during writes, and at close; so it may lag, and is never ahead of what is durable.
//!
//! The file has two slots in separate pages, written alternately: a torn write damages only one of them.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::{Buf, BufMut};

use super::files::{self, File, Files};
use super::frame::StoreId;
use crate::{OpenError, Revision};

pub(super) const NAME: &str = "high-water";
const MAGIC: &[u8; 8] = b"ORLOPHWM";
/// The format of this file, independent of the journal's.
const FORMAT: u32 = 1;
const SLOT: usize = 60;
/// The offset of the second slot.
const STRIDE: usize = 4096;
/// The minimum interval between two writes.
const EVERY: Duration = Duration::from_secs(1);
/// The interval before a failed write is retried.
const AFTER_FAILURE: Duration = Duration::from_secs(5);

/// The contents of one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HighWaterMark {
    /// The slot with the larger sequence is newer.
    pub(crate) sequence: u64,
    /// A revision that was acknowledged.
    pub(crate) revision: Revision,
    /// The checksum of its entry, when it is known.
    pub(crate) entry: Option<u32>,
}

/// The result of reading the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HighWaterFile {
    Missing,
    /// No slot is intact.
    Damaged,
    Mark(HighWaterMark),
    /// It belongs to another store.
    Other(StoreId),
}

impl HighWaterMark {
    fn encode(&self, store: StoreId) -> Vec<u8> {
        let mut out = Vec::with_capacity(SLOT);
        out.put_slice(MAGIC);
        out.put_u32_le(FORMAT);
        out.put_u32_le(u32::from(self.entry.is_some()));
        out.put_slice(&store.0);
        out.put_u64_le(self.sequence);
        out.put_u64_le(self.revision.0);
        out.put_u32_le(self.entry.unwrap_or(0));
        out.put_u32_le(0);
        out.put_u32_le(store.crc(&[&out]));
        out
    }

    fn offset(&self) -> u64 {
        (self.sequence % 2) * STRIDE as u64
    }
}

/// Decodes an intact slot: its format, its store, its mark.
fn decode(bytes: &[u8]) -> Option<(u32, StoreId, HighWaterMark)> {
    let (body, mut crc) = bytes.get(..SLOT)?.split_at_checked(SLOT - 4)?;
    let mut at = body.strip_prefix(MAGIC)?;
    let format = at.get_u32_le();
    let known = at.get_u32_le() == 1;
    let mut id = [0; 16];
    at.copy_to_slice(&mut id);
    let store = StoreId(id);
    if store.crc(&[body]) != crc.get_u32_le() {
        return None;
    }
    let (sequence, revision) = (at.get_u64_le(), Revision(at.get_u64_le()));
    let entry = at.get_u32_le();
    Some((format, store, HighWaterMark { sequence, revision, entry: known.then_some(entry) }))
}

/// Reads the mark of a store.
pub(crate) fn read(files: &dyn Files, dir: &Path, store: StoreId) -> Result<HighWaterFile, OpenError> {
    let path = dir.join(NAME);
    let bytes =
        files.read(&path).map_err(|source| OpenError::Io { action: "read", path: path.clone(), source })?;
    let Some(bytes) = bytes else { return Ok(HighWaterFile::Missing) };
    let mut newest: Option<HighWaterMark> = None;
    let mut other = None;
    for at in [0, STRIDE] {
        match decode(bytes.get(at..).unwrap_or_default()) {
            Some((format, _, _)) if format > FORMAT => {
                return Err(OpenError::TooNew { path, found: format, supported: FORMAT });
            }
            Some((_, of, mark)) if of == store => {
                newest = newest.filter(|known| known.sequence > mark.sequence).or(Some(mark));
            }
            Some((_, of, _)) => other = Some(of),
            None => {}
        }
    }
    Ok(match (newest, other) {
        (Some(mark), _) => HighWaterFile::Mark(mark),
        (None, Some(store)) => HighWaterFile::Other(store),
        (None, None) => HighWaterFile::Damaged,
    })
}

struct HighWaterState {
    revision: Revision,
    entry: Option<u32>,
    written: Revision,
    /// The thread is waiting for work.
    idle: bool,
    closing: bool,
}

struct Shared {
    state: Mutex<HighWaterState>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, HighWaterState> {
        self.state.lock()
    }
}

/// Maintains the mark of an open store. Dropping it writes the last mark.
pub(crate) struct HighWater {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl HighWater {
    /// Writes the mark of a store that was just opened, and starts the thread that maintains it.
    pub(crate) fn start(
        files: Arc<dyn Files>,
        dir: &Path,
        store: StoreId,
        found: Option<HighWaterMark>,
        head: Revision,
        entry: Option<u32>,
    ) -> std::io::Result<Self> {
        let mut slots =
            Slots { files, path: dir.join(NAME), store, sequence: 0, file: None, has_failed: false };
        slots.sequence = found.map_or(0, |mark| mark.sequence);
        let is_there = found.is_some_and(|mark| mark.revision == head);
        if !is_there {
            slots.write(head, entry);
        }
        let written = if slots.has_failed { Revision(u64::MAX) } else { head };
        let state = HighWaterState { revision: head, entry, written, idle: false, closing: false };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let thread = {
            let shared = shared.clone();
            std::thread::Builder::new().name("store-mark".into()).spawn(move || keep(&shared, slots))?
        };
        Ok(HighWater { shared, thread: Some(thread) })
    }

    /// Records a durable revision. The call is cheap.
    pub(crate) fn note(&self, revision: Revision, entry: Option<u32>) {
        let mut state = self.shared.lock();
        state.revision = revision;
        state.entry = entry;
        if std::mem::take(&mut state.idle) {
            self.shared.changed.notify_one();
        }
    }
}

impl Drop for HighWater {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::warn!("the thread that writes the high-water mark has panicked");
        }
    }
}

fn keep(shared: &Shared, mut slots: Slots) {
    loop {
        let mut state = shared.lock();
        state.idle = true;
        let due = |state: &HighWaterState| state.revision != state.written || state.closing;
        shared.changed.wait_while(&mut state, |state| !due(state));
        state.idle = false;
        if !state.closing {
            // Further revisions may follow soon; one mark covers all of them.
            let pause = if slots.has_failed { AFTER_FAILURE } else { EVERY };
            shared.changed.wait_while_for(&mut state, |state| !state.closing, pause);
        }
        let (revision, entry, closing) = (state.revision, state.entry, state.closing);
        let is_written = state.written == revision;
        drop(state);
        if !is_written && slots.write(revision, entry) {
            shared.lock().written = revision;
        }
        if closing {
            return;
        }
    }
}

/// The file. Failures are logged and retried: the mark is a safeguard, and no writer waits for it.
struct Slots {
    files: Arc<dyn Files>,
    path: PathBuf,
    store: StoreId,
    sequence: u64,
    file: Option<Box<dyn File>>,
    has_failed: bool,
}

impl Slots {
    fn write(&mut self, revision: Revision, entry: Option<u32>) -> bool {
        let mark = HighWaterMark { sequence: self.sequence + 1, revision, entry };
        let result = match &mut self.file {
            Some(file) => {
                let slot = mark.encode(self.store);
                file.write_at(mark.offset(), &slot).and_then(|()| file.sync())
            }
            None => self.write_anew(mark),
        };
        match result {
            Ok(()) => {
                self.sequence = mark.sequence;
                self.has_failed = false;
                true
            }
            Err(error) => {
                if !std::mem::replace(&mut self.has_failed, true) {
                    tracing::warn!(%error, path = %self.path.display(), "cannot write the high-water mark");
                }
                // The page cache is not trusted after a failed sync: the next mark is written to a new file.
                self.file = None;
                false
            }
        }
    }

    /// A file with the mark in one slot and nothing in the other.
    fn write_anew(&mut self, mark: HighWaterMark) -> std::io::Result<()> {
        let mut bytes = vec![0; STRIDE + SLOT];
        let at = mark.offset() as usize;
        bytes[at..at + SLOT].copy_from_slice(&mark.encode(self.store));
        files::write_whole(&*self.files, &self.path, &bytes)?;
        self.file = Some(self.files.open(&self.path)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::embedded::files::Disk;

    const STORE: StoreId = StoreId([7; 16]);

    #[test]
    fn slots_alternate_and_survive_damage_to_the_other() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(&Disk, dir.path(), STORE).unwrap(), HighWaterFile::Missing);
        let files: Arc<dyn Files> = Arc::new(Disk);
        let mark = HighWater::start(files.clone(), dir.path(), STORE, None, Revision(3), Some(9)).unwrap();
        let expected = |sequence, revision, entry| {
            HighWaterFile::Mark(HighWaterMark { sequence, revision: Revision(revision), entry })
        };
        assert_eq!(read(&Disk, dir.path(), STORE).unwrap(), expected(1, 3, Some(9)));
        mark.note(Revision(8), None);
        drop(mark);
        assert_eq!(read(&Disk, dir.path(), STORE).unwrap(), expected(2, 8, None));
        let other = StoreId([8; 16]);
        assert_eq!(read(&Disk, dir.path(), other).unwrap(), HighWaterFile::Other(STORE));
        let path = dir.path().join(NAME);
        let good = std::fs::read(&path).unwrap();
        for at in 0..SLOT {
            let mut bad = good.clone();
            bad[at] ^= 1;
            std::fs::write(&path, &bad).unwrap();
            assert_eq!(read(&Disk, dir.path(), STORE).unwrap(), expected(1, 3, Some(9)), "byte {at}");
            bad[STRIDE + at] ^= 1;
            std::fs::write(&path, &bad).unwrap();
            assert_eq!(read(&Disk, dir.path(), STORE).unwrap(), HighWaterFile::Damaged, "byte {at} of both");
        }
    }
}
