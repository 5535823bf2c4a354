//! The record of an accepted loss: the file `accepted-loss`, and the files that it makes void.

use std::path::{Path, PathBuf};

use super::files::{self, Files};
use super::frame::StoreId;
use super::paths::StorePaths;
use super::{journal, scan, snapshot};
use crate::{OpenError, Revision};

/// The name of the file.
pub(super) const NAME: &str = "accepted-loss";

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
pub(super) enum Stage {
    /// Not yet valid: its files are removed.
    Pending,
    Done,
}

/// The revision up to which the journal was discarded; zero when no loss was accepted.
pub(crate) fn read(paths: &StorePaths<'_>, files: &dyn Files, store: StoreId) -> Result<Revision, OpenError> {
    Ok(match stage(paths, files, store)? {
        Some((Stage::Done, continues)) => continues,
        Some((Stage::Pending, _)) | None => Revision::ZERO,
    })
}

fn stage(
    paths: &StorePaths<'_>,
    files: &dyn Files,
    store: StoreId,
) -> Result<Option<(Stage, Revision)>, OpenError> {
    let path = paths.root.join(NAME);
    let Some(bytes) = files.read(&path).map_err(paths.io("read", &path))? else { return Ok(None) };
    let parsed = parse(store, &String::from_utf8_lossy(&bytes));
    if parsed.is_none() {
        tracing::warn!(path = %path.display(), "the record of an accepted loss is damaged");
    }
    Ok(parsed)
}

/// Like `read`, and removes the files of an interrupted acceptance.
pub(crate) fn settle(
    paths: &StorePaths<'_>,
    files: &dyn Files,
    store: StoreId,
) -> Result<Revision, OpenError> {
    let continues = match stage(paths, files, store)? {
        Some((Stage::Done, continues)) => return Ok(continues),
        Some((Stage::Pending, continues)) => continues,
        None => return Ok(Revision::ZERO),
    };
    let path = paths.root.join(NAME);
    tracing::warn!(path = %path.display(), "the acceptance of a loss was interrupted; it is undone");
    let segment = journal::segment_path(&paths.journal, continues.next());
    let fine_without = |result: std::io::Result<()>| match result {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        result => result,
    };
    for (dir, name) in
        [(&paths.snapshots, snapshot::path_of(&paths.snapshots, continues)), (&paths.journal, segment)]
    {
        fine_without(files.remove(&name)).map_err(paths.io("remove", &name))?;
        // The removals must be durable before the file that requests them is removed.
        fine_without(files.sync_dir(dir)).map_err(paths.io("sync", dir))?;
    }
    fine_without(files.remove(&path)).map_err(paths.io("remove", &path))?;
    Ok(Revision::ZERO)
}

/// Removes the discarded files once the store opens without them.
pub(crate) fn forget(paths: &StorePaths<'_>, files: &dyn Files, upto: Revision) {
    let segments = scan::list(files, &paths.journal).unwrap_or_default();
    let snapshots = snapshot::list(files, &paths.snapshots).unwrap_or_default();
    let segments = segments.into_iter().filter(|(first, _)| *first <= upto).map(|(_, path)| path);
    let snapshots = snapshots.into_iter().filter(|at| *at < upto);
    let snapshots = snapshots.map(|at| snapshot::path_of(&paths.snapshots, at));
    let all: Vec<PathBuf> = segments.chain(snapshots).collect();
    for path in all {
        match files.remove(&path) {
            Ok(()) => tracing::warn!(path = %path.display(), "removed files from before an accepted loss"),
            Err(error) => tracing::warn!(%error, path = %path.display(), "cannot remove it"),
        }
    }
}

pub(super) fn write(
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
