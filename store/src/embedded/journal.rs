//! The journal: what acknowledges. One frame and one sync per group, in segments.
//!
//! A segment is `journal/<first revision, 20 digits>.wal`. Only the last one is written; only its
//! end can be torn, and what is torn there was never acknowledged, because a group is acknowledged
//! after its sync and the next one is written after that. Anything else that does not fit is
//! damage, and is reported rather than repaired.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::files::{File, Files};
use super::frame::{Entry, FrameWriter, HEADER, SegmentHeader, StoreId};
use super::room::is_no_room;
use super::scan::{self, Scan, Segment, io};
use crate::{Event, OpenError, Revision};

pub(super) const SUFFIX: &str = ".wal";

/// A segment that is written no more.
#[derive(Clone, Debug)]
struct Closed {
    path: PathBuf,
    last: Revision,
}

/// What is known of the segments outside the committer.
#[derive(Debug, Default)]
pub(crate) struct Segments {
    closed: Mutex<VecDeque<Closed>>,
    /// Bytes that were in the journal when it was opened, and those appended since.
    appended: AtomicU64,
    /// The next group is to start a segment.
    cut: AtomicBool,
}

impl Segments {
    pub(crate) fn appended(&self) -> u64 {
        self.appended.load(Ordering::Relaxed)
    }

    /// Makes the next group start a segment, so that a snapshot covers all the others whole.
    pub(crate) fn ask_for_cut(&self) {
        self.cut.store(true, Ordering::Relaxed);
    }

    /// Whether that is still to come.
    pub(crate) fn awaits_cut(&self) -> bool {
        self.cut.load(Ordering::Relaxed)
    }

