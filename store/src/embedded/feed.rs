//! The feeder: copies acknowledged events from the journal to the served copy, behind the writers.
//!
//! It takes the events from the [backlog](super::backlog) and writes them in batches: the events, the location of each
//! key's newest event, and the applied revision, in one atomic batch.

use std::collections::HashMap;
use std::sync::Arc;

use super::backlog::size;
use super::frame::StoreId;
use super::read;
use super::retention::RetentionMarks;
use super::rows::{self, CurrentRow, LogRow};
use super::sensitive::{FormerMarks, Sensitive};
use super::sled::{Changes, Served, ServedError};
use crate::transform::Transform;
use crate::{Event, Revision, TransformError};

/// The maximum number of rows that one batch removes.
const SWEEP_ROWS: usize = 1000;

/// Writes to the served copy. It is the only writer, so nothing that it reads changes meanwhile.
pub(crate) struct Feeder {
    /// `None` only while the copy is being reopened.
    served: Option<Arc<Served>>,
    store: StoreId,
    pub(crate) applied: Revision,
    /// When the newest event in the copy was written.
    pub(crate) time_ms: i64,
    pub(crate) swept: Revision,
    pub(crate) marks: RetentionMarks,
    pub(crate) erasure: ErasureMarks,
}

/// The progress of the erasure of former versions.
#[derive(Clone, Debug, Default)]
pub(crate) struct ErasureMarks {
    pub(crate) sensitive: Sensitive,
    /// The events after `rows` that replaced or deleted sensitive versions.
    pub(crate) former: FormerMarks,
    /// No row contains a version that was former at this revision.
    pub(crate) rows: Revision,
    /// No file contains a version that was former at this revision.
    pub(crate) files: Revision,
}

impl ErasureMarks {
    /// Marks of a store without former versions.
    pub(crate) fn new(sensitive: &Sensitive) -> Self {
        ErasureMarks { sensitive: sensitive.clone(), ..ErasureMarks::default() }
    }
}

/// The result of a step of the erasure of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ErasedRows {
    /// All versions are erased.
    All,
    /// More may remain.
    Part,
    /// The next version cannot be read now, for this reason. It stays, and so do all later ones.
    Waits(TransformError),
}

impl Feeder {
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn new(
        served: Arc<Served>,
        store: StoreId,
        applied: Revision,
        time_ms: i64,
        swept: Revision,
        marks: RetentionMarks,
        erasure: ErasureMarks,
    ) -> Self {
        Feeder { served: Some(served), store, applied, time_ms, swept, marks, erasure }
    }

    /// The copy that it writes to.
    pub(crate) fn served(&self) -> &Arc<Served> {
        self.served.as_ref().expect("nothing is fed while the copy is being reopened")
    }

    /// The store of the copy.
    #[cfg(test)]
    pub(crate) fn store(&self) -> StoreId {
        self.store
    }

    /// Whether there is a copy; there is none while it is being reopened.
    pub(crate) fn has_copy(&self) -> bool {
        self.served.is_some()
    }

    /// Makes the fed events durable. Does nothing when there is no copy.
    pub(crate) fn sync(&self) -> Result<(), ServedError> {
        self.served.as_ref().map_or(Ok(()), |served| served.sync())
    }

    /// Switches to another copy with the same contents.
    pub(crate) fn change(&mut self, served: Arc<Served>) {
        self.served = Some(served);
    }

    /// Releases the copy so that it can be reopened.
    pub(crate) fn release(&mut self) -> Option<Arc<Served>> {
        self.served.take()
    }

