//! Logical snapshots: all records of one revision in a file that needs nothing else to be read.
//!
//! `snapshot/<revision, 20 digits>.snap`: a header, blocks of entries as the journal has them, and
//! an end that counts them. It is written under another name and renamed when it is durable, so a
//! file with that name is whole, or damaged.

use std::io;
use std::path::{Path, PathBuf};

use bytes::{Buf, BufMut, Bytes};

use super::files::{self, Files};
use super::frame::{FORMAT, StoreId};
use crate::snapshot::Index;
use crate::{Key, OpenError, Revision};

const SUFFIX: &str = ".snap";
const MAGIC: &[u8; 8] = b"ORLOPSNP";
const HEADER: usize = 48;
/// Entries are gathered to blocks of about this size.
const BLOCK: usize = 1 << 20;

/// One record of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SavedRecord {
    pub(crate) key: Key,
    pub(crate) create: Revision,
    pub(crate) revision: Revision,
    pub(crate) time_ms: i64,
    pub(crate) value: Bytes,
}

/// What a snapshot holds.
#[derive(Debug)]
pub(crate) struct Saved {
    pub(crate) revision: Revision,
    /// When it was taken.
    pub(crate) time_ms: i64,
    pub(crate) records: Vec<SavedRecord>,
}

/// The snapshots in a directory, oldest first.
pub(crate) fn list(files: &dyn Files, dir: &Path) -> io::Result<Vec<Revision>> {
    let names = files.list(dir)?;
    Ok(names.iter().filter_map(|name| name.strip_suffix(SUFFIX)?.parse().ok().map(Revision)).collect())
}

pub(crate) fn path_of(dir: &Path, revision: Revision) -> PathBuf {
    dir.join(format!("{:020}{SUFFIX}", revision.0))
}

/// Writes the records of an index. Returns the bytes of the file when it is durable.
pub(crate) fn write<V>(
    files: &dyn Files,
    dir: &Path,
    store: StoreId,
    revision: Revision,
    time_ms: i64,
    index: &Index<V>,
) -> io::Result<u64> {
    files.create_dir(dir)?;
    files.sync_dir(files::parent(dir))?;
    let path = path_of(dir, revision);
    let tmp = files::tmp_of(&path);
    let mut file = files.create(&tmp)?;
    let mut written = HEADER as u64;
    file.append(&encode_header(store, revision, time_ms, index.len() as u64))?;
    let mut block = Vec::with_capacity(BLOCK + (64 << 10));
    for (key, record) in index {
        block.put_u64_le(record.create_revision.0);
        block.put_u64_le(record.mod_revision.0);
        block.put_i64_le(record.time_ms);
        block.put_u32_le(key.as_str().len() as u32);
        block.put_u32_le(record.value.len() as u32);
        block.put_slice(key.as_str().as_bytes());
        block.put_slice(&record.value);
        if block.len() >= BLOCK {
            written += append_block(&mut *file, store, &block)?;
            block.clear();
        }
    }
    if !block.is_empty() {
        written += append_block(&mut *file, store, &block)?;
    }
    file.sync()?;
    files.rename(&tmp, &path)?;
    files.sync_dir(dir)?;
    Ok(written)
}

fn append_block(file: &mut dyn files::File, store: StoreId, block: &[u8]) -> io::Result<u64> {
    let length = (block.len() as u32).to_le_bytes();
    let crc = store.crc(&[&length, block]).to_le_bytes();
    file.append(&[length, crc].concat())?;
    file.append(block)?;
    Ok(block.len() as u64 + 8)
}

fn encode_header(store: StoreId, revision: Revision, time_ms: i64, count: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER + 8);
    out.put_slice(MAGIC);
    out.put_u32_le(FORMAT);
    out.put_u64_le(revision.0);
    out.put_i64_le(time_ms);
    out.put_u64_le(count);
    out.put_slice(&store.0[..8]);
    out.put_u32_le(store.crc(&[&out]));
    out
}

/// Reads a snapshot and checks all of it. The inner error tells why it cannot be used.
pub(crate) fn read(
    files: &dyn Files,
    dir: &Path,
    store: StoreId,
    revision: Revision,
) -> Result<Result<Saved, String>, OpenError> {
    let path = path_of(dir, revision);
    let bytes =
        files.read(&path).map_err(|source| OpenError::Io { action: "read", path: path.clone(), source })?;
    let Some(bytes) = bytes else { return Ok(Err(format!("{} is gone", path.display()))) };
    let format = bytes.get(8..12).map_or(0, |mut format| format.get_u32_le());
    let crc_fits = bytes.get(..HEADER).is_some_and(|header| {
        let (body, mut crc) = header.split_at(HEADER - 4);
        store.crc(&[body]) == crc.get_u32_le()
    });
    if crc_fits && bytes.starts_with(MAGIC) && format > FORMAT {
        return Err(OpenError::TooNew { path, found: format, supported: FORMAT });
    }
    let damaged = || format!("{} is damaged", path.display());
    if !crc_fits || !bytes.starts_with(MAGIC) {
        return Ok(Err(damaged()));
    }
    Ok(decode(store, &bytes).filter(|saved| saved.revision == revision).ok_or_else(damaged))
}

fn decode(store: StoreId, bytes: &[u8]) -> Option<Saved> {
    let mut at = bytes.get(12..HEADER)?;
    let revision = Revision(at.get_u64_le());
    let time_ms = at.get_i64_le();
    let count = at.get_u64_le();
    let mut records: Vec<SavedRecord> = Vec::new();
    let mut rest = &bytes[HEADER..];
    while !rest.is_empty() {
        let (length, after) = rest.split_at_checked(4)?;
        let (mut crc, after) = after.split_at_checked(4)?;
        let (block, after) = after.split_at_checked({ length }.get_u32_le() as usize)?;
        if store.crc(&[length, block]) != crc.get_u32_le() {
            return None;
        }
        rest = after;
        let mut at = block;
        while !at.is_empty() {
            let record = decode_record(&mut at)?;
            let in_order = records.last().is_none_or(|before| before.key < record.key);
            if !in_order || record.revision > revision {
                return None;
            }
            records.push(record);
        }
    }
    // Blocks that are missing as a whole are found by counting.
    (records.len() as u64 == count).then_some(Saved { revision, time_ms, records })
}

fn decode_record(at: &mut &[u8]) -> Option<SavedRecord> {
    let create = Revision(at.try_get_u64_le().ok()?);
    let revision = Revision(at.try_get_u64_le().ok()?);
    let time_ms = at.try_get_i64_le().ok()?;
    let key = at.try_get_u32_le().ok()? as usize;
    let value = at.try_get_u32_le().ok()? as usize;
    let key = Key::from(std::str::from_utf8(at.split_off(..key)?).ok()?);
    let value = Bytes::copy_from_slice(at.split_off(..value)?);
    Some(SavedRecord { key, create, revision, time_ms, value })
}
