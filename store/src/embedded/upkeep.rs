//! The background thread behind the writers: feeds the served copy, compacts the history, takes snapshots, and
//! removes unneeded journal segments.
//!
//! Failures of snapshots, segments or replacements of the copy do not stop the thread: they are logged and
//! retried. A served copy that ran out of disk space is reopened when space is free. Any other failure of the
//! copy poisons the store, because the backlog would only grow.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::disk_space::is_no_space;
use super::erasure::{Erasure, ErasurePace};
use super::feed::Feeder;
use super::files::is_no_files;
use super::lock::Lock;
use super::read::Past;
use super::segments::Segments;
use super::shrink::{ReplacementPace, Shrink};
use super::sled::ServedError;
use super::snapshot::ReadBack;
use super::write_admission::WriteAdmission;
use super::{Options, snapshot};
use crate::commit::Rotator;
use crate::{Revision, View};

/// The served copy is synced after this many fed bytes or after this time.
const SYNC_BYTES: u64 = 16 << 20;
const SYNC_AFTER: Duration = Duration::from_secs(1);
/// The interval between checks of the history when the store is idle.
pub(super) const TICK: Duration = Duration::from_secs(30);
/// The time after which a snapshot no longer waits for the next group to start a segment.
pub(super) const CUT_AFTER: Duration = Duration::from_secs(1);
/// How often former versions are hidden while the served copy cannot be used.
pub(super) const HIDE_EVERY: Duration = Duration::from_secs(1);
/// How long after feeding the size of the served copy is checked.
pub(super) const LOOK_AFTER: Duration = Duration::from_secs(1);

/// The progress of the thread, for waiting callers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Compacted events up to this revision are removed.
    pub(crate) swept: Revision,
    /// No more progress: the store is closed, or its served copy has failed.
    pub(crate) ended: bool,
    /// Everything is on disk and the directory is unlocked.
    pub(crate) closed: bool,
}

/// The state of the thread.
pub(crate) struct Upkeep<V: View> {
    pub(crate) past: Arc<Past<V>>,
    pub(crate) options: Options,
    pub(crate) root: PathBuf,
    pub(crate) write_admission: Arc<WriteAdmission>,
    pub(crate) feeder: Feeder,
    pub(crate) segments: Arc<Segments>,
    pub(crate) snapshot_dir: PathBuf,
    /// Oldest first.
    pub(crate) snapshots: Vec<Revision>,
    pub(crate) needs_snapshot: bool,
    /// The bytes of the journal that the newest snapshot covers.
    pub(crate) snapshot_from: u64,
    pub(crate) rotator: Rotator<V>,
    pub(crate) progress: watch::Sender<Progress>,
    pub(crate) lock: Lock,
}

/// The state that the thread keeps between rounds.
pub(super) struct Rounds {
    /// The bytes fed since the last sync.
    pub(super) unsynced: u64,
    pub(super) synced_at: Instant,
    /// Everything up to this revision in the served copy survives a power failure.
    pub(super) durable: Revision,
    pub(super) looked_at: Instant,
    /// The bytes in the journal when the last snapshot was started.
    pub(super) snapshot_from: u64,
    pub(super) snapshot_bytes: u64,
    /// A snapshot is needed, however little was written.
    pub(super) needs_snapshot: bool,
    /// A snapshot is due; since when it waits for the next segment.
    pub(super) cut_at: Option<Instant>,
    /// The disk had no space for a snapshot; none is due until then.
    pub(super) no_snapshot_until: Option<Instant>,
    pub(super) running: Option<Receiver<Result<TakenSnapshot, String>>>,
    /// The newest snapshot that was read back from the disk.
    pub(super) read_back: Option<Revision>,
    pub(super) more_to_sweep: bool,
    /// When an event was last fed.
    pub(super) fed_at: Instant,
    /// When to check the size of the served copy.
    pub(super) look_at: Option<Instant>,
    pub(super) pace: ReplacementPace,
    /// When the served copy was created or opened.
    pub(super) renewed_at: Instant,
    pub(super) shrinking: Option<Shrink>,
    pub(super) erasure: Erasure,
    /// The files may contain former versions without a mark in [`ErasureMarks`](super::feed::ErasureMarks).
    pub(super) needs_erasure: bool,
    pub(super) erasure_pace: ErasurePace,
    /// The live bytes at or before `swept`, and the `swept` for which they were counted.
    pub(super) older: Option<(Revision, u64)>,
}

