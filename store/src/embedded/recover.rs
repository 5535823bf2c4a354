//! Recovery: the steps from a directory to an open store.
//!
//! 1. The journal is read and checked. It is the record of what was acknowledged.
//! 2. The served copy is opened under a deadline, checked, and updated from the journal.
//! 3. If it cannot be used, it is renamed and rebuilt from the newest usable snapshot and the journal after
//!    it.
//! 4. If that fails too, the store does not open, reports why, and nothing is changed.
//!
//! An existing store is never treated as empty: a directory is new only if it is empty.

use std::path::Path;
use std::sync::Arc;

use super::backlog::BATCH_BYTES;
use super::feed::{ErasureMarks, Feeder};
use super::files::Files;
use super::frame::{Entry, StoreId};
use super::guard::{deadline, guarded};
use super::high_water::{self, HighWaterFile, HighWaterMark};
use super::identity::{self, Identity};
use super::journal::Journal;
use super::paths::{RESTORE, StorePaths};
use super::retention::RetentionMarks;
use super::scan::{self, Scan};
use super::sled::{Served, ServedError};
use super::snapshot;
use super::verify::{self, Loaded};
use super::{Options, dir_identity, loss_record, read, shrink, sled_dir};
use crate::snapshot::Index;
use crate::transform::Transform;
use crate::{Event, Key, OpenError, Revision, View};

/// A recovered store.
pub(crate) struct Recovered<V> {
    pub(crate) store: StoreId,
    pub(crate) journal: Journal,
    pub(crate) feeder: Feeder,
    pub(crate) head: Revision,
    pub(crate) index: Index<V>,
    pub(crate) oldest: Revision,
    pub(crate) time_ms: i64,
    /// The high-water mark from the file.
    pub(crate) mark: Option<HighWaterMark>,
    /// The existing snapshots, oldest first.
    pub(crate) snapshots: Vec<Revision>,
    /// Whether neither the journal alone nor a snapshot could rebuild the store.
    pub(crate) needs_snapshot: bool,
    /// The bytes of the journal that the newest snapshot covers.
    pub(crate) snapshot_from: u64,
}

/// Recovers the store in a directory whose lock is held.
pub(crate) fn recover<V: View>(root: &Path, options: &Options) -> Result<Recovered<V>, OpenError> {
    recover_with(root, options, false)
}

/// Like `recover`; with `accept_loss` also when the store ends below its high-water mark.
pub(super) fn recover_with<V: View>(
    root: &Path,
    options: &Options,
    accept_loss: bool,
) -> Result<Recovered<V>, OpenError> {
    let paths = StorePaths::below(root);
    let files = &*options.files;
    let (store, is_new) = dir_identity::identify(&paths, files)?;
    dir_identity::remove_unfinished(&paths, files)?;
    shrink::settle(files, root).map_err(paths.io("tidy up", root))?;
    let mark = match high_water::read(files, root, store)? {
        HighWaterFile::Mark(mark) => Some(mark),
        HighWaterFile::Missing if is_new => None,
        // The older format has no mark.
        HighWaterFile::Missing if matches!(identity::read(files, root)?, Identity::Older(_)) => None,
        HighWaterFile::Missing | HighWaterFile::Damaged => {
            tracing::warn!(path = %root.display(), "the high-water mark is missing or damaged; it is rewritten");
            None
        }
        HighWaterFile::Other(other) => {
            return Err(paths.damaged(format!(
                "its high-water mark belongs to the store {other}, the rest to {store}; put the right files together"
            )));
        }
    };
    if is_new {
        let journal =
            Journal::create(options.files.clone(), paths.journal.clone(), store, options.segment_bytes)?;
        drop(journal);
        files.sync_dir(root).map_err(paths.io("sync", root))?;
        identity::write(files, root, store)?;
    }
    let given_up = loss_record::settle(&paths, files, store)?;
    let scan = scan::scan(files, root, &paths.journal, store, given_up)?;
    check_segments(&paths, &scan)?;
    let mut snapshots =
        snapshot::list(files, &paths.snapshots).map_err(paths.io("list", &paths.snapshots))?;
    snapshots.retain(|revision| *revision >= given_up);
    let open = Opening { paths, options, store, scan, snapshots, mark, accept_loss };
    let recovered = match open.with_served() {
        Ok(recovered) => recovered,
        Err(RecoveryError::Final(error)) => return Err(error),
        Err(RecoveryError::Next(why)) => open.rebuild(&why)?,
    };
    if let Identity::Older(_) = identity::read(files, root)? {
        // The next segment uses the newest format.
        tracing::info!(path = %root.display(), "the store is brought to the newest format");
        identity::write(files, root, store)?;
    }
    if given_up > Revision::ZERO {
        loss_record::forget(&open.paths, files, given_up);
    }
    Ok(recovered)
}

