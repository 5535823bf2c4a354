//! Accepting the loss of acknowledged writes, at the administrator's explicit request.
//!
//! The remaining state becomes a snapshot at a revision far above every revision that could have been
//! used, and a new journal starts after it. So no revision is used twice, and a client that continues
//! from a lost revision gets Expired and relists. The file `accepted-loss` records the operation and is
//! also its switch: until its stage is `done` the old journal counts, and after that only the new one.

use std::path::{Path, PathBuf};

use super::files::{self, Files};
use super::frame::StoreId;
use super::high_water::{self, Found};
use super::identity::{self, Identity};
use super::lock::Lock;
use super::recover::{Places, RESTORE, Recovered, recover_with};
use super::{Options, journal, scan, snapshot};
use crate::snapshot::Index;
use crate::{OpenError, Revision};

pub(super) const NAME: &str = "accepted-loss";
/// The number of revisions that are skipped: enough that none of the following revisions has been used, even
/// after three hours of the fastest writing without a mark.
const LEAP: u64 = 1_000_000_000;

/// A loss that was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceptedLoss {
    /// The revision of the remaining state.
    pub kept: Revision,
    /// The newest revision that had been acknowledged.
    pub acknowledged: Revision,
    /// The revision from which the store continues.
    pub continues: Revision,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Not yet valid: its files are removed.
    Pending,
    Done,
}

/// Accepts that acknowledged writes are lost, so that the store opens with the remaining state.
///
/// For a store that does not open because it ends below its high-water mark or below a snapshot. Refused
/// when no loss is known.
pub fn accept_loss(dir: impl AsRef<Path>, options: &Options) -> Result<AcceptedLoss, OpenError> {
    let dir = dir.as_ref();
    let _lock = Lock::take(dir, options.lock_wait)?;
    let places = Places::below(dir);
    let files = &*options.files;
    let store = match identity::read(files, dir)? {
        Identity::Store(store) | Identity::Older(store) => store,
        Identity::Missing | Identity::Broken => {
            return Err(places.damaged(format!("the file STORE is missing or damaged; {RESTORE}")));
        }
    };
    let marked = match high_water::read(files, dir, store)? {
        Found::Mark(mark) => mark.revision,
        Found::Missing | Found::Damaged | Found::Other(_) => Revision::ZERO,
    };
    let Left { kept, time_ms, index, is_ahead } = left(&places, options, store)?;
    let snapshots = snapshot::list(files, &places.snapshots).map_err(places.io("list", &places.snapshots))?;
    let acknowledged = marked.max(snapshots.last().copied().unwrap_or_default());
    if !is_ahead && acknowledged <= kept {
        return Err(places.damaged(format!(
            "nothing is known to be lost: it ends at revision {kept}; there is nothing to accept"
        )));
    }
    let continues = Revision(acknowledged.max(kept).0 + LEAP);
    let loss = AcceptedLoss { kept, acknowledged, continues };
    write(files, dir, store, loss, Stage::Pending)?;
    snapshot::write(files, &places.snapshots, store, continues, time_ms, &index)
        .map_err(places.io("write a snapshot to", &places.snapshots))?;
    journal::create_segment(files, &places.journal, store, continues.next(), 0)
        .map_err(places.io("create a segment in", &places.journal))?;
    write(files, dir, store, loss, Stage::Done)?;
    tracing::warn!(%kept, %acknowledged, %continues, "a loss of acknowledged writes was accepted");
    Ok(loss)
}

/// The newest remaining state.
struct Left {
    kept: Revision,
    time_ms: i64,
    index: Index<()>,
    /// The state is that of a snapshot newer than the journal.
    is_ahead: bool,
}

fn left(places: &Places<'_>, options: &Options, store: StoreId) -> Result<Left, OpenError> {
    let files = &*options.files;
    let error = match recover_with::<()>(places.root, options, true) {
        Ok(Recovered { head: kept, time_ms, index, .. }) => {
            return Ok(Left { kept, time_ms, index, is_ahead: false });
        }
        Err(error) => error,
    };
    // A snapshot newer than the journal is the newest state there is.
    let scan = scan::scan(files, places.root, &places.journal, store, read(places, files, store)?)?;
    let snapshots = snapshot::list(files, &places.snapshots).map_err(places.io("list", &places.snapshots))?;
    for revision in snapshots.into_iter().rev().filter(|revision| *revision > scan.last()) {
        if let Ok(saved) = snapshot::read::<()>(files, &places.snapshots, store, revision)? {
            return Ok(Left { kept: revision, time_ms: saved.time_ms, index: saved.index, is_ahead: true });
        }
    }
    Err(error)
}

