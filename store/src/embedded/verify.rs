//! The served copy is never trusted: everything in it is read and checked when it is opened.
//!
//! Checked are every checksum; that the log is dense above the compaction; that every event that
//! replaced something finds it; that `current` names the last event of every key, and nothing
//! else; that nothing lies above what was fed.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::frame::StoreId;
use super::read;
use super::retention::Marks;
use super::rows::{self, CurrentRow, LogRow};
use super::sled::{Served, ServedError};
use crate::{Key, Record, Revision, View};

/// What the served copy holds.
pub(crate) struct Loaded<V> {
    pub(crate) applied: Revision,
    pub(crate) oldest: Revision,
    pub(crate) swept: Revision,
    /// When the newest event was written.
    pub(crate) time_ms: i64,
    pub(crate) records: Vec<Arc<Record<V>>>,
    pub(crate) marks: Marks,
}

/// Reads and checks everything. `None` when there is nothing at all.
pub(crate) fn load<V: View>(served: &Served, store: StoreId) -> Result<Option<Loaded<V>>, ServedError> {
    let Some(applied) = served.get(rows::META_APPLIED)? else {
        if served.is_empty() {
            return Ok(None);
        }
        return Err("it was never finished".to_owned().into());
    };
    match served.get(rows::META_STORE)? {
        Some(id) if *id == store.0 => {}
        Some(_) | None => return Err("it belongs to another store".to_owned().into()),
    }
    let (applied, time_ms) = rows::decode_meta(store, rows::META_APPLIED, &applied)?;
    let (oldest, swept) = match served.get(rows::META_COMPACTED)? {
        Some(row) => rows::decode_meta(store, rows::META_COMPACTED, &row)?,
        None => (0, 0),
    };
    let mut loaded = Loaded {
        applied: Revision(applied),
        oldest: Revision(oldest),
        swept: Revision(swept),
        time_ms: time_ms as i64,
        records: Vec::new(),
        marks: Marks::default(),
    };
    let current = load_current(served, store)?;
    check_log(served, store, &current, &mut loaded)?;
    Ok(Some(loaded))
}

fn load_current(served: &Served, store: StoreId) -> Result<BTreeMap<Key, CurrentRow>, ServedError> {
    let mut current = BTreeMap::new();
    for row in served.range(rows::CURRENT, b"current0") {
        let (name, bytes) = row?;
        let key = name.strip_prefix(rows::CURRENT).and_then(|key| std::str::from_utf8(key).ok());
        let key = key.ok_or_else(|| "a key is not text".to_owned())?;
        current.insert(Key::from(key), CurrentRow::decode(store, key, &bytes)?);
    }
    Ok(current)
}

fn check_log<V: View>(
    served: &Served,
    store: StoreId,
    current: &BTreeMap<Key, CurrentRow>,
    loaded: &mut Loaded<V>,
) -> Result<(), ServedError> {
    let mut expected = loaded.oldest.next();
    let mut matched = 0;
    // The newest event of each key so far, and whether it left a record.
    let mut newest: HashMap<Key, (Revision, bool)> = HashMap::with_capacity(current.len());
    for row in read::log(served, store, Revision(1), Revision(u64::MAX - 1)) {
        let row = row?;
        let revision = row.revision;
        if revision > loaded.applied {
            return Err(format!(
                "log/{revision} is above revision {}, up to which it was fed",
                loaded.applied
            )
            .into());
        }
        if revision > loaded.oldest {
            if revision != expected {
                return Err(format!("log/{expected} is missing").into());
            }
            expected = revision.next();
            let replaced = row.replaced();
            let known = newest.get(&row.key).filter(|(_, left)| *left).map(|(revision, _)| *revision);
            if replaced != known {
                return Err(format!("log/{revision} does not fit what it replaced").into());
            }
            loaded.marks.push(
                revision,
                row.time_ms,
                row.key.as_str().len() + row.value.as_ref().map_or(0, |v| v.len()),
            );
        }
        newest.insert(row.key.clone(), (revision, row.value.is_some()));
        let Some(pointer) = current.get(&row.key) else {
            return Err(format!("log/{revision} is of a key without current/").into());
        };
        if pointer.revision < revision {
            return Err(format!("current/{} is older than log/{revision}", row.key).into());
        }
        if pointer.revision == revision {
            check_current(pointer, &row)?;
            matched += 1;
            loaded.records.extend(to_record(row));
        }
    }
    if loaded.applied > loaded.oldest && expected != loaded.applied.next() {
        return Err(format!("log/{expected} is missing").into());
    }
    if matched != current.len() {
        return Err("a current/ row points to nothing".to_owned().into());
    }
    Ok(())
}

fn check_current(pointer: &CurrentRow, row: &LogRow) -> Result<(), ServedError> {
    let value_crc = row.value.as_deref().map_or(0, crc32c::crc32c);
    let told =
        CurrentRow { deleted: row.value.is_none(), create: row.create, revision: row.revision, value_crc };
    if *pointer == told {
        Ok(())
    } else {
        Err(format!("current/{} does not fit log/{}", row.key, row.revision).into())
    }
}

fn to_record<V: View>(row: LogRow) -> Option<Arc<Record<V>>> {
    let value = row.value?;
    let view = V::of(&row.key, &value);
    let (create_revision, mod_revision) = (row.create, row.revision);
    Some(Arc::new(Record { key: row.key, value, view, create_revision, mod_revision, time_ms: row.time_ms }))
}