/// Why a step of the recovery failed.
pub(super) enum RecoveryError {
    /// The served copy cannot be used: continue with the next step.
    Next(String),
    /// The store cannot be opened.
    Final(OpenError),
}

impl From<OpenError> for RecoveryError {
    fn from(error: OpenError) -> Self {
        RecoveryError::Final(error)
    }
}

pub(super) struct Opening<'a> {
    pub(super) paths: StorePaths<'a>,
    pub(super) options: &'a Options,
    pub(super) store: StoreId,
    pub(super) scan: Scan,
    pub(super) snapshots: Vec<Revision>,
    pub(super) mark: Option<HighWaterMark>,
    pub(super) accept_loss: bool,
}

impl Opening<'_> {
    pub(super) fn files(&self) -> &dyn Files {
        &*self.options.files
    }

    /// Recovers with the existing served copy, updated from the journal.
    fn with_served<V: View>(&self) -> Result<Recovered<V>, RecoveryError> {
        let recovery_error = |error: ServedError| match error {
            ServedError::System(source) => {
                RecoveryError::Final(self.paths.io("open", &self.paths.sled)(source))
            }
            ServedError::Unusable(why) => RecoveryError::Next(why),
        };
        if !self.paths.sled.exists() && (self.scan.first() > Revision(1) || !self.snapshots.is_empty()) {
            return Err(RecoveryError::Next("there is none".into()));
        }
        sled_dir::before_open(&self.paths.sled).map_err(recovery_error)?;
        let (dir, store, patience) = (self.paths.sled.clone(), self.store, self.options.lock_wait);
        let (deadline, transform) = (deadline(self.paths.root, self.options), self.options.transform());
        let sensitive = self.options.sensitive.clone();
        let (served, loaded) = guarded("opening sled", deadline, move || {
            let served = Served::open(&dir, patience)?;
            let loaded = verify::load::<V>(&served, store, &transform, &sensitive)?;
            Ok((Arc::new(served), loaded))
        })
        .map_err(recovery_error)?;
        let loaded = loaded.unwrap_or(Loaded {
            applied: Revision::ZERO,
            oldest: Revision::ZERO,
            swept: Revision::ZERO,
            time_ms: i64::MIN,
            records: Vec::new(),
            marks: RetentionMarks::default(),
            erasure: ErasureMarks::new(&self.options.sensitive),
        });
        if loaded.applied.next() < self.scan.first() {
            let (applied, first) = (loaded.applied, self.scan.first());
            return Err(RecoveryError::Next(format!(
                "it ends at revision {applied}, and the journal starts at {first}"
            )));
        }
        let missing = self.lost_by_the_journal(&served, &loaded)?;
        let feeder = Feeder::new(
            served,
            self.store,
            loaded.applied,
            loaded.time_ms,
            loaded.swept,
            loaded.marks,
            loaded.erasure,
        );
        let records = loaded.records.into_iter().map(|record| (record.key.clone(), record));
        let state = Replay {
            feeder,
            index: records.collect(),
            time_ms: loaded.time_ms,
            transform: self.options.transform(),
        };
        self.finish(state, loaded.oldest, missing)
    }

    /// The events in the served copy that the journal lacks: the end of the journal was damaged and looked
    /// torn. The copy is fed only with events that were durable in the journal, and still has them.
    fn lost_by_the_journal<V>(
        &self,
        served: &Served,
        loaded: &Loaded<V>,
    ) -> Result<Vec<Entry>, RecoveryError> {
        let last = self.scan.last();
        if loaded.applied <= last {
            return Ok(Vec::new());
        }
        if loaded.oldest > last {
            return Err(RecoveryError::Final(self.paths.damaged(compacted_between(last, loaded.applied))));
        }
        let applied = loaded.applied;
        tracing::error!(%last, %applied, "the end of the journal was damaged; taking it from the served copy");
        let mut entries = Vec::new();
        for row in read::log(served, self.store, last.next(), applied) {
            let row = row.map_err(|error| RecoveryError::Next(error.to_string()))?;
            entries.push(row.to_entry());
        }
        Ok(entries)
    }

    pub(super) fn lost(&self, known: Revision, head: Revision) -> OpenError {
        self.paths.damaged(format!(
            "revision {known} was acknowledged (there is a snapshot of it), but the journal ends at {head}; \
             {RESTORE}, or accept the loss (orlop store check --accept-loss {})",
            self.paths.root.display()
        ))
    }

    /// Whether the store contains everything up to the high-water mark.
    pub(super) fn check_mark(&self, head: Revision) -> Result<(), OpenError> {
        let mark = self.mark.filter(|_| !self.accept_loss);
        check_mark(&self.paths, self.files(), &self.scan, self.store, mark, head)
    }

    /// Replays the journal over the state, and makes both durable.
    pub(super) fn finish<V: View>(
        &self,
        mut state: Replay<V>,
        oldest: Revision,
        missing: Vec<Entry>,
    ) -> Result<Recovered<V>, RecoveryError> {
        let head = state.feeder.applied.max(self.scan.last());
        if let Some(newest) = self.snapshots.last().filter(|newest| **newest > head) {
            return Err(RecoveryError::Final(self.lost(*newest, head)));
        }
        self.check_mark(head)?;
        // The journal comes first: events must be durable in it before they are fed to the copy.
        let mut journal = Journal::open(
            self.options.files.clone(),
            self.paths.journal.clone(),
            self.store,
            self.options.segment_bytes,
            &self.scan,
        )?;
        let mut batch = Vec::new();
        let mut bytes = 0;
        scan::replay(self.files(), &self.scan, self.store, state.feeder.applied, |entry| {
            bytes += entry.value.as_ref().map_or(0, |value| value.len()) + entry.key.len() + 64;
            batch.push(state.play(entry)?);
            if bytes >= BATCH_BYTES {
                bytes = 0;
                self.feed(&mut state.feeder, &mut batch)?;
            }
            Ok::<(), RecoveryError>(())
        })?;
        self.feed(&mut state.feeder, &mut batch)?;
        let journal_dir = &self.paths.journal;
        journal
            .append_entries(&missing)
            .map_err(|refused| self.paths.io("write to", journal_dir)(refused.into()))?;
        state.feeder.served().sync().map_err(|error| self.paths.served(error))?;
        sled_dir::after_open(&self.paths.sled).map_err(self.paths.io("sync", &self.paths.sled))?;
        self.files().sync_dir(self.paths.root).map_err(self.paths.io("sync", self.paths.root))?;
        let usable = |revision: &&Revision| revision.next() >= self.scan.first();
        let needs_snapshot =
            self.scan.first() > Revision(1) && self.snapshots.iter().filter(usable).count() == 0;
        Ok(Recovered {
            store: self.store,
            journal,
            feeder: state.feeder,
            head,
            index: state.index,
            oldest,
            time_ms: state.time_ms,
            mark: self.mark,
            snapshots: self.snapshots.clone(),
            needs_snapshot,
            snapshot_from: self.snapshots.last().map_or(0, |newest| self.scan.bytes_through(*newest)),
        })
    }

    fn feed<V>(&self, feeder: &mut Feeder, batch: &mut Vec<Arc<Event<V>>>) -> Result<(), RecoveryError> {
        feeder.feed(batch).map_err(|error| match error {
            ServedError::System(source) => {
                RecoveryError::Final(self.paths.io("write to", &self.paths.sled)(source))
            }
            ServedError::Unusable(why) => RecoveryError::Next(why),
        })?;
        batch.clear();
        Ok(())
    }
}

