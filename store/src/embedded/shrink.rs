//! A fresh served copy beside the old one, while that one is used: sled's file grows to several
//! times what it holds and does not give room back, and only a copy that was closed and opened
//! again has a snapshot of sled's, which tells damage from a torn end.
//!
//! The rows of the log are copied in order and in batches, between which the old copy is fed as
//! always; nothing is swept meanwhile, so what was read stays true. How far it is comes with the
//! last batch. Then the two directories change their names in one step. Whenever the power goes,
//! `sled` is a whole copy, and whatever else is there is removed at open.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::feed::{BATCH_BYTES, Feeder};
use super::files::Files;
use super::frame::StoreId;
use super::guard::guarded;
use super::rows::{self, CurrentRow};
use super::sled::{Changes, Served, ServedError};
use super::{hygiene, read};
use crate::Revision;

/// The copy that is being made.
const NEXT: &str = "sled.next";
/// The old copy, for a moment, where names cannot be exchanged in one step.
const PAST: &str = "sled.past";
/// Less cache than usual: it is only written.
const CACHE: u64 = 8 << 20;
/// Opening a copy that was just made takes no longer.
const DEADLINE: Duration = Duration::from_secs(120);

/// A file that is smaller is left alone.
const SMALL: u64 = 16 << 20;
/// A file is too large when it has more than so many hundredths of the bytes that it holds. A fresh
/// one has about 135.
const PERCENT: u64 = 190;
/// So much of the time may go into copying while the store is written to, and so much when the file has
/// come to have many times the bytes that it holds.
const PART: u32 = 60;
const URGENT_PART: u32 = 8;
const URGENT_TIMES: u64 = 4;
/// Between two copies there is at least this.
const PAUSE: Duration = Duration::from_secs(2);

/// When to make a fresh copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// When the last one was done, or the store opened.
    pub(crate) since: Instant,
    /// How long the last one took.
    pub(crate) took: Duration,
}

impl Pace {
    /// When the next copy may begin; earlier when nothing is written, or when it is urgent.
    pub(crate) fn next(&self, quiet: bool, urgent: bool) -> Instant {
        let part = if urgent { URGENT_PART } else { PART };
        self.since + if quiet { PAUSE } else { PAUSE.max(self.took * part) }
    }
}

/// Whether a file of so many bytes is worth copying when so many are held in it.
pub(crate) fn is_worth_it(file: u64, held: u64) -> bool {
    file > SMALL && file > held * PERCENT / 100
}

/// Whether a file of so many bytes has become far too large for what is held in it.
pub(crate) fn is_urgent(file: u64, held: u64) -> bool {
    file > SMALL * 2 && file > held * URGENT_TIMES
}

/// Removes what an interrupted copying has left, before the store is opened.
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

/// A copy that is being made.
pub(crate) struct Shrink {
    root: PathBuf,
    /// There is one until it is finished.
    next: Option<Arc<Served>>,
    store: StoreId,
    copied: Revision,
    pub(crate) began: Instant,
    /// It has got its name; what is called `sled.next` is not it.
    is_named: bool,
}

impl Shrink {
    /// An empty copy.
    pub(crate) fn begin(root: &Path, store: StoreId) -> Result<Self, ServedError> {
        let dir = root.join(NEXT);
        remove(&dir)?;
        let next = guarded("making a copy", DEADLINE, move || {
            Served::open_with(&dir, Duration::ZERO, CACHE).map(Arc::new)
        })?;
        let (root, next, began) = (root.to_owned(), Some(next), Instant::now());
        Ok(Shrink { root, next, store, copied: Revision::ZERO, began, is_named: false })
    }