/// The revision up to which the journal was discarded; zero when no loss was accepted.
pub(crate) fn read(places: &Places<'_>, files: &dyn Files, store: StoreId) -> Result<Revision, OpenError> {
    Ok(match stage(places, files, store)? {
        Some((Stage::Done, continues)) => continues,
        Some((Stage::Pending, _)) | None => Revision::ZERO,
    })
}

fn stage(
    places: &Places<'_>,
    files: &dyn Files,
    store: StoreId,
) -> Result<Option<(Stage, Revision)>, OpenError> {
    let path = places.root.join(NAME);
    let Some(bytes) = files.read(&path).map_err(places.io("read", &path))? else { return Ok(None) };
    let parsed = parse(store, &String::from_utf8_lossy(&bytes));
    if parsed.is_none() {
        tracing::warn!(path = %path.display(), "the record of an accepted loss is damaged");
    }
    Ok(parsed)
}

/// Like `read`, and removes the files of an interrupted acceptance.
pub(crate) fn settle(places: &Places<'_>, files: &dyn Files, store: StoreId) -> Result<Revision, OpenError> {
    let continues = match stage(places, files, store)? {
        Some((Stage::Done, continues)) => return Ok(continues),
        Some((Stage::Pending, continues)) => continues,
        None => return Ok(Revision::ZERO),
    };
    let path = places.root.join(NAME);
    tracing::warn!(path = %path.display(), "the acceptance of a loss was interrupted; it is undone");
    let segment = journal::segment_path(&places.journal, continues.next());
    let fine_without = |result: std::io::Result<()>| match result {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        result => result,
    };
    for (dir, name) in
        [(&places.snapshots, snapshot::path_of(&places.snapshots, continues)), (&places.journal, segment)]
    {
        fine_without(files.remove(&name)).map_err(places.io("remove", &name))?;
        // The removals must be durable before the file that requests them is removed.
        fine_without(files.sync_dir(dir)).map_err(places.io("sync", dir))?;
    }
    fine_without(files.remove(&path)).map_err(places.io("remove", &path))?;
    Ok(Revision::ZERO)
}

/// Removes the discarded files once the store opens without them.
pub(crate) fn forget(places: &Places<'_>, files: &dyn Files, upto: Revision) {
    let segments = scan::list(files, &places.journal).unwrap_or_default();
    let snapshots = snapshot::list(files, &places.snapshots).unwrap_or_default();
    let segments = segments.into_iter().filter(|(first, _)| *first <= upto).map(|(_, path)| path);
    let snapshots = snapshots.into_iter().filter(|at| *at < upto);
    let snapshots = snapshots.map(|at| snapshot::path_of(&places.snapshots, at));
    let all: Vec<PathBuf> = segments.chain(snapshots).collect();
    for path in all {
        match files.remove(&path) {
            Ok(()) => tracing::warn!(path = %path.display(), "removed files from before an accepted loss"),
            Err(error) => tracing::warn!(%error, path = %path.display(), "cannot remove it"),
        }
    }
}

fn write(
    files: &dyn Files,
    dir: &Path,
    store: StoreId,
    loss: AcceptedLoss,
    stage: Stage,
) -> Result<(), OpenError> {
    let path = dir.join(NAME);
    let stage = match stage {
        Stage::Pending => "pending",
        Stage::Done => "done",
    };
    let AcceptedLoss { kept, acknowledged, continues } = loss;
    let time = jiff::Timestamp::now();
    let body = format!(
        "orlop accepted loss\nstage {stage}\ncontinues {continues}\nkept {kept}\nacknowledged {acknowledged}\ntime {time}\n"
    );
    let text = format!("{body}crc {:08x}\n", store.crc(&[body.as_bytes()]));
    files::write_whole(files, &path, text.as_bytes()).map_err(|source| OpenError::Io {
        action: "write",
        path,
        source,
    })
}

fn parse(store: StoreId, text: &str) -> Option<(Stage, Revision)> {
    let (body, crc) = text.split_at(text.rfind("crc ")?);
    let crc = u32::from_str_radix(crc.strip_prefix("crc ")?.trim_end(), 16).ok()?;
    if store.crc(&[body.as_bytes()]) != crc {
        return None;
    }
    let mut lines = body.lines();
    if lines.next() != Some("orlop accepted loss") {
        return None;
    }
    let stage = match lines.next()? {
        "stage pending" => Stage::Pending,
        "stage done" => Stage::Done,
        _ => return None,
    };
    Some((stage, Revision(lines.next()?.strip_prefix("continues ")?.parse().ok()?)))
}
