//! /proc paths of open files, for system calls and programs that accept only paths.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The path of an open file, for calls that accept only paths.
pub(crate) fn name_of(fd: impl AsFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd()))
}

/// The path of an entry of an open directory.
pub(super) fn below(dir: impl AsFd, name: &OsStr) -> PathBuf {
    let mut path = OsString::from(name_of(dir));
    path.push("/");
    path.push(OsStr::from_bytes(name.as_bytes()));
    PathBuf::from(path)
}
