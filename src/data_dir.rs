//! Locates the data directory and makes it accessible to its owner only, for every umask.
//!
//! Everything in it is secret: objects, keys, the audit log. The mode of the directory protects its content; the files have the mode 0600
//! as well, so that a copy or a changed mode of the directory exposes nothing. Modes are changed only in a directory of this server: an
//! empty one, one with a store, or one that contains no other files.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use orlop_apimachinery::input_file;
use orlop_store::embedded::ENTRIES;
use rustix::fs::{Mode, OFlags};

/// The mode of directories.
const DIRECTORY: u32 = 0o700;
/// The bits of a mode that give access to other users.
const OTHERS: u32 = 0o077;
/// Directories of node agents below the data directory: pods need other modes in them.
const OF_NODES: [&str; 2] = ["node", "virtual-nodes"];
/// The file that marks a store, and the first line of its content.
const STORE: (&str, &str) = ("STORE", "orlop store");
/// Files and directories of a server apart from those of the store ([`ENTRIES`]), which may exist before the store or without one.
const OF_SERVERS: [&str; 7] =
    ["lost+found", "pki", "admin.kubeconfig", "audit.log", "snapshots", "node", "virtual-nodes"];
const ROOT: u32 = 0;
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
        "{path} belongs to the user with the ID {owner}, and that user can read and replace the files in it: set {flag} to a new \
         directory, which the server creates. Only if you put all of its files there yourself, run `chown -R {user} {path}` instead",
         path = path.display()
    )]
    OtherOwner { flag: &'static str, path: PathBuf, owner: u32, user: u32 },
    /// The mode cannot be changed.
    #[error("the mode of {path} cannot be changed: {error}; run `chmod -R go= {path}`", path = path.display())]
    Mode { path: PathBuf, error: io::Error },
}

/// The default directory: the system's for root, else the user's.
pub(crate) fn default(
    is_root: bool,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<PathBuf, DataDirError> {
    orlop_cli::data_dir::default(is_root, variable).ok_or(DataDirError::NoHome)
}

/// Creates the given directory or the default one, and returns its path. Restricts the modes of an existing directory of this user and
/// of the files in it.
pub(crate) fn prepare(given: Option<&Path>) -> Result<PathBuf, DataDirError> {
    let path = match given {
        Some(path) => path.to_owned(),
        None => default(rustix::process::geteuid().is_root(), |name| std::env::var_os(name))?,
    };
    match std::fs::metadata(&path) {
        Ok(found) if !found.is_dir() => return Err(DataDirError::NoDirectory { path }),
        Ok(_) => {}
        Err(_) => create(&path).map_err(|error| DataDirError::Create { path: path.clone(), error })?,
    }
    // After the creation, because another user may have created the directory in the meantime.
    check_owner("--data-dir", &path)?;
    if is_own(&path).map_err(|error| DataDirError::Mode { path: path.clone(), error })? {
        restrict(&path)?;
    }
    Ok(path)
}

/// Creates a directory, and its missing parents, for this user only.
pub(crate) fn create(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIRECTORY).create(path)
}

