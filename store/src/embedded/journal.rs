//! The journal: what acknowledges. One frame and one sync per group, in segments.
//!
//! A segment is `journal/<first revision, 20 digits>.wal`. Only the last one is written; only its
//! end can be torn, and what is torn there was never acknowledged, because a group is acknowledged
//! after its sync and the next one is written after that. Anything else that does not fit is
//! damage, and is reported rather than repaired.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::files::{File, Files};
use super::frame::{self, BadHeader, Entry, Frame, FrameWriter, HEADER, SegmentHeader, StoreId};
use crate::{Event, OpenError, Revision};

const SUFFIX: &str = ".wal";

/// One segment, as it was found.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) path: PathBuf,
    /// The revision of its first entry, also when it has none yet.
    pub(crate) first: Revision,
    /// The revision after its last entry.
    pub(crate) next: Revision,
    /// Bytes that are valid.
    length: u64,
    /// Where its last frame starts.
    last_frame: u64,
}

/// What was found, before anything is changed.
#[derive(Debug)]
pub(crate) struct Scan {
    /// In order, without gaps.
    pub(crate) segments: Vec<Segment>,
    /// Bytes behind the last valid frame of the last segment.
    torn: u64,
    /// A last segment that was being created when the power went.
    unfinished: Option<PathBuf>,
}

impl Scan {
    /// The oldest revision that the journal holds (or would hold).
    pub(crate) fn first(&self) -> Revision {
        self.segments.first().map_or(Revision(1), |segment| segment.first)
    }

    /// Bytes of the segments that hold nothing after a revision.
    pub(crate) fn bytes_through(&self, revision: Revision) -> u64 {
        let covered = self.segments.iter().filter(|segment| segment.next <= revision.next());
        covered.map(|segment| segment.length).sum()
    }

    /// The newest revision that the journal holds; the one before its first when it is empty.
    pub(crate) fn last(&self) -> Revision {
        Revision(self.segments.last().map_or(1, |segment| segment.next.0) - 1)
    }
}

/// The segments in a directory, by first revision.
pub(crate) fn list(files: &dyn Files, dir: &Path) -> std::io::Result<Vec<(Revision, PathBuf)>> {
    let mut found = Vec::new();
    for name in files.list(dir)? {
        let Some(digits) = name.strip_suffix(SUFFIX) else { continue };
        if let Ok(first) = digits.parse() {
            found.push((Revision(first), dir.join(name)));
        }
    }
    Ok(found)
}

/// Reads and checks every frame, and changes nothing.
pub(crate) fn scan(files: &dyn Files, root: &Path, dir: &Path, store: StoreId) -> Result<Scan, OpenError> {
    let damaged = |what: String| OpenError::Damaged { path: root.to_owned(), what };
    let found = list(files, dir).map_err(|source| io("list", dir, source))?;
    let mut scan = Scan { segments: Vec::new(), torn: 0, unfinished: None };
    for (at, (first, path)) in found.iter().enumerate() {
        let is_last = at + 1 == found.len();
        let bytes = read(files, path)?;
        let whole_frame = Frame::decode(store, bytes.get(HEADER..).unwrap_or_default());
        match SegmentHeader::decode(&bytes) {
            Ok(header) if header.store != store => {
                return Err(damaged(format!(
                    "{} belongs to the store {}, the directory to {store}; put the right files together",
                    path.display(),
                    header.store
                )));
            }
            Ok(header) if header.first != *first => {
                let is = header.first;
                return Err(damaged(format!("{} starts at revision {is}; rename it so", path.display())));
            }
            Ok(_) => {}
            Err(BadHeader::TooNew(found)) => {
                return Err(OpenError::TooNew { path: path.clone(), found, supported: frame::FORMAT });
            }
            Err(BadHeader::Broken) if whole_frame.is_some_and(|frame| frame.first == *first) => {
                tracing::warn!(path = %path.display(), "the header of a journal segment is damaged; its frames are whole");
            }
            Err(BadHeader::Broken) => {
                if !is_last || frame::frame_after(store, &bytes, Revision::ZERO).is_some() {
                    return Err(damaged(way_on(path, 0, *first)));
                }
                scan.unfinished = Some(path.clone());
                continue;
            }
        }
        if let Some(before) = scan.segments.last()
            && before.next != *first
        {
            return Err(damaged(format!(
                "{} ends before revision {}, but the next segment starts at {first}: one is missing; put it back",
                before.path.display(),
                before.next
            )));
        }
        let (segment, rest) = scan_frames(store, path, *first, &bytes);
        if rest > 0 {
            let bad = segment.length as usize;
            if !is_last || frame::frame_after(store, &bytes[bad..], segment.next).is_some() {
                return Err(damaged(way_on(path, segment.length, segment.next)));
            }
            scan.torn = rest;
        }
        scan.segments.push(segment);
    }
    Ok(scan)
}

