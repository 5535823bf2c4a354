//! The messages between the agent, the supervisor and the container. Orders are sent through pipes, because the
//! environment of a container may contain secrets; the records on disk ([`RunRecord`]) contain none.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::process_id::ProcessId;

/// The order for a process that was started in the hidden mode.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum LaunchOrder {
    /// Start a container, write its logs, record its exit.
    Supervise(Box<Container>),
    /// Execute the program of a container.
    Enter(Box<Container>),
    /// Execute a program in a running container.
    Join(Box<Join>),
}

/// A container as a process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Container {
    /// How this binary is started in its hidden mode.
    pub(crate) launcher: Vec<String>,
    /// The directory of its run records.
    pub(crate) dir: PathBuf,
    /// The number of earlier runs.
    pub(crate) restart: u32,
    /// The directory of its logs.
    pub(crate) logs: PathBuf,
    /// A log is rotated at this size, in bytes.
    pub(crate) log_bytes: u64,
    /// The maximum number of files of a log.
    pub(crate) log_files: u32,
    /// The directory of the agent: mounts of other pods below it are removed from the container's mount namespace.
    pub(crate) agent_root: PathBuf,
    /// The root directory; `None` for that of the machine.
    pub(crate) image: Option<PathBuf>,
    /// Whether the root file system is read-only.
    pub(crate) read_only_root: bool,
    /// Mounted volumes.
    pub(crate) mounts: Vec<MountPlan>,
    /// The program and its identity.
    pub(crate) program: Program,
    /// The path of its termination message.
    pub(crate) message_path: String,
    /// When it fails without a message, the end of its log is the message.
    pub(crate) log_as_message: bool,
    /// The parent of its cgroup.
    pub(crate) cgroup: Option<PathBuf>,
}

/// A program and its identity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Program {
    /// The program and its arguments.
    pub(crate) args: Vec<String>,
    /// The complete environment.
    pub(crate) env: Vec<(String, String)>,
    /// The working directory.
    pub(crate) working_dir: String,
    /// The user ID; `None` for that of the agent.
    pub(crate) user: Option<u32>,
    /// The group ID; `None` for that of the user.
    pub(crate) group: Option<u32>,
    /// Supplementary groups.
    pub(crate) groups: Vec<u32>,
    /// Ignore the groups of the container's own `/etc/group`.
    pub(crate) strict_groups: bool,
    /// Refuse to run as root.
    pub(crate) not_root: bool,
    /// Set `no_new_privs`.
    pub(crate) no_new_privileges: bool,
}

/// A volume mount of a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MountPlan {
    /// The path of the volume on this machine.
    pub(crate) volume: PathBuf,
    /// A path inside the volume.
    pub(crate) sub_path: Option<PathBuf>,
    /// The mount point in the container.
    pub(crate) at: PathBuf,
    /// Whether the mount is read-only.
    pub(crate) read_only: bool,
    /// Whether mounts below it are read-only too.
    pub(crate) read_only_below: bool,
    /// The propagation of later mounts.
    pub(crate) propagation: Propagation,
}

/// The propagation of mounts that are made later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Propagation {
    /// None.
    None,
    /// From the machine to the container.
    HostToContainer,
    /// In both directions.
    Bidirectional,
}

/// A program that joins a running container.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Join {
    /// The container's first process.
    pub(crate) main: ProcessId,
    /// The container's cgroup.
    pub(crate) cgroup: Option<PathBuf>,
    /// The program.
    pub(crate) program: Program,
}

/// The record of one container run on disk: `<restart>.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunRecord {
    /// The process that writes the record.
    pub(crate) supervisor: ProcessId,
    /// The container's first process; `None` before its start.
    pub(crate) main: Option<ProcessId>,
    /// The cgroup of all its processes.
    pub(crate) cgroup: Option<PathBuf>,
    /// When its program was started; `None` before.
    pub(crate) started_at: Option<Timestamp>,
    /// How the run ended; `None` before.
    pub(crate) end: Option<RunEnd>,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunEnd {
    /// The exit code; 128 plus the signal number after a signal.
    pub(crate) code: i32,
    /// `Completed`, `Error`, `StartError`, `ContainerStatusUnknown`.
    pub(crate) reason: String,
    /// The termination message, or why the container could not be started.
    pub(crate) message: String,
    /// The time of the exit.
    pub(crate) at: Timestamp,
}

/// The record file of a run.
pub(crate) fn attempt_file(dir: &Path, restart: u32) -> PathBuf {
    dir.join(format!("{restart}.json"))
}

/// The file of the termination message of a run.
pub(crate) fn message_file(dir: &Path, restart: u32) -> PathBuf {
    dir.join(format!("{restart}.message"))
}
