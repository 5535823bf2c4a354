//! Recognizes the directory of an agent: the agent restricts the mode of its own directory, and of no other one.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::lock;

/// The names that an agent, its join or a file system creates in a directory before the first lock.
const NAMES: [&str; 6] = ["pods", "plugins", "plugins_registry", "pki", "node.kubeconfig", "lost+found"];

/// Whether an agent has used the directory, or it contains no other files.
pub(crate) fn is_own(dir: &Path) -> io::Result<bool> {
    if lock::is_used(dir) {
        return Ok(true);
    }
    for entry in std::fs::read_dir(dir)? {
        let name = entry?.file_name();
        if !NAMES.iter().any(|own| name == *own) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// An entry of the directory that another user controls.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ForeignEntry {
    pub(crate) path: PathBuf,
    pub(crate) owner: u32,
    pub(crate) mode: u32,
}

/// The first entry of the agent's names that belongs neither to this user nor to root, or that every user can write: its creator could
/// register drivers, and read the files of pods, although the directory itself is closed now.
pub(crate) fn foreign(dir: &Path, user: u32) -> io::Result<Option<ForeignEntry>> {
    for name in NAMES {
        let path = dir.join(name);
        let found = match std::fs::symlink_metadata(&path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let is_open = !found.is_symlink() && found.mode() & 0o002 != 0;
        if is_open || (found.uid() != user && found.uid() != 0) {
            return Ok(Some(ForeignEntry { path, owner: found.uid(), mode: found.mode() & 0o7777 }));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn entries_that_others_control_are_found() {
        use std::os::unix::fs::PermissionsExt as _;

        let dir = tempfile::tempdir().unwrap();
        let own = rustix::process::geteuid().as_raw();
        let path = dir.path().join("plugins_registry");
        assert_eq!(foreign(dir.path(), own).unwrap(), None, "empty");
        std::fs::create_dir(&path).unwrap();
        for (mode, want) in [(0o750, false), (0o755, false), (0o777, true), (0o1777, true)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let found = foreign(dir.path(), own).unwrap().map(|found| (found.path, found.mode));
            assert_eq!(found, want.then(|| (path.clone(), mode)), "{mode:o}");
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o750)).unwrap();
        // Another user's agent. Entries of root are accepted for each.
        assert_eq!(foreign(dir.path(), own + 1).unwrap().is_some(), own != 0);
        if own == 0 {
            std::os::unix::fs::chown(&path, Some(12_345), None).unwrap();
            assert_eq!(foreign(dir.path(), own).unwrap().map(|found| found.owner), Some(12_345));
        }
    }

    #[test]
    fn directories_of_other_programs_are_recognized() {
        for (case, files, want) in [
            ("1 empty", &[][..], true),
            ("2 joined", &["node.kubeconfig"], true),
            ("3 used", &["agent.lock", "notes"], true),
            ("4 another program", &["hosts"], false),
            ("5 both", &["node.kubeconfig", "hosts"], false),
        ] {
            let dir = tempfile::tempdir().unwrap();
            for file in files {
                std::fs::write(dir.path().join(file), "").unwrap();
            }
            assert_eq!(is_own(dir.path()).unwrap(), want, "{case}");
        }
    }
}
