//! Erases former versions of sensitive records from all files: hides them from readers, removes their values from the rows of the served
//! copy, and replaces every file that contains their bytes.
//!
//! | step | afterwards, no former version is in |
//! |---|---|
//! | erase the rows of the log | the rows of the served copy (but in the free space of its file) |
//! | start a new segment, write and verify a snapshot | that segment and that snapshot |
//! | remove the older segments and snapshots, and damaged files that were set aside | the journal and the snapshots |
//! | replace the served copy | the served copy |
//!
//! An older file is removed only when the newer ones contain all current records durably, so a power failure after any step loses
//! nothing. The next open finds in `meta/erased` how far the erasure was, and repeats it.

use std::sync::mpsc::TryRecvError;
use std::time::Duration;

use super::erasure::Erasure;
use super::rebuild::ASIDE;
use super::shrink::Shrink;
use super::sled::ServedError;
use super::upkeep::{Rounds, Upkeep};
use super::{Options, snapshot};
use crate::transform::Transform;
use crate::{OpenError, Revision, View};

/// The interval before a failed erasure is repeated.
const AGAIN: Duration = Duration::from_secs(30);
/// The suffix of snapshots that were found damaged.
const BROKEN_SNAPSHOT: &str = ".snap-broken";

impl<V: View> Upkeep<V> {
    /// Hides the former versions that are old enough.
    pub(super) fn hide_former_versions(&self) {
        let sensitive = &self.past.former.sensitive;
        let now_ms = self.options.clock.now_ms();
        let Some(floor) = self.feeder.erasure.former.target(now_ms, sensitive.age_ms()) else { return };
        if floor > self.past.former.floor() {
            self.past.former.raise(floor);
            self.past.published.hub.forget(floor, |topic| sensitive.touches(topic));
        }
    }

    /// Whether there are former versions that have to be erased, now or later.
    pub(super) fn erasure_is_pending(&self, rounds: &Rounds) -> bool {
        !matches!(rounds.erasure, Erasure::Idle)
            || !self.feeder.erasure.former.is_empty()
            || self.has_remnants(rounds)
    }

    /// Whether the files may contain versions that are hidden.
    fn has_remnants(&self, rounds: &Rounds) -> bool {
        !self.past.former.sensitive.prefixes.is_empty()
            && (rounds.needs_erasure || self.feeder.erasure.files < self.past.former.floor())
    }

    /// Whether files may contain former versions that the log does not show: an earlier version wrote them, the served copy was
    /// rebuilt, or recovery has set files aside.
    pub(super) fn may_have_unknown_remnants(&self) -> bool {
        let is_unknown = self.feeder.erasure.files == Revision::ZERO && self.feeder.applied > Revision::ZERO;
        let has = |dir: &std::path::Path, is_broken: &dyn Fn(&String) -> bool| {
            self.options.files.list(dir).is_ok_and(|names| names.iter().any(is_broken))
        };
        is_unknown
            || has(&self.root, &|name| name.starts_with(ASIDE))
            || has(&self.snapshot_dir, &|name| name.ends_with(BROKEN_SNAPSHOT))
    }

    /// Takes the next step of the erasure.
    pub(super) fn erase(&mut self, rounds: &mut Rounds) -> Result<(), ServedError> {
        let step = std::mem::replace(&mut rounds.erasure, Erasure::Idle);
        rounds.erasure = match step {
            Erasure::Idle => self.begin_erasure(rounds)?,
            Erasure::Rotating { through, answer } => match answer.try_recv() {
                Ok(Ok(from)) => Erasure::Snapshot { through, from, is_begun: false },
                Ok(Err(why)) => self.erase_later(rounds, &why),
                Err(TryRecvError::Empty) => Erasure::Rotating { through, answer },
                Err(TryRecvError::Disconnected) => self.erase_later(rounds, "the store is closing"),
            },
            Erasure::Snapshot { through, from, is_begun: false } => {
                let is_free = rounds.running.is_none();
                if is_free {
                    self.begin_snapshot(rounds);
                }
                match (is_free, rounds.running.is_some()) {
                    (true, false) => self.erase_later(rounds, "no snapshot can be written"),
                    (is_begun, _) => Erasure::Snapshot { through, from, is_begun },
                }
            }
            Erasure::Snapshot { through, from, is_begun: true } if rounds.running.is_some() => {
                Erasure::Snapshot { through, from, is_begun: true }
            }
            Erasure::Snapshot { through, from, is_begun: true } => match self.verified_snapshot(from) {
                Ok(()) => Erasure::Removing { through, from },
                Err(why) => self.erase_later(rounds, &why),
            },
            Erasure::Removing { through, from } if rounds.durable < from => {
                Erasure::Removing { through, from }
            }
            Erasure::Removing { through, from } => match self.remove_older_files(from) {
                Ok(()) => Erasure::Copying { through, is_begun: false },
                Err(error) => self.erase_later(rounds, &error.to_string()),
            },
            Erasure::Copying { through, is_begun: false } if rounds.shrinking.is_none() => {
                self.begin_copy(rounds, through)
            }
            Erasure::Copying { through, is_begun: true } if rounds.shrinking.is_none() => {
                // The replacement has failed.
                self.erase_later(rounds, &format!("the served copy was not replaced through {through}"))
            }
            Erasure::Copying { through, is_begun } => Erasure::Copying { through, is_begun },
        };
        Ok(())
    }