    /// Copies one batch. True when everything is there that the other one has.
    pub(crate) fn step(&mut self, from: &Feeder) -> Result<bool, ServedError> {
        let (mut log, mut changes) = (Vec::new(), Changes::default());
        let (mut bytes, mut reached) = (0, from.applied);
        for row in read::log(from.served(), self.store, self.copied.next(), from.applied) {
            let row = row?;
            let (key, value) = (row.key.as_str(), row.value.as_deref());
            for (name, chunk) in
                rows::encode_log(self.store, row.revision, row.time_ms, row.create, row.prior, key, value)
            {
                bytes += chunk.len() + 64;
                log.push((name, chunk));
            }
            // In order, so that the newest one of a key stays.
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

    /// Notes how far it is, closes it and opens it again, so that sled has a snapshot of it, and
    /// gives it its name. The old one is gone when this returns `Ok`, but for those who read it.
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
        self.next().apply(changes)?;
        self.next().sync()?;
        drop(self.next.take());
        let path = dir.clone();
        let served =
            guarded("opening the copy", DEADLINE, move || Served::open(&path, DEADLINE).map(Arc::new))?;
        match served.get(rows::META_APPLIED)? {
            Some(row) if rows::decode_meta(self.store, rows::META_APPLIED, &row)?.0 == from.applied.0 => {}
            Some(_) | None => return Err("the copy does not hold what was copied".to_owned().into()),
        }
        hygiene::after_open(&dir)?;
        let old = exchange(&self.root)?;
        self.is_named = true;
        // From here on the new one is in use. Should its name not be durable, the old one comes back
        // after a power cut, and it holds as much as this one does now.
        let removed = files.sync_dir(&self.root).and_then(|()| remove(&old));
        if let Err(error) = removed {
            tracing::warn!(%error, path = %old.display(), "cannot remove the served copy that was replaced");
        }
        Ok(served)
    }

    fn next(&self) -> &Served {
        self.next.as_ref().expect("only finishing takes it, and comes last")
    }
}

impl Drop for Shrink {
    /// Gives it up, unless it is in use: an unfinished copy must not take the room of the next one.
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

/// `sled.next` becomes `sled`. Returns where the old one is now.
fn exchange(root: &Path) -> io::Result<PathBuf> {
    let (sled, next) = (root.join("sled"), root.join(NEXT));
    let old = match renameat_with(CWD, &next, CWD, &sled, RenameFlags::EXCHANGE) {
        Ok(()) => next,
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            let past = root.join(PAST);
            remove(&past)?;
            std::fs::rename(&sled, &past)?;
            if let Err(error) = std::fs::rename(&next, &sled) {
                // Back to where it was; `settle` does it when this fails as well.
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
    use crate::embedded::files::Disk;
    use crate::embedded::retention::Marks;

    #[test]
    fn what_is_worth_it() {
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
        let pace = Pace { since: now, took: Duration::from_secs(1) };
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
    fn whatever_is_left_one_copy_stays() {
        // Which of the three directories there are, and whose copy is `sled` afterwards.
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
    fn what_is_not_finished_is_gone() {
        let root = tempfile::tempdir().unwrap();
        let store = StoreId::new();
        let shrink = Shrink::begin(root.path(), store).unwrap();
        assert!(root.path().join(NEXT).exists());
        drop(shrink);
        assert_eq!(Disk.list(root.path()).unwrap(), Vec::<String>::new());

        let other = tempfile::tempdir().unwrap();
        let served = Arc::new(Served::open(&other.path().join("sled"), Duration::ZERO).unwrap());
        let zero = Revision::ZERO;
        let feeder = Feeder::new(served, store, zero, 0, zero, Marks::default());
        // There is none to take the place of.
        let shrink = Shrink::begin(root.path(), store).unwrap();
        assert!(shrink.finish(&Disk, &feeder, zero, 0).is_err());
        assert_eq!(Disk.list(root.path()).unwrap(), Vec::<String>::new());
        std::fs::create_dir(root.path().join("sled")).unwrap();
        let shrink = Shrink::begin(root.path(), store).unwrap();
        shrink.finish(&Disk, &feeder, zero, 0).unwrap();
        assert_eq!(Disk.list(root.path()).unwrap(), ["sled"]);
    }

    #[test]
    fn names_are_exchanged() {
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
