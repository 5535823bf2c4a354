//! The store that survives: a journal that acknowledges, and sled behind it that serves the past.
//!
//! | file | idea |
//! |---|---|
//! | [`files`] | what is asked of the file system, so that tests can make it fail |
//! | `frame`, `journal`, `segments`, `scan`, `preallocate` | the bytes that acknowledge, their segments, reading and preparing those |
//! | `rows`, `sled` | the rows of the served copy, and the one file that names sled |
//! | `feed`, `upkeep` | from the journal to the served copy; compaction |
//! | `read` | the log as one sequence: backlog and served copy |
//! | `snapshot`, `snapshots` | logical snapshots, from which the served copy can be made again; when |
//! | `recover`, `rebuild`, `verify`, `hygiene`, `guard`, `identity`, `dir_identity`, `lock` | opening, without trust |
//! | [`check`](mod@check) | a look at a directory that changes nothing |
//! | `high_water`, [`accept`] | what tells that the journal's end is lost; going on without it |
//! | `retention`, `space` | how much of the past is kept, and what it takes |
//! | `room`, `gate` | how much room the disk has, and what may still be written |
//! | `offline` | what is done to a directory that nobody has open |
//! | `shrink`, `renew`, `slot`, `reopen` | a fresh served copy for the old one, while it is used |
//!
//! The bytes are described in docs/store-format.md.

pub mod accept;
pub mod check;
mod dir_identity;
pub mod files;
mod preallocate;

mod feed;
mod frame;
mod gate;
mod guard;
mod high_water;
mod hygiene;
mod identity;
mod journal;
mod lock;
mod offline;
mod read;
mod rebuild;
mod recover;
mod renew;
mod reopen;
mod retention;
mod room;
mod rows;
mod scan;
mod segments;
mod shrink;
mod sled;
mod slot;
pub(crate) mod snapshot;
mod snapshots;
mod space;
mod upkeep;
mod verify;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use self::feed::Backlog;
use self::files::{Disk, Files};
use self::gate::Gate;
use self::high_water::HighWater;
use self::journal::{Journal, Refused};
use self::lock::Lock;
use self::read::{Past, PastLog, blocking};
use self::recover::{Recovered, recover};
use self::slot::Slot;
use self::upkeep::{Progress, Upkeep};
use crate::commit::{self, AppendError, Durable, Head, Published, Queue, Shortage};
use crate::future::BoxFuture;
use crate::watch::{Hub, RingLimits};
use crate::{
    Clock, CommitError, Committed, Event, Guard, Key, Kv, OpenError, ReadError, Revision, Snapshot,
    SystemClock, Usage, View, WatchError, Watcher, Write,
};

pub(crate) use self::frame::StoreId;
pub(crate) use self::offline::make;
pub use self::offline::{Compacted, compact};
pub use self::retention::Retention;
pub use self::room::{FileSystem, Room, Space};

