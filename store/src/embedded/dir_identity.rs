//! Whose a directory is: that of a store, a new one, or somebody else's.
//!
//! A directory becomes a store only when it holds nothing, or what a store that was never used has
//! left. Where anything of a store is, it is never taken for an empty one.

use std::path::Path;

use super::files::{Files, without_zeros};
use super::frame::{HEADER, StoreId};
use super::identity::{self, Identity};
use super::recover::{Places, RESTORE};
use super::{accept, high_water, scan, snapshot};
use crate::{OpenError, Revision};

/// Refuses a directory of somebody else before anything is put into it, the lock included.
pub(super) fn look(root: &Path, files: &dyn Files) -> Result<(), OpenError> {
    let places = Places::below(root);
    let names = files.list(root).map_err(places.io("list", root))?;
    if names.iter().any(|name| matches!(&**name, "STORE" | "journal" | "snapshot" | "sled")) {
        return Ok(());
    }
    refuse_foreign(&places, files)
}

/// Removes files that never got their own names.
pub(super) fn remove_unfinished(places: &Places<'_>, files: &dyn Files) -> Result<(), OpenError> {
    for dir in [places.root, &places.snapshots, &places.journal] {
        for name in files.list(dir).map_err(places.io("list", dir))? {
            if name.ends_with(".tmp") {
                let path = dir.join(name);
                match files.remove(&path) {
                    // Who had the store before may just have removed it.
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                    result => result.map_err(places.io("remove", &path))?,
                }
            }
        }
    }
    Ok(())
}

/// Whose directory it is, and whether it is to be made into a store first.
pub(super) fn identify(places: &Places<'_>, files: &dyn Files) -> Result<(StoreId, bool), OpenError> {
    let found = identity::read(files, places.root)?;
    match found {
        Identity::Store(store) | Identity::Older(store) => return Ok((store, false)),
        Identity::Missing | Identity::Broken => {}
    }
    if found == Identity::Missing && was_never_used(places, files)? {
        return Ok((StoreId::new(), true));
    }
    let segments = scan::list(files, &places.journal).map_err(places.io("list", &places.journal))?;
    let named = scan::named(files, &segments).map_err(places.io("read", &places.journal))?;
    let Some(store) = named else {
        return Err(places.damaged(format!(
            "the file STORE is missing or damaged, and no journal segment says whose store it is; {RESTORE}"
        )));
    };
    tracing::warn!(path = %places.root.display(), "the file STORE is missing or damaged; writing it again");
    identity::write(files, places.root, store)?;
    Ok((store, false))
}

/// Whether a directory without the file `STORE` holds nothing, or what is left when the creation of a
/// store was interrupted: at the most a first segment without an entry. One with files of somebody else,
/// or of a store that was used, is refused.
pub(super) fn was_never_used(places: &Places<'_>, files: &dyn Files) -> Result<bool, OpenError> {
    let snapshots = snapshot::list(files, &places.snapshots).map_err(places.io("list", &places.snapshots))?;
    if !snapshots.is_empty() || places.sled.exists() {
        return Ok(false);
    }
    for (first, path) in scan::list(files, &places.journal).map_err(places.io("list", &places.journal))? {
        let bytes = files.read(&path).map_err(places.io("read", &path))?.unwrap_or_default();
        if first != Revision(1) || without_zeros(&bytes) > HEADER {
            return Ok(false);
        }
    }
    refuse_foreign(places, files)?;
    Ok(true)
}

/// A directory that holds files of somebody else does not become a store.
fn refuse_foreign(places: &Places<'_>, files: &dyn Files) -> Result<(), OpenError> {
    // What an opener leaves that was killed before the file STORE had its name; and what a file
    // system of its own has at its top.
    let ours =
        |name: &str| matches!(name, "LOCK" | "STORE.tmp" | "journal" | "snapshot" | "sled" | "lost+found");
    let names = files.list(places.root).map_err(places.io("list", places.root))?;
    let foreign: Vec<_> = names.into_iter().filter(|name| !ours(name)).collect();
    if foreign.is_empty() {
        return Ok(());
    }
    let are = foreign.iter().take(5).map(String::as_str).collect::<Vec<_>>().join(", ");
    let why = if foreign.iter().any(|name| name == high_water::NAME || name == accept::NAME) {
        format!("there was a store here, of which only {are} is left; {RESTORE}")
    } else {
        format!("it is no store of orlop, and it is not empty ({are}); choose an empty directory")
    };
    Err(places.damaged(why))
}
