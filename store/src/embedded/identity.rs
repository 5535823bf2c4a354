//! The file `STORE`, which marks a directory as a store and contains its id and format.
//!
//! It is written after the first segment of the journal and before the first write is accepted. So where
//! it exists, a journal must exist too; a directory is treated as new only when it is empty.

use std::path::Path;

use super::files::{self, Files};
use super::frame::{FORMAT, StoreId};
use crate::OpenError;

const NAME: &str = "STORE";

/// The result of reading the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    /// There is no file.
    Missing,
    /// The checksum does not match.
    Broken,
    /// The id of the store.
    Store(StoreId),
    /// The id of the store, from a file in an older format.
    Older(StoreId),
}

pub(crate) fn read(files: &dyn Files, dir: &Path) -> Result<Identity, OpenError> {
    let path = dir.join(NAME);
    let bytes =
        files.read(&path).map_err(|source| OpenError::Io { action: "read", path: path.clone(), source })?;
    let Some(bytes) = bytes else { return Ok(Identity::Missing) };
    match parse(&String::from_utf8_lossy(&bytes)) {
        Some((format, _)) if format > FORMAT => {
            Err(OpenError::TooNew { path, found: format, supported: FORMAT })
        }
        Some((format, store)) if format < FORMAT => Ok(Identity::Older(store)),
        Some((_, store)) => Ok(Identity::Store(store)),
        None => Ok(Identity::Broken),
    }
}

pub(crate) fn write(files: &dyn Files, dir: &Path, store: StoreId) -> Result<(), OpenError> {
    let path = dir.join(NAME);
    let body = format!("orlop store\nformat {FORMAT}\nid {store}\n");
    let text = format!("{body}crc {:08x}\n", store.crc(&[body.as_bytes()]));
    files::write_whole(files, &path, text.as_bytes()).map_err(|source| OpenError::Io {
        action: "write",
        path,
        source,
    })
}

fn parse(text: &str) -> Option<(u32, StoreId)> {
    let at = text.rfind("crc ")?;
    let (body, crc) = text.split_at(at);
    let mut lines = body.lines();
    if lines.next() != Some("orlop store") {
        return None;
    }
    let format = lines.next()?.strip_prefix("format ")?.parse().ok()?;
    let id = uuid::Uuid::try_parse(lines.next()?.strip_prefix("id ")?).ok()?;
    let store = StoreId(*id.as_bytes());
    let crc = u32::from_str_radix(crc.strip_prefix("crc ")?.trim_end(), 16).ok()?;
    (store.crc(&[body.as_bytes()]) == crc).then_some((format, store))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::embedded::files::Disk;

    #[test]
    fn identity_round_trips_and_damage_is_detected() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(&Disk, dir.path()).unwrap(), Identity::Missing);
        let store = StoreId::new();
        write(&Disk, dir.path(), store).unwrap();
        assert_eq!(read(&Disk, dir.path()).unwrap(), Identity::Store(store));
        let path = dir.path().join(NAME);
        let good = std::fs::read(&path).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x04;
            std::fs::write(&path, &bad).unwrap();
            assert_eq!(read(&Disk, dir.path()).unwrap(), Identity::Broken, "byte {at}");
        }
    }
}