    /// Writes events to the served copy, all or none.
    pub(crate) fn feed<V>(&mut self, events: &[Arc<Event<V>>]) -> Result<(), ServedError> {
        let Some(last) = events.last() else { return Ok(()) };
        let mut changes = Changes::default();
        let mut newest: HashMap<&str, CurrentRow> = HashMap::with_capacity(events.len());
        for event in events {
            let key = event.key.as_str();
            let prior = match (&event.prev, newest.get(key)) {
                (Some(prev), _) => prev.mod_revision,
                (None, Some(row)) => row.revision,
                // The key may have been deleted recently: its history continues across the deletion.
                (None, None) => match self.served().get(&rows::current_key(key))? {
                    Some(row) => CurrentRow::decode(self.store, key, &row)?.revision,
                    None => Revision::ZERO,
                },
            };
            let record = event.record.as_ref();
            let named = record.or(event.prev.as_ref());
            let create = named.map_or(Revision::ZERO, |record| record.create_revision);
            let value = record.map(|record| &**record.stored_bytes());
            let chunks =
                rows::encode_log(self.store, event.revision, event.time_ms, create, prior, key, value);
            for (key, chunk) in chunks {
                changes.insert(&key, chunk);
            }
            let value_crc = value.map_or(0, crc32c::crc32c);
            newest.insert(
                key,
                CurrentRow { deleted: value.is_none(), create, revision: event.revision, value_crc },
            );
        }
        for (key, row) in newest {
            changes.insert(&rows::current_key(key), row.encode(self.store, key));
        }
        self.set_applied(&mut changes, last.revision, last.time_ms);
        self.served().apply(changes)?;
        self.applied = last.revision;
        self.time_ms = last.time_ms;
        for event in events {
            self.marks.push(event.revision, event.time_ms, size(event));
            if self.erasure.sensitive.makes_former(event) {
                self.erasure.former.push(event.revision, event.time_ms);
            }
        }
        Ok(())
    }

    /// Adds the applied revision and the store's id to a batch.
    pub(crate) fn set_applied(&self, changes: &mut Changes, applied: Revision, time_ms: i64) {
        let row = rows::encode_meta(self.store, rows::META_APPLIED, applied.0, time_ms as u64);
        changes.insert(rows::META_APPLIED, row);
        changes.insert(rows::META_STORE, self.store.0.to_vec());
    }

    pub(crate) fn set_compacted(&self, changes: &mut Changes, oldest: Revision, swept: Revision) {
        let row = rows::encode_meta(self.store, rows::META_COMPACTED, oldest.0, swept.0);
        changes.insert(rows::META_COMPACTED, row);
    }

    /// Adds the progress of the erasure to a batch.
    pub(crate) fn set_erased(&self, changes: &mut Changes) {
        let ErasureMarks { rows, files, .. } = self.erasure;
        if rows == Revision::ZERO && files == Revision::ZERO {
            return;
        }
        changes.insert(rows::META_ERASED, rows::encode_meta(self.store, rows::META_ERASED, rows.0, files.0));
    }

    /// Erases some of the versions that the events up to a revision made former ones, oldest first. Stops before a version that cannot
    /// be read now, because its metadata would be lost. Erased bytes stay in sled's file until the copy is replaced.
    pub(crate) fn erase(
        &mut self,
        transform: &Transform,
        through: Revision,
    ) -> Result<ErasedRows, ServedError> {
        let mut changes = Changes::default();
        let (mut rows, mut reached) = (0, through);
        let mut waits_for = None;
        // An event counts as a row because it is read, whether there is something to erase or not.
        for (nth, revision) in self.erasure.former.through(through).enumerate() {
            if rows + nth >= SWEEP_ROWS {
                reached = Revision(revision.0 - 1);
                break;
            }
            let Some(event) = read::log_row(self.served(), self.store, revision)? else { continue };
            let Some(replaced) = event.replaced() else { continue };
            let Some(row) = read::log_row(self.served(), self.store, replaced)? else { continue };
            match self.erase_row(transform, &mut changes, row)? {
                Ok(removed) => rows += removed,
                Err(why) => {
                    // Before the first version, there is no progress to record.
                    reached = if nth == 0 { self.erasure.rows } else { Revision(revision.0 - 1) };
                    waits_for = Some(why);
                    break;
                }
            }
        }
        self.erasure.rows = self.erasure.rows.max(reached);
        self.set_erased(&mut changes);
        self.served().apply(changes)?;
        self.erasure.former.forget(reached);
        Ok(match waits_for {
            Some(why) => ErasedRows::Waits(why),
            None if reached < through => ErasedRows::Part,
            None => ErasedRows::All,
        })
    }

