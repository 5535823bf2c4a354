//! Restoring a snapshot file into a new store.
//!
//! The store is built in a directory beside its final one and renamed after it has been opened once, so
//! the final directory contains a complete store or nothing.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::error::ArchiveError;
use super::format::Header;
use super::read::Reader;
use super::write::starts_with_any;
use crate::embedded::{Embedded, Options, make};
use crate::kv::Kv;
use crate::{OpenError, Revision};

/// The default distance by which revisions are moved up: more than the old store can have advanced
/// since the snapshot was taken.
pub const BUMP: u64 = 1_000_000_000;

/// The largest distance: a thousandth of the resourceVersions that clients can read. The rest is left for writes, and for later restores.
const MAX_BUMP: u64 = 1 << 53;

/// A store restored from a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The header of the snapshot.
    pub from: Header,
    /// The id of the new store.
    pub store: [u8; 16],
    /// The head revision of the new store, which is also its oldest.
    pub revision: Revision,
    /// The number of records that were omitted.
    pub omitted: u64,
}

/// Restores a snapshot into a directory that is empty or does not exist. All revisions are moved up by
/// `bump`, so that no revision goes backwards for a client of the old store and every revision from which
/// such a client may want to continue is Expired. Omits the records whose keys start with one of the prefixes in `omitted`.
///
/// # Errors
/// When the file is incomplete or the directory is not empty. Nothing is created then.
pub fn restore(
    path: &Path,
    dir: &Path,
    bump: u64,
    omitted: &[&str],
    options: &Options,
) -> Result<Restored, ArchiveError> {
    let io = |action| move |source| ArchiveError::Io { action, path: dir.to_owned(), source };
    let is_there = match fs::read_dir(dir).map(Iterator::count) {
        Ok(0) => true,
        Ok(_) => return Err(ArchiveError::NotEmpty { path: dir.to_owned() }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
        Err(error) => return Err(io("look into")(error)),
    };
    if is_there && is_mount_point(dir).map_err(io("look into"))? {
        let what = "it is a mount point, which cannot be replaced by the new store; \
            specify a directory in it that does not exist yet";
        return Err(io("restore into")(std::io::Error::other(what)));
    }
    let reader = Reader::open(path)?;
    let from = reader.header;
    let revision =
        moved_up(from.revision, bump).ok_or(ArchiveError::Bump { revision: from.revision.0, bump })?;
    let omitted = Omitted { prefixes: omitted, records: count(path, omitted)? };
    let new = beside(dir);
    match fs::remove_dir_all(&new) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(io("tidy up beside")(error));
        }
        _ => {}
    }
    create_new(&new).map_err(io("create a directory beside"))?;
    let store = match fill(reader, &new, bump, revision, &omitted, options) {
        Ok(store) => store,
        Err(error) => {
            // The name of a leftover directory marks it as unfinished.
            let _ = fs::remove_dir_all(&new);
            return Err(error);
        }
    };
    // Atomic, also when the target is an existing empty directory.
    if let Err(error) = fs::rename(&new, dir) {
        let _ = fs::remove_dir_all(&new);
        return Err(io("give the restored store its name")(error));
    }
    fs::File::open(parent(dir)).and_then(|dir| dir.sync_all()).map_err(io("sync the directory of"))?;
    Ok(Restored { from, store, revision, omitted: omitted.records })
}

/// The head revision after a move; `None` if the move is too far.
fn moved_up(revision: Revision, bump: u64) -> Option<Revision> {
    if bump > MAX_BUMP {
        return None;
    }
    // A store with few revisions left can still be restored without a move.
    revision.0.checked_add(bump).filter(|moved| *moved < i64::MAX as u64).map(Revision)
}

/// The records of a snapshot that are not restored.
struct Omitted<'a> {
    prefixes: &'a [&'a str],
    /// Their number.
    records: u64,
}

/// The number of records below the prefixes. The new store's header contains the number of records, so that they have to be counted
/// before the first one is written.
fn count(path: &Path, prefixes: &[&str]) -> Result<u64, ArchiveError> {
    let mut found = 0;
    if !prefixes.is_empty() {
        Reader::open(path)?.each(|record| {
            found += u64::from(starts_with_any(record.key.as_str(), prefixes));
            Ok(())
        })?;
    }
    Ok(found)
}

