//! The directories of this machine in which the operator allows orlop to erase files and to change their owner
//! (`--host-path-roots`). By default there is none: a PersistentVolume may name any path, so without this
//! restriction its author would decide which files root deletes.

use std::path::{Component, Path, PathBuf};

use crate::file_location::{FileIds, FileLocation, MountTable};

/// The allowed directories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostPathRoots {
    roots: Vec<PathBuf>,
    /// Directories of orlop itself, with resolved links. Nothing in or around them is allowed.
    protected: Vec<PathBuf>,
}

impl HostPathRoots {
    /// Allows these directories.
    ///
    /// # Errors
    /// One of them is not an absolute path of plain names, or is `/`.
    pub fn new(roots: impl IntoIterator<Item = PathBuf>) -> Result<Self, String> {
        let checked = roots.into_iter().map(|root| match plain(&root) {
            Some(plain) if plain != Path::new("/") => Ok(plain),
            Some(_) | None => {
                Err(format!("{} must be an absolute path below / without `..`", root.display()))
            }
        });
        let roots = checked.collect::<Result<_, _>>()?;
        Ok(Self { roots, protected: Vec::new() })
    }

    /// Allows another directory.
    #[must_use]
    pub fn with(mut self, root: PathBuf) -> Self {
        self.roots.push(root);
        self
    }

    /// Excludes the data directory and other directories of orlop itself: a volume may name them, too.
    #[must_use]
    pub fn protecting(mut self, own: &[PathBuf]) -> Self {
        self.protected.extend(own.iter().map(|dir| resolved(dir)));
        self
    }

    /// The allowed directory that contains a path; not the path itself. Reads the file system.
    pub fn containing(&self, path: &Path) -> Option<&Path> {
        let path = plain(path)?;
        let root = self.roots.iter().find(|root| path.starts_with(root) && path != **root)?;
        (!self.protects(&path)).then_some(root)
    }

    /// Whether a path is that of a protected directory, or of a directory in or around one. Reads the file system.
    pub fn protects(&self, path: &Path) -> bool {
        let real = resolved(path);
        self.protected.iter().any(|own| real.starts_with(own) || own.starts_with(&real))
            || self.is_mounted_own(&real)
    }

    /// Whether a bind mount leads from this path to a protected directory, or to a directory in or around one.
    fn is_mounted_own(&self, real: &Path) -> bool {
        if self.protected.is_empty() {
            return false;
        }
        let mounts = MountTable::read();
        let location = FileLocation::of(real, &mounts);
        self.protected.iter().any(|own| FileLocation::of(own, &mounts).overlaps(&location))
    }

    /// The protected directories that exist, whatever their path. Reads the file system.
    pub fn protected_ids(&self) -> FileIds {
        let none = MountTable::default();
        self.protected.iter().filter_map(|own| FileLocation::of(own, &none).id()).collect()
    }
}

impl FromIterator<HostPathRoots> for HostPathRoots {
    fn from_iter<T: IntoIterator<Item = HostPathRoots>>(parts: T) -> Self {
        parts.into_iter().fold(Self::default(), |mut all, part| {
            all.roots.extend(part.roots);
            all.protected.extend(part.protected);
            all
        })
    }
}

/// The path with its links resolved, as far as it exists.
fn resolved(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let existing = path.ancestors().find_map(|dir| {
        let real = dir.canonicalize().ok()?;
        Some(real.join(path.strip_prefix(dir).ok()?))
    });
    existing.unwrap_or(path)
}

/// An absolute path without `.`, `..` and empty components.
fn plain(path: &Path) -> Option<PathBuf> {
    let is_plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
    (path.is_absolute() && path.components().all(is_plain)).then(|| path.components().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_below_a_root_are_allowed() {
        let roots = HostPathRoots::new(["/srv/volumes/".into(), "/mnt//disks".into()]);
        let roots = roots.expect("both are plain");
        for (path, root) in [
            ("/srv/volumes/a", Some("/srv/volumes")),
            ("/srv/volumes//a/./b/", Some("/srv/volumes")),
            ("/mnt/disks/a", Some("/mnt/disks")),
            ("/srv/volumes", None),
            ("/srv/volumes/.", None),
            ("/srv/volumes-2/a", None),
            ("/srv/volumes/../a", None),
            ("/srv/volumes/a/..", None),
            ("srv/volumes/a", None),
            ("/", None),
            ("", None),
        ] {
            assert_eq!(roots.containing(Path::new(path)), root.map(Path::new), "{path}");
        }
        assert_eq!(HostPathRoots::default().containing(Path::new("/a")), None);
        for root in ["/", "", "a", "/a/../b"] {
            assert!(HostPathRoots::new([root.into()]).is_err(), "{root}");
        }
    }

    #[test]
    fn directories_of_orlop_are_never_allowed() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path().canonicalize().expect("it exists");
        std::fs::create_dir_all(root.join("a/data/journal")).expect("it is ours");
        std::fs::create_dir_all(root.join("a/data-2")).expect("it is ours");
        std::os::unix::fs::symlink("a", root.join("link")).expect("it is ours");
        let roots = HostPathRoots::new([root.clone()]).expect("it is plain");
        let roots = roots.protecting(&[root.join("link/data"), root.join("future/node")]);
        for (path, is_allowed) in [
            ("a", false),
            ("a/data", false),
            ("a/data/journal", false),
            ("link/data/journal", false),
            ("future", false),
            ("future/node/pods", false),
            ("a/data-2", true),
            ("a/other", true),
            ("b", true),
        ] {
            assert_eq!(roots.containing(&root.join(path)).is_some(), is_allowed, "{path}");
        }
    }

    #[test]
    fn bind_mounts_of_directories_of_orlop_are_never_allowed() {
        if !orlop_test_support::privileges::has_root("a data directory that is a bind mount") {
            return;
        }
        let dir = tempfile::tempdir().expect("a directory");
        let top = dir.path().canonicalize().expect("it exists");
        for name in ["roots/a/data/journal", "roots/a/data-2", "own"] {
            std::fs::create_dir_all(top.join(name)).expect("it is ours");
        }
        let roots =
            HostPathRoots::new([top.join("roots")]).expect("it is plain").protecting(&[top.join("own")]);
        let table = [
            ("a", false),
            ("a/data", false),
            ("a/data/journal", false),
            ("a/data/new", false),
            ("a/data-2", true),
        ];
        let mounted =
            orlop_test_support::bind_mount::BindMount::new(&top.join("roots/a/data"), &top.join("own"));
        for (path, is_allowed) in table {
            assert_eq!(roots.containing(&top.join("roots").join(path)).is_some(), is_allowed, "{path}");
        }
        drop(mounted);
        for (path, _) in table {
            assert!(roots.containing(&top.join("roots").join(path)).is_some(), "{path}, without the mount");
        }
    }
}