/// Whether the store contains everything up to a high-water mark.
pub(super) fn check_mark(
    paths: &StorePaths<'_>,
    files: &dyn Files,
    scan: &Scan,
    store: StoreId,
    mark: Option<HighWaterMark>,
    head: Revision,
) -> Result<(), OpenError> {
    let Some(mark) = mark else { return Ok(()) };
    if head < mark.revision {
        return Err(paths.damaged(behind(paths.root, mark.revision, head)));
    }
    let Some(wanted) = mark.entry else { return Ok(()) };
    match scan::entry_crc(files, scan, store, mark.revision)? {
        Some(found) if found != wanted => Err(paths.damaged(format!(
            "the journal holds another write at revision {} than the one that was acknowledged: files of \
             two moments were put together; {RESTORE}",
            mark.revision
        ))),
        Some(_) | None => Ok(()),
    }
}

/// Whether there is a journal to continue from.
pub(super) fn check_segments(paths: &StorePaths<'_>, scan: &Scan) -> Result<(), OpenError> {
    if scan.segments.is_empty() {
        return Err(paths.damaged(format!("the journal has no segment; {RESTORE}")));
    }
    Ok(())
}

/// The message for a journal whose end is lost and not in the served copy either.
pub(super) fn compacted_between(last: Revision, applied: Revision) -> String {
    format!(
        "the journal ends at revision {last}, but revision {applied} was acknowledged, and what lies between \
         is compacted; {RESTORE}"
    )
}