impl Rounds {
    fn snapshot_is_due(&self, has_grown: bool) -> bool {
        let had_no_room = self.no_snapshot_until.is_some_and(|until| Instant::now() < until);
        let is_wanted = (has_grown || self.needs_snapshot) && !had_no_room;
        // A snapshot that waits for its segment is not abandoned, or it would wait forever.
        self.running.is_none() && (is_wanted || self.cut_at.is_some())
    }

    fn new(
        applied: Revision,
        snapshot_from: u64,
        snapshot_bytes: u64,
        needs_snapshot: bool,
        erasure_pace: ErasurePace,
    ) -> Self {
        let now = Instant::now();
        Rounds {
            unsynced: 0,
            synced_at: now,
            durable: applied,
            looked_at: now,
            snapshot_from,
            snapshot_bytes,
            needs_snapshot,
            cut_at: None,
            no_snapshot_until: None,
            running: None,
            read_back: None,
            more_to_sweep: true,
            fed_at: now,
            look_at: Some(now + LOOK_AFTER),
            pace: ReplacementPace { since: now, took: Duration::ZERO },
            renewed_at: now,
            shrinking: None,
            erasure: Erasure::Idle,
            needs_erasure: false,
            erasure_pace,
            older: None,
        }
    }
}

impl<V: View> Upkeep<V> {
    pub(crate) fn start(self) -> std::io::Result<()> {
        std::thread::Builder::new().name("store-upkeep".into()).spawn(move || self.run())?;
        Ok(())
    }

    fn run(mut self) {
        let guard = Ended(self.progress.clone(), self.past.clone());
        let (applied, bytes) = (self.feeder.applied, self.last_snapshot_bytes());
        let mut rounds =
            Rounds::new(applied, self.snapshot_from, bytes, self.needs_snapshot, self.erasure_pace());
        if rounds.needs_snapshot {
            self.begin_snapshot(&mut rounds, ReadBack::Skip);
        }
        rounds.needs_erasure = self.may_have_unknown_remnants();
        loop {
            match self.round(&mut rounds) {
                Ok(true) => {}
                Ok(false) => break,
                Err(ServedError::System(error)) if is_no_space(&error) || is_no_files(&error) => {
                    rounds.shrinking = None;
                    match self.recover_from_shortage(&error) {
                        Ok(true) => rounds.unsynced = 1,
                        Ok(false) => break,
                        Err(error) => {
                            self.fail(&error);
                            break;
                        }
                    }
                }
                Err(error) => {
                    self.fail(&error);
                    break;
                }
            }
        }
        // While the directory is still locked.
        rounds.shrinking = None;
        self.finish(rounds);
        drop(guard);
    }

    /// Poisons the store because the served copy cannot be used any more.
    fn fail(&self, error: &ServedError) {
        let why = format!("the served copy has failed: {error}");
        self.past.published.poison(why.clone());
        self.past.backlog.fail(why);
        if !self.feeder.has_copy() {
            self.past.served.lose("the served copy has failed");
        }
        self.progress.send_modify(|progress| progress.ended = true);
        while !self.past.backlog.closes_within(HIDE_EVERY) {
            self.hide_former_versions();
        }
    }

