//! Logical snapshots: all records of one revision in a self-contained file.
//!
//! `snapshot/<revision, 20 digits>.snap`: a header with the number of records, and blocks of records in key
//! order. The file is written under a temporary name and renamed when it is durable, so a file with the
//! final name is complete, unless it was damaged later.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes};

use super::files::{self, Files};
use super::frame::{FORMAT, StoreId};
use crate::snapshot::Index;
use crate::transform::Transform;
use crate::{Key, OpenError, Record, Revision, View};

const SUFFIX: &str = ".snap";
const MAGIC: &[u8; 8] = b"ORLOPSNP";
pub(crate) const HEADER: usize = 48;
/// The approximate size of a block of entries.
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

impl SavedRecord {
    fn into_record<V: View>(self, transform: &Transform) -> Record<V> {
        transform.record(self.key, self.value, self.create, self.revision, self.time_ms)
    }
}

/// The contents of a snapshot.
#[derive(Debug)]
pub(crate) struct Saved<V> {
    pub(crate) revision: Revision,
    /// When it was taken.
    pub(crate) time_ms: i64,
    pub(crate) index: Index<V>,
}

/// The snapshots in a directory, oldest first.
pub(crate) fn list(files: &dyn Files, dir: &Path) -> io::Result<Vec<Revision>> {
    let names = files.list(dir)?;
    Ok(names.iter().filter_map(|name| name.strip_suffix(SUFFIX)?.parse().ok().map(Revision)).collect())
}

pub(crate) fn path_of(dir: &Path, revision: Revision) -> PathBuf {
    dir.join(format!("{:020}{SUFFIX}", revision.0))
}

/// Whether a new snapshot is read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadBack {
    /// It is not: an older snapshot remains if this one turns out to be damaged.
    Skip,
    /// It is read from the disk and checked before it gets its name: the older ones are removed.
    Require,
}

/// Writes the records of an index. Returns the size of the durable file.
pub(crate) fn write<V>(
    files: &dyn Files,
    dir: &Path,
    store: StoreId,
    (revision, time_ms): (Revision, i64),
    index: &Index<V>,
    read_back: ReadBack,
) -> io::Result<u64> {
    let at = (revision, time_ms);
    write_file(files, dir, store, at, index.len() as u64, read_back, |encoder| {
        for record in index.values() {
            encoder.record(
                record.create_revision,
                record.mod_revision,
                record.time_ms,
                record.key.as_str(),
                record.stored_bytes(),
            )?;
        }
        Ok(())
    })
}

/// Writes a file of `count` records, which `records` passes to the encoder in key order.
pub(crate) fn write_file(
    files: &dyn Files,
    dir: &Path,
    store: StoreId,
    (revision, time_ms): (Revision, i64),
    count: u64,
    read_back: ReadBack,
    records: impl FnOnce(&mut Encoder<'_>) -> io::Result<()>,
) -> io::Result<u64> {
    files.create_dir(dir)?;
    files.sync_dir(files::parent(dir))?;
    let path = path_of(dir, revision);
    let tmp = files::tmp_of(&path);
    let fill = || -> io::Result<u64> {
        let mut file = files.create(&tmp)?;
        let mut sink = |bytes: &[u8]| file.append(bytes);
        let mut encoder = Encoder::start(store, revision, time_ms, count, &mut sink)?;
        records(&mut encoder)?;
        let written = encoder.finish()?;
        file.sync()?;
        drop(file);
        if read_back == ReadBack::Require {
            let read = verify(files, &tmp, store, revision).map_err(io::Error::other)?;
            if read != count {
                return Err(io::Error::other(format!("{} has {read} of {count} records", tmp.display())));
            }
        }
        files.rename(&tmp, &path)?;
        Ok(written)
    };
    let written = fill().inspect_err(|_| {
        // Frees the space of the file, which may not even exist.
        let _ = files.remove(&tmp);
    })?;
    files.sync_dir(dir)?;
    Ok(written)
}

/// Encodes a snapshot, block by block.
pub(crate) struct Encoder<'a> {
    store: StoreId,
    block: Vec<u8>,
    written: u64,
    sink: &'a mut dyn FnMut(&[u8]) -> io::Result<()>,
}

impl<'a> Encoder<'a> {
    /// Writes the header of a snapshot of `count` records.
    pub(crate) fn start(
        store: StoreId,
        revision: Revision,
        time_ms: i64,
        count: u64,
        sink: &'a mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<Self> {
        sink(&encode_header(store, revision, time_ms, count))?;
        Ok(Encoder { store, block: Vec::with_capacity(BLOCK + (64 << 10)), written: HEADER as u64, sink })
    }

