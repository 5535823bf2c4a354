//! When a fresh served copy is made: when the one that there is has become too large or too old, there
//! is room for both, and nothing is to be swept first.

use std::time::{Duration, Instant};

use super::shrink::{self, Pace, Shrink};
use super::sled::ServedError;
use super::space;
use super::upkeep::{LOOK_AFTER, Rounds, TICK, Upkeep};
use crate::View;

/// A copy that could not be made is tried again after this.
const SHRINK_AGAIN: Duration = Duration::from_secs(600);

impl<V: View> Upkeep<V> {
    /// Makes a fresh copy when the one that there is has become too large or too old: one batch of
    /// it in each round.
    pub(super) fn shrink(&mut self, rounds: &mut Rounds, last: bool) -> Result<(), ServedError> {
        let Some(mut shrinking) = rounds.shrinking.take() else {
            self.begin_shrinking(rounds);
            return Ok(());
        };
        if last || self.past.backlog.bytes() > self.options.backlog_bytes / 2 {
            rounds.look_at = Some(Instant::now() + LOOK_AFTER);
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
                return Ok(());
            }
        }
        // Should the old one come back after a power cut, it holds as much.
        self.feeder.served().sync()?;
        rounds.unsynced = 0;
        rounds.durable = self.feeder.applied;
        let before = space::allocated(&self.root.join("sled"));
        let began = shrinking.began;
        let time_ms = self.feeder.time_ms;
        match shrinking.finish(&*self.options.files, &self.feeder, self.past.oldest(), time_ms) {
            Ok(served) => {
                self.past.served.set(served.clone());
                self.feeder.change(served);
                let took = began.elapsed();
                let after = space::allocated(&self.root.join("sled"));
                tracing::info!(before, after, ?took, "a fresh served copy is in use");
                rounds.pace = Pace { since: Instant::now(), took };
                rounds.renewed_at = Instant::now();
            }
            Err(error) => self.shrinks_later(rounds, &error),
        }
        Ok(())
    }

    fn begin_shrinking(&mut self, rounds: &mut Rounds) {
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
        // What is being written in earnest is swept first: a copy of it would soon be air.
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
        // The last look is at what rests.
        rounds.look_at = (!is_quiet).then(|| rounds.fed_at + LOOK_AFTER);
        if !is_old && !shrink::is_worth_it(file, held) {
            return;
        }
        // What is current and older than the log is held too. Counting it takes a walk.
        let held = held + self.older(rounds);
        if !is_old && !shrink::is_worth_it(file, held) {
            return;
        }
        if !self.gate.fits(held * 2) {
            tracing::debug!(held, "no room for a fresh served copy now");
            rounds.look_at = Some(now + TICK);
            // Also when it is old, which is asked in every round.
            rounds.pace.since = now + TICK;
            return;
        }
        match Shrink::begin(&self.root, self.past.store) {
            Ok(shrinking) => rounds.shrinking = Some(shrinking),
            Err(error) => self.shrinks_later(rounds, &error),
        }
        if is_old {
            rounds.renewed_at = now;
        }
    }

    /// Bytes of what is held at or before `swept`. What is overwritten goes when that moves on.
    fn older(&self, rounds: &mut Rounds) -> u64 {
        let swept = self.feeder.swept;
        if let Some((at, bytes)) = rounds.older
            && at == swept
        {
            return bytes;
        }
        let head = self.past.published.current();
        let older = head.index.values().filter(|record| record.mod_revision <= swept);
        let bytes = older.map(|record| record.size() as u64 + 64).sum();
        rounds.older = Some((swept, bytes));
        bytes
    }

    fn shrinks_later(&self, rounds: &mut Rounds, error: &ServedError) {
        tracing::warn!(%error, "a fresh served copy could not be made; the old one goes on");
        rounds.pace = Pace { since: Instant::now() + SHRINK_AGAIN, took: Duration::ZERO };
    }
}
