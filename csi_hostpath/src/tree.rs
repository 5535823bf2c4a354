//! Removal of directory trees.

use std::io;
use std::path::Path;
use std::process::Command;

/// Removes a directory with everything below it, but nothing of another file system. Succeeds if it does not exist.
/// The program has no limit of depth; `std::fs::remove_dir_all` uses stack and a file descriptor for each level.
pub(crate) fn remove(dir: &Path) -> io::Result<()> {
    let output =
        Command::new("rm").args(["--recursive", "--force", "--one-file-system", "--"]).arg(dir).output()?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let first = text.lines().next().unwrap_or_default();
    Err(io::Error::other(first.chars().take(512).collect::<String>()))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;

    #[test]
    fn tree_of_any_depth_is_removed() -> io::Result<()> {
        let root = tempfile::tempdir()?;
        let top = root.path().join("top");
        fs::create_dir(&top)?;
        let mut at = File::open(&top)?;
        for _ in 0..6_000 {
            rustix::fs::mkdirat(&at, "d", rustix::fs::Mode::RWXU)?;
            at = rustix::fs::openat(&at, "d", rustix::fs::OFlags::DIRECTORY, rustix::fs::Mode::empty())?
                .into();
        }
        remove(&top)?;
        assert!(!top.exists());
        remove(&top)
    }
}
