//! Recognizes the directory of an agent: the agent restricts the mode of its own directory, and of no other one.

use std::io;
use std::path::Path;

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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

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