/// Refuses a directory, or a link to one, of another user. Root may own a link: systemd creates one for `DynamicUser=`.
pub(crate) fn check_owner(flag: &'static str, path: &Path) -> Result<(), DataDirError> {
    let user = rustix::process::geteuid().as_raw();
    let other = |owner| DataDirError::OtherOwner { flag, path: path.to_owned(), owner, user };
    // A trailing slash would follow the link.
    let link: PathBuf = path.components().collect();
    if let Ok(found) = std::fs::symlink_metadata(link)
        && found.is_symlink()
        && found.uid() != user
        && found.uid() != ROOT
    {
        return Err(other(found.uid()));
    }
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() && found.uid() != user => Err(other(found.uid())),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Whether a directory is one of this server: the modes of other files must stay, for example if `--data-dir` is `/etc` by mistake.
fn is_own(dir: &Path) -> io::Result<bool> {
    let (name, first_line) = STORE;
    let marker = dir.join(name);
    let has_marker =
        std::fs::symlink_metadata(&marker).is_ok_and(|found| found.is_file() && found.len() < 4096);
    if has_marker && input_file::read(&marker, 4096)?.starts_with(first_line.as_bytes()) {
        return Ok(true);
    }
    for entry in std::fs::read_dir(dir)? {
        let name = entry?.file_name();
        if !OF_SERVERS.iter().chain(&ENTRIES).any(|own| name == *own) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The restricted form of a mode; `None` if the mode is restricted already. Pure.
fn restricted(mode: u32) -> Option<u32> {
    let mode = mode & 0o7777;
    (mode & OTHERS != 0).then_some(mode & !OTHERS)
}

fn restrict(path: &Path) -> Result<(), DataDirError> {
    let failed = |error| DataDirError::Mode { path: path.to_owned(), error };
    let found = std::fs::metadata(path).map_err(failed)?;
    if let Some(mode) = restricted(found.mode()) {
        // Before the files below: no other user can replace them afterwards.
        std::fs::set_permissions(path, Permissions::from_mode(mode)).map_err(failed)?;
        tracing::warn!(
            "other users could read the data directory {} (mode {:o}); its mode is {mode:o} now, and that of its files is \
             restricted too",
            path.display(),
            found.mode() & 0o7777
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
        let found = match std::fs::symlink_metadata(&path) {
            Ok(found) => found,
            // A running server may have removed the file.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(failed(&path)(error)),
        };
        let is_of_nodes = depth == 0 && OF_NODES.iter().any(|name| entry.file_name() == *name);
        if is_of_nodes || !(found.is_dir() || found.is_file()) {
            continue;
        }
        if restricted(found.mode()).is_some() {
            restrict_entry(&path).map_err(failed(&path))?;
        }
        if found.is_dir() && depth < MAX_DEPTH {
            restrict_below(&path, depth + 1)?;
        }
    }
    Ok(())
}

/// Restricts a file or directory, but nothing that a link in its place points to.
fn restrict_entry(path: &Path) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        // Removed by a running server, or replaced by a link.
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::LOOP) => return Ok(()),
        Err(errno) => return Err(errno.into()),
    };
    match restricted(file.metadata()?.mode()) {
        Some(mode) => file.set_permissions(Permissions::from_mode(mode)),
        None => Ok(()),
    }
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
        std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
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
            (path.join("tool"), 0o4755),
            (path.join("node/pods/x"), 0o644),
            (outside.clone(), 0o644),
        ] {
            std::fs::write(&file, "orlop store\nformat 1\n").unwrap();
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
            ("tool", 0o4700),
            ("node/pods/x", 0o644),
            ("../outside", 0o644),
        ] {
            assert_eq!(mode(&path.join(name)), want, "{name}");
        }
    }

    #[test]
    fn files_of_other_programs_keep_their_modes() {
        for (case, file, text, is_own) in [
            ("1 another program", "hosts", "", false),
            ("2 a file with the name of the marker", "STORE", "x", false),
            ("3 a store", "STORE", "orlop store\n", true),
            ("4 a server with its objects in memory", "admin.kubeconfig", "", true),
        ] {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join(file), text).unwrap();
            set(&dir.path().join(file), 0o644);
            set(dir.path(), 0o755);
            prepare(Some(dir.path())).unwrap();
            let want = if is_own { (0o700, 0o600) } else { (0o755, 0o644) };
            assert_eq!((mode(dir.path()), mode(&dir.path().join(file))), want, "{case}");
        }
    }

    #[test]
    fn link_of_another_user_is_refused() {
        if !orlop_test_support::privileges::has_root("a link of another user") {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let (target, link) = (dir.path().join("target"), dir.path().join("link"));
        std::fs::create_dir(&target).unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        prepare(Some(&link)).unwrap();
        std::os::unix::fs::lchown(&link, Some(65_534), None).unwrap();
        for path in [link.clone(), link.join("")] {
            assert!(matches!(prepare(Some(&path)), Err(DataDirError::OtherOwner { .. })), "{path:?}");
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
            (0o4755, Some(0o4700)),
            (0o2770, Some(0o2700)),
        ] {
            assert_eq!(restricted(before), want, "{before:o}");
        }
    }

    #[test]
    fn directory_of_another_user_is_refused() {
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
        // The files in it may be those of that user.
        assert!(error.to_string().contains("set --data-dir to a new directory"), "{error}");
    }

    #[test]
    fn file_is_not_a_data_directory() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(matches!(prepare(Some(file.path())), Err(DataDirError::NoDirectory { .. })));
        let below = file.path().join("x");
        assert!(matches!(prepare(Some(&below)), Err(DataDirError::Create { .. })));
    }
}
