//! Paths that name an opened file, for system calls and programs that take names.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// A name for what is opened, for calls that take names.
pub(crate) fn name_of(fd: impl AsFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd()))
}

/// A name for an entry of an opened directory.
pub(super) fn below(dir: impl AsFd, name: &OsStr) -> PathBuf {
    let mut path = OsString::from(name_of(dir));
    path.push("/");
    path.push(OsStr::from_bytes(name.as_bytes()));
    PathBuf::from(path)
}
