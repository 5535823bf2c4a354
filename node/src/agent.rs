//! Starts the parts of the agent and stops them. A lock limits each directory to one agent. No part waits for the
//! API server: an agent that starts while the server is away continues from the state on disk, and processes pods
//! as soon as the watch delivers them.
//!
//! On shutdown all waits are cancelled, running volume operations finish, and pending events are written. Mounts
//! and containers stay; the next agent finds them.

use std::fs::{DirBuilder, File, Permissions};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::CSIDriver;
use kube::Client;
use kube::api::{Patch, PatchParams};
use orlop_apimachinery::clock::{Backoff, Clock};
use orlop_client::api::Api;
use orlop_client::client::Lines;
use orlop_client::informer::Informer;
use orlop_client::names::{ANN_LOG_ADDRESS, ANN_LOG_KEY};
use orlop_client::recorder::EventSink;
use orlop_csi::drivers::Drivers;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::agent_dir::{self, ForeignEntry};
use crate::config::{NodeConfig, RuntimeKind};
use crate::csi_drivers;
use crate::fs_group::applier::{FsGroupApplier, NoFsGroup};
use crate::host::Host;
use crate::lock;
use crate::mount::{LinuxMounter, MountError, Mounter, Mounts, RecordingMounter};
use crate::node_status;
use crate::paths::Paths;
use crate::plugin::csi::{CALL_TIMEOUT, CsiPlugin, DriverRegistry};
use crate::plugin::empty_dir::EmptyDirPlugin;
use crate::plugin::files::{Changes, Files};
use crate::plugin::host_path::HostPathPlugin;
use crate::plugin::iscsi::IscsiPlugin;
use crate::plugin::local::LocalPlugin;
use crate::plugin::nfs::NfsPlugin;
use crate::plugin::{Plugin, Plugins};
use crate::pods;
use crate::runtime::Runtime;
use crate::runtime::hooks::Hooks;
use crate::runtime::logs::{LogConfig, LogServer, LogServerError};
use crate::runtime::none::NoRuntime;
use crate::runtime::process::{ProcessConfig, ProcessRuntime};
use crate::volumes::{ReconstructError, VolumeOwnership, Volumes};

/// The mode of the agent's directory: the kubelet's.
const DIRECTORY_MODE: u32 = 0o750;
/// How long shutdown waits for running volume operations. The next agent finds the operations that take longer.
const LAST_WAIT: Duration = Duration::from_secs(10);

