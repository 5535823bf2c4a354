//! The journal, which makes groups durable before they are acknowledged: one frame and one sync per group,
//! in segments.
//!
//! A segment is `journal/<first revision, 20 digits>.wal`. Only the last segment is written, and only its
//! end can be torn. A torn frame was never acknowledged, because a group is acknowledged after its sync and
//! the next group is written after that. Any other mismatch is damage, and is reported rather than
//! repaired.
//!
//! Segments are filled with zeros before use ([`preallocate`](super::preallocate)): a sync that changes no
//! length and no block takes half the time. Without preallocated zeros, frames are appended.

use parking_lot::Mutex;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::disk_space::is_no_space;
use super::files::{File, Files, is_no_files};
use super::frame::{Entry, FrameWriter, HEADER, SegmentHeader, StoreId};
use super::paths::SEGMENT_SUFFIX;
use super::preallocate::{FIRST_PREALLOCATED, Preallocator};
use super::refused::Refused;
use super::scan::{self, Scan, Segment, io};
use super::segments::{Closed, Segments};
use crate::{Event, OpenError, Revision};

/// The journal, open for appending.
pub(crate) struct Journal {
    files: Arc<dyn Files>,
    dir: PathBuf,
    store: StoreId,
    rotate_at: u64,
    writer: FrameWriter,
    file: Box<dyn File>,
    path: PathBuf,
    /// The valid bytes; the next frame is written after them.
    length: u64,
    /// The preallocated bytes of the file.
    preallocated: u64,
    preallocator: Preallocator,
    next: Revision,
    /// The checksum of the newest entry; `None` when the journal is empty.
    newest: Option<u32>,
    segments: Arc<Segments>,
    /// The disk is too full to preallocate segments.
    short: bool,
    /// The last attempt to start a segment found too many open files.
    lacks_files: bool,
}

/// How long to wait for a free file descriptor before a failed rotation cannot be undone, and the time between attempts.
const FILES_WAIT: Duration = Duration::from_secs(10);
const FILES_RETRY: Duration = Duration::from_millis(10);

/// Why no segment can start now. The attempt can be repeated.
const NO_SEGMENT: &str =
    "no journal segment can start now: the disk has too little free space, or too many files are open";

impl Journal {
    /// Creates a journal with its first segment, durably.
    pub(crate) fn create(
        files: Arc<dyn Files>,
        dir: PathBuf,
        store: StoreId,
        rotate_at: u64,
    ) -> Result<Self, OpenError> {
        Journal::create_from(files, dir, store, rotate_at, Revision(1))
    }

