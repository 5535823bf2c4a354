//! Files that only their owner can read, such as keys and kubeconfigs. A file is replaced atomically and durably.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

/// Replaces a file. Its mode is 0600 whatever the umask is and whatever the mode of the previous file was. A reader finds the previous or
/// the new content, also after a power cut; writers at the same time do not disturb each other, and the last one wins.
///
/// # Errors
/// The file cannot be written. The previous file then stays.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    let dir = parent(path);
    // A new name in this directory, with the mode 0600. It is removed if a step fails.
    let mut file = tempfile::NamedTempFile::new_in(dir)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    File::open(dir)?.sync_all()
}

/// The directory of a file.
fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn file_is_replaced_and_readable_by_its_owner_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("k");
        std::fs::write(&path, "old").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        replace(&path, "new").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file stays");
        assert!(replace(&dir.path().join("none/k"), "x").is_err());
        assert_eq!(parent(Path::new("k")), Path::new("."));
    }

    #[test]
    fn concurrent_writers_leave_one_whole_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("k");
        let texts: Vec<String> = (0..8).map(|n: u32| n.to_string().repeat(10_000)).collect();
        std::thread::scope(|scope| {
            for text in &texts {
                scope.spawn(|| replace(&path, text).unwrap());
            }
        });
        assert!(texts.contains(&std::fs::read_to_string(&path).unwrap()));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