    /// Adds the next record, in key order.
    pub(crate) fn record(
        &mut self,
        create: Revision,
        revision: Revision,
        time_ms: i64,
        key: &str,
        value: &[u8],
    ) -> io::Result<()> {
        self.block.put_u64_le(create.0);
        self.block.put_u64_le(revision.0);
        self.block.put_i64_le(time_ms);
        self.block.put_u32_le(key.len() as u32);
        self.block.put_u32_le(value.len() as u32);
        self.block.put_slice(key.as_bytes());
        self.block.put_slice(value);
        if self.block.len() >= BLOCK { self.end_block() } else { Ok(()) }
    }

    /// Returns the number of encoded bytes.
    pub(crate) fn finish(mut self) -> io::Result<u64> {
        if !self.block.is_empty() {
            self.end_block()?;
        }
        Ok(self.written)
    }

    fn end_block(&mut self) -> io::Result<()> {
        let length = (self.block.len() as u32).to_le_bytes();
        let crc = self.store.crc(&[&length, &self.block]).to_le_bytes();
        (self.sink)(&[length, crc].concat())?;
        (self.sink)(&self.block)?;
        self.written += self.block.len() as u64 + 8;
        self.block.clear();
        Ok(())
    }
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

/// Reads a snapshot and checks all of it, one block at a time. The inner error is the reason why the
/// snapshot cannot be used.
pub(crate) fn read<V: View>(
    files: &dyn Files,
    dir: &Path,
    store: StoreId,
    revision: Revision,
    transform: &Transform,
) -> Result<Result<Saved<V>, String>, OpenError> {
    let path = path_of(dir, revision);
    let Some(mut file) = files.reader(&path).map_err(io_error(&path))? else {
        return Ok(Err(format!("{} does not exist", path.display())));
    };
    let mut index = Index::new();
    let header = scan(&mut *file, &path, store, revision, |record| {
        index.insert(record.key.clone(), Arc::new(record.into_record(transform)));
    })?;
    Ok(header.map(|Header { time_ms, .. }| Saved { revision, time_ms, index }))
}

/// Reads a file from the disk and checks that it is a whole snapshot at a revision. Uses the memory of one block. Returns the
/// number of records; the error is the reason why the snapshot cannot be used.
pub(crate) fn verify(
    files: &dyn Files,
    path: &Path,
    store: StoreId,
    revision: Revision,
) -> Result<u64, String> {
    let file = files.reader_from_disk(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut file = file.ok_or_else(|| format!("{} does not exist", path.display()))?;
    let header = scan(&mut *file, path, store, revision, drop).map_err(|error| error.to_string())?;
    header.map(|header| header.count)
}

fn io_error(path: &Path) -> impl Fn(io::Error) -> OpenError + use<> {
    let path = path.to_owned();
    move |source| OpenError::Io { action: "read", path: path.clone(), source }
}

/// The header of a snapshot.
struct Header {
    time_ms: i64,
    /// The number of records.
    count: u64,
}

/// Checks a snapshot, and passes its records on in key order. The inner error is the reason why it cannot be used; the records
/// before that were valid.
fn scan(
    file: &mut dyn Read,
    path: &Path,
    store: StoreId,
    revision: Revision,
    each: impl FnMut(SavedRecord),
) -> Result<Result<Header, String>, OpenError> {
    let damaged = || format!("{} is damaged", path.display());
    let mut header = Vec::with_capacity(HEADER);
    read_part(file, HEADER, &mut header).map_err(io_error(path))?;
    let crc_fits = header.len() == HEADER && {
        let (body, mut crc) = header.split_at(HEADER - 4);
        store.crc(&[body]) == crc.get_u32_le()
    };
    if !crc_fits || !header.starts_with(MAGIC) {
        return Ok(Err(damaged()));
    }
    let mut at = &header[8..];
    let format = at.get_u32_le();
    if format > FORMAT {
        return Err(OpenError::TooNew { path: path.to_owned(), found: format, supported: FORMAT });
    }
    let (stored, time_ms, count) = (Revision(at.get_u64_le()), at.get_i64_le(), at.get_u64_le());
    if stored != revision {
        return Ok(Err(damaged()));
    }
    let is_whole = scan_blocks(file, store, revision, count, each).map_err(io_error(path))?;
    Ok(is_whole.then_some(Header { time_ms, count }).ok_or_else(damaged))
}

/// Reads the records. Returns false if a block is invalid or missing.
fn scan_blocks(
    file: &mut dyn Read,
    store: StoreId,
    revision: Revision,
    count: u64,
    mut each: impl FnMut(SavedRecord),
) -> io::Result<bool> {
    let mut last: Option<Key> = None;
    let mut found = 0;
    let (mut front, mut block) = (Vec::new(), Vec::new());
    loop {
        match read_part(file, 8, &mut front)? {
            8 => {}
            // The count detects blocks that are missing entirely.
            0 => return Ok(found == count),
            _ => return Ok(false),
        }
        let (length, mut crc) = front.split_at(4);
        let size = { length }.get_u32_le() as usize;
        if read_part(file, size, &mut block)? < size || store.crc(&[length, &block]) != crc.get_u32_le() {
            return Ok(false);
        }
        let Some(records) = decode_block(&block) else { return Ok(false) };
        for record in records {
            let in_order = last.as_ref().is_none_or(|last| *last < record.key);
            if !in_order || record.revision > revision {
                return Ok(false);
            }
            last = Some(record.key.clone());
            found += 1;
            each(record);
        }
    }
}

/// Reads up to `size` bytes. A damaged length allocates no memory.
fn read_part(file: &mut dyn Read, size: usize, into: &mut Vec<u8>) -> io::Result<usize> {
    into.clear();
    file.take(size as u64).read_to_end(into)
}

/// Decodes a block whose checksum matched.
pub(crate) fn decode_block(mut block: &[u8]) -> Option<Vec<SavedRecord>> {
    let mut records = Vec::new();
    while !block.is_empty() {
        records.push(decode_record(&mut block)?);
    }
    Some(records)
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::embedded::files::Disk;

    const STORE: StoreId = StoreId([7; 16]);
    const AT: (Revision, i64) = (Revision(900), 5);

    /// Writes a snapshot of these keys that claims `count` records, and checks the copy after a change.
    fn checked(keys: &[&str], count: u64, change: impl FnOnce(&mut Vec<u8>)) -> Result<u64, String> {
        let dir = tempfile::tempdir().unwrap();
        write_file(&Disk, dir.path(), STORE, AT, count, ReadBack::Skip, |encoder| {
            for (nth, key) in keys.iter().enumerate() {
                let revision = Revision(nth as u64 + 1);
                encoder.record(revision, revision, 5, key, &[nth as u8; 600 << 10])?;
            }
            Ok(())
        })
        .unwrap();
        let path = path_of(dir.path(), AT.0);
        let mut bytes = std::fs::read(&path).unwrap();
        change(&mut bytes);
        std::fs::write(&path, bytes).unwrap();
        let verified = verify(&Disk, &path, STORE, AT.0);
        let read = read::<()>(&Disk, dir.path(), STORE, AT.0, &Transform::default()).unwrap();
        assert_eq!(read.map(|saved| saved.index.len() as u64), verified, "both agree");
        verified
    }

    #[test]
    fn verification_finds_every_kind_of_damage() {
        let keys = ["a", "b", "c", "d", "e"];
        assert_eq!(checked(&keys, 5, |_| {}), Ok(5));
        let is_damaged = |result: Result<u64, String>| result.is_err_and(|why| why.ends_with("is damaged"));
        let size = std::cell::Cell::new(0);
        assert!(is_damaged(checked(&keys, 5, |bytes| {
            size.set(bytes.len());
            bytes.truncate(bytes.len() - 1);
        })));
        for at in [0, 20, HEADER + 1, HEADER + 5, HEADER + 100, size.get() - 1] {
            assert!(is_damaged(checked(&keys, 5, |bytes| bytes[at] ^= 4)), "byte {at}");
        }
        assert!(is_damaged(checked(&keys, 6, |_| {})), "a record is missing");
        assert!(is_damaged(checked(&["a", "c", "b"], 3, |_| {})), "order");
        assert!(is_damaged(checked(&["a", "a"], 2, |_| {})), "a key is repeated");
        // The last block is missing entirely.
        let last = 600 << 10;
        assert!(is_damaged(checked(&keys, 5, |bytes| bytes.truncate(bytes.len() - last - 8 - 24 - 8 - 1))));
    }

    #[test]
    fn snapshot_that_cannot_be_read_back_gets_no_name() {
        let dir = tempfile::tempdir().unwrap();
        let write = |count| {
            write_file(&Disk, dir.path(), STORE, AT, count, ReadBack::Require, |encoder| {
                encoder.record(Revision(1), Revision(1), 5, "a", b"value")
            })
        };
        write(1).unwrap();
        let good = std::fs::read(path_of(dir.path(), AT.0)).unwrap();
        assert!(write(2).is_err());
        assert_eq!(Disk.list(dir.path()).unwrap().len(), 1, "the older file stays");
        assert_eq!(std::fs::read(path_of(dir.path(), AT.0)).unwrap(), good);
    }
}
