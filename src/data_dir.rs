//! Locates the store's directory and makes it accessible to its owner only.

use std::ffi::OsString;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Why the data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DataDirError {
    /// There is no default directory.
    #[error(
        "neither HOME nor XDG_DATA_HOME is set, so there is no default data directory: set --data-dir DIR"
    )]
    NoHome,
    /// The directory cannot be created.
    #[error("the data directory {} cannot be created: {error}; set --data-dir to a directory that this user can write", path.display())]
    Create { path: PathBuf, error: std::io::Error },
    /// The path exists and is not a directory.
    #[error("{} is not a directory: set --data-dir DIR", path.display())]
    NoDirectory { path: PathBuf },
}

/// The default directory: the system's for root, else the user's.
pub(crate) fn default(
    is_root: bool,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<PathBuf, DataDirError> {
    if is_root {
        return Ok(PathBuf::from("/var/lib/orlop"));
    }
    // The XDG specification requires relative paths to be ignored.
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(data) = absolute("XDG_DATA_HOME") {
        return Ok(data.join("orlop"));
    }
    let home = absolute("HOME").ok_or(DataDirError::NoHome)?;
    Ok(home.join(".local/share/orlop"))
}

/// Creates the given directory or the default one, and returns its path.
pub(crate) fn prepare(given: Option<&Path>) -> Result<PathBuf, DataDirError> {
    let path = match given {
        Some(path) => path.to_owned(),
        None => default(rustix::process::geteuid().is_root(), |name| std::env::var_os(name))?,
    };
    create(&path)?;
    Ok(path)
}

fn create(path: &Path) -> Result<(), DataDirError> {
    match std::fs::metadata(path) {
        Ok(found) if !found.is_dir() => return Err(DataDirError::NoDirectory { path: path.to_owned() }),
        Ok(found) => {
            let mode = found.permissions().mode() & 0o777;
            if mode & 0o077 != 0 {
                tracing::warn!(
                    "others can look into the data directory {} (mode {mode:o}), and Secrets are in it: chmod 700 it",
                    path.display()
                );
            }
            return Ok(());
        }
        Err(_) => {}
    }
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| DataDirError::Create { path: path.to_owned(), error })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn default_follows_user_and_xdg_rules() {
        type Case<'a> = (bool, &'a [(&'a str, &'a str)], Option<&'a str>);
        let cases: [Case<'_>; 6] = [
            (true, &[("HOME", "/root"), ("XDG_DATA_HOME", "/x")], Some("/var/lib/orlop")),
            (false, &[("HOME", "/home/a"), ("XDG_DATA_HOME", "/x")], Some("/x/orlop")),
            (false, &[("HOME", "/home/a")], Some("/home/a/.local/share/orlop")),
            (false, &[("HOME", "/home/a"), ("XDG_DATA_HOME", "x")], Some("/home/a/.local/share/orlop")),
            (false, &[("HOME", "")], None),
            (false, &[], None),
        ];
        for (root, variables, want) in cases {
            let got = default(root, |name| {
                variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into())
            });
            assert_eq!(got.ok(), want.map(PathBuf::from), "{root} {variables:?}");
        }
    }

    #[test]
    fn directory_is_accessible_to_its_owner_only() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("a/b");
        prepare(Some(&path)).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        prepare(Some(&path)).unwrap();
    }

    #[test]
    fn file_is_not_a_data_directory() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(matches!(prepare(Some(file.path())), Err(DataDirError::NoDirectory { .. })));
        let below = file.path().join("x");
        assert!(matches!(prepare(Some(&below)), Err(DataDirError::Create { .. })));
    }
}
