//! The header and the trailer of a snapshot file.

use std::collections::BTreeMap;

use bytes::{Buf, BufMut};

use crate::Revision;
use crate::embedded::StoreId;

const MAGIC: &[u8; 8] = b"ORLOPARC";
const END: &[u8; 8] = b"ORLOPEND";
/// The format that this version writes, and the only one that it reads.
pub const FORMAT: u32 = 1;
pub(super) const HEADER: usize = 56;
pub(super) const TRAILER: usize = 40;

/// The header of a snapshot file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The store that the snapshot was taken from.
    pub store: [u8; 16],
    /// The revision of the snapshot.
    pub revision: Revision,
    /// When the snapshot was taken, in milliseconds since the epoch.
    pub time_ms: i64,
    /// The number of records.
    pub records: u64,
}

impl Header {
    /// The store's id as text.
    pub fn store_text(&self) -> String {
        StoreId(self.store).to_string()
    }

    pub(super) fn encode(&self) -> Vec<u8> {
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

    pub(super) fn decode(bytes: &[u8; HEADER]) -> Result<Self, BadHeader> {
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

pub(super) enum BadHeader {
    Foreign,
    Broken,
    Format(u32),
}

/// The trailer of a snapshot file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trailer {
    /// The number of bytes between header and trailer.
    pub(super) body: u64,
    /// The checksum of these bytes.
    pub(super) crc: u32,
    /// The same number as in the header.
    pub(super) records: u64,
    pub(super) revision: Revision,
}

impl Trailer {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(TRAILER);
        out.put_slice(END);
        out.put_u64_le(self.body);
        out.put_u32_le(self.crc);
        out.put_u64_le(self.records);
        out.put_u64_le(self.revision.0);
        out.put_u32_le(crc32c::crc32c(&out));
        out
    }

    pub(super) fn decode(bytes: &[u8; TRAILER]) -> Option<Self> {
        let (body, mut crc) = bytes.split_at(TRAILER - 4);
        if !body.starts_with(END) || crc32c::crc32c(body) != crc.get_u32_le() {
            return None;
        }
        let mut at = &body[8..];
        let (body, crc) = (at.get_u64_le(), at.get_u32_le());
        Some(Trailer { body, crc, records: at.get_u64_le(), revision: Revision(at.get_u64_le()) })
    }
}

/// The contents of a file that was read from start to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The header of the file.
    pub header: Header,
    /// The number of bytes of keys and values.
    pub bytes: u64,
    /// The size of the file in bytes.
    pub file_bytes: u64,
    /// Records by topic (`/registry/pods/`).
    pub topics: BTreeMap<String, u64>,
}
