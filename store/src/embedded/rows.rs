//! The encoding of the served copy's rows: keys and values as bytes, without the database.
//!
//! One tree contains everything, so that one batch is atomic over all of it:
//!
//! * `log/<revision, 8 bytes big endian><chunk, 2 bytes big endian>`: an event with its value, in chunks of
//!   12 KiB, because larger pages are stored in files that sled never syncs;
//! * `current/<key>`: the location of a key's newest event, including a delete that is not compacted;
//! * `meta/...`: the id of the store, the applied revision, the compacted revision, the erased revision.
//!
//! Every row starts with a version and ends with a crc32c that is salted with the store's id.

use bytes::{Buf, BufMut, Bytes};

use super::frame::{Entry, StoreId};
use crate::{Key, Revision};

pub(crate) const LOG: &[u8] = b"log/";
pub(crate) const CURRENT: &[u8] = b"current/";
pub(crate) const META_APPLIED: &[u8] = b"meta/applied";
pub(crate) const META_COMPACTED: &[u8] = b"meta/compacted";
pub(crate) const META_ERASED: &[u8] = b"meta/erased";
pub(crate) const META_STORE: &[u8] = b"meta/store";

const VERSION: u8 = 1;
/// The chunk size: twenty chunks make a page that sled stores in its segments. Older versions wrote 64 KiB.
pub(crate) const CHUNK: usize = 12 << 10;
const LOG_HEADER: usize = 2 + 8 + 8 + 8 + 4 + 4 + 4;
const PUT: u8 = 1;
const DELETE: u8 = 2;
/// A put with its redacted value: a former version of a sensitive record.
const ERASED: u8 = 3;

/// The description of an invalid row.
pub(crate) type BadRow = String;

/// An event in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogRow {
    pub(crate) revision: Revision,
    pub(crate) time_ms: i64,
    /// The revision that created the key; for a delete, that of the deleted record.
    pub(crate) create: Revision,
    /// The previous event of this key; zero when there is none or it is compacted.
    pub(crate) prior: Revision,
    pub(crate) key: Key,
    /// `None` for a delete.
    pub(crate) value: Option<Bytes>,
    /// The value is the redacted form of a former version.
    pub(crate) is_erased: bool,
}

impl LogRow {
    /// The chunks of the event.
    pub(crate) fn encode(&self, store: StoreId) -> Vec<([u8; 14], Vec<u8>)> {
        let kind = match (&self.value, self.is_erased) {
            (_, true) => ERASED,
            (Some(_), false) => PUT,
            (None, false) => DELETE,
        };
        let value = self.value.as_deref().unwrap_or_default();
        encode(store, kind, self.revision, self.time_ms, self.create, self.prior, self.key.as_str(), value)
    }

    /// The event with its redacted value.
    pub(crate) fn erased(self, left: Bytes) -> Self {
        LogRow { value: Some(left), is_erased: true, ..self }
    }

    /// The revision of the record that the event replaced or deleted; `None` when it created the
    /// key.
    pub(crate) fn replaced(&self) -> Option<Revision> {
        let created = self.value.is_some() && self.create == self.revision;
        (!created).then_some(self.prior)
    }

    /// The event as a journal entry.
    pub(crate) fn to_entry(&self) -> Entry {
        Entry {
            revision: self.revision,
            time_ms: self.time_ms,
            create: self.create,
            prev: self.replaced().unwrap_or(Revision::ZERO),
            key: self.key.as_str().to_owned(),
            value: self.value.clone(),
        }
    }
}

/// The key of one chunk of an event.
pub(crate) fn log_key(revision: Revision, chunk: u16) -> [u8; 14] {
    let mut key = [0; 14];
    key[..4].copy_from_slice(LOG);
    key[4..12].copy_from_slice(&revision.0.to_be_bytes());
    key[12..].copy_from_slice(&chunk.to_be_bytes());
    key
}

/// Parses the revision and the chunk from a log key.
pub(crate) fn parse_log_key(key: &[u8]) -> Option<(Revision, u16)> {
    let mut rest = key.strip_prefix(LOG)?;
    if rest.len() != 10 {
        return None;
    }
    Some((Revision(rest.get_u64()), rest.get_u16()))
}

/// Encodes an event into its chunks, in order.
#[allow(clippy::too_many_arguments)]
pub(crate) fn encode_log(
    store: StoreId,
    revision: Revision,
    time_ms: i64,
    create: Revision,
    prior: Revision,
    key: &str,
    value: Option<&[u8]>,
) -> Vec<([u8; 14], Vec<u8>)> {
    let kind = if value.is_some() { PUT } else { DELETE };
    encode(store, kind, revision, time_ms, create, prior, key, value.unwrap_or_default())
}