/// How a store behaves.
#[derive(Clone)]
pub struct Options {
    /// How much of the past is kept.
    pub retention: Retention,
    /// How often that is looked at, at the most.
    pub retain_every: Duration,
    /// The most bytes of one value.
    pub max_value: usize,
    /// How much the watch rings keep.
    pub rings: RingLimits,
    /// A journal segment is followed by another when it has this many bytes.
    pub segment_bytes: u64,
    /// A snapshot is taken when the journal has grown by this many bytes (or by as many as the
    /// last snapshot had, if that is more).
    pub snapshot_bytes: u64,
    /// When this many bytes wait for the served copy, writers wait too.
    pub backlog_bytes: usize,
    /// Free bytes below which nothing is taken that grows; `None` is 64 MiB or a tenth of the store,
    /// whichever is more, but at most an eighth of the disk.
    pub min_free_bytes: Option<u64>,
    /// Bytes of a file that is kept for recovery and deletes when the disk is full to the last byte;
    /// `None` is 16 MiB, or less on a small disk.
    pub ballast_bytes: Option<u64>,
    /// Keys below these prefixes are not taken below twice the least: what can be told again.
    pub shed_first: Vec<String>,
    /// Who is asked for the room of the disk.
    pub room: Arc<dyn Room>,
    /// A fresh served copy is made this often, also when it is not too large.
    pub renew_every: Duration,
    /// How long to wait for a predecessor that is on its way out.
    pub lock_wait: Duration,
    /// How long sled may take to open (a large one gets more).
    pub open_deadline: Duration,
    /// What stamps the records.
    pub clock: Arc<dyn Clock>,
    /// The file system below journal and snapshots.
    pub files: Arc<dyn Files>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            retention: Retention::default(),
            retain_every: Duration::from_secs(1),
            max_value: 2 << 20,
            rings: RingLimits::default(),
            segment_bytes: 4 << 20,
            snapshot_bytes: 8 << 20,
            backlog_bytes: 64 << 20,
            min_free_bytes: None,
            ballast_bytes: None,
            shed_first: Vec::new(),
            room: Arc::new(FileSystem),
            renew_every: Duration::from_secs(24 * 3600),
            lock_wait: Duration::from_secs(10),
            open_deadline: Duration::from_secs(120),
            clock: Arc::new(SystemClock),
            files: Arc::new(Disk),
        }
    }
}

/// A store in a directory of its own.
pub struct Embedded<V: View> {
    dir: PathBuf,
    published: Arc<Published<V>>,
    past: Arc<Past<V>>,
    queue: Queue<V>,
    gate: Arc<Gate>,
    progress: watch::Receiver<Progress>,
}

impl<V: View> Embedded<V> {
    /// Opens the store in a directory, or makes one there when the directory is empty or missing.
    ///
    /// Blocks while it reads and checks everything. What is recovered, set aside or cut is told in
    /// the log; an existing store is never emptied.
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Self, OpenError> {
        let dir = dir.as_ref();
        let io = |action| move |source| OpenError::Io { action, path: dir.to_owned(), source };
        options.files.create_dir(dir).map_err(io("create"))?;
        dir_identity::look(dir, &*options.files)?;
        let lock = Lock::take(dir, options.lock_wait)?;
        let gate = Arc::new(Gate::new(dir, &options));
        gate.before_opening();
        let recovered: Recovered<V> = recover(dir, &options)?;
        let Recovered { store, journal, feeder, head, index, oldest, time_ms, mark, .. } = recovered;
        tracing::info!(
            path = %dir.display(), %store, revision = %head, %oldest, records = index.len(), "the store is open"
        );
        let hub = Arc::new(Hub::new(head, options.rings));
        let published = Arc::new(Published::new(Head { revision: head, index }, hub));
        let past = Arc::new(Past {
            published: published.clone(),
            backlog: Backlog::new(head, options.backlog_bytes),
            served: Slot::new(feeder.served().clone()),
            store,
            oldest: AtomicU64::new(oldest.0),
        });
        let (sender, progress) = watch::channel(Progress { swept: feeder.swept, ..Progress::default() });
        let segments = journal.segments();
        let files = options.files.clone();
        let high_water = HighWater::start(files, dir, store, mark, head, journal.newest().1)
            .map_err(io("start a thread for"))?;
        let pipe = Pipe { journal, past: past.clone(), gate: gate.clone(), high_water: Some(high_water) };
        let clock = options.clock.clone();
        let queue = commit::start(published.clone(), pipe, clock, time_ms, options.max_value)
            .map_err(io("start a thread for"))?;
        let upkeep = Upkeep {
            past: past.clone(),
            options,
            root: dir.to_owned(),
            gate: gate.clone(),
            feeder,
            segments,
            snapshot_dir: dir.join("snapshot"),
            snapshots: recovered.snapshots,
            needs_snapshot: recovered.needs_snapshot,
            snapshot_from: recovered.snapshot_from,
            progress: sender,
            lock,
        };
        upkeep.start().map_err(io("start a thread for"))?;
        Ok(Embedded { dir: dir.to_owned(), published, past, queue, gate, progress })
    }
}

