//! Bind mounts of tests, which require root.

use std::path::{Path, PathBuf};

/// A bind mount, unmounted on drop.
pub struct BindMount(PathBuf);

impl BindMount {
    /// Mounts `source` at `target`; both exist.
    ///
    /// # Panics
    /// It cannot be mounted.
    pub fn new(source: &Path, target: &Path) -> Self {
        rustix::mount::mount_bind(source, target).unwrap();
        Self(target.to_owned())
    }
}

impl Drop for BindMount {
    fn drop(&mut self) {
        let flags = rustix::mount::UnmountFlags::DETACH | rustix::mount::UnmountFlags::NOFOLLOW;
        let _ = rustix::mount::unmount(&self.0, flags);
    }
}
