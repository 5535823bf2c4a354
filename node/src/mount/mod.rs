//! Mounts of this machine, behind a trait: on Linux, or only recorded (virtual nodes, tests). Calls block, some
//! forever (an unreachable server); [`Mounts`] runs each in a worker of its queue with a deadline.

use std::path::{Path, PathBuf};

mod call_queue;
pub mod device;
mod errno;
mod fd_path;
mod linux;
mod mount_users;
pub mod options;
pub(crate) mod programs;
mod record;
mod staging_dir;
pub(crate) mod table;
mod watch;

pub use call_queue::Mounts;
pub(crate) use fd_path::name_of;
pub use linux::LinuxMounter;
pub use programs::Programs;
pub use record::{RecordingMounter, Release};
pub use watch::Changes;

use orlop_volume::rooted_fs::RootedFsError;

/// The source of a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// An existing directory or file, bound to another path.
    Bind(PathBuf),
    /// A file system: `mount -t <fs_type> -o <options> <source> <target>`.
    FileSystem {
        /// The type: `nfs`, `ext4`.
        fs_type: String,
        /// The source: `server:/path`, `/dev/loop3`.
        source: String,
    },
    /// A tmpfs of at most this many bytes; none for the kernel's default.
    Memory {
        /// The size.
        bytes: Option<u64>,
    },
}

/// A mount to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The source.
    pub origin: Origin,
    /// The target: an existing directory (or a file, to bind a file).
    pub target: PathBuf,
    /// Mount options, one per element: `ro`, `nfsvers=4.2`.
    pub options: Vec<String>,
    /// Mounts read-only.
    pub read_only: bool,
}

/// Whether to force an unmount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    /// A busy mount is an error.
    No,
    /// `umount -f`: aborts requests to an unreachable server.
    Yes,
}

/// An entry of the mount table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountPoint {
    /// The mount point.
    pub target: PathBuf,
    /// The directory of the file system that is mounted there.
    pub root: PathBuf,
    /// The type of the file system.
    pub fs_type: String,
    /// The source, as the kernel reports it.
    pub source: String,
    /// Options of the mount and of the file system.
    pub options: Vec<String>,
    /// Device number of the file system: major and minor.
    pub device: (u32, u32),
}

/// Why a mount or unmount failed, or did not return in time.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The kernel or the mount helper refused.
    #[error("{what}: {why}")]
    Refused {
        /// The operation, with source and target.
        what: String,
        /// The output of the helper, or the text of the system's error.
        why: String,
        /// The error of the failed system call, if there was one.
        #[source]
        source: Option<std::io::Error>,
    },
    /// The mount is in use.
    #[error("{} is busy: {by}", target.display())]
    Busy {
        /// The target of the unmount.
        target: PathBuf,
        /// The known users of the mount, as text.
        by: String,
    },
    /// The call did not return in time; it continues in its worker, which accepts no other call until then.
    #[error("{what}: no answer for {seconds} s; it is still being tried")]
    Hangs {
        /// The operation.
        what: String,
        /// The deadline.
        seconds: u64,
    },
    /// A path contains a symbolic link, or leads out of its directory.
    #[error("{}: {why}", path.display())]
    Unsafe {
        /// The path.
        path: PathBuf,
        /// The fault of the path.
        why: String,
    },
}

impl MountError {
    /// Whether the operation may have succeeded, or may still succeed.
    pub fn is_uncertain(&self) -> bool {
        match self {
            Self::Hangs { .. } => true,
            Self::Refused { .. } | Self::Busy { .. } | Self::Unsafe { .. } => false,
        }
    }
}

impl From<RootedFsError> for MountError {
    fn from(error: RootedFsError) -> Self {
        match error {
            RootedFsError::Missing { path } => Self::Refused {
                what: path.display().to_string(),
                why: "it does not exist".to_owned(),
                source: Some(std::io::ErrorKind::NotFound.into()),
            },
            RootedFsError::Unsafe { path, why } => Self::Unsafe { path, why },
            RootedFsError::Refused { path, why, source } => {
                Self::Refused { what: path.display().to_string(), why, source: Some(source) }
            }
        }
    }
}

/// The interface to mount and unmount. Calls block.
pub trait Mounter: Send + Sync + 'static {
    /// Mounts a file system. The target is opened without following symbolic links.
    ///
    /// # Errors
    /// Nothing is mounted in this case.
    fn mount(&self, mount: &Mount) -> Result<(), MountError>;

    /// Unmounts the topmost mount at a path. A path without a mount is no error.
    ///
    /// # Errors
    /// It is still mounted in this case.
    fn unmount(&self, target: &Path, force: Force) -> Result<(), MountError>;

    /// All mounts, in the order of the mount table.
    ///
    /// # Errors
    /// The table cannot be read.
    fn points(&self) -> Result<Vec<MountPoint>, MountError>;

    /// Must be called after a directory that may contain mounts was renamed: the kernel does not report that their
    /// paths changed.
    fn renamed(&self) {}

    /// Reports changes of the mount table, including those by other processes.
    ///
    /// # Errors
    /// The system does not report them.
    fn changes(&self) -> Result<Changes, MountError> {
        Ok(Changes::never())
    }
}
