//! The list of the journal's segments, shared with threads other than the committer.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::files::{Files, parent};
use crate::Revision;

/// A segment that is complete.
#[derive(Clone, Debug)]
pub(super) struct Closed {
    pub(super) path: PathBuf,
    pub(super) last: Revision,
}

/// The journal's segments, shared with threads other than the committer.
#[derive(Debug, Default)]
pub(crate) struct Segments {
    pub(super) closed: Mutex<VecDeque<Closed>>,
    /// The bytes in the journal when it was opened, and those appended since.
    pub(super) appended: AtomicU64,
    /// The next group must start a new segment.
    pub(super) cut: AtomicBool,
}

impl Segments {
    pub(crate) fn appended(&self) -> u64 {
        self.appended.load(Ordering::Relaxed)
    }

    /// Makes the next group start a new segment, so that a snapshot covers all others completely.
    pub(crate) fn ask_for_cut(&self) {
        self.cut.store(true, Ordering::Relaxed);
    }

    /// Whether a requested new segment has not started yet.
    pub(crate) fn awaits_cut(&self) -> bool {
        self.cut.load(Ordering::Relaxed)
    }

    /// Removes the segments without any revision after this one, oldest first; each durably before the next, so
    /// that no power failure leaves an older segment without a younger one.
    pub(crate) fn remove_through(&self, files: &dyn Files, revision: Revision) -> std::io::Result<()> {
        loop {
            let path = {
                let closed = self.lock();
                match closed.front() {
                    Some(segment) if segment.last <= revision => segment.path.clone(),
                    Some(_) | None => return Ok(()),
                }
            };
            files.remove(&path)?;
            tracing::debug!(path = %path.display(), "removed a journal segment that is covered");
            self.lock().pop_front();
            files.sync_dir(parent(&path))?;
        }
    }

    pub(super) fn lock(&self) -> parking_lot::MutexGuard<'_, VecDeque<Closed>> {
        self.closed.lock()
    }
}
