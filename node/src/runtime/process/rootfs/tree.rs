//! Mount trees that are taken out of their place and attached at another, by file descriptors.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};

/// Why a container cannot see what it should.
pub(in crate::runtime::process) type RootfsError = String;

/// Says what was tried beside why it failed.
pub(super) fn at<T>(what: impl std::fmt::Display, result: rustix::io::Result<T>) -> Result<T, RootfsError> {
    result.map_err(|error| format!("{what}: {}", io::Error::from(error)))
}

/// The path of something that is open, also when that is a link.
pub(super) fn magic(fd: &OwnedFd) -> String {
    use std::os::fd::AsRawFd as _;
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// A tree of mounts, taken out of where it is.
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
