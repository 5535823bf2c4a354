//! Operations on a directory that is not open: creation from a snapshot, and compaction.

use std::path::Path;

use super::erase;
use super::feed::Feeder;
use super::files::Files;
use super::frame::StoreId;
use super::high_water::HighWater;
use super::journal::Journal;
use super::lock::Lock;
use super::recover::{Recovered, recover};
use super::shrink::Shrink;
use super::sled::ServedError;
use super::snapshot::{self, Encoder, ReadBack};
use super::write_admission::{self, WriteAdmission};
use super::{Options, identity, space};
use crate::{Key, OpenError, Revision};

/// Creates the directory of a store whose first state is a snapshot of `count` records at a revision: the
/// snapshot, an empty journal after it, and the identity. The served copy is built when the store is
/// opened.
pub(crate) fn make(
    files: &std::sync::Arc<dyn Files>,
    dir: &Path,
    revision: Revision,
    time_ms: i64,
    count: u64,
    records: impl FnOnce(&mut Encoder<'_>) -> std::io::Result<()>,
) -> Result<StoreId, OpenError> {
    let io = |action| move |source| OpenError::Io { action, path: dir.to_owned(), source };
    files.create_dir(dir).map_err(io("create"))?;
    let store = StoreId::new();
    if revision > Revision::ZERO {
        let snapshots = dir.join("snapshot");
        let at = (revision, time_ms);
        snapshot::write_file(&**files, &snapshots, store, at, count, ReadBack::Skip, records)
            .map_err(io("write a snapshot in"))?;
    }
    Journal::create_from(files.clone(), dir.join("journal"), store, 0, revision.next())?;
    files.sync_dir(dir).map_err(io("sync"))?;
    // Dropped immediately: it only has to write where the store starts.
    drop(
        HighWater::start(files.clone(), dir, store, None, revision, None)
            .map_err(io("start a thread for"))?,
    );
    identity::write(&**files, dir, store)?;
    Ok(store)
}

/// The result of compacting a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// Bytes on disk before, without the ballast.
    pub before: u64,
    /// Bytes on disk after.
    pub after: u64,
    /// The newest revision.
    pub revision: Revision,
}

/// Compacts a store that is not open to its minimum size: applies the retention, removes the segments that
/// it covers, and rebuilds the served copy.
///
/// # Errors
/// As [`Embedded::open`](super::Embedded::open).
pub fn compact(dir: &Path, options: &Options) -> Result<Compacted, OpenError> {
    let io = |action| move |source| OpenError::Io { action, path: dir.to_owned(), source };
    let served = |error: ServedError| match error {
        ServedError::System(source) => io("make a fresh served copy in")(source),
        ServedError::Unusable(what) => OpenError::Damaged { path: dir.to_owned(), what },
    };
    if !dir.join("journal").try_exists().map_err(io("look into"))? {
        let none = std::io::Error::other("use the --data-dir of the server");
        return Err(io("find a store in")(none));
    }
    let lock = Lock::take(dir, options.lock_wait)?;
    WriteAdmission::new(dir, options).before_opening();
    // The ballast contains no data.
    let bytes = || space::allocated(dir) - space::allocated_file(&dir.join(write_admission::BALLAST));
    let before = bytes();
    let recovered: Recovered<()> = recover(dir, options)?;
    let Recovered { store, journal, mut feeder, head, index, mut oldest, mut snapshots, time_ms, .. } =
        recovered;
    let now_ms = now_ms(options, time_ms);
    if let Some(target) = feeder.marks.target(now_ms, options.retention) {
        oldest = oldest.max(target);
    }
    while feeder.sweep(oldest).map_err(served)? {}
    feeder.sync().map_err(served)?;
    if head > Revision::ZERO && snapshots.last() != Some(&head) {
        let snapshot_dir = dir.join("snapshot");
        let at = (head, now_ms);
        snapshot::write(&*options.files, &snapshot_dir, store, at, &index, ReadBack::Skip)
            .map_err(io("write a snapshot in"))?;
        snapshots.push(head);
        while snapshots.len() > super::snapshots::SNAPSHOTS {
            let old = snapshot::path_of(&snapshot_dir, snapshots.remove(0));
            options.files.remove(&old).map_err(io("remove an old snapshot in"))?;
        }
    }
    if let [older, _] = snapshots[..] {
        let segments = journal.segments();
        segments
            .remove_through(&*options.files, older.min(feeder.applied))
            .map_err(io("remove old segments in"))?;
    }
    if feeder.applied > Revision::ZERO {
        renew(dir, options, &feeder, store, oldest).map_err(served)?;
    }
    drop((journal, feeder));
    let after = bytes();
    drop(lock);
    Ok(Compacted { before, after, revision: head })
}

