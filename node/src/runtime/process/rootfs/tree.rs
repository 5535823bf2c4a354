//! Detached mount trees, which are attached elsewhere by file descriptor.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};

/// Why the root file system of a container cannot be set up.
pub(in crate::runtime::process) type RootfsError = String;

/// Adds the failed operation to an error.
pub(super) fn at<T>(what: impl std::fmt::Display, result: rustix::io::Result<T>) -> Result<T, RootfsError> {
    result.map_err(|error| format!("{what}: {}", io::Error::from(error)))
}

/// The `/proc` path of an open file, even if the file is a link.
pub(super) fn magic(fd: &OwnedFd) -> String {
    use std::os::fd::AsRawFd as _;
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// Clones a mount tree, detached.
pub(super) fn detached(fd: impl AsFd, path: &str) -> rustix::io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    open_tree(fd, path, flags)
}

pub(super) fn attach(tree: &OwnedFd, target: &OwnedFd) -> rustix::io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(tree, "", target, "", flags)
}
