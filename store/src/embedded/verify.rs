//! Verification of the served copy: everything in it is read and checked when it is opened.
//!
//! The checks: every checksum; the log is dense above the compaction; every event that replaced a record
//! matches that record; `current` has exactly the last event of every key; nothing is newer than the applied
//! revision.
//!
//! The log is split into slices, which threads read in parallel: a thread decodes each row, compares it with
//! `current`, and creates a record from it when it is the newest of its key. Checks that depend on the order
//! run in one thread, which receives only the required fields of each row.

use std::collections::{BTreeMap, HashMap};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use super::feed::ErasureMarks;
use super::frame::StoreId;
use super::retention::RetentionMarks;
use super::rows::{self, CurrentRow, LogRow};
use super::sensitive::{FormerMarks, Sensitive};
use super::sled::{Served, ServedError};
use super::{backlog, read};
use crate::transform::Transform;
use crate::{Key, Record, Revision, View};

/// The approximate number of events in a slice; small in tests so that there are always several slices.
const SLICE: u64 = if cfg!(test) { 8 } else { 2048 };
/// More threads would only wait for each other.
const THREADS: usize = 4;

/// The contents of the served copy.
pub(crate) struct Loaded<V> {
    pub(crate) applied: Revision,
    pub(crate) oldest: Revision,
    pub(crate) swept: Revision,
    /// When the newest event was written.
    pub(crate) time_ms: i64,
    /// In key order.
    pub(crate) records: Vec<Arc<Record<V>>>,
    pub(crate) marks: RetentionMarks,
    pub(crate) erasure: ErasureMarks,
}

/// Reads and checks everything. `None` when the copy is empty.
pub(crate) fn load<V: View>(
    served: &Served,
    store: StoreId,
    transform: &Transform,
    sensitive: &Sensitive,
) -> Result<Option<Loaded<V>>, ServedError> {
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
    let (erased_rows, erased_files) = match served.get(rows::META_ERASED)? {
        Some(row) => rows::decode_meta(store, rows::META_ERASED, &row)?,
        None => (0, 0),
    };
    let mut loaded = Loaded {
        applied: Revision(applied),
        oldest: Revision(oldest),
        swept: Revision(swept),
        time_ms: time_ms as i64,
        records: Vec::new(),
        marks: RetentionMarks::default(),
        erasure: ErasureMarks {
            sensitive: sensitive.clone(),
            former: FormerMarks::default(),
            rows: Revision(erased_rows),
            files: Revision(erased_files),
        },
    };
    let current = Current::load(served, store)?;
    check_log(served, store, transform, &current, &mut loaded)?;
    Ok(Some(loaded))
}

/// The `current/` rows.
struct Current {
    /// In key order.
    rows: Vec<(Key, CurrentRow)>,
    /// The index of each key in `rows`.
    places: HashMap<Key, usize>,
}

impl Current {
    fn load(served: &Served, store: StoreId) -> Result<Self, ServedError> {
        let mut current = Vec::new();
        for row in served.range(rows::CURRENT, b"current0") {
            let (name, bytes) = row?;
            let key = name.strip_prefix(rows::CURRENT).and_then(|key| std::str::from_utf8(key).ok());
            let key = key.ok_or_else(|| "a key is not text".to_owned())?;
            current.push((Key::from(key), CurrentRow::decode(store, key, &bytes)?));
        }
        let places = current.iter().enumerate().map(|(place, (key, _))| (key.clone(), place)).collect();
        Ok(Current { rows: current, places })
    }

    /// The boundaries of the slices. Above `oldest`, every revision has an event; below it, the log contains
    /// approximately the current records of that revision.
    fn cuts(&self, oldest: Revision, applied: Revision) -> Vec<Revision> {
        let mut below: Vec<_> =
            self.rows.iter().map(|(_, row)| row.revision).filter(|revision| *revision <= oldest).collect();
        below.sort_unstable();
        let below = below.into_iter().skip(SLICE as usize).step_by(SLICE as usize);
        let above = (oldest.0.saturating_add(1)..=applied.0).step_by(SLICE as usize).map(Revision);
        let mut cuts = vec![Revision(1)];
        cuts.extend(below.chain(above).filter(|cut| *cut > Revision(1)));
        // The last slice extends to the end of the log, where there should be no more rows.
        cuts.push(Revision(u64::MAX));
        cuts.dedup();
        cuts
    }
}

/// The fields of an event for the check of the order.
struct VerifiedEvent<V> {
    revision: Revision,
    time_ms: i64,
    /// The bytes that count for the retention.
    size: usize,
    replaced: Option<Revision>,
    /// Whether the event left a record.
    left: bool,
    /// Whether it replaced or deleted a version of a sensitive record.
    is_former: bool,
    /// The index of its key in [`Current`].
    place: usize,
    /// Whether `current/` points to it.
    is_newest: bool,
    record: Option<Arc<Record<V>>>,
}

/// The result of reading one slice.
type Slice<V> = Result<Vec<VerifiedEvent<V>>, ServedError>;

