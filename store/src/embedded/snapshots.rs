//! The policy for snapshots: when one is taken, and which older snapshots and journal segments are then
//! removed.
//!
//! A snapshot waits for the journal to start a segment, so that it covers all earlier segments completely,
//! and is written by a separate thread. A failure here stops nothing: the journal is retained.

use std::sync::mpsc::{TryRecvError, channel};
use std::time::Instant;

use super::snapshot::{self, ReadBack};
use super::space;
use super::upkeep::{CUT_AFTER, Rounds, TICK, Upkeep, take_snapshot};
use crate::{Revision, View};

/// The number of snapshots retained; the journal reaches back to the older one.
pub(super) const SNAPSHOTS: usize = 2;

impl<V: View> Upkeep<V> {
    /// Makes the journal start a segment, and begins the snapshot once it has: the snapshot then covers all
    /// earlier segments completely.
    pub(super) fn cut_and_begin_snapshot(&self, rounds: &mut Rounds) {
        match rounds.cut_at {
            None => {
                self.segments.ask_for_cut();
                rounds.cut_at = Some(Instant::now());
            }
            Some(asked) if self.segments.awaits_cut() && asked.elapsed() < CUT_AFTER => {}
            Some(_) => {
                rounds.cut_at = None;
                self.begin_snapshot(rounds, ReadBack::Skip);
            }
        }
    }

    /// Writes a snapshot of the head in a separate thread, unless one is being written.
    pub(super) fn begin_snapshot(&self, rounds: &mut Rounds, read_back: ReadBack) {
        if rounds.running.is_some() {
            return;
        }
        if !self.has_room_for_snapshot() {
            rounds.no_snapshot_until = Some(Instant::now() + TICK);
            return;
        }
        (rounds.no_snapshot_until, rounds.needs_snapshot) = (None, false);
        rounds.snapshot_from = self.segments.appended();
        let (sender, receiver) = channel();
        let (past, options, dir) = (self.past.clone(), self.options.clone(), self.snapshot_dir.clone());
        let spawned = std::thread::Builder::new().name("store-snapshot".into()).spawn(move || {
            let result = take_snapshot(&past, &options, &dir, read_back);
            // The receiving thread may have ended.
            let _ = sender.send(result);
            past.backlog.poke();
        });
        match spawned {
            Ok(_) => rounds.running = Some(receiver),
            Err(error) => tracing::warn!(%error, "cannot start a thread for a snapshot"),
        }
    }

    /// Whether a snapshot of the head leaves the space that deletes need. It may use the rest of the free space,
    /// because it allows segments to be removed.
    pub(super) fn has_room_for_snapshot(&self) -> bool {
        let bytes = self.snapshot_bytes();
        let fits = self.write_admission.leaves_some(bytes);
        if !fits {
            tracing::warn!(bytes, "too little free disk space for a snapshot; the journal is retained");
        }
        fits
    }

    /// The approximate size of a snapshot of the head.
    pub(super) fn snapshot_bytes(&self) -> u64 {
        let head = self.past.published.current();
        head.index.values().map(|record| record.size_on_disk() as u64 + 64).sum()
    }

    /// Handles a finished snapshot.
    pub(super) fn end_snapshot(&mut self, rounds: &mut Rounds) {
        let Some(running) = &rounds.running else { return };
        let result = match running.try_recv() {
            Ok(result) => result,
            Err(TryRecvError::Empty) => return,
            Err(TryRecvError::Disconnected) => Err("its thread has died".into()),
        };
        rounds.running = None;
        match result {
            Ok(taken) => {
                rounds.snapshot_bytes = taken.bytes;
                if taken.read_back == ReadBack::Require {
                    rounds.read_back = Some(taken.revision);
                }
                self.note_snapshot(taken.revision);
                self.remove_segments(rounds);
            }
            Err(why) => tracing::warn!(why, "cannot write a snapshot; the journal is retained"),
        }
    }

    pub(super) fn note_snapshot(&mut self, revision: Revision) {
        self.snapshots.retain(|known| *known != revision);
        self.snapshots.push(revision);
        while self.snapshots.len() > SNAPSHOTS {
            let old = self.snapshots.remove(0);
            let path = snapshot::path_of(&self.snapshot_dir, old);
            if let Err(error) = self.options.files.remove(&path) {
                tracing::warn!(%error, path = %path.display(), "cannot remove an old snapshot");
            }
        }
    }

    /// Removes the segments that are needed neither by the served copy after a power failure nor by a rebuild
    /// from the older of the two snapshots.
    pub(super) fn remove_segments(&self, rounds: &Rounds) {
        let Some(covered) = self.snapshots.len().checked_sub(SNAPSHOTS).map(|at| self.snapshots[at]) else {
            return;
        };
        if let Err(error) = self.segments.remove_through(&*self.options.files, covered.min(rounds.durable)) {
            tracing::warn!(%error, "cannot remove a journal segment");
        }
    }

    pub(super) fn last_snapshot_bytes(&self) -> u64 {
        let newest = self.snapshots.last().map(|newest| snapshot::path_of(&self.snapshot_dir, *newest));
        newest.map_or(0, |path| space::allocated_file(&path))
    }
}

/// The names of the files in the directory of snapshots that are not needed beside this snapshot and newer ones: older snapshots,
/// also those that could not be removed before, damaged ones, and unfinished files.
pub(super) fn obsolete(names: Vec<String>, newest: Revision) -> Vec<String> {
    let is_obsolete = |name: &String| match name.rsplit_once('.') {
        Some((stem, "snap")) => stem.parse().ok().map(Revision).is_none_or(|revision| revision < newest),
        Some((_, "tmp" | "snap-broken")) => true,
        Some(_) | None => false,
    };
    names.into_iter().filter(is_obsolete).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_but_the_newest_snapshots_is_obsolete() {
        let names = [
            ("00000000000000000004.snap", true),
            ("00000000000000000005.snap", false),
            ("00000000000000000006.snap", false),
            ("00000000000000000006.snap.tmp", true),
            ("00000000000000000003.snap-broken", true),
            ("copy of 5.snap", true),
            ("notes", false),
        ];
        let wanted: Vec<_> = names
            .iter()
            .filter(|(_, is_obsolete)| *is_obsolete)
            .map(|(name, _)| (*name).to_owned())
            .collect();
        let names = names.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(obsolete(names, Revision(5)), wanted);
    }
}