    /// Replaces the value of an event by its redacted form. Returns the number of rows; 0 if it has no value; an error if the value
    /// cannot be read now.
    fn erase_row(
        &self,
        transform: &Transform,
        changes: &mut Changes,
        row: LogRow,
    ) -> Result<Result<usize, TransformError>, ServedError> {
        let Some(value) = row.value.clone().filter(|_| !row.is_erased) else { return Ok(Ok(0)) };
        let left = match self.erasure.sensitive.redacted_form(transform, &row.key, &value) {
            Ok(left) => left,
            Err(why) => return Ok(Err(why)),
        };
        let removed = self.remove_log(changes, row.revision)?;
        for (name, chunk) in row.erased(left).encode(self.store) {
            changes.insert(&name, chunk);
        }
        Ok(Ok(removed))
    }

    /// Erases all former versions of one key, and returns their number.
    pub(crate) fn erase_key(&mut self, key: &str) -> Result<usize, ServedError> {
        let Some(current) = self.served().get(&rows::current_key(key))? else { return Ok(0) };
        let newest = CurrentRow::decode(self.store, key, &current)?.revision;
        let (mut at, mut erased, mut changes) = (newest, 0, Changes::default());
        while let Some(row) = read::log_row(self.served(), self.store, at)? {
            let (revision, prior) = (row.revision, row.prior);
            if revision != newest {
                // Without a transformer, every version can be read.
                erased += self.erase_row(&Transform::default(), &mut changes, row)?.unwrap_or(0).min(1);
            }
            at = prior;
        }
        self.served().apply(changes)?;
        Ok(erased)
    }

    /// Removes some of the versions that were replaced or deleted at or before `oldest`. Returns true when
    /// more may remain. The versions are found from the events that replaced them, so the cost is proportional
    /// to the number of changes and not to the size of the store.
    pub(crate) fn sweep(&mut self, oldest: Revision) -> Result<bool, ServedError> {
        let upto = oldest.min(self.applied);
        if self.swept >= upto {
            return Ok(false);
        }
        let mut changes = Changes::default();
        let mut removed = 0;
        let mut swept = upto;
        for row in read::log(self.served(), self.store, self.swept.next(), upto) {
            let row = row?;
            removed += self.remove_log(&mut changes, row.prior)?;
            if row.value.is_none() {
                removed += self.remove_log(&mut changes, row.revision)?;
                let name = rows::current_key(row.key.as_str());
                if let Some(bytes) = self.served().get(&name)?
                    && CurrentRow::decode(self.store, row.key.as_str(), &bytes)?.revision == row.revision
                {
                    changes.remove(&name);
                }
            }
            if removed >= SWEEP_ROWS {
                swept = row.revision;
                break;
            }
        }
        self.set_compacted(&mut changes, oldest, swept);
        // The next open does not find these events any more, and must erase the versions from the other files.
        if let Some(newest) = self.erasure.former.newest_through(swept).filter(|at| *at > self.erasure.rows) {
            self.erasure.rows = newest;
            self.set_erased(&mut changes);
        }
        self.served().apply(changes)?;
        self.swept = swept;
        self.marks.forget(swept);
        Ok(swept < upto)
    }

    /// Removes the chunks of an event, if it exists. Returns the number of rows.
    fn remove_log(&self, changes: &mut Changes, revision: Revision) -> Result<usize, ServedError> {
        let Some(first) = self.served().get(&rows::log_key(revision, 0))? else { return Ok(0) };
        let chunks = rows::chunk_count(&first).ok_or_else(|| format!("log/{revision} is too short"))?;
        for chunk in 0..chunks {
            changes.remove(&rows::log_key(revision, chunk));
        }
        Ok(usize::from(chunks))
    }
}