fn fill(
    reader: Reader<'_>,
    new: &Path,
    bump: u64,
    revision: Revision,
    omitted: &Omitted<'_>,
    options: &Options,
) -> Result<[u8; 16], ArchiveError> {
    let Header { time_ms, records, .. } = reader.header;
    let records = records - omitted.records;
    // Read errors bypass the encoder, which reports only errors of its sink.
    let mut wrong = None;
    let made = make(&options.files, new, revision, time_ms, records, |encoder| {
        let read = reader.each(|record| {
            if starts_with_any(record.key.as_str(), omitted.prefixes) {
                return Ok(());
            }
            let moved = |revision: Revision| Revision(revision.0 + bump);
            let (create, revision) = (moved(record.create), moved(record.revision));
            encoder
                .record(create, revision, record.time_ms, record.key.as_str(), &record.value)
                .map_err(|source| ArchiveError::Io { action: "write to", path: new.to_owned(), source })
        });
        read.map_err(|error| {
            wrong = Some(error);
            std::io::Error::other("the snapshot cannot be read")
        })
    });
    if let Some(error) = wrong {
        return Err(error);
    }
    let store = made.map_err(ArchiveError::Open)?;
    // Opening builds the remaining files and verifies everything.
    let opened = Embedded::<()>::open(new, Options { ballast_bytes: Some(0), ..options.clone() })
        .map_err(ArchiveError::Open)?;
    let as_wanted = opened.head().revision() == revision && opened.oldest() == revision;
    let counted = opened.head().range("", None).count() as u64;
    crate::embedded::close_now(opened);
    if !as_wanted || counted != records {
        let what = format!("{counted} of {records} records are there");
        return Err(ArchiveError::Open(OpenError::Damaged { path: new.to_owned(), what }));
    }
    Ok(store.0)
}

/// Whether a directory is a mount point, which cannot be renamed or replaced.
fn is_mount_point(dir: &Path) -> std::io::Result<bool> {
    Ok(fs::metadata(dir)?.dev() != fs::metadata(parent(dir))?.dev())
}

fn parent(dir: &Path) -> &Path {
    dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Creates a directory of this user, and its missing parents. Fails if it exists: another user may have created it.
fn create_new(dir: &Path) -> std::io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(parent(dir))?;
    fs::DirBuilder::new().mode(0o700).create(dir)
}

/// The directory a store is built in: `a/b.restoring` for both `a/b/` and `a/b`.
fn beside(dir: &Path) -> PathBuf {
    let mut name = dir.components().collect::<PathBuf>().into_os_string();
    name.push(".restoring");
    name.into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn directory_that_exists_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let new = dir.path().join("a/b.restoring");
        create_new(&new).unwrap();
        assert_eq!(fs::metadata(&new).unwrap().mode() & 0o777, 0o700);
        assert_eq!(create_new(&new).unwrap_err().kind(), std::io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn move_leaves_revisions_for_writes() {
        for (case, revision, bump, expected) in [
            ("1 default", 5, BUMP, Some(BUMP + 5)),
            ("2 not moved", 5, 0, Some(5)),
            ("3 farthest", 5, MAX_BUMP, Some(MAX_BUMP + 5)),
            ("4 too far", 5, MAX_BUMP + 1, None),
            ("5 few revisions left by the move", 5, i64::MAX as u64 - 50, None),
            ("6 few revisions left before", i64::MAX as u64 - 50, 0, Some(i64::MAX as u64 - 50)),
            ("7 none left before", i64::MAX as u64 - 50, 50, None),
            ("8 overflow", u64::MAX, 5, None),
        ] {
            assert_eq!(moved_up(Revision(revision), bump), expected.map(Revision), "{case}");
        }
    }

    #[test]
    fn mount_points_are_recognized() {
        let dir = tempfile::tempdir().unwrap();
        let below = dir.path().join("below");
        fs::create_dir(&below).unwrap();
        assert!(!is_mount_point(&below).unwrap());
        assert!(is_mount_point(Path::new("/proc")).unwrap());
    }
}