    /// Removes the segments that hold nothing after this revision, oldest first.
    pub(crate) fn remove_through(&self, files: &dyn Files, revision: Revision) -> std::io::Result<()> {
        loop {
            let path = {
                let closed = self.lock();
                match closed.front() {
                    Some(segment) if segment.last <= revision => segment.path.clone(),
                    Some(_) | None => return Ok(()),
                }
            };
            files.remove(&path)?;
            tracing::debug!(path = %path.display(), "removed a journal segment that is covered");
            self.lock().pop_front();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Closed>> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The journal, open for appending.
pub(crate) struct Journal {
    files: Arc<dyn Files>,
    dir: PathBuf,
    store: StoreId,
    rotate_at: u64,
    writer: FrameWriter,
    file: Box<dyn File>,
    path: PathBuf,
    length: u64,
    next: Revision,
    /// The checksum of the newest entry, when it is in the segment that is written.
    newest: Option<u32>,
    segments: Arc<Segments>,
}

impl Journal {
    /// A new journal, durable with its first segment.
    pub(crate) fn create(
        files: Arc<dyn Files>,
        dir: PathBuf,
        store: StoreId,
        rotate_at: u64,
    ) -> Result<Self, OpenError> {
        Journal::create_from(files, dir, store, rotate_at, Revision(1))
    }

    /// The same for a store whose first write has this revision.
    pub(crate) fn create_from(
        files: Arc<dyn Files>,
        dir: PathBuf,
        store: StoreId,
        rotate_at: u64,
        first: Revision,
    ) -> Result<Self, OpenError> {
        files.create_dir(&dir).map_err(|source| io("create", &dir, source))?;
        let path = segment_path(&dir, first);
        let file =
            create_segment(&*files, &dir, store, first).map_err(|source| io("create", &path, source))?;
        let writer = FrameWriter::new(store);
        let segments = Arc::default();
        Ok(Journal {
            files,
            dir,
            store,
            rotate_at,
            writer,
            file,
            path,
            length: HEADER as u64,
            next: first,
            newest: None,
            segments,
        })
    }

    /// Makes the end of a scanned journal clean and durable, and opens it for appending.
    pub(crate) fn open(
        files: Arc<dyn Files>,
        dir: PathBuf,
        store: StoreId,
        rotate_at: u64,
        scan: &Scan,
    ) -> Result<Self, OpenError> {
        if let Some(path) = &scan.unfinished {
            tracing::warn!(path = %path.display(), "removing a journal segment that was never finished");
            files.remove(path).map_err(|source| io("remove", path, source))?;
        }
        let mut segments = scan.segments.clone();
        let Some(last) = segments.pop() else {
            return Journal::create(files, dir, store, rotate_at);
        };
        let path = last.path.clone();
        let newest = scan::entry_crc(&*files, scan, store, scan.last())?;
        let file =
            settle(&*files, &last, scan.torn).map_err(|source| io("repair the end of", &path, source))?;
        files.sync_dir(&dir).map_err(|source| io("sync", &dir, source))?;
        let appended = AtomicU64::new(scan.bytes_through(last.next));
        let closed = segments
            .into_iter()
            .map(|segment| Closed { path: segment.path, last: Revision(segment.next.0 - 1) });
        let segments =
            Segments { closed: Mutex::new(closed.collect()), appended, cut: AtomicBool::new(false) };
        Ok(Journal {
            files,
            dir,
            store,
            rotate_at,
            writer: FrameWriter::new(store),
            file,
            path,
            length: last.length,
            next: last.next,
            newest,
            segments: Arc::new(segments),
        })
    }

    pub(crate) fn segments(&self) -> Arc<Segments> {
        self.segments.clone()
    }

    /// The newest durable revision, and the checksum of its entry.
    pub(crate) fn newest(&self) -> (Revision, Option<u32>) {
        (Revision(self.next.0 - 1), self.newest)
    }

    /// Appends one group and makes it durable. After an error other than [`Refused::NoRoom`]
    /// nothing may be appended any more.
    pub(crate) fn append<V>(&mut self, events: &[Arc<Event<V>>]) -> Result<(), Refused> {
        let Some(first) = events.first() else { return Ok(()) };
        self.start(first.revision)?;
        for event in events {
            let record = event.record.as_ref();
            let named = record.or(event.prev.as_ref());
            let create = named.map_or(Revision::ZERO, |record| record.create_revision);
            let prev = event.prev.as_ref().map_or(Revision::ZERO, |prev| prev.mod_revision);
            let value = record.map(|record| &*record.value);
            self.writer.entry(event.time_ms, create, prev, event.key.as_str(), value);
        }
        self.finish()
    }

    /// Appends entries that were already acknowledged and are missing here.
    pub(crate) fn append_entries(&mut self, entries: &[Entry]) -> Result<(), Refused> {
        let Some(first) = entries.first() else { return Ok(()) };
        self.start(first.revision)?;
        for entry in entries {
            self.writer.entry(entry.time_ms, entry.create, entry.prev, &entry.key, entry.value.as_deref());
        }
        self.finish()
    }

    fn start(&mut self, first: Revision) -> Result<(), Refused> {
        if first != self.next {
            let next = self.next;
            return Err(format!("the journal is at revision {next}, but {first} was to be written").into());
        }
        let cut = self.segments.cut.load(Ordering::Relaxed) && self.length > HEADER as u64;
        if cut || self.length >= self.rotate_at {
            self.rotate()?;
        }
        if cut {
            self.segments.cut.store(false, Ordering::Relaxed);
        }
        self.writer.start(first);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Refused> {
        let next = self.writer.next();
        let frame = self.writer.finish().ok_or_else(|| "a group is larger than a frame can be".to_owned())?;
        let length = frame.len() as u64;
        let path = self.path.display();
        if let Err(error) = self.file.append(frame) {
            let why = format!("cannot append to {path}: {error}");
            // A part may have got there. When it is cut off again, and durably so, nothing was written.
            let undone =
                is_no_room(&error) && self.file.truncate(self.length).and_then(|()| self.file.sync()).is_ok();
            return Err(if undone { Refused::NoRoom(why) } else { Refused::Unknown(why) });
        }
        self.file.sync().map_err(|error| format!("cannot sync {path}: {error}"))?;
        self.length += length;
        self.next = next;
        self.newest = Some(self.writer.last_crc());
        self.segments.appended.fetch_add(length, Ordering::Relaxed);
        Ok(())
    }

    fn rotate(&mut self) -> Result<(), Refused> {
        let path = segment_path(&self.dir, self.next);
        self.file = match create_segment(&*self.files, &self.dir, self.store, self.next) {
            Ok(file) => file,
            Err(error) => {
                let why = format!("cannot create {}: {error}", path.display());
                // Without it the segment before is the last one still, and goes on.
                let undone = is_no_room(&error) && self.discard(&path).is_ok();
                return Err(if undone { Refused::NoRoom(why) } else { Refused::Unknown(why) });
            }
        };
        let path = std::mem::replace(&mut self.path, path);
        self.length = HEADER as u64;
        self.segments.lock().push_back(Closed { path, last: Revision(self.next.0 - 1) });
        Ok(())
    }
}

impl Journal {
    /// Removes a segment that could not be created.
    fn discard(&self, path: &Path) -> std::io::Result<()> {
        match self.files.remove(path) {
            Ok(()) => self.files.sync_dir(&self.dir),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Why a group is not in the journal.
#[derive(Debug)]
pub(crate) enum Refused {
    /// There was no room, and nothing of it is there.
    NoRoom(String),
    /// Nothing is known of what is there.
    Unknown(String),
}

impl From<String> for Refused {
    fn from(why: String) -> Self {
        Refused::Unknown(why)
    }
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refused::NoRoom(why) | Refused::Unknown(why) => f.write_str(why),
        }
    }
}

/// Cuts what is torn, and makes the last frame durable: its sync may have failed in a process that
/// went on to read it from the page cache, where a second sync alone would do nothing.
fn settle(files: &dyn Files, last: &Segment, torn: u64) -> std::io::Result<Box<dyn File>> {
    let mut file = files.open(&last.path)?;
    if torn > 0 {
        let path = last.path.display();
        tracing::warn!(%path, offset = last.length, bytes = torn, "cutting a torn end that was never acknowledged");
        file.truncate(last.length)?;
    }
    if last.length > last.last_frame
        && let Some(bytes) = files.read(&last.path)?
        && let Some(frame) = bytes.get(last.last_frame as usize..last.length as usize)
    {
        file.write_at(last.last_frame, frame)?;
    }
    file.sync()?;
    Ok(file)
}

pub(super) fn create_segment(
    files: &dyn Files,
    dir: &Path,
    store: StoreId,
    first: Revision,
) -> std::io::Result<Box<dyn File>> {
    let mut file = files.create(&segment_path(dir, first))?;
    file.append(&SegmentHeader { store, first }.encode())?;
    file.sync()?;
    files.sync_dir(dir)?;
    Ok(file)
}

pub(super) fn segment_path(dir: &Path, first: Revision) -> PathBuf {
    dir.join(format!("{:020}{SUFFIX}", first.0))
}
