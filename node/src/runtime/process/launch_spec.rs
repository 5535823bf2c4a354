//! What the agent, the supervisor and the container tell each other. Orders go through pipes, because the environment of a container may
//! hold secrets; what is on disk ([`RunRecord`]) holds none.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::process_id::ProcessId;

/// What a process that was started in the hidden mode is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum LaunchOrder {
    /// Start a container, keep its output, write down its end.
    Supervise(Box<Container>),
    /// Become the container.
    Enter(Box<Container>),
    /// Become a program in a container that runs.
    Join(Box<Join>),
}

/// A container as a process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Container {
    /// How this binary is started in its hidden mode.
    pub(crate) launcher: Vec<String>,
    /// Where its attempts are written down.
    pub(crate) dir: PathBuf,
    /// How often it was started before.
    pub(crate) restart: u32,
    /// Where its logs are.
    pub(crate) logs: PathBuf,
    /// A log is rotated when it is as long as this, in bytes.
    pub(crate) log_bytes: u64,
    /// Files of a log that are kept.
    pub(crate) log_files: u32,
    /// The directory of the agent: other pods' mounts below it are taken out of the container's view.
    pub(crate) agent_root: PathBuf,
    /// The root directory; none for that of the machine.
    pub(crate) image: Option<PathBuf>,
    /// The root cannot be written.
    pub(crate) read_only_root: bool,
    /// Volumes.
    pub(crate) mounts: Vec<MountPlan>,
    /// Who it is and what it runs.
    pub(crate) program: Program,
    /// Where it may leave a message.
    pub(crate) message_path: String,
    /// When it fails without a message, the end of its log is one.
    pub(crate) log_as_message: bool,
    /// Below this cgroup it has its own.
    pub(crate) cgroup: Option<PathBuf>,
}

/// A program with its identity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Program {
    /// The program and its arguments.
    pub(crate) args: Vec<String>,
    /// All of its environment.
    pub(crate) env: Vec<(String, String)>,
    /// Where it is started.
    pub(crate) working_dir: String,
    /// Its user; none for that of the agent.
    pub(crate) user: Option<u32>,
    /// Its group; none for that of the user.
    pub(crate) group: Option<u32>,
    /// Further groups.
    pub(crate) groups: Vec<u32>,
    /// Those of the container's own `/etc/group` do not count.
    pub(crate) strict_groups: bool,
    /// It must not be root.
    pub(crate) not_root: bool,
    /// It cannot get more rights than it has.
    pub(crate) no_new_privileges: bool,
}

/// A volume in a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MountPlan {
    /// The volume on this machine.
    pub(crate) volume: PathBuf,
    /// A part of it.
    pub(crate) sub_path: Option<PathBuf>,
    /// Where it is seen.
    pub(crate) at: PathBuf,
    /// Nothing can be written through it.
    pub(crate) read_only: bool,
    /// Nor through what is mounted in it.
    pub(crate) read_only_below: bool,
    /// How later mounts are seen.
    pub(crate) propagation: Propagation,
}

/// How mounts that are made later are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Propagation {
    /// Not at all.
    None,
    /// Those of the machine in the container.
    HostToContainer,
    /// Both ways.
    Bidirectional,
}

/// A program in a container that runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Join {
    /// The container's first process.
    pub(crate) main: ProcessId,
    /// The container's cgroup.
    pub(crate) cgroup: Option<PathBuf>,
    /// What is run.
    pub(crate) program: Program,
}

/// One run of a container, as it is on disk: `<restart>.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunRecord {
    /// Who writes this.
    pub(crate) supervisor: ProcessId,
    /// The container's first process, once there is one.
    pub(crate) main: Option<ProcessId>,
    /// All its processes are in it.
    pub(crate) cgroup: Option<PathBuf>,
    /// When its program was started; none before.
    pub(crate) started_at: Option<Timestamp>,
    /// Its end.
    pub(crate) end: Option<RunEnd>,
}

/// The end of a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunEnd {
    /// Exit code; 128 and the number of a signal.
    pub(crate) code: i32,
    /// `Completed`, `Error`, `StartError`, `ContainerStatusUnknown`.
    pub(crate) reason: String,
    /// What it left as its message, or why it could not be started.
    pub(crate) message: String,
    /// When.
    pub(crate) at: Timestamp,
}

/// The file of an attempt.
pub(crate) fn attempt_file(dir: &Path, restart: u32) -> PathBuf {
    dir.join(format!("{restart}.json"))
}

/// The file of an attempt's message.
pub(crate) fn message_file(dir: &Path, restart: u32) -> PathBuf {
    dir.join(format!("{restart}.message"))
}