/// The segment up to its first bad frame, and how many bytes follow.
fn scan_frames(store: StoreId, path: &Path, first: Revision, bytes: &[u8]) -> (Segment, u64) {
    let mut segment = Segment {
        path: path.to_owned(),
        first,
        next: first,
        length: HEADER as u64,
        last_frame: HEADER as u64,
    };
    let mut rest = bytes.get(HEADER..).unwrap_or_default();
    while let Some(frame) = Frame::decode(store, rest) {
        if frame.first != segment.next || frame.entries().is_none() {
            break;
        }
        segment.next = frame.last().next();
        segment.last_frame = segment.length;
        segment.length += frame.size() as u64;
        rest = &rest[frame.size()..];
    }
    (segment, rest.len() as u64)
}

fn way_on(path: &Path, offset: u64, revision: Revision) -> String {
    format!(
        "{path} is not readable at byte {offset} (revision {revision}), and what follows was acknowledged. \
         Restore the data directory from a backup. Without one: move this segment and all older ones \
         out of the directory; the store opens if its sled or a snapshot covers what was in them",
        path = path.display()
    )
}

/// Hands on every entry after a revision, in order. The frames were checked by [`scan`].
pub(crate) fn replay<E: From<OpenError>>(
    files: &dyn Files,
    scan: &Scan,
    store: StoreId,
    after: Revision,
    mut take: impl FnMut(Entry) -> Result<(), E>,
) -> Result<(), E> {
    for segment in scan.segments.iter().filter(|segment| segment.next.0 > after.0 + 1) {
        let bytes = read(files, &segment.path)?;
        let mut rest = bytes.get(HEADER..segment.length as usize).unwrap_or_default();
        while let Some(frame) = Frame::decode(store, rest) {
            rest = &rest[frame.size()..];
            if frame.last() <= after {
                continue;
            }
            for entry in frame.entries().unwrap_or_default() {
                if entry.revision > after {
                    take(entry)?;
                }
            }
        }
    }
    Ok(())
}

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
}

impl Segments {
    pub(crate) fn appended(&self) -> u64 {
        self.appended.load(Ordering::Relaxed)
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
        files.create_dir(&dir).map_err(|source| io("create", &dir, source))?;
        let first = Revision(1);
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
        let file =
            settle(&*files, &last, scan.torn).map_err(|source| io("repair the end of", &path, source))?;
        files.sync_dir(&dir).map_err(|source| io("sync", &dir, source))?;
        let appended = AtomicU64::new(scan.bytes_through(last.next));
        let closed = segments
            .into_iter()
            .map(|segment| Closed { path: segment.path, last: Revision(segment.next.0 - 1) });
        let segments = Segments { closed: Mutex::new(closed.collect()), appended };
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
            segments: Arc::new(segments),
        })
    }

    pub(crate) fn segments(&self) -> Arc<Segments> {
        self.segments.clone()
    }

    /// Appends one group and makes it durable. After an error nothing may be appended any more.
    pub(crate) fn append<V>(&mut self, events: &[Arc<Event<V>>]) -> Result<(), String> {
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
    pub(crate) fn append_entries(&mut self, entries: &[Entry]) -> Result<(), String> {
        let Some(first) = entries.first() else { return Ok(()) };
        self.start(first.revision)?;
        for entry in entries {
            self.writer.entry(entry.time_ms, entry.create, entry.prev, &entry.key, entry.value.as_deref());
        }
        self.finish()
    }

    fn start(&mut self, first: Revision) -> Result<(), String> {
        if first != self.next {
            return Err(format!("the journal is at revision {}, but {first} was to be written", self.next));
        }
        if self.length >= self.rotate_at {
            self.rotate()?;
        }
        self.writer.start(first);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), String> {
        let next = self.writer.next();
        let frame = self.writer.finish().ok_or("a group is larger than a frame can be")?;
        let length = frame.len() as u64;
        let path = self.path.display();
        self.file.append(frame).map_err(|error| format!("cannot append to {path}: {error}"))?;
        self.file.sync().map_err(|error| format!("cannot sync {path}: {error}"))?;
        self.length += length;
        self.next = next;
        self.segments.appended.fetch_add(length, Ordering::Relaxed);
        Ok(())
    }

    fn rotate(&mut self) -> Result<(), String> {
        let path = segment_path(&self.dir, self.next);
        self.file = create_segment(&*self.files, &self.dir, self.store, self.next)
            .map_err(|error| format!("cannot create {}: {error}", path.display()))?;
        let path = std::mem::replace(&mut self.path, path);
        self.length = HEADER as u64;
        self.segments.lock().push_back(Closed { path, last: Revision(self.next.0 - 1) });
        Ok(())
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

fn create_segment(
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

fn segment_path(dir: &Path, first: Revision) -> PathBuf {
    dir.join(format!("{:020}{SUFFIX}", first.0))
}

fn read(files: &dyn Files, path: &Path) -> Result<Vec<u8>, OpenError> {
    let bytes = files.read(path).map_err(|source| io("read", path, source))?;
    bytes.ok_or_else(|| io("read", path, std::io::ErrorKind::NotFound.into()))
}

fn io(action: &'static str, path: &Path, source: std::io::Error) -> OpenError {
    OpenError::Io { action, path: path.to_owned(), source }
}
