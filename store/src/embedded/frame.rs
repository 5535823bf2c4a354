//! The encoding of the journal: segment headers, frames, and their entries.
//!
//! All numbers are little endian. Checksums are crc32c, salted with the store's id, so that bytes of
//! another store, or bytes inside a value, never pass for a frame of this store. docs/store-format.md
//! describes the layout. No bytes from the disk are used before their checksum matches.

use bytes::{Buf, BufMut, Bytes};

use crate::Revision;

/// The format that this version writes, and the newest that it can read.
pub(crate) const FORMAT: u32 = 3;
/// From this format on, a segment may end with preallocated zeros.
pub(crate) const ZERO_TAILS: u32 = 2;
/// The size of a segment header in bytes.
pub(crate) const HEADER: usize = 48;
/// The size of a frame header in bytes.
pub(crate) const FRAME: usize = 32;

const SEGMENT_MAGIC: &[u8; 8] = b"ORLOPJNL";
const FRAME_MAGIC: &[u8; 4] = b"GRUP";

/// The id of a store, with which its checksums are salted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoreId(pub(crate) [u8; 16]);

impl StoreId {
    pub(crate) fn new() -> Self {
        StoreId(*uuid::Uuid::new_v4().as_bytes())
    }

    /// The checksum of bytes of this store.
    pub(crate) fn crc(&self, parts: &[&[u8]]) -> u32 {
        parts.iter().fold(crc32c::crc32c(&self.0), |crc, part| crc32c::crc32c_append(crc, part))
    }
}

impl std::fmt::Display for StoreId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        uuid::Uuid::from_bytes(self.0).fmt(f)
    }
}

/// The contents of a segment header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) format: u32,
    pub(crate) store: StoreId,
    pub(crate) first: Revision,
}

/// Why a header was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadHeader {
    /// Too short, or with a wrong checksum.
    Broken,
    /// Intact, but of a newer format.
    TooNew(u32),
}

impl SegmentHeader {
    /// The header of a segment in the newest format.
    pub(crate) fn new(store: StoreId, first: Revision) -> Self {
        SegmentHeader { format: FORMAT, store, first }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER);
        out.put_slice(SEGMENT_MAGIC);
        out.put_u32_le(self.format);
        out.put_u32_le(0);
        out.put_slice(&self.store.0);
        out.put_u64_le(self.first.0);
        out.put_u32_le(0);
        out.put_u32_le(self.store.crc(&[&out]));
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, BadHeader> {
        let Some((body, mut crc)) =
            bytes.get(..HEADER).and_then(|header| header.split_at_checked(HEADER - 4))
        else {
            return Err(BadHeader::Broken);
        };
        let mut at = body;
        let magic = at.copy_to_bytes(8);
        let format = at.get_u32_le();
        at.advance(4);
        let mut id = [0; 16];
        at.copy_to_slice(&mut id);
        let store = StoreId(id);
        if magic != SEGMENT_MAGIC[..] || store.crc(&[body]) != crc.get_u32_le() {
            return Err(BadHeader::Broken);
        }
        if format > FORMAT {
            return Err(BadHeader::TooNew(format));
        }
        Ok(SegmentHeader { format, store, first: Revision(at.get_u64_le()) })
    }
}

/// One write in the journal. Its revision follows from its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) revision: Revision,
    pub(crate) time_ms: i64,
    /// The revision that created the key; for a delete, that of the deleted record.
    pub(crate) create: Revision,
    /// The revision of the record that was replaced or deleted; zero when there was none.
    pub(crate) prev: Revision,
    pub(crate) key: String,
    /// `None` for a delete.
    pub(crate) value: Option<Bytes>,
}

impl Entry {
    /// A checksum of the write and its revision, independent of the frame.
    pub(crate) fn crc(&self, store: StoreId) -> u32 {
        let mut bytes = Vec::new();
        encode_entry(&mut bytes, self.time_ms, self.create, self.prev, &self.key, self.value.as_deref());
        entry_crc(store, self.revision, &bytes)
    }
}

fn entry_crc(store: StoreId, revision: Revision, bytes: &[u8]) -> u32 {
    store.crc(&[&revision.0.to_le_bytes(), bytes])
}

fn encode_entry(
    out: &mut Vec<u8>,
    time_ms: i64,
    create: Revision,
    prev: Revision,
    key: &str,
    value: Option<&[u8]>,
) {
    out.put_u8(if value.is_some() { PUT } else { DELETE });
    out.put_i64_le(time_ms);
    out.put_u64_le(create.0);
    out.put_u64_le(prev.0);
    out.put_u32_le(key.len() as u32);
    out.put_u32_le(value.map_or(0, <[u8]>::len) as u32);
    out.put_slice(key.as_bytes());
    out.put_slice(value.unwrap_or_default());
}

const PUT: u8 = 1;
const DELETE: u8 = 2;

/// Writes a frame of entries into a reused buffer.
pub(crate) struct FrameWriter {
    store: StoreId,
    buffer: Vec<u8>,
    first: Revision,
    count: u32,
    /// The offset of the last entry.
    last: usize,
}

impl FrameWriter {
    pub(crate) fn new(store: StoreId) -> Self {
        FrameWriter { store, buffer: Vec::new(), first: Revision::ZERO, count: 0, last: 0 }
    }