/// Why the agent cannot start or work.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The directory cannot be used.
    #[error("the directory {} of the agent cannot be used: {why}", dir.display())]
    Directory {
        /// `--root-dir`.
        dir: PathBuf,
        /// The error.
        why: io::Error,
    },
    /// Another user owns the directory.
    #[error(
        "the directory {dir} of the agent belongs to the user with the ID {owner} and not to this user (ID {user}). That user can read the \
         Secrets of pods: set --root-dir to a new directory, which the agent creates", dir = dir.display()
    )]
    OtherOwner {
        /// `--root-dir`.
        dir: PathBuf,
        /// Its owner.
        owner: u32,
        /// The user of this process.
        user: u32,
    },
    /// Another user controls an entry of the directory.
    #[error(
        "{path} (owner {owner}, mode {mode:o}) in the directory of the agent is controlled by another user, who could register drivers and \
         read the files of pods: check and remove it, or set --root-dir to a new directory", path = path.display()
    )]
    ForeignEntry {
        /// The entry.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// Its mode.
        mode: u32,
    },
    /// Other users can enter the directory, and it is not known to be one of an agent.
    #[error(
        "other users can enter the directory {dir} (mode {mode:o}), and it contains files that no agent created: set --root-dir to a new \
         directory, or run `chmod o= {dir}` if only the agent uses it", dir = dir.display()
    )]
    NotPrivate {
        /// `--root-dir`.
        dir: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// Another agent uses the directory.
    #[error("another agent has the directory {}: stop it, or give this one another --root-dir", dir.display())]
    Taken {
        /// `--root-dir`.
        dir: PathBuf,
    },
    /// Mounting requires root.
    #[error("only root may mount: run the agent as root")]
    NotRoot,
    /// The mounts of an earlier agent cannot be determined.
    #[error(transparent)]
    Mounts(#[from] MountError),
    /// The same error, from a plugin.
    #[error(transparent)]
    Rebuild(#[from] ReconstructError),
    /// Container logs cannot be served.
    #[error(transparent)]
    Logs(#[from] LogServerError),
    /// The containers of an earlier agent cannot be determined.
    #[error("cannot determine the containers that run on this node: {0}")]
    Runtime(#[source] io::Error),
}

/// The inputs of [`Agent::start`].
pub struct Inputs {
    /// Settings.
    pub config: NodeConfig,
    /// Client of the API server.
    pub client: Client,
    /// The requests and watches of the client, to cancel them after the server was unreachable.
    pub lines: Lines,
    /// Host and port of the API server, used to detect the node's own address; none when the server runs in this
    /// process.
    pub server: Option<(String, u16)>,
}

/// A running agent, which owns its directory.
pub struct Agent {
    tasks: JoinSet<()>,
    volumes: Volumes,
    stop: CancellationToken,
    end_events: CancellationToken,
    events: tokio::task::JoinHandle<()>,
    _logs: Option<LogServer>,
    /// The lock is released no later than the end of the process.
    _lock: File,
}

/// Locks the directory for this process. Restricts the mode of an agent's directory, so that other users cannot enter it: it contains
/// Secrets of pods and the credentials of the node. Directories of other programs keep their modes.
async fn directory(dir: &Path) -> Result<(PathBuf, File), AgentError> {
    let failed = |why| AgentError::Directory { dir: dir.to_owned(), why };
    DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(dir).map_err(failed)?;
    let found = std::fs::metadata(dir).map_err(failed)?;
    let user = rustix::process::geteuid().as_raw();
    if found.uid() != user {
        return Err(AgentError::OtherOwner { dir: dir.to_owned(), owner: found.uid(), user });
    }
    if found.mode() & 0o777 & !DIRECTORY_MODE != 0 {
        if !agent_dir::is_own(dir).map_err(failed)? {
            return Err(AgentError::NotPrivate { dir: dir.to_owned(), mode: found.mode() & 0o7777 });
        }
        let mode = Permissions::from_mode(found.mode() & (DIRECTORY_MODE | 0o7000));
        std::fs::set_permissions(dir, mode).map_err(failed)?;
        tracing::warn!(
            "restricted the mode of the agent's directory {}: other users could enter it",
            dir.display()
        );
    }
    // After that, no other user can create an entry.
    if let Some(ForeignEntry { path, owner, mode }) = agent_dir::foreign(dir, user).map_err(failed)? {
        return Err(AgentError::ForeignEntry { path, owner, mode });
    }
    // Paths in the mount table contain no symbolic links.
    let root = dir.canonicalize().map_err(failed)?;
    match lock::take_soon(&root).await.map_err(failed)? {
        Some(file) => Ok((root, file)),
        None => Err(AgentError::Taken { dir: dir.to_owned() }),
    }
}

/// The mounter for targets below a directory.
pub(crate) fn mounter(root: &Path, is_virtual: bool) -> Result<Arc<dyn Mounter>, MountError> {
    Ok(match is_virtual {
        true => Arc::new(RecordingMounter::new(root.to_owned())?),
        false => Arc::new(LinuxMounter::new(root.to_owned())),
    })
}

pub(crate) fn plugins(known: &DriverRegistry, files: &Files, is_virtual: bool) -> Plugins {
    let mut plugins: Vec<Arc<dyn Plugin>> = vec![
        Arc::new(CsiPlugin::new(known.clone())),
        Arc::new(NfsPlugin::default()),
        Arc::new(HostPathPlugin::default()),
        Arc::new(LocalPlugin::default()),
        Arc::new(EmptyDirPlugin),
    ];
    if !is_virtual {
        // The plugin logs in to real iSCSI targets.
        plugins.push(Arc::new(IscsiPlugin::default()));
    }
    plugins.extend(files.plugins());
    Plugins::new(plugins)
}

impl Agent {
    /// Locks the directory, reconstructs the state that an earlier agent left, and starts. The agent runs until
    /// `stop`; then await [`ended`](Self::ended).
    ///
    /// # Errors
    /// Another agent uses the directory, or its state cannot be reconstructed. Nothing was started.
    pub fn start(inputs: Inputs, stop: CancellationToken) -> BoxFuture<'static, Result<Self, AgentError>> {
        // Boxed here: the compiler generates the code of a future where it is polled or boxed, else in the crate of each caller.
        Self::begin(inputs, stop).boxed()
    }

    async fn begin(inputs: Inputs, stop: CancellationToken) -> Result<Self, AgentError> {
        let Inputs { mut config, client, lines, server } = inputs;
        if !config.is_virtual && !rustix::process::geteuid().is_root() {
            return Err(AgentError::NotRoot);
        }
        let (root, lock) = directory(&config.root_dir).await?;
        config.root_dir.clone_from(&root);
        let config = Arc::new(config);
        if !config.is_virtual
            && let Err(error) = LinuxMounter::new(root.clone()).clear_leftovers()
        {
            tracing::warn!(%error, "something of an agent that was killed is left where mounts are made ready");
        }
        let mounter = mounter(&root, config.is_virtual)?;
        let ownership: Arc<dyn VolumeOwnership> = match config.is_virtual {
            true => Arc::new(NoFsGroup),
            false => Arc::new(FsGroupApplier::default()),
        };
        let clock = Clock::Wall;
        let end_events = CancellationToken::new();
        let (sink, events) = EventSink::start(client.clone(), clock, end_events.clone());
        let host = Host {
            paths: Paths::new(root),
            mounts: Mounts::new(mounter, config.mount_timeout),
            client: client.clone(),
            drivers: Drivers::new(CALL_TIMEOUT),
            events: sink.recorder("kubelet"),
            clock,
            config: Arc::clone(&config),
        };
        let mut tasks = JoinSet::new();
        let csi_drivers = Informer::<CSIDriver>::new();
        let known = DriverRegistry::new(csi_drivers.clone());
        let files = Files::new(client.clone(), stop.clone());
        let plugins = plugins(&known, &files, config.is_virtual);
        let volumes = Volumes::start(host.clone(), plugins, ownership, stop.clone()).await?;
        let runtime = runtime(&host)?;
        let logs = match config.log_address {
            Some(address) => Some(LogServer::start(log_config(&host, &runtime, address)).await?),
            None => None,
        };
        let log_address = logs.as_ref().map(LogServer::address);

        let (node, own) = watch::channel::<Option<Arc<Node>>>(None);
        // No part reports problems yet; node registration needs a channel for when that changes.
        let (problems, no_problems) = watch::channel(Vec::new());
        let seen = volumes.clone();
        let registration = node_status::Inputs {
            config: Arc::clone(&config),
            client: client.clone(),
            lines,
            server,
            log_port: log_address.map(|address| address.port()),
            in_use: volumes.in_use(),
            problems: no_problems,
            seen: Arc::new(move |node, in_use| seen.node_seen(node, in_use)),
            events: host.events.clone(),
            clock,
        };
        let pods =
            pods::Inputs { host: host.clone(), volumes: Arc::new(volumes.clone()), runtime, node: own };
        if let Some(logs) = &logs {
            let (api, node, until) = (Api::all(client.clone()), pods.node.clone(), stop.clone());
            let (address, key) = (logs.address().ip(), logs.key().to_owned());
            tasks.spawn(async move {
                until.run_until_cancelled(tell_logs(api, node, address, key)).await.unwrap_or(())
            });
        }
        let (api, until) = (Api::all(client), stop.clone());
        tasks.spawn(async move { csi_drivers.run(api, until).await });
        let until = stop.clone();
        tasks.spawn(async move {
            let _problems = problems;
            node_status::run(registration, node, until).await;
        });
        tasks.spawn(pods::run(pods, stop.clone()));
        tasks.spawn(refresh(files.changes(), volumes.clone(), stop.clone()));
        let until = stop.clone();
        tasks.spawn(async move { csi_drivers::run(&host, &known, &host.config.csi_endpoints, &until).await });
        Ok(Self { tasks, volumes, stop, end_events, events, _logs: logs, _lock: lock })
    }

    /// Returns when all parts have ended after `stop` was cancelled, or when a part has failed because of a bug.
    ///
    /// # Errors
    /// The panic of that part.
    pub async fn ended(mut self) -> Result<(), tokio::task::JoinError> {
        let mut outcome = Ok(());
        while let Some(ended) = self.tasks.join_next().await {
            if ended.is_err() {
                self.stop.cancel();
                outcome = ended;
            }
        }
        if tokio::time::timeout(LAST_WAIT, self.volumes.ended()).await.is_err() {
            tracing::warn!("an operation on a volume hangs; it is left as it is");
        }
        self.end_events.cancel();
        let _ = self.events.await;
        outcome
    }
}

fn log_config(host: &Host, runtime: &Arc<dyn Runtime>, address: SocketAddr) -> LogConfig {
    let config = LogConfig::new(host.config.name.clone(), host.client.clone(), Arc::clone(runtime));
    LogConfig { address: address.ip(), port: address.port(), ..config }
}

/// The host at which clients reach the log server: the listen address or, when that is unspecified, the address
/// in the Node.
fn reached(address: IpAddr, node: &Node) -> Option<String> {
    if !address.is_unspecified() {
        return Some(address.to_string());
    }
    let addresses = node.status.as_ref()?.addresses.as_ref()?;
    addresses.iter().find(|one| one.type_ == "InternalIP").map(|one| one.address.clone())
}

/// Maintains the annotations of the Node that publish the address and the public key of the log server.
async fn tell_logs(
    api: Api<Node>,
    mut node: watch::Receiver<Option<Arc<Node>>>,
    address: IpAddr,
    key: String,
) {
    let mut waits = Backoff::new(Duration::from_millis(500), Duration::from_secs(60));
    loop {
        let known = node.borrow_and_update().clone();
        let says = |name| known.as_ref().and_then(|node| node.metadata.annotations.as_ref()?.get(name));
        let address = known.as_ref().and_then(|node| reached(address, node));
        let is_told = says(ANN_LOG_ADDRESS) == address.as_ref() && says(ANN_LOG_KEY) == Some(&key);
        if let Some(known) = known.as_ref().filter(|_| !is_told) {
            // A null value removes the annotation.
            let annotations = json!({ANN_LOG_ADDRESS: address, ANN_LOG_KEY: key});
            let patch = json!({"metadata": {"uid": known.metadata.uid, "annotations": annotations}});
            let name = known.metadata.name.as_deref().unwrap_or_default();
            match api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
                Ok(_) => waits.reset(),
                Err(error) => {
                    tracing::debug!(%error, "the address of the log server is not in the Node yet");
                    tokio::time::sleep(waits.advance()).await;
                    continue;
                }
            }
        }
        if node.changed().await.is_err() {
            return;
        }
    }
}

fn runtime(host: &Host) -> Result<Arc<dyn Runtime>, AgentError> {
    let config = &host.config;
    Ok(match config.runtime {
        RuntimeKind::None => {
            let hooks = Hooks::new(config.hooks_dir.clone());
            let events = Some(host.events.clone());
            let runtime = NoRuntime::new(host.paths.clone(), hooks, host.clock, events);
            Arc::new(runtime.map_err(AgentError::Runtime)?)
        }
        RuntimeKind::Process => {
            let process = ProcessConfig {
                events: Some(host.events.clone()),
                ..ProcessConfig::new(host.paths.clone(), host.client.clone())
            };
            Arc::new(ProcessRuntime::new(process).map_err(AgentError::Runtime)?)
        }
    })
}

/// Sets up volumes again after their content has changed.
async fn refresh(changes: Changes, volumes: Volumes, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            place = changes.next() => volumes.refresh(&place),
        }
    }
}
