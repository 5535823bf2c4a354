//! The durable store: a journal that makes writes durable, and sled behind it for the history.
//!
//! | file | contents |
//! |---|---|
//! | [`files`] | file system operations, as a trait for fault injection |
//! | `frame`, `journal`, `segments`, `scan`, `preallocate` | the journal: encoding, appending, segments, reading, preallocation |
//! | `rows`, `sled` | the rows of the served copy, and the only file that uses sled |
//! | `backlog`, `feed`, `upkeep` | feeding the served copy from the journal; compaction |
//! | `read` | the log as one sequence: backlog and served copy |
//! | `snapshot`, `snapshots` | logical snapshots, from which the served copy can be rebuilt; when they are taken |
//! | `options`, `paths` | the options of a store; its paths |
//! | `recover`, `rebuild`, `verify`, `sled_dir`, `guard`, `identity`, `dir_identity`, `lock` | opening and verifying |
//! | [`check`](mod@check) | a read-only check of a directory |
//! | `high_water`, [`accepted_loss`], [`loss_record`] | detecting a lost end of the journal; accepting the loss |
//! | `retention`, `space` | how much history is retained; disk usage |
//! | `sensitive`, `former`, `erase`, `erasure` | former versions of sensitive records: which ones are hidden, and their erasure from all files |
//! | `disk_space`, `write_admission` | free disk space, and which writes it permits |
//! | `offline` | operations on a directory that is not open |
//! | `shrink`, `replacement`, `slot`, `reopen` | replacing the served copy while it is in use |
//!
//! docs/store-format.md describes the bytes.

pub mod accepted_loss;
pub mod check;
mod dir_identity;
pub mod files;
mod preallocate;

mod backlog;
mod disk_space;
mod erase;
mod erasure;
mod feed;
mod former;
mod frame;
mod guard;
mod high_water;
mod identity;
mod journal;
mod lock;
pub mod loss_record;
mod offline;
mod options;
mod paths;
mod read;
mod rebuild;
mod recover;
mod refused;
mod reopen;
mod replacement;
mod retention;
mod rows;
mod scan;
mod segments;
mod sensitive;
mod shrink;
mod sled;
mod sled_dir;
mod slot;
pub(crate) mod snapshot;
mod snapshots;
mod space;
mod upkeep;
mod verify;
mod write_admission;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};

use self::backlog::Backlog;
use self::former::FormerVersions;
use self::high_water::HighWater;
use self::journal::Journal;
use self::lock::Lock;
use self::read::{LOG_READS, Past, PastLog, blocking, log_read};
use self::recover::{Recovered, recover};
use self::refused::Refused;
use self::slot::Slot;
use self::upkeep::{Progress, Upkeep};
use self::write_admission::WriteAdmission;
use crate::commit::{self, AppendError, Durable, Head, Published, Queue, Shortage, WriteOptions};
use crate::data_size::{DataBytes, DataSize, PublishedDataBytes, WriteSize};
use crate::future::BoxFuture;
use crate::transform::{Unreadable, unreadable};
use crate::watch::Hub;
use crate::{
    Clock, CommitError, Committed, Event, Guard, Key, Kv, OpenError, ReadError, Record, Revision, Snapshot,
    Usage, View, WatchError, Watcher, Write,
};

pub use self::disk_space::{DiskSpace, FileSystem, Space};
pub(crate) use self::frame::StoreId;
pub use self::lock::lock_within;
pub(crate) use self::offline::make;
pub use self::offline::{Compacted, compact, purge};
pub use self::options::Options;
pub use self::paths::ENTRIES;
pub use self::retention::Retention;
pub(crate) use self::retention::RetentionMarks;
pub(crate) use self::sensitive::FormerMarks;
pub use self::sensitive::{CONTINUITY, Redact, RedactFn, Sensitive};

/// A durable store in a directory.
pub struct Embedded<V: View> {
    dir: PathBuf,
    published: Arc<Published<V>>,
    past: Arc<Past<V>>,
    queue: Queue<V>,
    write_admission: Arc<WriteAdmission>,
    progress: watch::Receiver<Progress>,
    clock: Arc<dyn Clock>,
    data_bytes: Arc<PublishedDataBytes>,
    max_data: u64,
}

