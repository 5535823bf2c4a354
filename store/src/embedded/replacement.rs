//! The policy for replacing the served copy: when the copy is too large or too old, the disk has space for
//! both, and nothing needs sweeping first.

use std::time::{Duration, Instant};

use super::shrink::{self, ReplacementPace, Shrink};
use super::sled::ServedError;
use super::space;
use super::upkeep::{LOOK_AFTER, Rounds, TICK, Upkeep};
use crate::View;

/// The interval before a failed replacement is retried.
const SHRINK_AGAIN: Duration = Duration::from_secs(600);

impl<V: View> Upkeep<V> {
    /// Replaces a copy that has become too large or too old, one batch per round.
    pub(super) fn shrink(&mut self, rounds: &mut Rounds, last: bool) -> Result<(), ServedError> {
        let Some(mut shrinking) = rounds.shrinking.take() else {
            self.begin_shrinking(rounds);
            return Ok(());
        };
        if last || self.past.backlog.bytes() > self.options.backlog_bytes / 2 {
            rounds.look_at = Some(Instant::now() + LOOK_AFTER);
            drop(shrinking);
            if !last {
                self.copy_was_abandoned(rounds, true);
            }
            return Ok(());
        }
        match shrinking.step(&self.feeder) {
            Ok(false) => {
                rounds.shrinking = Some(shrinking);
                return Ok(());
            }
            Ok(true) => {}
            Err(error) => {
                drop(shrinking);
                self.shrinks_later(rounds, &error);
                self.copy_was_abandoned(rounds, false);
                return Ok(());
            }
        }
        // A power failure may bring the old copy back, so it must contain as much.
        self.feeder.served().sync()?;
        rounds.unsynced = 0;
        rounds.durable = self.feeder.applied;
        let before = space::allocated(&self.root.join("sled"));
        let began = shrinking.began;
        let time_ms = self.feeder.time_ms;
        let erased = self.feeder.erasure.files;
        if let Some(through) = rounds.erasure.ends_with_copy() {
            self.feeder.erasure.files = through;
        }
        match shrinking.finish(&*self.options.files, &self.feeder, self.past.oldest(), time_ms) {
            Ok(served) => {
                self.past.served.set(served.clone());
                self.feeder.change(served);
                let took = began.elapsed();
                let after = space::allocated(&self.root.join("sled"));
                tracing::info!(before, after, ?took, "a fresh served copy is in use");
                rounds.pace = ReplacementPace { since: Instant::now(), took };
                rounds.renewed_at = Instant::now();
                self.end_erasure(rounds, erased);
            }
            Err(error) => {
                self.feeder.erasure.files = erased;
                self.shrinks_later(rounds, &error);
                self.copy_was_abandoned(rounds, false);
            }
        }
        Ok(())
    }

    fn begin_shrinking(&mut self, rounds: &mut Rounds) {
        // A row that is rewritten after it was copied would remain in the copy.
        if rounds.erasure.rewrites_rows() {
            return;
        }
        let now = Instant::now();
        let is_old = rounds.fed_at > rounds.renewed_at
            && rounds.renewed_at.elapsed() >= self.options.renew_every
            && rounds.pace.since <= now;
        if !is_old && rounds.look_at.is_none_or(|at| now < at) {
            return;
        }
        let is_quiet = rounds.fed_at.elapsed() >= LOOK_AFTER;
        let file = space::allocated(&self.root.join("sled"));
        let held = self.feeder.marks.bytes();
        let is_urgent = shrink::is_urgent(file, held);
        // Under heavy writes, sweeping comes first: most of a copy would soon be obsolete.
        let to_sweep = rounds.more_to_sweep && !is_urgent;
        if to_sweep || self.past.backlog.bytes() > self.options.backlog_bytes / 16 {
            rounds.look_at = Some(now + LOOK_AFTER);
            return;
        }
        let next = rounds.pace.next(is_quiet, is_urgent);
        if now < next {
            rounds.look_at = Some(if is_quiet { next } else { next.min(now + LOOK_AFTER) });
            return;
        }
        // The last check runs when the store is idle.
        rounds.look_at = (!is_quiet).then(|| rounds.fed_at + LOOK_AFTER);
        if !is_old && !shrink::is_worth_it(file, held) {
            return;
        }
        // Live records older than the log count too. Counting them requires a scan.
        let held = held + self.older(rounds);
        if !is_old && !shrink::is_worth_it(file, held) {
            return;
        }
        if !self.write_admission.fits(self.copy_bytes(rounds)) {
            tracing::debug!(held, "too little free disk space to replace the served copy now");
            rounds.look_at = Some(now + TICK);
            // Also for a copy that is too old, which every round checks.
            rounds.pace.since = now + TICK;
            return;
        }
        match Shrink::begin(&self.root, self.past.store) {
            Ok(shrinking) => {
                rounds.shrinking = Some(shrinking);
                rounds.erasure.copy_begins();
            }
            Err(error) => self.shrinks_later(rounds, &error),
        }
        if is_old {
            rounds.renewed_at = now;
        }
    }

    /// The disk space that a fresh copy may need.
    pub(super) fn copy_bytes(&self, rounds: &mut Rounds) -> u64 {
        (self.feeder.marks.bytes() + self.older(rounds)).saturating_mul(2)
    }

    /// The live bytes at or before `swept`, recomputed when `swept` advances.
    fn older(&self, rounds: &mut Rounds) -> u64 {
        let swept = self.feeder.swept;
        if let Some((at, bytes)) = rounds.older
            && at == swept
        {
            return bytes;
        }
        let head = self.past.published.current();
        let older = head.index.values().filter(|record| record.mod_revision <= swept);
        let bytes = older.map(|record| record.size_on_disk() as u64 + 64).sum();
        rounds.older = Some((swept, bytes));
        bytes
    }

    pub(super) fn shrinks_later(&self, rounds: &mut Rounds, error: &ServedError) {
        tracing::warn!(%error, "the served copy could not be replaced; the old one stays in use");
        rounds.pace = ReplacementPace { since: Instant::now() + SHRINK_AGAIN, took: Duration::ZERO };
    }
}
