//! Erases former versions of sensitive records from all files: hides them from readers, removes their values from the rows of the served
//! copy, and replaces every file that contains their bytes.
//!
//! | step | afterwards, no former version is in |
//! |---|---|
//! | erase the rows of the log | the rows of the served copy (but in the free space of its file) |
//! | start a new segment, write a snapshot and read it back | that segment and that snapshot |
//! | remove the older segments and snapshots, and damaged files that were set aside | the journal and the snapshots |
//! | replace the served copy | the served copy |
//!
//! An older file is removed only when the newer ones contain all current records durably, so a power failure after any step loses
//! nothing. The next open finds in `meta/erased` how far the erasure was, and repeats it.
//!
//! The first step decrypts the versions to retain their metadata. It stops before a version that cannot be decrypted now, for example
//! because a KMS plugin is not available. The other steps erase the versions before it, and a later erasure continues with it.

use std::io;
use std::path::Path;
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

use super::erasure::{Erasure, ErasurePace};
use super::feed::ErasedRows;
use super::files::Files;
use super::rebuild::{ASIDE, set_aside_ms};
use super::shrink::{NEXT, PAST, Shrink};
use super::sled::ServedError;
use super::snapshot::ReadBack;
use super::upkeep::{Rounds, Upkeep};
use super::{scan, snapshots};
use crate::{Revision, TransformError, View};

/// The pause before a step that has failed is repeated.
const AGAIN: Duration = Duration::from_secs(600);
/// The same, after a replacement of the served copy was abandoned because of many writes.
const BUSY_AGAIN: Duration = Duration::from_secs(60);
/// The suffix of snapshots that were found damaged.
const BROKEN_SNAPSHOT: &str = ".snap-broken";

impl<V: View> Upkeep<V> {
    /// Hides the former versions that are old enough.
    pub(super) fn hide_former_versions(&self) {
        let former = &self.past.former;
        if let Some(floor) = former.advance(self.options.clock.now_ms()) {
            self.past.published.hub.forget(floor, |topic| former.sensitive.touches(topic));
        }
    }

    /// Whether there are former versions that have to be hidden or erased, now or later.
    pub(super) fn erasure_is_pending(&self, rounds: &Rounds) -> bool {
        !matches!(rounds.erasure, Erasure::Idle)
            || !self.feeder.erasure.former.is_empty()
            || self.past.former.has_due()
            || self.has_remnants(rounds)
    }

    /// The revision up to which former versions have to be erased: the hidden ones, as far as they are in the served copy, and those
    /// of which compaction has removed the rows.
    fn wanted(&self) -> Revision {
        self.past.former.floor().min(self.feeder.applied).max(self.feeder.erasure.rows)
    }

    /// Whether the files may contain versions that are hidden.
    fn has_remnants(&self, rounds: &Rounds) -> bool {
        !self.past.former.sensitive.prefixes.is_empty()
            && (rounds.needs_erasure || self.feeder.erasure.files < self.wanted())
    }

    /// Whether files may contain former versions that the log does not show: an earlier version wrote them, the served copy was
    /// rebuilt, or recovery has set files aside.
    pub(super) fn may_have_unknown_remnants(&self) -> bool {
        let is_unknown = self.feeder.erasure.files == Revision::ZERO && self.feeder.applied > Revision::ZERO;
        let has = |dir: &Path, is_broken: &dyn Fn(&String) -> bool| {
            self.options.files.list(dir).is_ok_and(|names| names.iter().any(is_broken))
        };
        is_unknown
            || has(&self.root, &|name| name.starts_with(ASIDE))
            || has(&self.snapshot_dir, &|name| name.ends_with(BROKEN_SNAPSHOT))
    }

    /// When the first erasure may start.
    pub(super) fn erasure_pace(&self) -> ErasurePace {
        let names = self.options.files.list(&self.root).unwrap_or_default();
        let newest = names.iter().filter_map(|name| set_aside_ms(name)).max();
        ErasurePace::new(newest, self.past.former.sensitive.erase_every)
    }

