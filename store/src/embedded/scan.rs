//! Reading the journal: checks it frame by frame and changes nothing.
//!
//! Repairable findings ([`Scan::torn`], [`Scan::unfinished`]) are repaired later, when the store is known to
//! open; others are refused here.

use std::path::{Path, PathBuf};

use super::files::{Files, without_zeros};
use super::frame::{self, BadHeader, Entry, Frame, HEADER, SegmentHeader, StoreId};
use super::paths::{RESTORE, SEGMENT_SUFFIX};
use crate::{OpenError, Revision};

/// One segment, as found on disk.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) path: PathBuf,
    /// The revision of its first entry, even when it has no entry yet.
    pub(crate) first: Revision,
    /// The revision after its last entry.
    pub(crate) next: Revision,
    /// The valid bytes.
    pub(super) length: u64,
    /// The preallocated bytes of the file, when zeros follow the valid part.
    pub(super) preallocated: u64,
    /// Whether a torn end is overwritten with zeros rather than truncated.
    pub(super) has_zeros: bool,
    /// The offset of its last frame.
    pub(super) last_frame: u64,
}

/// The result of a scan, before any repair.
#[derive(Debug)]
pub(crate) struct Scan {
    /// In order, without gaps.
    pub(crate) segments: Vec<Segment>,
    /// The bytes after the last valid frame of the last segment, without the zeros at the end.
    pub(super) torn: u64,
    /// A last segment whose creation was interrupted by a power failure.
    pub(super) unfinished: Option<PathBuf>,
}

impl Scan {
    /// The oldest revision in the journal, or its first when it is empty.
    pub(crate) fn first(&self) -> Revision {
        self.segments.first().map_or(Revision(1), |segment| segment.first)
    }

    /// The bytes of the segments without any revision after this one.
    pub(crate) fn bytes_through(&self, revision: Revision) -> u64 {
        let covered = self.segments.iter().filter(|segment| segment.next <= revision.next());
        covered.map(|segment| segment.length).sum()
    }

    /// The newest revision in the journal; the one before its first when it is empty.
    pub(crate) fn last(&self) -> Revision {
        Revision(self.segments.last().map_or(1, |segment| segment.next.0) - 1)
    }
}

/// The segments in a directory, by first revision.
pub(crate) fn list(files: &dyn Files, dir: &Path) -> std::io::Result<Vec<(Revision, PathBuf)>> {
    let mut found = Vec::new();
    for name in files.list(dir)? {
        let Some(digits) = name.strip_suffix(SEGMENT_SUFFIX) else { continue };
        if let Ok(first) = digits.parse() {
            found.push((Revision(first), dir.join(name)));
        }
    }
    Ok(found)
}

/// The store that the segments belong to, from their headers.
pub(crate) fn named(files: &dyn Files, segments: &[(Revision, PathBuf)]) -> std::io::Result<Option<StoreId>> {
    for (_, path) in segments {
        let bytes = files.read(path)?.unwrap_or_default();
        match SegmentHeader::decode(&bytes) {
            Ok(header) => return Ok(Some(header.store)),
            Err(BadHeader::Broken | BadHeader::TooNew(_)) => {}
        }
    }
    Ok(None)
}

/// Reads and checks every frame, and changes nothing.
/// Segments that start at or before `given_up` are ignored.
pub(crate) fn scan(
    files: &dyn Files,
    root: &Path,
    dir: &Path,
    store: StoreId,
    given_up: Revision,
) -> Result<Scan, OpenError> {
    let damaged = |what: String| OpenError::Damaged { path: root.to_owned(), what };
    let mut found = list(files, dir).map_err(|source| io("list", dir, source))?;
    found.retain(|(first, _)| *first > given_up);
    let mut scan = Scan { segments: Vec::new(), torn: 0, unfinished: None };
    for (at, (first, path)) in found.iter().enumerate() {
        let is_last = at + 1 == found.len();
        let bytes = read(files, path)?;
        let whole_frame = Frame::decode(store, bytes.get(HEADER..).unwrap_or_default());
        let mut format = frame::FORMAT;
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
            Ok(header) => format = header.format,
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
        let (mut segment, rest) = scan_frames(store, path, *first, &bytes);
        // In this format, preallocated zeros follow the last frame.
        segment.has_zeros = format >= frame::ZERO_TAILS;
        let torn = if segment.has_zeros { without_zeros(rest) } else { rest.len() };
        if torn > 0 {
            if !is_last || frame::frame_after(store, &rest[..torn], segment.next).is_some() {
                return Err(damaged(way_on(path, segment.length, segment.next)));
            }
            scan.torn = torn as u64;
        }
        if segment.has_zeros {
            segment.preallocated = bytes.len() as u64;
        }
        scan.segments.push(segment);
    }
    Ok(scan)
}

/// Scans a segment up to its first invalid frame, and returns the remaining bytes.
fn scan_frames<'a>(store: StoreId, path: &Path, first: Revision, bytes: &'a [u8]) -> (Segment, &'a [u8]) {
    let mut segment = Segment {
        path: path.to_owned(),
        first,
        next: first,
        length: HEADER as u64,
        preallocated: 0,
        has_zeros: false,
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
    (segment, rest)
}

fn way_on(path: &Path, offset: u64, revision: Revision) -> String {
    format!(
        "{path} is not readable at byte {offset} (revision {revision}), and what follows was acknowledged. \
         {RESTORE}. Without one: move this segment and all older ones \
         out of the directory; the store opens if its sled or a snapshot covers what was in them",
        path = path.display()
    )
}

/// Passes every entry after a revision to the callback, in order. [`scan`] has checked the frames.
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

/// The checksum of a revision's entry; `None` when it is not in the journal.
pub(crate) fn entry_crc(
    files: &dyn Files,
    scan: &Scan,
    store: StoreId,
    revision: Revision,
) -> Result<Option<u32>, OpenError> {
    let holds = |segment: &&Segment| segment.first <= revision && revision < segment.next;
    let Some(segment) = scan.segments.iter().find(holds) else { return Ok(None) };
    let bytes = read(files, &segment.path)?;
    let mut rest = bytes.get(HEADER..segment.length as usize).unwrap_or_default();
    while let Some(frame) = Frame::decode(store, rest) {
        rest = &rest[frame.size()..];
        if frame.last() >= revision {
            let entries = frame.entries().unwrap_or_default();
            return Ok(entries.iter().find(|entry| entry.revision == revision).map(|entry| entry.crc(store)));
        }
    }
    Ok(None)
}

fn read(files: &dyn Files, path: &Path) -> Result<Vec<u8>, OpenError> {
    let bytes = files.read(path).map_err(|source| io("read", path, source))?;
    bytes.ok_or_else(|| io("read", path, std::io::ErrorKind::NotFound.into()))
}

pub(super) fn io(action: &'static str, path: &Path, source: std::io::Error) -> OpenError {
    OpenError::Io { action, path: path.to_owned(), source }
}
