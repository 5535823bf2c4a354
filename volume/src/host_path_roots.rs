//! The directories of this machine in which the operator allows orlop to erase files and to change their owner
//! (`--host-path-roots`). By default there is none: a PersistentVolume may name any path, so without this
//! restriction its author would decide which files root deletes.

use std::path::{Component, Path, PathBuf};

/// The allowed directories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostPathRoots(Vec<PathBuf>);

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
        checked.collect::<Result<_, _>>().map(Self)
    }

    /// Allows another directory.
    #[must_use]
    pub fn with(mut self, root: PathBuf) -> Self {
        self.0.push(root);
        self
    }

    /// The allowed directory that contains a path; not the path itself.
    pub fn containing(&self, path: &Path) -> Option<&Path> {
        let path = plain(path)?;
        let root = self.0.iter().find(|root| path.starts_with(root) && path != **root)?;
        Some(root)
    }
}

impl FromIterator<HostPathRoots> for HostPathRoots {
    fn from_iter<T: IntoIterator<Item = HostPathRoots>>(parts: T) -> Self {
        Self(parts.into_iter().flat_map(|part| part.0).collect())
    }
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
}