    /// Runs one round. Returns false after the last one.
    fn round(&mut self, rounds: &mut Rounds) -> Result<bool, ServedError> {
        let work = self.past.backlog.wait(self.patience(rounds));
        if let (Some(first), Some(last)) = (work.events.first(), work.events.last()) {
            debug_assert_eq!(first.revision, self.feeder.applied.next());
            if rounds.unsynced == 0 {
                rounds.synced_at = Instant::now();
            }
            self.feeder.feed(&work.events)?;
            self.feeder.served().hand_over()?;
            self.past.backlog.done(&work.events);
            rounds.unsynced += work
                .events
                .iter()
                .filter_map(|event| event.record.as_ref())
                .map(|record| record.size_on_disk() as u64)
                .sum::<u64>()
                + 1;
            debug_assert_eq!(last.revision, self.feeder.applied);
            rounds.fed_at = Instant::now();
            rounds.look_at.get_or_insert(rounds.fed_at + LOOK_AFTER);
        }
        if rounds.unsynced > 0
            && (work.last || rounds.unsynced >= SYNC_BYTES || rounds.synced_at.elapsed() >= SYNC_AFTER)
        {
            self.feeder.served().sync()?;
            rounds.unsynced = 0;
            rounds.durable = self.feeder.applied;
            self.remove_segments(rounds);
        }
        self.retain(rounds);
        self.hide_former_versions();
        self.write_admission.settle();
        self.shrink(rounds, work.last)?;
        // Rows must stay until they are copied.
        self.sweep(rounds, work.events.len() as u64)?;
        self.progress.send_if_modified(|progress| {
            std::mem::replace(&mut progress.swept, self.feeder.swept) != self.feeder.swept
        });
        self.end_snapshot(rounds);
        self.erase(rounds)?;
        let grown = self.segments.appended() - rounds.snapshot_from;
        // On an idle store, a smaller saving is enough: the copy then stays small.
        let is_quiet = rounds.fed_at.elapsed() >= LOOK_AFTER;
        let enough = self.options.snapshot_bytes.max(rounds.snapshot_bytes) / if is_quiet { 4 } else { 1 };
        if rounds.snapshot_is_due(grown >= enough) {
            self.cut_and_begin_snapshot(rounds);
        }
        // A truncated batch leaves events for the next round, also during close.
        Ok(!work.last)
    }

    /// Removes compacted rows: at least twice as many as were fed, so that the log does not grow however fast it is
    /// written.
    fn sweep(&mut self, rounds: &mut Rounds, fed: u64) -> Result<(), ServedError> {
        let start = self.feeder.swept;
        loop {
            let before = self.feeder.swept;
            rounds.more_to_sweep = rounds.shrinking.is_none() && self.feeder.sweep(self.past.oldest())?;
            let now = self.feeder.swept;
            if !rounds.more_to_sweep || now == before || now.0 - start.0 >= fed * 2 {
                break;
            }
        }
        if self.feeder.swept > start {
            rounds.look_at.get_or_insert_with(|| Instant::now() + LOOK_AFTER);
        }
        Ok(())
    }

    /// How long to wait for events before other work is due.
    fn patience(&self, rounds: &Rounds) -> Duration {
        if rounds.more_to_sweep || rounds.shrinking.is_some() || rounds.erasure.rewrites_rows() {
            return Duration::ZERO;
        }
        let now = Instant::now();
        let sync = (rounds.unsynced > 0).then(|| rounds.synced_at + SYNC_AFTER);
        let cut = rounds.cut_at.map(|asked| asked + CUT_AFTER);
        let retain = (rounds.fed_at > rounds.looked_at).then(|| rounds.looked_at + self.options.retain_every);
        let erase = self.erasure_is_pending(rounds).then(|| now + self.options.retain_every);
        let due = [sync, cut, retain, rounds.look_at, erase].into_iter().flatten().min();
        due.map_or(TICK, |due| due.saturating_duration_since(now).min(TICK))
    }

    /// Advances `oldest` by age and size.
    fn retain(&mut self, rounds: &mut Rounds) {
        // The check is cheap, but not for every batch of a busy store.
        if rounds.looked_at.elapsed() < self.options.retain_every {
            return;
        }
        rounds.looked_at = Instant::now();
        let now_ms = self.options.clock.now_ms();
        if let Some(target) = self.feeder.marks.target(now_ms, self.options.retention) {
            self.past.oldest.fetch_max(target.0, Ordering::SeqCst);
        }
    }