fn check_log<V: View>(
    served: &Served,
    store: StoreId,
    transform: &Transform,
    current: &Current,
    loaded: &mut Loaded<V>,
) -> Result<(), ServedError> {
    let sensitive = &loaded.erasure.sensitive.clone();
    let cuts = current.cuts(loaded.oldest, loaded.applied);
    let slices: Vec<_> = cuts.windows(2).map(|cut| (cut[0], Revision(cut[1].0 - 1))).collect();
    let (next, applied) = (AtomicUsize::new(0), loaded.applied);
    let threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS).min(slices.len());
    let (sender, receiver) = channel();
    thread::scope(|scope| {
        let readers: Vec<_> = (0..threads)
            .map(|_| {
                let sender = sender.clone();
                let (next, slices) = (&next, &slices);
                scope.spawn(move || {
                    loop {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        let Some(&(from, to)) = slices.get(at) else { return };
                        let slice =
                            read_slice(served, store, transform, sensitive, current, applied, (from, to));
                        // The receiver stops after the first error.
                        if sender.send((at, slice)).is_err() {
                            return;
                        }
                    }
                })
            })
            .collect();
        drop(sender);
        let result = check_order(receiver, slices.len(), current, loaded);
        for reader in readers {
            if let Err(panic) = reader.join() {
                resume_unwind(panic);
            }
        }
        result
    })
}

/// Reads a slice of the log, and runs the checks that do not depend on earlier rows.
fn read_slice<V: View>(
    served: &Served,
    store: StoreId,
    transform: &Transform,
    sensitive: &Sensitive,
    current: &Current,
    applied: Revision,
    (from, to): (Revision, Revision),
) -> Slice<V> {
    let mut slice = Vec::new();
    for row in read::log(served, store, from, to) {
        let row = row?;
        let revision = row.revision;
        if revision > applied {
            return Err(format!("log/{revision} is above revision {applied}, up to which it was fed").into());
        }
        let Some(&place) = current.places.get(&row.key) else {
            return Err(format!("log/{revision} is of a key without current/").into());
        };
        let (key, pointer) = &current.rows[place];
        if pointer.revision < revision {
            return Err(format!("current/{key} is older than log/{revision}").into());
        }
        let is_newest = pointer.revision == revision;
        if is_newest {
            check_current(pointer, &row)?;
        }
        slice.push(VerifiedEvent {
            revision,
            time_ms: row.time_ms,
            size: backlog::size_of(&row.key, row.value.as_deref()),
            replaced: row.replaced(),
            left: row.value.is_some(),
            is_former: row.replaced().is_some() && sensitive.contains(row.key.as_str()),
            place,
            is_newest,
            record: if is_newest { to_record(transform, key.clone(), row) } else { None },
        });
    }
    Ok(slice)
}

/// Checks the slices in log order, in whatever order they arrive.
fn check_order<V>(
    slices: Receiver<(usize, Slice<V>)>,
    count: usize,
    current: &Current,
    loaded: &mut Loaded<V>,
) -> Result<(), ServedError> {
    let mut order = Order {
        expected: loaded.oldest.next(),
        newest: vec![None; current.rows.len()],
        records: Vec::new(),
        matched: 0,
    };
    order.records.resize_with(current.rows.len(), || None);
    let mut early = BTreeMap::new();
    let mut next = 0;
    for (at, slice) in slices {
        early.insert(at, slice?);
        while let Some(slice) = early.remove(&next) {
            for seen in slice {
                order.check(seen, loaded)?;
            }
            next += 1;
        }
    }
    if next != count {
        return Err("not all of its log was read".to_owned().into());
    }
    let Order { expected, records, matched, .. } = order;
    if loaded.applied > loaded.oldest && expected != loaded.applied.next() {
        return Err(format!("log/{expected} is missing").into());
    }
    if matched != current.rows.len() {
        return Err("a current/ row points to nothing".to_owned().into());
    }
    loaded.records = records.into_iter().flatten().collect();
    Ok(())
}

/// The state of the log up to some event.
struct Order<V> {
    expected: Revision,
    /// The newest event of each key so far, and whether it left a record.
    newest: Vec<Option<(Revision, bool)>>,
    records: Vec<Option<Arc<Record<V>>>>,
    matched: usize,
}

impl<V> Order<V> {
    fn check(&mut self, seen: VerifiedEvent<V>, loaded: &mut Loaded<V>) -> Result<(), ServedError> {
        let revision = seen.revision;
        if revision > loaded.oldest {
            if revision != self.expected {
                return Err(format!("log/{} is missing", self.expected).into());
            }
            self.expected = revision.next();
            let known = self.newest[seen.place].filter(|(_, left)| *left).map(|(revision, _)| revision);
            if seen.replaced != known {
                return Err(format!("log/{revision} does not fit what it replaced").into());
            }
            loaded.marks.push(revision, seen.time_ms, seen.size);
        }
        // Also of events that are compacted and not swept yet; `rows` covers the swept ones.
        if seen.is_former && revision > loaded.erasure.rows && revision > loaded.swept {
            loaded.erasure.former.push(revision, seen.time_ms);
        }
        self.newest[seen.place] = Some((revision, seen.left));
        if seen.is_newest {
            self.matched += 1;
            self.records[seen.place] = seen.record;
        }
        Ok(())
    }
}

fn check_current(pointer: &CurrentRow, row: &LogRow) -> Result<(), ServedError> {
    let value_crc = row.value.as_deref().map_or(0, crc32c::crc32c);
    let expected =
        CurrentRow { deleted: row.value.is_none(), create: row.create, revision: row.revision, value_crc };
    if *pointer == expected {
        Ok(())
    } else {
        Err(format!("current/{} does not fit log/{}", row.key, row.revision).into())
    }
}

/// Creates a record with the shared key.
fn to_record<V: View>(transform: &Transform, key: Key, row: LogRow) -> Option<Arc<Record<V>>> {
    let LogRow { revision, time_ms, create, value, .. } = row;
    Some(Arc::new(transform.record(key, value?, create, revision, time_ms)))
}
