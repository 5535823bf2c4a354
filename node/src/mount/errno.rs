//! Kernel errors as [`MountError`], with remedies.

use rustix::io::Errno;

use super::MountError;

/// A system call that failed.
pub(super) fn failed(what: &str, why: &str, errno: Errno) -> MountError {
    let hint = match errno {
        Errno::PERM => "; the agent needs root (CAP_SYS_ADMIN)",
        Errno::NOSYS => "; Linux 5.3 or newer is needed",
        Errno::NODEV => "; the kernel has no such file system",
        Errno::NOSPC => "; there are too many mounts (sysctl fs.mount-max)",
        Errno::NOTDIR => "; only a directory can be mounted on a directory, and only a file on a file",
        _ => "",
    };
    MountError::Refused {
        what: what.to_owned(),
        why: format!("{why}: {errno}{hint}"),
        source: Some(errno.into()),
    }
}

/// Any other error of the operating system.
pub(super) fn other(what: &str, error: std::io::Error) -> MountError {
    MountError::Refused { what: what.to_owned(), why: error.to_string(), source: Some(error) }
}