    /// Like `create`, for a store whose first write has this revision.
    pub(crate) fn create_from(
        files: Arc<dyn Files>,
        dir: PathBuf,
        store: StoreId,
        rotate_at: u64,
        first: Revision,
    ) -> Result<Self, OpenError> {
        files.create_dir(&dir).map_err(|source| io("create", &dir, source))?;
        let path = segment_path(&dir, first);
        let preallocated = FIRST_PREALLOCATED.min(rotate_at);
        let (file, preallocated) = create_segment(&*files, &dir, store, first, preallocated)
            .map_err(|source| io("create", &path, source))?;
        let preallocator = Preallocator::new(files.clone(), &dir);
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
            preallocated,
            preallocator,
            next: first,
            newest: None,
            segments,
            short: false,
            lacks_files: false,
        })
    }

    /// Cleans the end of a scanned journal, makes it durable, and opens it for appending.
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
        let preallocator = Preallocator::new(files.clone(), &dir);
        Ok(Journal {
            files,
            dir,
            store,
            rotate_at,
            writer: FrameWriter::new(store),
            file,
            path,
            length: last.length,
            preallocated: last.preallocated,
            preallocator,
            next: last.next,
            newest,
            segments: Arc::new(segments),
            short: false,
            lacks_files: false,
        })
    }

    pub(crate) fn segments(&self) -> Arc<Segments> {
        self.segments.clone()
    }

    /// Stops the preallocation thread. Nothing may be appended after this.
    pub(super) fn stop(&mut self) {
        self.preallocator.stop();
    }

    /// Whether the next segment is preallocated.
    #[cfg(test)]
    pub(super) fn is_prepared(&self) -> bool {
        self.preallocator.is_ready()
    }

    /// Sets whether disk space is short. If so, nothing is preallocated and the preallocated file is removed;
    /// returns true if that freed space.
    pub(crate) fn space_is_short(&mut self, short: bool) -> bool {
        self.short = short;
        short && self.preallocator.give_up()
    }

    /// The newest durable revision, and the checksum of its entry.
    pub(crate) fn newest(&self) -> (Revision, Option<u32>) {
        (Revision(self.next.0 - 1), self.newest)
    }

    /// Appends one group and makes it durable. After an error other than [`Refused::NoSpace`], nothing may be
    /// appended any more.
    pub(crate) fn append<V>(&mut self, events: &[Arc<Event<V>>]) -> Result<(), Refused> {
        let Some(first) = events.first() else { return Ok(()) };
        self.start(first.revision)?;
        for event in events {
            let record = event.record.as_ref();
            let named = record.or(event.prev.as_ref());
            let create = named.map_or(Revision::ZERO, |record| record.create_revision);
            let prev = event.prev.as_ref().map_or(Revision::ZERO, |prev| prev.mod_revision);
            let value = record.map(|record| &**record.stored_bytes());
            self.writer.entry(event.time_ms, create, prev, event.key.as_str(), value);
        }
        self.finish()
    }

    /// Appends entries that were acknowledged earlier and are missing here.
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
        self.writer.start(first);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Refused> {
        self.rotate_if_due()?;
        let next = self.writer.next();
        let frame = self.writer.finish().ok_or_else(|| "a group is larger than a frame can be".to_owned())?;
        let length = frame.len() as u64;
        let path = self.path.display();
        if let Err(error) = self.file.write_at(self.length, frame) {
            let why = format!("cannot write to {path}: {error}");
            // A part of the frame may be in the file. Once it is durably truncated, nothing was written.
            let undone = is_no_space(&error)
                && self.file.truncate(self.length).and_then(|()| self.file.sync()).is_ok();
            // The truncation also removed the zeros behind it.
            self.preallocated = self.preallocated.min(self.length);
            return Err(if undone { Refused::NoSpace(why) } else { Refused::Unknown(why) });
        }
        self.file.sync().map_err(|error| format!("cannot sync {path}: {error}"))?;
        self.length += length;
        self.next = next;
        self.newest = Some(self.writer.last_crc());
        self.segments.appended.fetch_add(length, Ordering::Relaxed);
        self.look_ahead();
        Ok(())
    }

    /// Starts a new segment, so that all others can be removed once a snapshot covers them. Does nothing if the current segment has no
    /// frame. Returns the newest revision in the other segments.
    pub(crate) fn rotate(&mut self) -> Result<Revision, Refused> {
        self.segments.ask_for_cut();
        self.rotate_if_due()?;
        if self.segments.awaits_cut() {
            return Err(Refused::NoSpace(NO_SEGMENT.to_owned()));
        }
        Ok(Revision(self.next.0 - 1))
    }

    /// Switches to a new segment when the current one is full or must end here, or when the frame does not fit
    /// into its zeros and a preallocated segment exists.
    fn rotate_if_due(&mut self) -> Result<(), Refused> {
        let cut = self.segments.awaits_cut();
        let must = cut || self.length >= self.rotate_at;
        let fits = self.length + self.writer.size() <= self.preallocated;
        if self.length <= HEADER as u64 {
            // Two segments cannot start at the same revision, and this one starts here.
            if cut {
                self.segments.cut.store(false, Ordering::Relaxed);
            }
            return Ok(());
        }
        if !must && fits {
            return Ok(());
        }
        let path = segment_path(&self.dir, self.next);
        let next = match self.preallocator.take() {
            Some(prepared) => {
                let named = self.name(prepared.file, &prepared.path, &path);
                if named.is_err() {
                    // The disk space of the prepared file is needed.
                    self.preallocator.discard();
                }
                named.map(|file| (file, prepared.preallocated))
            }
            None if must => create_segment(&*self.files, &self.dir, self.store, self.next, 0),
            None => return Ok(()),
        };
        match next {
            Ok((file, preallocated)) => self.follow(file, path, preallocated),
            Err(error) => {
                let why = format!("cannot create {}: {error}", path.display());
                let lacks_files = is_no_files(&error);
                // Without the new segment, the previous one is still the last one and is written further. No power failure may
                // bring the other one back.
                let is_undone = (lacks_files || is_no_space(&error)) && self.discard(&path).is_ok();
                if !is_undone {
                    return Err(Refused::Unknown(why));
                }
                if lacks_files && !std::mem::replace(&mut self.lacks_files, true) {
                    tracing::warn!(
                        why,
                        "too many files are open; the previous journal segment is written further"
                    );
                }
                // A frame beyond the zeros needs space, but no other file.
                return match fits || !must || lacks_files {
                    true => Ok(()),
                    false => Err(Refused::NoSpace(why)),
                };
            }
        }
        self.lacks_files = false;
        if cut {
            self.segments.cut.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Renames a prepared file to the next segment.
    fn name(&self, mut file: Box<dyn File>, from: &Path, to: &Path) -> io::Result<Box<dyn File>> {
        file.write_at(0, &SegmentHeader::new(self.store, self.next).encode())?;
        file.sync()?;
        self.files.rename(from, to)?;
        self.files.sync_dir(&self.dir)?;
        Ok(file)
    }

    fn follow(&mut self, file: Box<dyn File>, path: PathBuf, preallocated: u64) {
        self.file = file;
        self.preallocated = preallocated;
        let path = std::mem::replace(&mut self.path, path);
        self.length = HEADER as u64;
        self.segments.lock().push_back(Closed { path, last: Revision(self.next.0 - 1) });
    }

    /// Requests the next segment when the current one is half full.
    fn look_ahead(&mut self) {
        let left = self.preallocated.saturating_sub(self.length);
        if left <= self.preallocated / 2 && !self.short {
            let preallocated = (self.preallocated * 2).max(FIRST_PREALLOCATED).min(self.rotate_at);
            self.preallocator.want(preallocated, self.segments.appended());
        }
    }
}

impl Journal {
    /// Removes a segment that could not be created. To sync the directory, it is opened: if too many files are open, the attempt is
    /// repeated, because after a failure the store could take no more writes.
    fn discard(&self, path: &Path) -> io::Result<()> {
        match self.files.remove(path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        }
        let start = Instant::now();
        loop {
            match self.files.sync_dir(&self.dir) {
                Err(error) if is_no_files(&error) && start.elapsed() < FILES_WAIT => {
                    std::thread::sleep(FILES_RETRY);
                }
                result => return result,
            }
        }
    }
}

/// Truncates a torn end, and makes the last frame durable: its sync may have failed in a process that
/// continued to read it from the page cache, where a second sync alone has no effect.
fn settle(files: &dyn Files, last: &Segment, torn: u64) -> io::Result<Box<dyn File>> {
    let mut file = files.open(&last.path)?;
    if torn > 0 {
        let path = last.path.display();
        tracing::warn!(%path, offset = last.length, bytes = torn, "cutting a torn end that was never acknowledged");
        if last.has_zeros {
            file.write_at(last.length, &vec![0; torn as usize])?;
        } else {
            file.truncate(last.length)?;
        }
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

/// Creates a segment durably, with `preallocated` bytes allocated in advance if the disk has space. Returns the
/// number of preallocated bytes.
pub(super) fn create_segment(
    files: &dyn Files,
    dir: &Path,
    store: StoreId,
    first: Revision,
    preallocated: u64,
) -> io::Result<(Box<dyn File>, u64)> {
    let path = segment_path(dir, first);
    let mut file = files.create(&path)?;
    file.append(&SegmentHeader::new(store, first).encode())?;
    let filled = file.allocate(preallocated);
    if let Err(error) = &filled {
        tracing::warn!(%error, path = %path.display(), "cannot fill a journal segment beforehand");
    }
    file.sync()?;
    files.sync_dir(dir)?;
    // A wrong number of zeros is harmless: beyond them, frames are appended.
    Ok((file, if filled.is_ok() { preallocated } else { 0 }))
}

pub(super) fn segment_path(dir: &Path, first: Revision) -> PathBuf {
    dir.join(format!("{:020}{SEGMENT_SUFFIX}", first.0))
}
