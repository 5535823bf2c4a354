//! Locates the data directory and makes it accessible to its owner only, for every umask.
//!
//! Everything in it is secret: objects, keys, the audit log. The mode of the directory protects its content; the files have the mode 0600
//! as well, so that a copy or a changed mode of the directory exposes nothing.

use std::ffi::OsString;
use std::fs::{DirBuilder, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// The mode of directories.
const DIRECTORY: u32 = 0o700;
/// The bits of a mode that give access to other users.
const OTHERS: u32 = 0o077;
/// Directories of node agents below the data directory: pods need other modes in them.
const OF_NODES: [&str; 2] = ["node", "virtual-nodes"];
/// The store has two levels; this limits the recursion.
const MAX_DEPTH: u32 = 8;

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
    Create { path: PathBuf, error: io::Error },
    /// The path exists and is not a directory.
    #[error("{} is not a directory: set --data-dir DIR", path.display())]
    NoDirectory { path: PathBuf },
    /// Another user owns the directory, and could read and replace everything in it.
    #[error(
        "the data directory {path} belongs to the user with the ID {owner}. That user could read the Secrets in it: run `chown -R {user} \
         {path} && chmod 700 {path}`, or set --data-dir to a directory below it, which is then created", path = path.display()
    )]
    OtherOwner { path: PathBuf, owner: u32, user: u32 },
    /// The mode cannot be changed.
    #[error("the mode of {path} cannot be changed: {error}; run `chmod -R go= {path}`", path = path.display())]
    Mode { path: PathBuf, error: io::Error },
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

/// Creates the given directory or the default one, and returns its path. Restricts the modes of an existing directory of this user and
/// of the files in it.
pub(crate) fn prepare(given: Option<&Path>) -> Result<PathBuf, DataDirError> {
    let path = match given {
        Some(path) => path.to_owned(),
        None => default(rustix::process::geteuid().is_root(), |name| std::env::var_os(name))?,
    };
    let user = rustix::process::geteuid().as_raw();
    match std::fs::metadata(&path) {
        Ok(found) if !found.is_dir() => return Err(DataDirError::NoDirectory { path }),
        Ok(found) if found.uid() != user => {
            return Err(DataDirError::OtherOwner { path, owner: found.uid(), user });
        }
        Ok(_) => {}
        Err(_) => DirBuilder::new()
            .recursive(true)
            .mode(DIRECTORY)
            .create(&path)
            .map_err(|error| DataDirError::Create { path: path.clone(), error })?,
    }
    restrict(&path)?;
    Ok(path)
}

/// The restricted form of a mode; `None` if the mode is restricted already. Pure.
fn restricted(mode: u32) -> Option<u32> {
    let mode = mode & 0o777;
    (mode & OTHERS != 0).then_some(mode & !OTHERS)
}

fn restrict(path: &Path) -> Result<(), DataDirError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| DataDirError::Mode { path, error }
    };
    let found = std::fs::metadata(path).map_err(failed(path))?;
    if let Some(mode) = restricted(found.mode()) {
        // Before the files below: no other user can replace them afterwards.
        std::fs::set_permissions(path, Permissions::from_mode(mode)).map_err(failed(path))?;
        tracing::warn!(
            "other users could read the data directory {} (mode {:o}); its mode is {mode:o} now, and that of its files is \
             restricted too",
            path.display(),
            found.mode() & 0o777
        );
    }
    restrict_below(path, 0)
}

fn restrict_below(dir: &Path, depth: u32) -> Result<(), DataDirError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| DataDirError::Mode { path, error }
    };
    for entry in std::fs::read_dir(dir).map_err(failed(dir))? {
        let entry = entry.map_err(failed(dir))?;
        let path = entry.path();
        // The metadata of the entry itself, because links may point anywhere.
        let found: Metadata = match std::fs::symlink_metadata(&path) {
            Ok(found) => found,
            // A running server may have removed the file.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(failed(&path)(error)),
        };
        let is_of_nodes = depth == 0 && OF_NODES.iter().any(|name| entry.file_name() == *name);
        if is_of_nodes || !(found.is_dir() || found.is_file()) {
            continue;
        }
        if let Some(mode) = restricted(found.mode()) {
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).map_err(failed(&path))?;
        }
        if found.is_dir() && depth < MAX_DEPTH {
            restrict_below(&path, depth + 1)?;
        }
    }
    Ok(())
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

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn set(path: &Path, mode: u32) {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn directory_is_accessible_to_its_owner_only() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("a/b");
        prepare(Some(&path)).unwrap();
        assert_eq!(mode(&path), 0o700);
        prepare(Some(&path)).unwrap();
    }

    #[test]
    fn existing_directory_and_its_files_are_restricted() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("data");
        for dir in ["copy", "node/pods"] {
            std::fs::create_dir_all(path.join(dir)).unwrap();
        }
        let outside = parent.path().join("outside");
        for (file, before) in [
            (path.join("copy/db"), 0o666),
            (path.join("STORE"), 0o644),
            (path.join("node/pods/x"), 0o644),
            (outside.clone(), 0o644),
        ] {
            std::fs::write(&file, "x").unwrap();
            set(&file, before);
        }
        std::os::unix::fs::symlink(&outside, path.join("link")).unwrap();
        set(&path.join("copy"), 0o777);
        set(&path, 0o755);
        prepare(Some(&path)).unwrap();
        for (name, want) in [
            ("", 0o700),
            ("copy", 0o700),
            ("copy/db", 0o600),
            ("STORE", 0o600),
            ("node/pods/x", 0o644),
            ("../outside", 0o644),
        ] {
            assert_eq!(mode(&path.join(name)), want, "{name}");
        }
    }

    #[test]
    fn modes_lose_the_rights_of_others_only() {
        for (before, want) in [
            (0o700, None),
            (0o600, None),
            (0o755, Some(0o700)),
            (0o40_777, Some(0o700)),
            (0o640, Some(0o600)),
        ] {
            assert_eq!(restricted(before), want, "{before:o}");
        }
    }

    #[test]
    fn directory_of_another_user_is_refused_with_the_command_that_fixes_it() {
        // The root directory belongs to root; root itself needs a directory of another user.
        let own = tempfile::tempdir().unwrap();
        let other = if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(own.path(), Some(65_534), None).unwrap();
            own.path()
        } else {
            Path::new("/")
        };
        let error = prepare(Some(other)).unwrap_err();
        assert!(matches!(error, DataDirError::OtherOwner { .. }), "{error}");
        assert!(error.to_string().contains("chown -R"), "{error}");
    }

    #[test]
    fn file_is_not_a_data_directory() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(matches!(prepare(Some(file.path())), Err(DataDirError::NoDirectory { .. })));
        let below = file.path().join("x");
        assert!(matches!(prepare(Some(&below)), Err(DataDirError::Create { .. })));
    }
}
