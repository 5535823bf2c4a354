//! Replacing the served copy while it is in use. sled's file grows to several times its live data and does
//! not shrink, and only a copy that was closed and reopened has one of sled's own snapshots, which
//! distinguishes damage from a torn end.
//!
//! The rows of the log are copied in order and in batches, between which the old copy is fed as usual;
//! nothing is swept meanwhile, so the rows already read stay valid. The last batch contains the applied
//! revision. Then one rename exchanges the two directories. After a power failure at any point, `sled` is a
//! complete copy, and every other copy is removed at open.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::backlog::BATCH_BYTES;
use super::feed::Feeder;
use super::files::Files;
use super::frame::StoreId;
use super::guard::guarded;
use super::rows::{self, CurrentRow};
use super::sled::{Changes, Served, ServedError};
use super::{read, sled_dir};
use crate::Revision;

/// The directory of the new copy.
pub(super) const NEXT: &str = "sled.next";
/// The temporary name of the old copy where two names cannot be exchanged atomically.
pub(super) const PAST: &str = "sled.past";
/// Less cache than usual, because this copy is only written.
const CACHE: u64 = 8 << 20;
/// The deadline for opening a new copy.
const DEADLINE: Duration = Duration::from_secs(120);

/// A smaller file is never replaced.
const SMALL: u64 = 16 << 20;
/// A file larger than this percentage of its live bytes is too large. A new one has about 135.
const PERCENT: u64 = 190;
/// The pause after a copy, as a multiple of its duration, while the store is written to; a shorter one
/// applies when the file is many times its live bytes.
const PART: u32 = 60;
const URGENT_PART: u32 = 8;
const URGENT_TIMES: u64 = 4;
/// The minimum pause between two copies.
const PAUSE: Duration = Duration::from_secs(2);

/// The schedule of replacements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplacementPace {
    /// When the last replacement finished, or the store was opened.
    pub(crate) since: Instant,
    /// How long the last replacement took.
    pub(crate) took: Duration,
}

impl ReplacementPace {
    /// The earliest time of the next replacement; earlier when the store is idle, or when it is urgent.
    pub(crate) fn next(&self, quiet: bool, urgent: bool) -> Instant {
        let part = if urgent { URGENT_PART } else { PART };
        self.since + if quiet { PAUSE } else { PAUSE.max(self.took * part) }
    }
}

/// Whether a file of this size is worth replacing, given its live bytes.
pub(crate) fn is_worth_it(file: u64, held: u64) -> bool {
    file > SMALL && file > held * PERCENT / 100
}

/// Whether a file is far too large for its live bytes.
pub(crate) fn is_urgent(file: u64, held: u64) -> bool {
    file > SMALL * 2 && file > held * URGENT_TIMES
}

/// Removes the leftovers of an interrupted replacement, before the store is opened.
pub(crate) fn settle(files: &dyn Files, root: &Path) -> io::Result<()> {
    let (sled, past) = (root.join("sled"), root.join(PAST));
    if past.try_exists()? && !sled.try_exists()? {
        tracing::warn!(path = %sled.display(), "putting back a served copy that was being changed for another one");
        files.rename(&past, &sled)?;
        files.sync_dir(root)?;
    }
    remove(&past)?;
    remove(&root.join(NEXT))
}

