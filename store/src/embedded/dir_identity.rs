//! The identity of a directory: a store, a new store, or a directory of another program.
//!
//! A directory becomes a store only when it is empty or contains only the leftovers of a store that was
//! never used. A directory with any other file of a store is never treated as empty.

use std::path::Path;

use super::files::{Files, without_zeros};
use super::frame::{HEADER, StoreId};
use super::identity::{self, Identity};
use super::paths::{RESTORE, StorePaths};
use super::{high_water, loss_record, scan, snapshot};
use crate::{OpenError, Revision};

/// Refuses a directory of another program before any file, including the lock, is created in it.
pub(super) fn look(root: &Path, files: &dyn Files) -> Result<(), OpenError> {
    let paths = StorePaths::below(root);
    let names = files.list(root).map_err(paths.io("list", root))?;
    if names.iter().any(|name| matches!(&**name, "STORE" | "journal" | "snapshot" | "sled")) {
        return Ok(());
    }
    refuse_foreign(&paths, files)
}

/// Removes temporary files that were never renamed.
pub(super) fn remove_unfinished(paths: &StorePaths<'_>, files: &dyn Files) -> Result<(), OpenError> {
    for dir in [paths.root, &paths.snapshots, &paths.journal] {
        for name in files.list(dir).map_err(paths.io("list", dir))? {
            if name.ends_with(".tmp") {
                let path = dir.join(name);
                match files.remove(&path) {
                    // The previous owner of the store may just have removed the file.
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                    result => result.map_err(paths.io("remove", &path))?,
                }
            }
        }
    }
    Ok(())
}

/// Identifies the store of a directory, and returns whether the store has yet to be created.
pub(super) fn identify(paths: &StorePaths<'_>, files: &dyn Files) -> Result<(StoreId, bool), OpenError> {
    let found = identity::read(files, paths.root)?;
    match found {
        Identity::Store(store) | Identity::Older(store) => return Ok((store, false)),
        Identity::Missing | Identity::Broken => {}
    }
    if found == Identity::Missing && was_never_used(paths, files)? {
        return Ok((StoreId::new(), true));
    }
    let segments = scan::list(files, &paths.journal).map_err(paths.io("list", &paths.journal))?;
    let named = scan::named(files, &segments).map_err(paths.io("read", &paths.journal))?;
    let Some(store) = named else {
        return Err(paths.damaged(format!(
            "the file STORE is missing or damaged, and no journal segment identifies the store; {RESTORE}"
        )));
    };
    tracing::warn!(path = %paths.root.display(), "the file STORE is missing or damaged; writing it again");
    identity::write(files, paths.root, store)?;
    Ok((store, false))
}

/// Whether a directory without the file `STORE` is empty, or contains only the leftovers of an interrupted
/// creation: at most a first segment without an entry. A directory with other files, or with those of a
/// store that was used, is refused.
pub(super) fn was_never_used(paths: &StorePaths<'_>, files: &dyn Files) -> Result<bool, OpenError> {
    let snapshots = snapshot::list(files, &paths.snapshots).map_err(paths.io("list", &paths.snapshots))?;
    if !snapshots.is_empty() || paths.sled.exists() {
        return Ok(false);
    }
    for (first, path) in scan::list(files, &paths.journal).map_err(paths.io("list", &paths.journal))? {
        let bytes = files.read(&path).map_err(paths.io("read", &path))?.unwrap_or_default();
        if first != Revision(1) || without_zeros(&bytes) > HEADER {
            return Ok(false);
        }
    }
    refuse_foreign(paths, files)?;
    Ok(true)
}

/// Refuses a directory that contains other files.
fn refuse_foreign(paths: &StorePaths<'_>, files: &dyn Files) -> Result<(), OpenError> {
    // The leftovers of a process killed before it had renamed the file STORE, and the files that a file
    // system keeps in its root directory.
    let ours =
        |name: &str| matches!(name, "LOCK" | "STORE.tmp" | "journal" | "snapshot" | "sled" | "lost+found");
    let names = files.list(paths.root).map_err(paths.io("list", paths.root))?;
    let foreign: Vec<_> = names.into_iter().filter(|name| !ours(name)).collect();
    if foreign.is_empty() {
        return Ok(());
    }
    let are = foreign.iter().take(5).map(String::as_str).collect::<Vec<_>>().join(", ");
    if foreign.iter().any(|name| name == high_water::NAME || name == loss_record::NAME) {
        return Err(paths.damaged(format!("there was a store here, of which only {are} is left; {RESTORE}")));
    }
    Err(OpenError::Foreign { path: paths.root.to_owned(), files: are })
}