/// Erases the former versions of one key from all files of a store that is not open. A current version stays. Returns the number of
/// versions that were in the log.
///
/// Needs no transformer: without one, nothing remains of an encrypted version but its key and its times.
///
/// # Errors
/// As [`Embedded::open`](super::Embedded::open).
pub fn purge(dir: &Path, key: &Key, options: &Options) -> Result<usize, OpenError> {
    let io = |action| move |source| OpenError::Io { action, path: dir.to_owned(), source };
    let served = |error: ServedError| match error {
        ServedError::System(source) => io("rewrite the served copy in")(source),
        ServedError::Unusable(what) => OpenError::Damaged { path: dir.to_owned(), what },
    };
    if !dir.join("journal").try_exists().map_err(io("look into"))? {
        let none = std::io::Error::other("use the --data-dir of the server");
        return Err(io("find a store in")(none));
    }
    let lock = Lock::take(dir, options.lock_wait)?;
    WriteAdmission::new(dir, options).before_opening();
    let recovered: Recovered<()> = recover(dir, options)?;
    let Recovered { store, mut journal, mut feeder, head, index, oldest, time_ms, .. } = recovered;
    if head == Revision::ZERO {
        return Ok(0);
    }
    let erased = feeder.erase_key(key.as_str()).map_err(served)?;
    feeder.sync().map_err(served)?;
    // The order of the steps is that of `erase`: an older file is removed when the newer ones are complete.
    journal.rotate().map_err(|refused| io("start a journal segment in")(refused.into()))?;
    let snapshot_dir = dir.join("snapshot");
    let files = &*options.files;
    let at = (head, now_ms(options, time_ms));
    snapshot::write(files, &snapshot_dir, store, at, &index, ReadBack::Require)
        .map_err(io("write a snapshot in"))?;
    erase::remove_snapshots(files, &snapshot_dir, head).map_err(io("remove old snapshots in"))?;
    let segments = journal.segments();
    segments.remove_through(files, head).map_err(io("remove old segments in"))?;
    erase::remove_segments(files, &dir.join("journal"), head).map_err(io("remove old segments in"))?;
    erase::remove_set_aside(files, dir).map_err(io("remove damaged files in"))?;
    renew(dir, options, &feeder, store, oldest).map_err(served)?;
    if erase::has_old_copy(dir) {
        let error = std::io::Error::other("the log names the directory that could not be removed; remove it");
        return Err(io("remove the old served copy in")(error));
    }
    drop((journal, feeder));
    drop(lock);
    Ok(erased)
}

/// The time of a snapshot. It is never before the last time stamp of the store, although the system's clock may be: if the served copy is
/// lost later, new time stamps continue from this time.
fn now_ms(options: &Options, last_ms: i64) -> i64 {
    options.clock.continue_from(last_ms);
    options.clock.now_ms().max(last_ms)
}

fn renew(
    dir: &Path,
    options: &Options,
    feeder: &Feeder,
    store: StoreId,
    oldest: Revision,
) -> Result<(), ServedError> {
    let mut shrink = Shrink::begin(dir, store)?;
    while !shrink.step(feeder)? {}
    shrink.finish(&*options.files, feeder, oldest, feeder.time_ms).map(drop)
}