impl<V: View> Embedded<V> {
    /// Opens the store in a directory, or creates one when the directory is empty or missing.
    ///
    /// Blocks while it reads and checks everything. The log reports every recovery, rename and truncation; an
    /// existing store is never emptied.
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Self, OpenError> {
        let dir = dir.as_ref();
        let io = |action| move |source| OpenError::Io { action, path: dir.to_owned(), source };
        options.files.create_dir(dir).map_err(io("create"))?;
        dir_identity::look(dir, &*options.files)?;
        let lock = Lock::take(dir, options.lock_wait)?;
        let write_admission = Arc::new(WriteAdmission::new(dir, &options));
        write_admission.before_opening();
        let recovered: Recovered<V> = recover(dir, &options)?;
        let Recovered { store, journal, feeder, head, index, oldest, time_ms, mark, .. } = recovered;
        tracing::info!(
            path = %dir.display(), %store, revision = %head, %oldest, records = index.len(), "the store is open"
        );
        for (topic, Unreadable { count, first: (key, why) }) in unreadable(index.values()) {
            tracing::error!(%topic, records = count, %key, %why, "records cannot be read; add the missing key to the encryption configuration, or start the KMS plugin");
        }
        // Nothing that is hidden becomes readable by a restart.
        let now_ms = options.clock.now_ms().max(time_ms);
        let due = feeder.erasure.former.target(now_ms, options.sensitive.age_ms());
        let floor = feeder.erasure.rows.max(due.unwrap_or_default());
        let hub = Arc::new(Hub::new(head, options.rings));
        let published = Arc::new(Published::new(Head { revision: head, index }, hub));
        let past = Arc::new(Past {
            published: published.clone(),
            backlog: Backlog::new(head, options.backlog_bytes),
            served: Slot::new(feeder.served().clone()),
            store,
            oldest: AtomicU64::new(oldest.0),
            memory: options.memory.clone(),
            transform: options.transform(),
            former: FormerVersions::new(options.sensitive.clone(), floor, feeder.erasure.former.clone()),
            log_reads: Arc::new(Semaphore::new(LOG_READS)),
        });
        let (sender, progress) = watch::channel(Progress { swept: feeder.swept, ..Progress::default() });
        let segments = journal.segments();
        let files = options.files.clone();
        let high_water = HighWater::start(files, dir, store, mark, head, journal.newest().1)
            .map_err(io("start a thread for"))?;
        let pipe = Pipe {
            journal,
            past: past.clone(),
            write_admission: write_admission.clone(),
            high_water: Some(high_water),
        };
        let clock = options.clock.clone();
        clock.continue_from(time_ms);
        let data: u64 = published.current().index.values().map(|record| record.size() as u64).sum();
        let data = DataSize::new(data, options.max_data, options.shed_first.clone());
        let limits = WriteOptions { max_value: options.max_value, transform: options.transform() };
        let (max_data, data_bytes) = (options.max_data, data.published());
        let queue = commit::start(published.clone(), pipe, clock.clone(), time_ms, limits, data)
            .map_err(io("start a thread for"))?;
        let upkeep = Upkeep {
            past: past.clone(),
            options,
            root: dir.to_owned(),
            write_admission: write_admission.clone(),
            feeder,
            segments,
            snapshot_dir: dir.join("snapshot"),
            snapshots: recovered.snapshots,
            needs_snapshot: recovered.needs_snapshot,
            snapshot_from: recovered.snapshot_from,
            rotator: queue.rotator(),
            progress: sender,
            lock,
        };
        upkeep.start().map_err(io("start a thread for"))?;
        Ok(Embedded {
            dir: dir.to_owned(),
            published,
            past,
            queue,
            write_admission,
            progress,
            clock,
            data_bytes,
            max_data,
        })
    }
}

