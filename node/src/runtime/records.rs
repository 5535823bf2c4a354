//! Stores small runtime records on disk. Records are written atomically; a name that becomes part of a path is
//! checked first.

use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use orlop_apimachinery::input_file::{self, MAX_CONFIG};
use serde::Serialize;
use serde::de::DeserializeOwned;

use orlop_volume::crash_points;

/// Whether a name from the API can be a path component.
pub(super) fn is_step(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    !name.is_empty() && name.len() <= 253 && name.bytes().all(is_plain) && !matches!(name, "." | "..")
}

/// Creates a directory and its parents with mode 0750.
pub(super) fn make_dir(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o750).create(path)
}

/// Replaces a record, with mode 0600; it is flushed to disk when this returns.
pub(super) fn write<T: Serialize>(path: &Path, record: &T) -> io::Result<()> {
    let bytes = serde_json::to_vec(record)?;
    crash_points::reached("write record of runtime", path);
    let fresh = unfinished(path);
    let mut file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    file.write_all(&bytes)?;
    file.sync_all()?;
    crash_points::reached("put record of runtime", path);
    std::fs::rename(&fresh, path)?;
    match path.parent() {
        Some(parent) => std::fs::File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

/// The temporary file of a record.
fn unfinished(path: &Path) -> std::path::PathBuf {
    path.with_extension("new")
}

/// Reads a record of an earlier process that no longer writes to it. The temporary file of an interrupted write
/// is removed, because it would keep the directory from being removed.
pub(super) fn found<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    gone(std::fs::remove_file(unfinished(path)))?;
    read(path)
}

/// Reads a record; `None` when the file does not exist.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match input_file::read(path, MAX_CONFIG) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Treats a missing file as removed.
pub(super) fn gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// The names in a directory; empty when it does not exist.
pub(super) fn names(dir: &Path) -> io::Result<Vec<String>> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut names = Vec::new();
    for entry in entries {
        if let Ok(name) = entry?.file_name().into_string() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn path_components_are_recognized() {
        let long = "a".repeat(254);
        for (name, want) in [
            ("a", true),
            ("a.b-c_d", true),
            ("", false),
            (".", false),
            ("..", false),
            ("a/b", false),
            ("a\0", false),
        ] {
            assert_eq!(is_step(name), want, "{name:?}");
        }
        assert!(!is_step(&long));
    }

    #[test]
    fn record_is_replaced_atomically() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.json");
        assert_eq!(read::<u32>(&path).unwrap(), None);
        write(&path, &1_u32).unwrap();
        write(&path, &2_u32).unwrap();
        assert_eq!(read::<u32>(&path).unwrap(), Some(2));
        assert_eq!(names(dir.path()).unwrap(), ["r.json"]);
        std::fs::write(dir.path().join("r.new"), "half").unwrap();
        assert_eq!(found::<u32>(&path).unwrap(), Some(2));
        assert_eq!(names(dir.path()).unwrap(), ["r.json"]);
        std::fs::write(dir.path().join("other.new"), "half").unwrap();
        assert_eq!(found::<u32>(&dir.path().join("other.json")).unwrap(), None);
        assert_eq!(names(dir.path()).unwrap(), ["r.json"]);
        assert_eq!(names(&dir.path().join("none")).unwrap(), Vec::<String>::new());
    }
}