fn remove(dir: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// A replacement in progress.
pub(crate) struct Shrink {
    root: PathBuf,
    /// `None` after it is finished.
    next: Option<Arc<Served>>,
    store: StoreId,
    copied: Revision,
    pub(crate) began: Instant,
    /// The copy has been renamed; `sled.next` is another directory now.
    is_named: bool,
}

impl Shrink {
    /// Creates an empty copy.
    pub(crate) fn begin(root: &Path, store: StoreId) -> Result<Self, ServedError> {
        let dir = root.join(NEXT);
        remove(&dir)?;
        let next = guarded("making a copy", DEADLINE, move || {
            Served::open_with(&dir, Duration::ZERO, CACHE).map(Arc::new)
        })?;
        let (root, next, began) = (root.to_owned(), Some(next), Instant::now());
        Ok(Shrink { root, next, store, copied: Revision::ZERO, began, is_named: false })
    }

    /// Copies one batch. Returns true when the new copy contains all data of the old one.
    pub(crate) fn step(&mut self, from: &Feeder) -> Result<bool, ServedError> {
        let (mut log, mut changes) = (Vec::new(), Changes::default());
        let (mut bytes, mut reached) = (0, from.applied);
        for row in read::log(from.served(), self.store, self.copied.next(), from.applied) {
            let row = row?;
            let (key, value) = (row.key.as_str(), row.value.as_deref());
            for (name, chunk) in row.encode(self.store) {
                bytes += chunk.len() + 64;
                log.push((name, chunk));
            }
            // In order, so that the newest event of a key remains.
            let value_crc = value.map_or(0, crc32c::crc32c);
            let current = CurrentRow {
                deleted: value.is_none(),
                create: row.create,
                revision: row.revision,
                value_crc,
            };
            changes.insert(&rows::current_key(key), current.encode(self.store, key));
            if bytes >= BATCH_BYTES {
                reached = row.revision;
                break;
            }
        }
        let next = self.next();
        next.put_in_order(log)?;
        next.apply(changes)?;
        next.hand_over()?;
        self.copied = reached;
        Ok(reached == from.applied)
    }

    /// Writes the applied revision, reopens the copy so that sled writes a snapshot of it, and renames it. After
    /// `Ok`, the old copy remains only for its current readers.
    pub(crate) fn finish(
        mut self,
        files: &dyn Files,
        from: &Feeder,
        oldest: Revision,
        time_ms: i64,
    ) -> Result<Arc<Served>, ServedError> {
        let dir = self.root.join(NEXT);
        let mut changes = Changes::default();
        from.set_compacted(&mut changes, oldest.max(from.swept), from.swept);
        from.set_applied(&mut changes, from.applied, time_ms);
        from.set_erased(&mut changes);
        self.next().apply(changes)?;
        self.next().sync()?;
        drop(self.next.take());
        let path = dir.clone();
        let served =
            guarded("opening the copy", DEADLINE, move || Served::open(&path, DEADLINE).map(Arc::new))?;
        match served.get(rows::META_APPLIED)? {
            Some(row) if rows::decode_meta(self.store, rows::META_APPLIED, &row)?.0 == from.applied.0 => {}
            Some(_) | None => return Err("the copy does not contain the copied revision".to_owned().into()),
        }
        sled_dir::after_open(&dir)?;
        let old = exchange(&self.root)?;
        self.is_named = true;
        // From here on the new copy is in use. If its rename is not durable, the old copy returns after a power
        // failure, with the same contents as the new one has now.
        let removed = files.sync_dir(&self.root).and_then(|()| remove(&old));
        if let Err(error) = removed {
            tracing::warn!(%error, path = %old.display(), "cannot remove the served copy that was replaced");
        }
        Ok(served)
    }

    fn next(&self) -> &Served {
        self.next.as_ref().expect("only `finish` takes the copy, and it is the last call")
    }
}

impl Drop for Shrink {
    /// Removes the copy unless it is in use, so that it does not occupy the space of the next one.
    fn drop(&mut self) {
        drop(self.next.take());
        if self.is_named {
            return;
        }
        let dir = self.root.join(NEXT);
        if let Err(error) = remove(&dir) {
            tracing::warn!(%error, path = %dir.display(), "cannot remove an unfinished copy");
        }
    }
}

/// Renames `sled.next` to `sled`. Returns the path of the old copy.
fn exchange(root: &Path) -> io::Result<PathBuf> {
    let (sled, next) = (root.join("sled"), root.join(NEXT));
    let old = match renameat_with(CWD, &next, CWD, &sled, RenameFlags::EXCHANGE) {
        Ok(()) => next,
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            let past = root.join(PAST);
            remove(&past)?;
            std::fs::rename(&sled, &past)?;
            if let Err(error) = std::fs::rename(&next, &sled) {
                // Restores the old name; `settle` does so if this fails too.
                let _ = std::fs::rename(&past, &sled);
                return Err(error);
            }
            past
        }
        Err(error) => return Err(error.into()),
    };
    Ok(old)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::embedded::feed::ErasureMarks;
    use crate::embedded::files::Disk;
    use crate::embedded::retention::RetentionMarks;

    #[test]
    fn size_and_live_bytes_decide_when_to_replace() {
        const MB: u64 = 1 << 20;
        for (name, file, held, wanted) in [
            ("small", 12 * MB, MB, false),
            ("large, and mostly air", 100 * MB, 40 * MB, true),
            ("large, and full", 100 * MB, 60 * MB, false),
            ("nothing held", 100 * MB, 0, true),
        ] {
            assert_eq!(is_worth_it(file, held), wanted, "{name}");
        }
        let now = Instant::now();
        let pace = ReplacementPace { since: now, took: Duration::from_secs(1) };
        for (name, quiet, urgent, wait) in [
            ("nothing is written", true, true, PAUSE),
            ("large", false, false, Duration::from_secs(60)),
            ("very large", false, true, Duration::from_secs(8)),
        ] {
            assert_eq!(pace.next(quiet, urgent), now + wait, "{name}");
        }
        assert!(is_urgent(401 * MB, 100 * MB) && !is_urgent(400 * MB, 100 * MB) && !is_urgent(30 * MB, MB));
    }

    #[test]
    fn settle_leaves_exactly_one_copy() {
        // The existing directories, and the copy that is `sled` afterwards.
        for (name, there, wanted) in [
            ("nothing", &[][..], None),
            ("no copying", &["sled"], Some("sled")),
            ("before the names changed", &["sled", NEXT], Some("sled")),
            ("between the two steps", &[PAST, NEXT], Some(PAST)),
            ("after the names changed", &["sled", PAST], Some("sled")),
        ] {
            let root = tempfile::tempdir().unwrap();
            for dir in there {
                std::fs::create_dir(root.path().join(dir)).unwrap();
                std::fs::write(root.path().join(dir).join("db"), dir).unwrap();
            }
            settle(&Disk, root.path()).unwrap();
            let found = std::fs::read_to_string(root.path().join("sled/db")).ok();
            assert_eq!(found.as_deref(), wanted, "{name}");
            let names = Disk.list(root.path()).unwrap();
            assert!(names.iter().all(|name| name == "sled"), "{name}: {names:?}");
        }
    }

    #[test]
    fn dropped_replacement_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let store = StoreId::new();
        let shrink = Shrink::begin(root.path(), store).unwrap();
        assert!(root.path().join(NEXT).exists());
        drop(shrink);
        assert_eq!(Disk.list(root.path()).unwrap(), Vec::<String>::new());

        let other = tempfile::tempdir().unwrap();
        let served = Arc::new(Served::open(&other.path().join("sled"), Duration::ZERO).unwrap());
        let zero = Revision::ZERO;
        let feeder =
            Feeder::new(served, store, zero, 0, zero, RetentionMarks::default(), ErasureMarks::default());
        // There is no old copy to replace.
        let shrink = Shrink::begin(root.path(), store).unwrap();
        assert!(shrink.finish(&Disk, &feeder, zero, 0).is_err());
        assert_eq!(Disk.list(root.path()).unwrap(), Vec::<String>::new());
        std::fs::create_dir(root.path().join("sled")).unwrap();
        let shrink = Shrink::begin(root.path(), store).unwrap();
        shrink.finish(&Disk, &feeder, zero, 0).unwrap();
        assert_eq!(Disk.list(root.path()).unwrap(), ["sled"]);
    }

    #[test]
    fn exchange_swaps_the_two_directories() {
        let root = tempfile::tempdir().unwrap();
        for dir in ["sled", NEXT] {
            std::fs::create_dir(root.path().join(dir)).unwrap();
            std::fs::write(root.path().join(dir).join("db"), dir).unwrap();
        }
        let old = exchange(root.path()).unwrap();
        assert_eq!(std::fs::read_to_string(root.path().join("sled/db")).unwrap(), NEXT);
        assert_eq!(std::fs::read_to_string(old.join("db")).unwrap(), "sled");
    }
}