    /// Takes the next step of the erasure.
    pub(super) fn erase(&mut self, rounds: &mut Rounds) -> Result<(), ServedError> {
        if !rounds.erasure_pace.is_due(self.options.clock.now_ms()) {
            return Ok(());
        }
        let step = std::mem::replace(&mut rounds.erasure, Erasure::Idle);
        let next = match step {
            Erasure::Idle => self.begin_erasure(rounds),
            Erasure::Rows { through } => match self.feeder.erase(&self.past.transform, through)? {
                ErasedRows::Part => Erasure::Rows { through },
                ErasedRows::All => {
                    if self.past.former.note_unread(0) > 0 {
                        tracing::info!(
                            "no former version of a sensitive object waits for a KMS plugin any more"
                        );
                    }
                    Erasure::Rotating { through, answer: None }
                }
                ErasedRows::Waits(why) => self.wait_until_readable(rounds, through, &why),
            },
            // While the committer is busy, the next round asks again.
            Erasure::Rotating { through, answer: None } => {
                Erasure::Rotating { through, answer: self.rotator.rotate() }
            }
            Erasure::Rotating { through, answer: Some(answer) } => match answer.try_recv() {
                Ok(Ok(from)) => Erasure::Snapshot { through, from, is_begun: false },
                Ok(Err(why)) => self.pause(rounds, Erasure::Rotating { through, answer: None }, AGAIN, &why),
                Err(TryRecvError::Empty) => Erasure::Rotating { through, answer: Some(answer) },
                Err(TryRecvError::Disconnected) => {
                    let step = Erasure::Rotating { through, answer: None };
                    self.pause(rounds, step, AGAIN, "the store is closing")
                }
            },
            Erasure::Snapshot { through, from, is_begun } => {
                self.take_verified_snapshot(rounds, through, from, is_begun)
            }
            // A snapshot that is being written has a temporary file.
            Erasure::Removing { through, from, snapshot }
                if rounds.durable < from || rounds.running.is_some() =>
            {
                Erasure::Removing { through, from, snapshot }
            }
            Erasure::Removing { through, from, snapshot } => match self.remove_older_files(from, snapshot) {
                Ok(()) => Erasure::Copying { through, is_begun: false },
                Err(error) => {
                    let step = Erasure::Removing { through, from, snapshot };
                    self.pause(rounds, step, AGAIN, &error.to_string())
                }
            },
            Erasure::Copying { through, is_begun: false } if rounds.shrinking.is_none() => {
                self.begin_copy(rounds, through)
            }
            Erasure::Copying { through, is_begun: true } if rounds.shrinking.is_none() => {
                let step = Erasure::Copying { through, is_begun: false };
                self.pause(rounds, step, AGAIN, "the served copy was not replaced")
            }
            Erasure::Copying { through, is_begun } => Erasure::Copying { through, is_begun },
        };
        rounds.erasure = next;
        Ok(())
    }

    fn begin_erasure(&self, rounds: &mut Rounds) -> Erasure {
        // A replacement in progress may have copied the rows already.
        if !self.has_remnants(rounds) || rounds.shrinking.is_some() || rounds.running.is_some() {
            return Erasure::Idle;
        }
        let needed = self.copy_bytes(rounds).saturating_add(self.snapshot_bytes());
        if !self.write_admission.fits(needed) {
            let why = format!("{needed} bytes of disk space are needed in addition to the reserve");
            return self.pause(rounds, Erasure::Idle, AGAIN, &why);
        }
        rounds.erasure_pace.works(Instant::now());
        // Without marks, nothing that is fed is former.
        let is_all = self.feeder.erasure.former.is_empty();
        Erasure::Rows { through: if is_all { self.feeder.applied } else { self.wanted() } }
    }

    /// Continues without the versions that cannot be read now. If nothing else is to be erased, begins again after a pause: until then,
    /// the versions stay in the rows of the log, in the form in which they were stored.
    fn wait_until_readable(&self, rounds: &mut Rounds, wanted: Revision, why: &TransformError) -> Erasure {
        let versions = self.feeder.erasure.former.through(wanted).count();
        // Only at the beginning of an outage, which may last for many attempts.
        if self.past.former.note_unread(versions as u64) == 0 {
            tracing::warn!(
                %why, versions, again_every = ?AGAIN,
                "former versions of sensitive objects cannot be decrypted now, so their metadata cannot be separated from their values; \
                 they stay in the store, encrypted, until it can decrypt them. Start the KMS plugin"
            );
        }
        let through = self.feeder.erasure.rows;
        if rounds.needs_erasure || through > self.feeder.erasure.files {
            return Erasure::Rotating { through, answer: None };
        }
        rounds.erasure_pace.pause(self.options.clock.now_ms(), Instant::now(), AGAIN);
        Erasure::Idle
    }

    fn take_verified_snapshot(
        &self,
        rounds: &mut Rounds,
        through: Revision,
        from: Revision,
        is_begun: bool,
    ) -> Erasure {
        let step = |is_begun| Erasure::Snapshot { through, from, is_begun };
        if rounds.running.is_some() {
            return step(is_begun);
        }
        if !is_begun {
            rounds.erasure_pace.works(Instant::now());
            self.begin_snapshot(rounds, ReadBack::Require);
            return match rounds.running.is_some() {
                true => step(true),
                false => self.pause(rounds, step(false), AGAIN, "no snapshot can be written"),
            };
        }
        match rounds.read_back.filter(|snapshot| *snapshot >= from) {
            Some(snapshot) => Erasure::Removing { through, from, snapshot },
            None => self.pause(rounds, step(false), AGAIN, "the snapshot could not be written and read back"),
        }
    }