/// Closes a store in a blocking context.
pub(crate) fn close_now<V: View>(store: Embedded<V>) {
    let progress = store.progress.clone();
    // The committer ends with its last queue, and the upkeep thread after the committer.
    drop(store);
    while !progress.borrow().closed && progress.has_changed().is_ok() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Makes the committer's groups durable.
struct Pipe<V: View> {
    journal: Journal,
    past: Arc<Past<V>>,
    write_admission: Arc<WriteAdmission>,
    /// `None` after the committer has ended.
    high_water: Option<HighWater>,
}

impl<V: View> Durable<V> for Pipe<V> {
    fn wait_for_space(&mut self) -> Result<Option<Shortage>, String> {
        let has_space = self.past.backlog.wait_for_space()?;
        Ok((!has_space).then(|| self.write_admission.no_space()))
    }

    fn admits(&mut self, writes: &[WriteSize<'_>]) -> Result<(), Shortage> {
        let admitted = self.write_admission.admits(self.write_admission.effect(writes));
        self.journal.space_is_short(self.write_admission.is_short());
        admitted
    }

    fn append(&mut self, events: &[Arc<Event<V>>]) -> Result<(), AppendError> {
        let before = self.journal.segments().appended();
        let mut result = self.journal.append(events);
        // The preallocated segment is removed first; the ballast is the last reserve.
        if matches!(result, Err(Refused::NoSpace(_))) && self.journal.space_is_short(true) {
            result = self.journal.append(events);
        }
        if let Err(Refused::NoSpace(why)) = &result {
            tracing::warn!(why, "the journal is out of disk space");
            if self.write_admission.refused() {
                result = self.journal.append(events);
            }
        }
        self.write_admission.wrote(self.journal.segments().appended() - before);
        result.map_err(|refused| match refused {
            Refused::NoSpace(_) => AppendError::NoSpace(self.write_admission.no_space()),
            Refused::Unknown(why) => AppendError::Unknown(why),
        })?;
        if let Some(high_water) = &self.high_water {
            let (revision, entry) = self.journal.newest();
            high_water.note(revision, entry);
        }
        Ok(())
    }

    fn durable(&mut self, events: &[Arc<Event<V>>]) {
        self.past.former.note(events);
        self.past.backlog.push(events);
    }

    fn rotate(&mut self) -> Result<Revision, AppendError> {
        let rotated = self.journal.rotate();
        // Wakes the upkeep thread, which waits for the answer.
        self.past.backlog.poke();
        rotated.map_err(|refused| match refused {
            Refused::NoSpace(_) => AppendError::NoSpace(self.write_admission.no_space()),
            Refused::Unknown(why) => AppendError::Unknown(why),
        })
    }
}

impl<V: View> Drop for Pipe<V> {
    fn drop(&mut self) {
        // This happens while the directory is still locked: the next process preallocates a segment under the same
        // name and writes its own mark.
        self.journal.stop();
        self.high_water = None;
        // The committer has ended; the upkeep thread writes the rest to disk and ends too.
        self.past.backlog.close();
    }
}

impl<V: View> Kv<V> for Embedded<V> {
    fn commit_if(
        &self,
        guards: Vec<Guard>,
        writes: Vec<Write<V>>,
    ) -> BoxFuture<'_, Result<Committed<V>, CommitError<V>>> {
        Box::pin(self.queue.commit(guards, writes))
    }

    fn head(&self) -> Snapshot<V> {
        self.published.head()
    }

    fn at<'a>(
        &'a self,
        revision: Revision,
        prefix: &'a str,
    ) -> BoxFuture<'a, Result<Snapshot<V>, ReadError>> {
        let (past, prefix) = (self.past.clone(), prefix.to_owned());
        Box::pin(log_read(past, move |past, cancelled| past.at(revision, &prefix, cancelled)))
    }

    fn watch(&self, prefix: &str, after: Revision) -> Result<Watcher<V>, WatchError> {
        let log = Arc::new(PastLog(self.past.clone()));
        Watcher::start(&self.published.hub, log, prefix, after)
    }

    fn history_before<'a>(
        &'a self,
        key: &'a Key,
        before: Revision,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Arc<Event<V>>>, ReadError>> {
        let (past, key) = (self.past.clone(), key.clone());
        Box::pin(log_read(past, move |past, _| past.history(&key, before, limit)))
    }

    fn events(&self, after: Revision, limit: usize) -> BoxFuture<'_, Result<Vec<Arc<Event<V>>>, ReadError>> {
        let past = self.past.clone();
        Box::pin(log_read(past, move |past, _| past.events(after, limit)))
    }

    fn time_of(&self, revision: Revision) -> BoxFuture<'_, Result<Option<i64>, ReadError>> {
        let past = self.past.clone();
        Box::pin(blocking(move || past.time_of(revision)))
    }

    fn reached(&self, revision: Revision) -> BoxFuture<'_, ()> {
        Box::pin(self.published.hub.reached(revision))
    }

    /// Returns when the compacted events are also removed from the served copy.
    fn compact(&self, before: Revision) -> BoxFuture<'_, Result<(), ReadError>> {
        Box::pin(async move {
            let head = self.published.current().revision;
            if before > head {
                return Err(ReadError::Future { wanted: before, head });
            }
            self.past.oldest.fetch_max(before.0, Ordering::SeqCst);
            self.past.backlog.poke();
            let mut progress = self.progress.clone();
            let done = progress.wait_for(|progress| progress.swept >= before || progress.ended).await;
            if done.is_ok_and(|progress| progress.swept >= before) {
                return Ok(());
            }
            Err(ReadError::Damaged(self.poisoned().unwrap_or_else(|| "the store is closed".into())))
        })
    }

    fn oldest(&self) -> Revision {
        self.past.oldest()
    }

    fn former_floor(&self) -> Revision {
        self.past.former.continuity(self.clock.now_ms())
    }

    fn poisoned(&self) -> Option<String> {
        self.published.poisoned().map(str::to_owned)
    }

    fn now_ms(&self) -> i64 {
        self.clock.now_ms()
    }

    fn size_on_disk(&self) -> u64 {
        space::allocated(&self.dir)
    }

    fn data(&self) -> DataBytes {
        self.data_bytes.get()
    }

    fn usage(&self) -> Usage {
        Usage {
            data: self.data().current,
            max_data: self.max_data,
            unread_former_versions: self.past.former.unread(),
            ..self.write_admission.usage()
        }
    }

    fn id(&self) -> [u8; 16] {
        self.past.store.0
    }

    fn is_stale(&self, record: &Record<V>) -> bool {
        self.past.transform.is_stale(record)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.published.hub.close();
            self.queue.close().await;
            let mut progress = self.progress.clone();
            // An error means that the thread has ended.
            let _ = progress.wait_for(|progress| progress.closed).await;
        })
    }
}

impl<V: View> Drop for Embedded<V> {
    /// Without [`close`](Kv::close), everything is written to disk too, but in the background.
    fn drop(&mut self) {
        self.published.hub.close();
    }
}