    /// Starts a frame whose first entry has this revision.
    pub(crate) fn start(&mut self, first: Revision) {
        // Releases the memory of an unusually large group.
        self.buffer.clear();
        self.buffer.shrink_to(8 << 20);
        self.buffer.resize(FRAME, 0);
        self.first = first;
        self.count = 0;
    }

    /// Adds the entry of the next revision.
    pub(crate) fn entry(
        &mut self,
        time_ms: i64,
        create: Revision,
        prev: Revision,
        key: &str,
        value: Option<&[u8]>,
    ) {
        self.count += 1;
        self.last = self.buffer.len();
        encode_entry(&mut self.buffer, time_ms, create, prev, key, value);
    }

    /// The checksum of the last entry, equal to [`Entry::crc`].
    pub(crate) fn last_crc(&self) -> u32 {
        let revision = Revision(self.next().0 - 1);
        entry_crc(self.store, revision, self.buffer.get(self.last..).unwrap_or_default())
    }

    /// The size of the frame so far, in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.buffer.len() as u64
    }

    /// The revision after the last entry.
    pub(crate) fn next(&self) -> Revision {
        Revision(self.first.0 + u64::from(self.count))
    }

    /// The bytes of the frame. `None` when the frame is too large for its length field.
    pub(crate) fn finish(&mut self) -> Option<&[u8]> {
        let (header, payload) = self.buffer.split_at_mut(FRAME);
        let length = u32::try_from(payload.len()).ok()?;
        let mut out = &mut header[..];
        out.put_slice(FRAME_MAGIC);
        out.put_u32_le(length);
        out.put_u64_le(self.first.0);
        out.put_u32_le(self.count);
        out.put_u32_le(0);
        out.put_u32_le(self.store.crc(&[payload]));
        let (fields, crc) = header.split_at_mut(FRAME - 4);
        crc.copy_from_slice(&self.store.crc(&[fields]).to_le_bytes());
        Some(&self.buffer)
    }
}

/// A frame with valid checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) first: Revision,
    pub(crate) count: u32,
    pub(crate) payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Decodes the frame at the start of the bytes, if it is complete. A frame has at least one entry.
    pub(crate) fn decode(store: StoreId, bytes: &'a [u8]) -> Option<Frame<'a>> {
        let header = bytes.get(..FRAME)?;
        if !header.starts_with(FRAME_MAGIC) {
            return None;
        }
        let mut at = &header[4..];
        let length = at.get_u32_le() as usize;
        let first = Revision(at.get_u64_le());
        let count = at.get_u32_le();
        at.advance(4);
        let payload_crc = at.get_u32_le();
        if store.crc(&[&header[..FRAME - 4]]) != at.get_u32_le() {
            return None;
        }
        let payload = bytes.get(FRAME..FRAME.checked_add(length)?)?;
        if count == 0 {
            return None;
        }
        (store.crc(&[payload]) == payload_crc).then_some(Frame { first, count, payload })
    }

    /// The size of the frame in bytes.
    pub(crate) fn size(&self) -> usize {
        FRAME + self.payload.len()
    }

    /// The revision of its last entry.
    pub(crate) fn last(&self) -> Revision {
        Revision(self.first.0 + u64::from(self.count) - 1)
    }

    /// Decodes the entries. `None` when they do not fill the frame exactly, which means a faulty writer because
    /// the checksum matched.
    pub(crate) fn entries(&self) -> Option<Vec<Entry>> {
        let mut at = self.payload;
        let mut entries = Vec::new();
        for n in 0..u64::from(self.count) {
            entries.push(decode_entry(Revision(self.first.0 + n), &mut at)?);
        }
        at.is_empty().then_some(entries)
    }
}

fn decode_entry(revision: Revision, at: &mut &[u8]) -> Option<Entry> {
    let kind = at.try_get_u8().ok()?;
    let time_ms = at.try_get_i64_le().ok()?;
    let create = Revision(at.try_get_u64_le().ok()?);
    let prev = Revision(at.try_get_u64_le().ok()?);
    let key = at.try_get_u32_le().ok()? as usize;
    let value = at.try_get_u32_le().ok()? as usize;
    let key = std::str::from_utf8(at.split_off(..key)?).ok()?.to_owned();
    let value = at.split_off(..value)?;
    let value = match kind {
        PUT => Some(Bytes::copy_from_slice(value)),
        DELETE if value.is_empty() => None,
        _ => return None,
    };
    Some(Entry { revision, time_ms, create, prev, key, value })
}

/// Whether a complete frame of this store, with a revision of at least `from`, starts anywhere in the
/// bytes. This distinguishes damage in the middle from a torn end.
pub(crate) fn frame_after(store: StoreId, bytes: &[u8], from: Revision) -> Option<usize> {
    let mut start = 0;
    while let Some(found) = find(&bytes[start..], FRAME_MAGIC) {
        let at = start + found;
        if Frame::decode(store, &bytes[at..]).is_some_and(|frame| frame.first >= from) {
            return Some(at);
        }
        start = at + 1;
    }
    None
}

fn find(bytes: &[u8], what: &[u8; 4]) -> Option<usize> {
    bytes.windows(4).position(|window| window == what)
}