    /// Removes the files before a snapshot, the segments up to `from`, and the damaged files that were set aside.
    fn remove_older_files(&mut self, from: Revision, snapshot: Revision) -> io::Result<()> {
        let files = &*self.options.files;
        remove_snapshots(files, &self.snapshot_dir, snapshot)?;
        self.snapshots.retain(|known| *known >= snapshot);
        self.segments.remove_through(files, from)?;
        remove_segments(files, &self.root.join("journal"), from)?;
        remove_set_aside(files, &self.root)
    }

    fn begin_copy(&self, rounds: &mut Rounds, through: Revision) -> Erasure {
        let step = Erasure::Copying { through, is_begun: false };
        let needed = self.copy_bytes(rounds);
        if !self.write_admission.fits(needed) {
            let why = format!("{needed} bytes of disk space are needed in addition to the reserve");
            return self.pause(rounds, step, AGAIN, &why);
        }
        rounds.erasure_pace.works(Instant::now());
        match Shrink::begin(&self.root, self.past.store) {
            Ok(shrinking) => {
                rounds.shrinking = Some(shrinking);
                Erasure::Copying { through, is_begun: true }
            }
            Err(error) => {
                self.shrinks_later(rounds, &error);
                self.pause(rounds, step, AGAIN, &error.to_string())
            }
        }
    }

    /// Notes that a replacement of the served copy was abandoned. It is repeated soon if the reason was the number of writes.
    pub(super) fn copy_was_abandoned(&self, rounds: &mut Rounds, is_busy: bool) {
        let Some(through) = rounds.erasure.ends_with_copy() else { return };
        let (wait, why) = match is_busy {
            true => (BUSY_AGAIN, "too many writes wait for the served copy"),
            false => (AGAIN, "the served copy could not be replaced"),
        };
        rounds.erasure = self.pause(rounds, Erasure::Copying { through, is_begun: false }, wait, why);
    }

    /// Notes that the served copy was replaced, which is the last step. `before` is the revision of the last complete erasure.
    pub(super) fn end_erasure(&mut self, rounds: &mut Rounds, before: Revision) {
        let Some(through) = rounds.erasure.ends_with_copy() else { return };
        if has_old_copy(&self.root) {
            self.feeder.erasure.files = before;
            let step = Erasure::Copying { through, is_begun: false };
            rounds.erasure = self.pause(rounds, step, AGAIN, "the old served copy could not be removed");
            return;
        }
        (rounds.erasure, rounds.needs_erasure) = (Erasure::Idle, false);
        let every = self.past.former.sensitive.erase_every;
        rounds.erasure_pace.end(self.options.clock.now_ms(), Instant::now(), every);
        tracing::info!(%through, "former versions of sensitive objects are erased from the files of the store");
    }

    /// Takes the step again after a pause.
    fn pause(&self, rounds: &mut Rounds, step: Erasure, wait: Duration, why: &str) -> Erasure {
        tracing::warn!(why, again_in = ?wait, "former versions of sensitive objects could not be erased from the files");
        rounds.erasure_pace.pause(self.options.clock.now_ms(), Instant::now(), wait);
        step
    }
}

/// Whether the directory of a served copy that was replaced still exists.
pub(super) fn has_old_copy(root: &Path) -> bool {
    [NEXT, PAST].iter().any(|name| root.join(name).try_exists().unwrap_or(true))
}

/// Removes the snapshots before this one, damaged and unfinished ones, durably. No snapshot may be in progress.
pub(super) fn remove_snapshots(files: &dyn Files, dir: &Path, newest: Revision) -> io::Result<()> {
    for name in snapshots::obsolete(files.list(dir)?, newest) {
        if name.ends_with(BROKEN_SNAPSHOT) {
            tracing::warn!(name, "removing a damaged snapshot: it may contain former versions");
        }
        remove(files, &dir.join(name))?;
    }
    files.sync_dir(dir)
}

/// Removes segments up to a revision that the store does not know, because an earlier attempt to remove them has failed.
pub(super) fn remove_segments(files: &dyn Files, dir: &Path, through: Revision) -> io::Result<()> {
    for (first, path) in scan::list(files, dir)? {
        if first <= through {
            remove(files, &path)?;
            files.sync_dir(dir)?;
        }
    }
    Ok(())
}

/// Removes the served copies that recovery has set aside: they may contain former versions.
pub(super) fn remove_set_aside(files: &dyn Files, root: &Path) -> io::Result<()> {
    for name in files.list(root)?.into_iter().filter(|name| name.starts_with(ASIDE)) {
        tracing::warn!(name, "removing a served copy that was set aside: it may contain former versions");
        std::fs::remove_dir_all(root.join(name))?;
    }
    files.sync_dir(root)
}

fn remove(files: &dyn Files, path: &Path) -> io::Result<()> {
    match files.remove(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(io::Error::new(error.kind(), format!("cannot remove {}: {error}", path.display()))),
        Ok(()) => Ok(()),
    }
}
