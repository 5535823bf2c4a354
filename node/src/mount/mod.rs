//! Mounts of this machine, behind a trait: Linux, or a record of what would have been mounted (virtual nodes, tests). Calls block,
//! some for ever (a server that is gone); [`Mounts`] runs each in a worker of its queue with a deadline.

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

use crate::rooted_fs::RootedFsError;

/// What is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A directory or file that is there already is shown at another place.
    Bind(PathBuf),
    /// A file system: `mount -t <fs_type> -o <options> <source> <target>`.
    FileSystem {
        /// `nfs`, `ext4`.
        fs_type: String,
        /// `server:/path`, `/dev/loop3`.
        source: String,
    },
    /// Memory, at most this many bytes; none for the kernel's default.
    Memory {
        /// Its size.
        bytes: Option<u64>,
    },
}

/// A mount to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// What.
    pub origin: Origin,
    /// Where: a directory (or file, for a file that is bound) that exists.
    pub target: PathBuf,
    /// Mount options, each one word: `ro`, `nfsvers=4.2`.
    pub options: Vec<String>,
    /// Nothing can be written through it.
    pub read_only: bool,
}

/// How hard a mount is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    /// Busy is an error.
    No,
    /// `umount -f`: what hangs on a server that is gone is broken off.
    Yes,
}

/// A line of the table of mounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountPoint {
    /// Where.
    pub target: PathBuf,
    /// The part of the file system that is seen there.
    pub root: PathBuf,
    /// Type of the file system.
    pub fs_type: String,
    /// What it comes from, as the kernel tells it.
    pub source: String,
    /// Options of mount and file system.
    pub options: Vec<String>,
    /// Device number of the file system, major and minor.
    pub device: (u32, u32),
}

/// A mount or unmount failed, or was not done in time.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The kernel or the mount helper refused.
    #[error("{what}: {why}")]
    Refused {
        /// What was tried, with source and target.
        what: String,
        /// Output of the helper, or the system's error in words.
        why: String,
        /// The system's error, when it was a system call.
        #[source]
        source: Option<std::io::Error>,
    },
    /// Something uses it.
    #[error("{} is busy: {by}", target.display())]
    Busy {
        /// What should have been unmounted.
        target: PathBuf,
        /// Who has it open, in words, as far as that is known.
        by: String,
    },
    /// It has not ended in time; it goes on in its worker, which takes nothing else until it ends.
    #[error("{what}: no answer for {seconds} s; it is still being tried")]
    Hangs {
        /// What was tried.
        what: String,
        /// The deadline.
        seconds: u64,
    },
    /// A path leads through a link, or out of the directory that it has to be in.
    #[error("{}: {why}", path.display())]
    Unsafe {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

impl MountError {
    /// Whether it may still happen, or may have happened.
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

/// What mounts. Calls block.
pub trait Mounter: Send + Sync + 'static {
    /// Makes a mount. The target is opened without following links.
    ///
    /// # Errors
    /// Nothing is mounted then.
    fn mount(&self, mount: &Mount) -> Result<(), MountError>;

    /// Takes the topmost mount at a path away. No mount there is no error.
    ///
    /// # Errors
    /// It is still mounted then.
    fn unmount(&self, target: &Path, force: Force) -> Result<(), MountError>;

    /// Everything that is mounted, in the order of the table.
    ///
    /// # Errors
    /// The table cannot be read.
    fn points(&self) -> Result<Vec<MountPoint>, MountError>;

    /// A directory was renamed that may have mounts below: the kernel does not tell that the table shows them elsewhere now.
    fn renamed(&self) {}

    /// Tells when the table changes, whoever changes it.
    ///
    /// # Errors
    /// The system does not say.
    fn changes(&self) -> Result<Changes, MountError> {
        Ok(Changes::never())
    }
}
