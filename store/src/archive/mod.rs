//! Snapshots for people: one file with all records of one revision, to be kept somewhere else.
//!
//! It is the store's own logical snapshot, compressed, between a header that says what it is and a
//! trailer that says that it is whole. Every byte is under a checksum, so that a damaged file is
//! found when it is looked at and not when it is needed. The layout is told in
//! docs/store-format.md.
//!
//! [`write()`] makes one from an immutable picture, so no writer waits for it. [`check`] reads all of
//! it. [`restore`] makes a new store of it, whose history is a new one: every revision is moved up, so
//! that none goes back for a client that has seen the old store, and all that clients remember from
//! there is Expired.

mod error;
mod read;
mod restore;
mod write;

pub use self::error::ArchiveError;
pub use self::read::{check, header};
pub use self::restore::{BUMP, Restored, restore};
pub use self::write::{save, write};

use std::collections::BTreeMap;

use bytes::{Buf, BufMut};

use crate::Revision;
use crate::embedded::StoreId;

const MAGIC: &[u8; 8] = b"ORLOPARC";
const END: &[u8; 8] = b"ORLOPEND";
/// The format that this version writes, and the only one that it reads.
pub const FORMAT: u32 = 1;
const HEADER: usize = 56;
const TRAILER: usize = 40;

/// What a file says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The store that it was taken from.
    pub store: [u8; 16],
    /// The revision of the picture.
    pub revision: Revision,
    /// When it was taken, milliseconds since the epoch.
    pub time_ms: i64,
    /// How many records there are.
    pub records: u64,
}

impl Header {
    /// The store's id as people write it.
    pub fn store_text(&self) -> String {
        StoreId(self.store).to_string()
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER);
        out.put_slice(MAGIC);
        out.put_u32_le(FORMAT);
        out.put_slice(&self.store);
        out.put_u64_le(self.revision.0);
        out.put_i64_le(self.time_ms);
        out.put_u64_le(self.records);
        out.put_u32_le(crc32c::crc32c(&out));
        out
    }

    fn decode(bytes: &[u8; HEADER]) -> Result<Self, BadHeader> {
        if !bytes.starts_with(MAGIC) {
            return Err(BadHeader::Foreign);
        }
        let (body, mut crc) = bytes.split_at(HEADER - 4);
        if crc32c::crc32c(body) != crc.get_u32_le() {
            return Err(BadHeader::Broken);
        }
        let mut at = &body[8..];
        let format = at.get_u32_le();
        if format != FORMAT {
            return Err(BadHeader::Format(format));
        }
        let mut store = [0; 16];
        at.copy_to_slice(&mut store);
        let (revision, time_ms) = (Revision(at.get_u64_le()), at.get_i64_le());
        Ok(Header { store, revision, time_ms, records: at.get_u64_le() })
    }
}

enum BadHeader {
    Foreign,
    Broken,
    Format(u32),
}

/// What stands at the end of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Trailer {
    /// Bytes between header and trailer.
    body: u64,
    /// Their checksum.
    crc: u32,
    /// The same number as in the header.
    records: u64,
    revision: Revision,
}

impl Trailer {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(TRAILER);
        out.put_slice(END);
        out.put_u64_le(self.body);
        out.put_u32_le(self.crc);
        out.put_u64_le(self.records);
        out.put_u64_le(self.revision.0);
        out.put_u32_le(crc32c::crc32c(&out));
        out
    }

    fn decode(bytes: &[u8; TRAILER]) -> Option<Self> {
        let (body, mut crc) = bytes.split_at(TRAILER - 4);
        if !body.starts_with(END) || crc32c::crc32c(body) != crc.get_u32_le() {
            return None;
        }
        let mut at = &body[8..];
        let (body, crc) = (at.get_u64_le(), at.get_u32_le());
        Some(Trailer { body, crc, records: at.get_u64_le(), revision: Revision(at.get_u64_le()) })
    }
}

/// What is in a file that was read from end to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// What it says of itself.
    pub header: Header,
    /// Bytes of keys and values.
    pub bytes: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Records by topic (`/registry/pods/`).
    pub topics: BTreeMap<String, u64>,
}

#[cfg(test)]
mod tests;