/// Closes a store where nothing else is to be done meanwhile.
pub(crate) fn close_now<V: View>(store: Embedded<V>) {
    let progress = store.progress.clone();
    // The committer ends with its last queue, and the upkeep after it.
    drop(store);
    while !progress.borrow().closed && progress.has_changed().is_ok() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Where the committer's groups go.
struct Pipe<V: View> {
    journal: Journal,
    past: Arc<Past<V>>,
    gate: Arc<Gate>,
    /// `None` once the committer has ended.
    high_water: Option<HighWater>,
}

impl<V: View> Durable<V> for Pipe<V> {
    fn wait_for_room(&mut self) -> Result<Option<Shortage>, String> {
        let has_room = self.past.backlog.wait_for_room()?;
        Ok((!has_room).then(|| self.gate.no_room()))
    }

    fn admits(&mut self, writes: &[(&Key, Option<usize>, Option<usize>)]) -> Result<(), Shortage> {
        let admitted = self.gate.admits(self.gate.effect(writes));
        self.journal.room_is_short(self.gate.is_short());
        admitted
    }

    fn append(&mut self, events: &[Arc<Event<V>>]) -> Result<(), AppendError> {
        let before = self.journal.segments().appended();
        let mut result = self.journal.append(events);
        // What was prepared goes first; the ballast is for when there is nothing else.
        if matches!(result, Err(Refused::NoRoom(_))) && self.journal.room_is_short(true) {
            result = self.journal.append(events);
        }
        if let Err(Refused::NoRoom(why)) = &result {
            tracing::warn!(why, "no room in the journal");
            if self.gate.refused() {
                result = self.journal.append(events);
            }
        }
        self.gate.wrote(self.journal.segments().appended() - before);
        result.map_err(|refused| match refused {
            Refused::NoRoom(_) => AppendError::NoRoom(self.gate.no_room()),
            Refused::Unknown(why) => AppendError::Unknown(why),
        })?;
        if let Some(high_water) = &self.high_water {
            let (revision, entry) = self.journal.newest();
            high_water.note(revision, entry);
        }
        Ok(())
    }

    fn durable(&mut self, events: &[Arc<Event<V>>]) {
        self.past.backlog.push(events);
    }
}

impl<V: View> Drop for Pipe<V> {
    fn drop(&mut self) {
        // While the directory is still locked: the next opener prepares a segment under the same name,
        // and writes its own mark.
        self.journal.stop();
        self.high_water = None;
        // The committer has ended; the upkeep brings the rest to the disk and ends too.
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
        Box::pin(blocking(move || past.at(revision, &prefix)))
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
        Box::pin(blocking(move || past.history(&key, before, limit)))
    }

    fn events(&self, after: Revision, limit: usize) -> BoxFuture<'_, Result<Vec<Arc<Event<V>>>, ReadError>> {
        let past = self.past.clone();
        Box::pin(blocking(move || past.events(after, limit)))
    }

    fn time_of(&self, revision: Revision) -> BoxFuture<'_, Result<Option<i64>, ReadError>> {
        let past = self.past.clone();
        Box::pin(blocking(move || past.time_of(revision)))
    }

    fn reached(&self, revision: Revision) -> BoxFuture<'_, ()> {
        Box::pin(self.published.hub.reached(revision))
    }

    /// Returns when what is forgotten is also gone from the served copy.
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

    fn poisoned(&self) -> Option<String> {
        self.published.poisoned().map(str::to_owned)
    }

    fn size_on_disk(&self) -> u64 {
        space::allocated(&self.dir)
    }

    fn usage(&self) -> Usage {
        self.gate.usage()
    }

    fn id(&self) -> [u8; 16] {
        self.past.store.0
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.published.hub.close();
            self.queue.close().await;
            let mut progress = self.progress.clone();
            // An error means that the sender is gone, and with it the thread.
            let _ = progress.wait_for(|progress| progress.closed).await;
        })
    }
}

impl<V: View> Drop for Embedded<V> {
    /// Without [`close`](Kv::close) everything is brought to the disk too, but nobody waits for it.
    fn drop(&mut self) {
        self.published.hub.close();
    }
}