    fn begin_erasure(&mut self, rounds: &Rounds) -> Result<Erasure, ServedError> {
        let now_ms = self.options.clock.now_ms();
        let every_ms = i64::try_from(self.past.former.sensitive.erase_every.as_millis()).unwrap_or(i64::MAX);
        let is_due = rounds.erased_at_ms.is_none_or(|at_ms| now_ms.saturating_sub(at_ms) >= every_ms);
        // A replacement in progress may have copied the rows already.
        if !is_due || !self.has_remnants(rounds) || rounds.shrinking.is_some() || rounds.running.is_some() {
            return Ok(Erasure::Idle);
        }
        // Without marks, no readable version is a former one, so everything up to the newest applied event can be erased.
        let is_all = self.feeder.erasure.former.is_empty();
        let through = if is_all { self.feeder.applied } else { self.past.former.floor() };
        self.feeder.erase(&self.past.transform, through)?;
        Ok(match self.rotator.rotate() {
            Some(answer) => Erasure::Rotating { through, answer },
            // The committer is busy; the next round asks again.
            None => Erasure::Idle,
        })
    }

    /// Reads the newest snapshot, which must be at `from` or later.
    fn verified_snapshot(&self, from: Revision) -> Result<(), String> {
        let newest = self.snapshots.last().copied().filter(|newest| *newest >= from);
        let newest = newest.ok_or("no snapshot was written")?;
        verify(&self.options, &self.snapshot_dir, self.past.store, newest)
    }

    /// Removes the snapshots before the newest one, the segments up to `from`, and the damaged files that were set aside.
    fn remove_older_files(&mut self, from: Revision) -> std::io::Result<()> {
        while self.snapshots.len() > 1 {
            let old = snapshot::path_of(&self.snapshot_dir, self.snapshots[0]);
            self.options.files.remove(&old)?;
            self.snapshots.remove(0);
        }
        self.options.files.sync_dir(&self.snapshot_dir)?;
        self.segments.remove_through(&*self.options.files, from)?;
        remove_broken(&self.options, &self.root, &self.snapshot_dir)
    }

    fn begin_copy(&self, rounds: &mut Rounds, through: Revision) -> Erasure {
        match Shrink::begin(&self.root, self.past.store) {
            Ok(shrinking) => {
                rounds.shrinking = Some(shrinking);
                Erasure::Copying { through, is_begun: true }
            }
            Err(error) => {
                self.shrinks_later(rounds, &error);
                self.erase_later(rounds, &error.to_string())
            }
        }
    }

    /// Notes that the served copy was replaced, which is the last step.
    pub(super) fn end_erasure(&mut self, rounds: &mut Rounds, before: Revision) {
        let Some(through) = rounds.erasure.ends_with_copy() else { return };
        (rounds.erasure, rounds.needs_erasure) = (Erasure::Idle, false);
        if self.root.join(super::shrink::NEXT).exists() || self.root.join(super::shrink::PAST).exists() {
            // The old copy could not be removed; the next erasure tries again.
            self.feeder.erasure.files = before;
        }
        rounds.erased_at_ms = Some(self.options.clock.now_ms());
        tracing::info!(%through, "former versions of sensitive objects are erased from the files of the store");
    }

    fn erase_later(&self, rounds: &mut Rounds, why: &str) -> Erasure {
        tracing::warn!(why, "former versions of sensitive objects could not be erased; trying again later");
        let sensitive = &self.past.former.sensitive;
        let wait = sensitive.erase_every.saturating_sub(AGAIN);
        let wait_ms = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
        rounds.erased_at_ms = Some(self.options.clock.now_ms().saturating_sub(wait_ms));
        Erasure::Idle
    }
}

/// Checks every byte of a snapshot.
pub(super) fn verify(
    options: &Options,
    dir: &std::path::Path,
    store: super::StoreId,
    revision: Revision,
) -> Result<(), String> {
    let read = snapshot::read::<()>(&*options.files, dir, store, revision, &Transform::default());
    read.map_err(|error: OpenError| error.to_string())?.map(drop)
}

/// Removes the damaged files that recovery has set aside: they may contain former versions.
pub(super) fn remove_broken(
    options: &Options,
    root: &std::path::Path,
    snapshots: &std::path::Path,
) -> std::io::Result<()> {
    for name in options.files.list(root)?.into_iter().filter(|name| name.starts_with(ASIDE)) {
        tracing::warn!(name, "removing a served copy that was set aside: it may contain former versions");
        std::fs::remove_dir_all(root.join(name))?;
    }
    for name in options.files.list(snapshots)?.into_iter().filter(|name| name.ends_with(BROKEN_SNAPSHOT)) {
        tracing::warn!(name, "removing a damaged snapshot: it may contain former versions");
        options.files.remove(&snapshots.join(name))?;
    }
    Ok(())
}
