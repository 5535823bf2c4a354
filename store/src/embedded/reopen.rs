//! Reopening the served copy after the disk was full, or too many files were open.
//!
//! sled never forgets a failed write, so a copy that met a full disk has to be closed. Events that were fed
//! to it and not synced may be lost; the journal still has them, and is replayed from where the copy is.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::backlog::BATCH_BYTES;
use super::disk_space::is_no_space;
use super::feed::{ErasureMarks, Feeder};
use super::files::is_no_files;
use super::frame::Entry;
use super::guard::guarded;
use super::paths::StorePaths;
use super::retention::RetentionMarks;
use super::sled::{Served, ServedError};
use super::upkeep::{HIDE_EVERY, Upkeep};
use super::{loss_record, scan, sled_dir, space, verify};
use crate::transform::Transform;
use crate::{Event, Key, OpenError, Revision, View};

/// How long running reads may take to release the copy.
const READS: Duration = Duration::from_secs(10);
/// How often the journal must look damaged before the damage counts, because it is being written.
const LOOKS: u32 = 5;
/// The error for readers of history while the copy is closed.
const NO_COPY: &str = "the served copy is closed, and could not be opened again yet";

impl<V: View> Upkeep<V> {
    /// Waits until the machine has what the copy lacks, and reopens the copy. Returns false when the store is closed before that.
    /// Meanwhile, writes are accepted until the backlog is full.
    pub(super) fn recover_from_shortage(&mut self, why: &io::Error) -> Result<bool, ServedError> {
        let root = self.root.display();
        self.past.backlog.stall(true);
        if is_no_files(why) {
            tracing::error!(%why, path = %root, "the served copy cannot open a file; it waits until fewer files are open");
        } else {
            tracing::error!(%why, path = %root, "the served copy is out of disk space; it waits for free space");
            self.write_admission.refused();
        }
        let mut logged = false;
        loop {
            if self.write_admission.has_some() {
                match self.open_anew() {
                    Ok(()) => break,
                    // For example, a reader still holds the lock.
                    Err(ServedError::System(error)) => {
                        self.past.served.lose(NO_COPY);
                        if !is_no_space(&error) && !std::mem::replace(&mut logged, true) {
                            tracing::warn!(%error, path = %self.root.display(), "it cannot be opened now; trying on");
                        }
                    }
                    Err(error) => {
                        self.past.served.lose(NO_COPY);
                        return Err(error);
                    }
                }
            }
            // The free space is checked as often.
            self.hide_former_versions();
            if self.past.backlog.closes_within(HIDE_EVERY) {
                return Ok(false);
            }
        }
        self.past.backlog.stall(false);
        tracing::warn!(path = %self.root.display(), revision = %self.feeder.applied, "the served copy is reopened");
        Ok(true)
    }

    fn open_anew(&mut self) -> Result<(), ServedError> {
        let dir = self.root.join("sled");
        let (patience, deadline) = (self.options.lock_wait, self.options.open_deadline);
        let deadline = deadline + Duration::from_secs(space::allocated(&dir) / (5 << 20));
        let store = self.past.store;
        self.past.served.change();
        if let Some(old) = self.feeder.release() {
            let until = Instant::now() + READS;
            while Arc::strong_count(&old) > 1 && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        sled_dir::before_open(&dir)?;
        let (path, sensitive) = (dir.clone(), self.options.sensitive.clone());
        let (served, loaded) = guarded("opening sled", deadline, move || {
            let served = Served::open(&path, patience)?;
            let loaded = verify::load::<()>(&served, store, &Transform::default(), &sensitive)?;
            Ok((Arc::new(served), loaded))
        })?;
        sled_dir::after_open(&dir)?;
        let (applied, time_ms, swept, marks, erasure) = match loaded {
            Some(loaded) => (loaded.applied, loaded.time_ms, loaded.swept, loaded.marks, loaded.erasure),
            None => {
                let erasure = ErasureMarks::new(&self.options.sensitive);
                (Revision::ZERO, i64::MIN, Revision::ZERO, RetentionMarks::default(), erasure)
            }
        };
        let mut feeder = Feeder::new(served, store, applied, time_ms, swept, marks, erasure);
        let floor = self.past.backlog.floor();
        if applied < floor {
            self.play(&mut feeder, floor)?;
        } else {
            self.past.backlog.done_through(applied);
        }
        feeder.served().sync()?;
        self.past.served.set(feeder.served().clone());
        self.feeder = feeder;
        Ok(())
    }

    /// Feeds the events up to a revision that are in the journal and not in the copy.
    fn play(&self, feeder: &mut Feeder, upto: Revision) -> Result<(), ServedError> {
        let files = &*self.options.files;
        let (paths, store) = (StorePaths::below(&self.root), self.past.store);
        let given_up = loss_record::read(&paths, files, store).map_err(unreadable)?;
        let mut looks = 1;
        let mut scan = loop {
            match scan::scan(files, &self.root, &paths.journal, store, given_up) {
                // The journal is read while it is written: a group that was read partially, followed by a complete one,
                // looks like damage.
                Err(OpenError::Damaged { .. }) if looks < LOOKS => looks += 1,
                // A segment that could not be created is removed again.
                Err(OpenError::Io { source, .. }) if is_missing(&source) && looks < LOOKS => looks += 1,
                scan => break scan.map_err(unreadable)?,
            }
        };
        if scan.first() > feeder.applied.next() || scan.last() < upto {
            return Err(format!("revision {} is not in the journal any more", feeder.applied.next()).into());
        }
        // An empty segment may still be removed.
        scan.segments.retain(|segment| segment.next > segment.first);
        let mut batch = Vec::new();
        let mut bytes = 0;
        let after = feeder.applied;
        let feed = |entry: Entry| {
            if entry.revision > upto {
                return Ok(());
            }
            bytes += entry.value.as_ref().map_or(0, |value| value.len()) + entry.key.len() + 64;
            batch.push(event(entry));
            if bytes >= BATCH_BYTES {
                feeder.feed(&batch)?;
                batch.clear();
                bytes = 0;
            }
            Ok::<(), Failed>(())
        };
        scan::replay(files, &scan, self.past.store, after, feed)?;
        feeder.feed(&batch)
    }
}

/// An event for the feeder, which needs only the location of the replaced record.
fn event(entry: Entry) -> Arc<Event<()>> {
    let Entry { revision, time_ms, create, prev, key, value } = entry;
    let key = Key::from(key);
    let record = |value, mod_revision| {
        Arc::new(Transform::default().record(key.clone(), value, create, mod_revision, time_ms))
    };
    let prev = (prev > Revision::ZERO).then(|| record(bytes::Bytes::new(), prev));
    let record = value.map(|value| record(value, revision));
    Arc::new(Event { revision, key, time_ms, record, prev })
}

fn is_missing(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::NotFound
}

fn unreadable(error: OpenError) -> ServedError {
    if let OpenError::Io { source, .. } = &error
        && let Some(errno) = source.raw_os_error().filter(|_| is_no_files(source))
    {
        return ServedError::System(io::Error::from_raw_os_error(errno));
    }
    ServedError::Unusable(format!("the journal cannot be read: {error}"))
}

/// The error of a replay.
struct Failed(ServedError);

impl From<OpenError> for Failed {
    fn from(error: OpenError) -> Self {
        Failed(unreadable(error))
    }
}

impl From<ServedError> for Failed {
    fn from(error: ServedError) -> Self {
        Failed(error)
    }
}

impl From<Failed> for ServedError {
    fn from(failed: Failed) -> Self {
        failed.0
    }
}
