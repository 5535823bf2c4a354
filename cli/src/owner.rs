//! Commands that write to a data directory run as its owner, because the server could not read the files of another user, and create
//! files that only this user can read.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The command must not write to a directory.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OwnerError {
    /// The owner cannot be determined.
    #[error("the data directory {} cannot be read: {error}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        error: io::Error,
    },
    /// Another user owns the directory.
    #[error(
        "the data directory {} belongs to the user with the ID {owner}. The server of that user cannot read files that the current \
         user (ID {user}) creates: run the command as the owner, for example with `sudo -u '#{owner}'`", path.display()
    )]
    Other { path: PathBuf, owner: u32, user: u32 },
}

/// Checks that this user owns a data directory.
pub(crate) fn check(path: &Path) -> Result<(), OwnerError> {
    let found = std::fs::metadata(path).map_err(|error| OwnerError::Read { path: path.to_owned(), error })?;
    let (owner, user) = (found.uid(), rustix::process::geteuid().as_raw());
    if owner == user {
        return Ok(());
    }
    Err(OwnerError::Other { path: path.to_owned(), owner, user })
}

/// Restricts the files that this process creates to this user: the database library creates files with the mode of the umask.
pub(crate) fn create_private_files() {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// A directory of another user, also if root runs the tests: only root can change the owner of a directory, and owns `/`.
    pub(crate) fn of_other_user(own: &Path) -> PathBuf {
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(own, Some(65_534), None).unwrap();
            return own.to_owned();
        }
        PathBuf::from("/")
    }

    #[test]
    fn directory_of_another_user_is_refused() {
        let own = tempfile::tempdir().unwrap();
        check(own.path()).unwrap();
        assert!(matches!(check(&own.path().join("none")), Err(OwnerError::Read { .. })));
        let error = check(&of_other_user(own.path())).unwrap_err();
        assert!(error.to_string().contains("sudo -u '#"), "{error}");
    }
}