/// The message for a store that ends below its high-water mark.
fn behind(root: &Path, mark: Revision, head: Revision) -> String {
    format!(
        "revision {mark} was acknowledged (according to the high-water mark), but the journal ends at {head}: its end \
         is lost. Put the missing file back, or {RESTORE}, or accept the loss (orlop store check \
         --accept-loss {})",
        root.display()
    )
}

/// The state during the replay of the journal.
pub(super) struct Replay<V> {
    pub(super) feeder: Feeder,
    pub(super) index: Index<V>,
    pub(super) time_ms: i64,
    pub(super) transform: Transform,
}

impl<V: View> Replay<V> {
    /// Applies one entry. If the entry does not match the state, the journal or the state is damaged.
    fn play(&mut self, entry: Entry) -> Result<Arc<Event<V>>, RecoveryError> {
        let Entry { revision, time_ms, create, prev: replaced, key, value } = entry;
        let key = Key::from(key);
        let prev = self.index.get(&key).cloned();
        if prev.as_ref().map_or(Revision::ZERO, |prev| prev.mod_revision) != replaced {
            return Err(RecoveryError::Next(format!(
                "it does not fit the journal at revision {revision} ({key})"
            )));
        }
        let record =
            value.map(|value| Arc::new(self.transform.record(key.clone(), value, create, revision, time_ms)));
        match &record {
            Some(record) => self.index.insert(key.clone(), record.clone()),
            None => self.index.remove(&key),
        };
        self.time_ms = self.time_ms.max(time_ms);
        Ok(Arc::new(Event { revision, key, time_ms, record, prev }))
    }
}
