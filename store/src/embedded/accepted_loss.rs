//! Accepting the loss of acknowledged writes, at the administrator's explicit request.
//!
//! The remaining state becomes a snapshot at a revision far above every revision that could have been
//! used, and a new journal starts after it. So no revision is used twice, and a client that continues
//! from a lost revision gets Expired and relists. The file `accepted-loss` records the operation and is
//! also its switch: until its stage is `done` the old journal counts, and after that only the new one.

use std::path::Path;

use super::frame::StoreId;
use super::high_water::{self, HighWaterFile};
use super::identity::{self, Identity};
use super::lock::Lock;
use super::loss_record::{self, AcceptedLoss, Stage};
use super::paths::{RESTORE, StorePaths};
use super::recover::{Recovered, recover_with};
use super::snapshot::ReadBack;
use super::{Options, journal, scan, snapshot};
use crate::snapshot::Index;
use crate::transform::Transform;
use crate::{OpenError, Revision};

/// The number of revisions that are skipped: enough that none of the following revisions has been used, even
/// after three hours of the fastest writing without a mark.
const LEAP: u64 = 1_000_000_000;

/// Accepts that acknowledged writes are lost, so that the store opens with the remaining state.
///
/// For a store that does not open because it ends below its high-water mark or below a snapshot. Refused
/// when no loss is known.
pub fn accept_loss(dir: impl AsRef<Path>, options: &Options) -> Result<AcceptedLoss, OpenError> {
    let dir = dir.as_ref();
    let _lock = Lock::take(dir, options.lock_wait)?;
    let paths = StorePaths::below(dir);
    let files = &*options.files;
    let store = match identity::read(files, dir)? {
        Identity::Store(store) | Identity::Older(store) => store,
        Identity::Missing | Identity::Broken => {
            return Err(paths.damaged(format!("the file STORE is missing or damaged; {RESTORE}")));
        }
    };
    let marked = match high_water::read(files, dir, store)? {
        HighWaterFile::Mark(mark) => mark.revision,
        HighWaterFile::Missing | HighWaterFile::Damaged | HighWaterFile::Other(_) => Revision::ZERO,
    };
    let RemainingState { kept, time_ms, index, is_ahead } = remaining(&paths, options, store)?;
    let snapshots = snapshot::list(files, &paths.snapshots).map_err(paths.io("list", &paths.snapshots))?;
    let acknowledged = marked.max(snapshots.last().copied().unwrap_or_default());
    if !is_ahead && acknowledged <= kept {
        return Err(paths.damaged(format!(
            "nothing is known to be lost: it ends at revision {kept}; there is nothing to accept"
        )));
    }
    let continues = Revision(acknowledged.max(kept).0 + LEAP);
    let loss = AcceptedLoss { kept, acknowledged, continues };
    loss_record::write(files, dir, store, loss, Stage::Pending)?;
    snapshot::write(files, &paths.snapshots, store, (continues, time_ms), &index, ReadBack::Skip)
        .map_err(paths.io("write a snapshot to", &paths.snapshots))?;
    journal::create_segment(files, &paths.journal, store, continues.next(), 0)
        .map_err(paths.io("create a segment in", &paths.journal))?;
    loss_record::write(files, dir, store, loss, Stage::Done)?;
    tracing::warn!(%kept, %acknowledged, %continues, "a loss of acknowledged writes was accepted");
    Ok(loss)
}

/// The newest remaining state.
struct RemainingState {
    kept: Revision,
    time_ms: i64,
    index: Index<()>,
    /// The state is that of a snapshot newer than the journal.
    is_ahead: bool,
}

fn remaining(paths: &StorePaths<'_>, options: &Options, store: StoreId) -> Result<RemainingState, OpenError> {
    let files = &*options.files;
    let error = match recover_with::<()>(paths.root, options, true) {
        Ok(Recovered { head: kept, time_ms, index, .. }) => {
            return Ok(RemainingState { kept, time_ms, index, is_ahead: false });
        }
        Err(error) => error,
    };
    // A snapshot newer than the journal is the newest state there is.
    let scan = scan::scan(files, paths.root, &paths.journal, store, loss_record::read(paths, files, store)?)?;
    let snapshots = snapshot::list(files, &paths.snapshots).map_err(paths.io("list", &paths.snapshots))?;
    for revision in snapshots.into_iter().rev().filter(|revision| *revision > scan.last()) {
        if let Ok(saved) =
            snapshot::read::<()>(files, &paths.snapshots, store, revision, &Transform::default())?
        {
            return Ok(RemainingState {
                kept: revision,
                time_ms: saved.time_ms,
                index: saved.index,
                is_ahead: true,
            });
        }
    }
    Err(error)
}