    /// The shutdown, in this order: sync the copy, take a snapshot if worthwhile, close the copy, unlock the
    /// directory.
    fn finish(mut self, mut rounds: Rounds) {
        if self.past.published.poisoned().is_none() {
            match self.feeder.sync() {
                // Without a copy, nothing more has become durable.
                Ok(()) if self.feeder.has_copy() => rounds.durable = self.feeder.applied,
                Ok(()) => {}
                Err(error) => tracing::warn!(%error, "the served copy could not be synced at the end"),
            }
            if let Some(running) = rounds.running.take()
                && let Ok(Ok(taken)) = running.recv()
            {
                self.note_snapshot(taken.revision);
            }
            let grown = self.segments.appended() - rounds.snapshot_from;
            if grown >= self.options.snapshot_bytes / 8 && self.has_room_for_snapshot() {
                match take_snapshot(&self.past, &self.options, &self.snapshot_dir, ReadBack::Skip) {
                    Ok(taken) => self.note_snapshot(taken.revision),
                    Err(why) => tracing::warn!(why, "cannot write a snapshot; the journal is retained"),
                }
            }
            self.remove_segments(&rounds);
        }
        let Upkeep { past, feeder, lock, progress, .. } = self;
        past.served.close();
        let mut feeder = feeder;
        let served = feeder.release();
        drop(feeder);
        // Running reads end soon; otherwise the next process waits for sled's own lock.
        let until = Instant::now() + Duration::from_secs(2);
        while served.as_ref().is_some_and(|served| Arc::strong_count(served) > 1) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(served);
        drop(lock);
        progress.send_replace(Progress { swept: Revision(u64::MAX), ended: true, closed: true });
    }
}

/// Poisons the store and releases waiting threads when the thread panics.
struct Ended<V: View>(watch::Sender<Progress>, Arc<Past<V>>);

impl<V: View> Drop for Ended<V> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let why = "the upkeep of the store has panicked";
            self.1.published.poison(why.into());
            self.1.backlog.fail(why.into());
            self.1.served.close();
            self.0.send_replace(Progress { swept: Revision(u64::MAX), ended: true, closed: true });
        }
    }
}

/// A snapshot that was written.
#[derive(Clone, Copy, Debug)]
pub(super) struct TakenSnapshot {
    pub(super) revision: Revision,
    pub(super) bytes: u64,
    pub(super) read_back: ReadBack,
}

/// Writes a snapshot of the head.
pub(super) fn take_snapshot<V: View>(
    past: &Past<V>,
    options: &Options,
    dir: &Path,
    read_back: ReadBack,
) -> Result<TakenSnapshot, String> {
    let head = past.published.current();
    let (revision, time_ms) = (head.revision, options.clock.now_ms());
    let at = (revision, time_ms);
    let bytes = snapshot::write(&*options.files, dir, past.store, at, &head.index, read_back);
    Ok(TakenSnapshot { revision, bytes: bytes.map_err(|error| error.to_string())?, read_back })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshot_is_due_after_growth_and_when_space_is_free() {
        let now = Instant::now();
        let later = now + Duration::from_secs(3600);
        for (name, has_grown, cut_at, no_room_until, needed, wanted) in [
            ("nothing was written", false, None, None, false, false),
            ("it has grown", true, None, None, false, true),
            ("it has grown, without disk space", true, None, Some(later), false, false),
            ("disk space is checked again", true, None, Some(now), false, true),
            // As after a write that follows an idle second: more must have been written by then.
            ("it waits for its segment", false, Some(now), None, false, true),
            ("needed", false, None, None, true, true),
            ("needed, without disk space", false, None, Some(later), true, false),
        ] {
            let mut rounds =
                Rounds::new(Revision::ZERO, 0, 0, needed, ErasurePace::new(None, Duration::ZERO));
            (rounds.cut_at, rounds.no_snapshot_until) = (cut_at, no_room_until);
            assert_eq!(rounds.snapshot_is_due(has_grown), wanted, "{name}");
            rounds.running = Some(std::sync::mpsc::channel().1);
            assert!(!rounds.snapshot_is_due(has_grown), "{name}, but one is being written");
        }
    }
}
