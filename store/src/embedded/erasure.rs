//! The steps of an erasure of former versions (`erase`).

use std::sync::mpsc::Receiver;

use crate::Revision;

/// The step of an erasure, which erases the versions that are former at the revision `through`.
pub(super) enum Erasure {
    /// None is running.
    Idle,
    /// The journal starts a new segment.
    Rotating { through: Revision, answer: Receiver<Result<Revision, String>> },
    /// A snapshot at `from` or later is needed.
    Snapshot { through: Revision, from: Revision, is_begun: bool },
    /// The older files can be removed when the served copy contains everything up to `from` durably.
    Removing { through: Revision, from: Revision },
    /// The served copy is being replaced.
    Copying { through: Revision, is_begun: bool },
}

impl Erasure {
    /// The revision through which everything is erased when the running replacement of the served copy ends.
    pub(super) fn ends_with_copy(&self) -> Option<Revision> {
        match self {
            Erasure::Copying { through, is_begun: true } => Some(*through),
            Erasure::Idle
            | Erasure::Rotating { .. }
            | Erasure::Snapshot { .. }
            | Erasure::Removing { .. }
            | Erasure::Copying { is_begun: false, .. } => None,
        }
    }
}