#[allow(clippy::too_many_arguments)]
fn encode(
    store: StoreId,
    kind: u8,
    revision: Revision,
    time_ms: i64,
    create: Revision,
    prior: Revision,
    key: &str,
    bytes: &[u8],
) -> Vec<([u8; 14], Vec<u8>)> {
    let mut body = Vec::with_capacity(LOG_HEADER + key.len() + bytes.len());
    body.put_u8(VERSION);
    body.put_u8(kind);
    body.put_i64_le(time_ms);
    body.put_u64_le(create.0);
    body.put_u64_le(prior.0);
    body.put_u32_le(key.len() as u32);
    body.put_u32_le(bytes.len() as u32);
    body.put_u32_le(store.crc(&[&revision.0.to_be_bytes(), &body, key.as_bytes(), bytes]));
    body.put_slice(key.as_bytes());
    body.put_slice(bytes);
    if body.len() <= CHUNK {
        return vec![(log_key(revision, 0), body)];
    }
    let chunks = body.chunks(CHUNK).enumerate();
    chunks.map(|(at, chunk)| (log_key(revision, at as u16), chunk.to_vec())).collect()
}

/// The number of chunks of the event whose first chunk this is.
pub(crate) fn chunk_count(first: &[u8]) -> Option<u16> {
    let mut at = first.get(26..LOG_HEADER)?;
    let size = LOG_HEADER + at.get_u32_le() as usize + at.get_u32_le() as usize;
    // All chunks but the last are as large as the first one.
    u16::try_from(size.div_ceil(first.len())).ok()
}

/// Decodes an event from its concatenated chunks.
pub(crate) fn decode_log(store: StoreId, revision: Revision, body: &[u8]) -> Result<LogRow, BadRow> {
    try_decode_log(store, revision, body).ok_or_else(|| format!("log/{revision} does not fit its checksum"))
}

fn try_decode_log(store: StoreId, revision: Revision, body: &[u8]) -> Option<LogRow> {
    let (header, rest) = body.split_at_checked(LOG_HEADER)?;
    let (fields, mut crc) = header.split_at(LOG_HEADER - 4);
    if store.crc(&[&revision.0.to_be_bytes(), fields, rest]) != crc.get_u32_le() {
        return None;
    }
    let mut at = fields;
    let version = at.get_u8();
    let kind = at.get_u8();
    let time_ms = at.get_i64_le();
    let create = Revision(at.get_u64_le());
    let prior = Revision(at.get_u64_le());
    let (key, value) = rest.split_at_checked(at.get_u32_le() as usize)?;
    if version != VERSION || value.len() != at.get_u32_le() as usize {
        return None;
    }
    let key = Key::from(std::str::from_utf8(key).ok()?);
    let value = match kind {
        PUT | ERASED => Some(Bytes::copy_from_slice(value)),
        DELETE => None,
        _ => return None,
    };
    Some(LogRow { revision, time_ms, create, prior, key, value, is_erased: kind == ERASED })
}

/// The location of a key's newest event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CurrentRow {
    pub(crate) deleted: bool,
    pub(crate) create: Revision,
    pub(crate) revision: Revision,
    /// The plain crc32c of the value; zero for a delete.
    pub(crate) value_crc: u32,
}

pub(crate) fn current_key(key: &str) -> Vec<u8> {
    [CURRENT, key.as_bytes()].concat()
}

impl CurrentRow {
    pub(crate) fn encode(&self, store: StoreId, key: &str) -> Vec<u8> {
        let mut out = Vec::with_capacity(26);
        out.put_u8(VERSION);
        out.put_u8(if self.deleted { DELETE } else { PUT });
        out.put_u64_le(self.create.0);
        out.put_u64_le(self.revision.0);
        out.put_u32_le(self.value_crc);
        out.put_u32_le(store.crc(&[key.as_bytes(), &out]));
        out
    }

    pub(crate) fn decode(store: StoreId, key: &str, bytes: &[u8]) -> Result<Self, BadRow> {
        let bad = || format!("current/{key} does not fit its checksum");
        let mut at = checked(store, key.as_bytes(), bytes, 26).ok_or_else(bad)?;
        let kind = at.get_u8();
        let create = Revision(at.get_u64_le());
        let revision = Revision(at.get_u64_le());
        let row = CurrentRow { deleted: kind == DELETE, create, revision, value_crc: at.get_u32_le() };
        (kind == PUT || kind == DELETE).then_some(row).ok_or_else(bad)
    }
}

/// Encodes two numbers under one of the names below `meta/`.
pub(crate) fn encode_meta(store: StoreId, name: &[u8], first: u64, second: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(21);
    out.put_u8(VERSION);
    out.put_u64_le(first);
    out.put_u64_le(second);
    out.put_u32_le(store.crc(&[name, &out]));
    out
}

pub(crate) fn decode_meta(store: StoreId, name: &[u8], bytes: &[u8]) -> Result<(u64, u64), BadRow> {
    let bad = || format!("{} does not fit its checksum", String::from_utf8_lossy(name));
    let mut at = checked(store, name, bytes, 21).ok_or_else(bad)?;
    Ok((at.get_u64_le(), at.get_u64_le()))
}

/// The bytes between version and checksum, if both are valid.
fn checked<'a>(store: StoreId, name: &[u8], bytes: &'a [u8], size: usize) -> Option<&'a [u8]> {
    if bytes.len() != size || bytes.first() != Some(&VERSION) {
        return None;
    }
    let (body, mut crc) = bytes.split_at(size - 4);
    (store.crc(&[name, body]) == crc.get_u32_le()).then_some(&body[1..])
}
