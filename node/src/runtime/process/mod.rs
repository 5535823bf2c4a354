//! The process runtime: containers as processes of this machine, each in a mount namespace with its volumes. It
//! pulls no images: a container sees the files of the machine, or a directory that its image names.
//!
//! [`decide`] and [`plan`] compute what to do, `pod` does it for one pod, `container_run` for one run of a
//! container. The supervisor and the first process of a container are this binary again, in its [`reexec`] mode:
//! `supervise`, `enter`, `rootfs`. Containers keep running without an agent.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use orlop_client::recorder::Recorder;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

mod container_run;
mod decide;
mod enter;
mod env;
mod expand;
mod hook;
mod launch_spec;
pub(crate) mod log;
mod plan;
mod pod;
mod probe;
mod process_id;
mod reexec;
mod rootfs;
mod shared;
mod status;
mod supervise;
#[cfg(test)]
mod tests;

pub use decide::BackOff;
use plan::log_dir;
pub use reexec::{HIDDEN, container_main};

use self::pod::{PodMessage, PodRecord, PodTask};
use self::shared::RuntimeContext;
use super::logs::{self, LogError, LogPlace};
use super::{PodPath, PodState, Runtime, RuntimeError, records};
use crate::paths::Paths;
use crate::volume::PodKey;

/// Configuration of a process runtime.
pub struct ProcessConfig {
    /// The directories of the agent.
    pub paths: Paths,
    /// Reads ConfigMaps and Secrets for environment variables.
    pub client: Client,
    /// Records container events.
    pub events: Option<Recorder>,
    /// The command that starts this binary in its hidden mode: a program and its arguments.
    pub launcher: Vec<String>,
    /// The back-off of failing containers.
    pub back_off: BackOff,
    /// A log is rotated at this size, in bytes.
    pub log_bytes: u64,
    /// The maximum number of files of a log.
    pub log_files: u32,
}

impl ProcessConfig {
    /// The defaults: upstream's back-off and log sizes, and this binary, even if its path has changed.
    pub fn new(paths: Paths, client: Client) -> Self {
        Self {
            paths,
            client,
            events: None,
            launcher: ["/proc/self/exe", HIDDEN, "-"].map(str::to_owned).to_vec(),
            back_off: BackOff::default(),
            log_bytes: 10 * 1024 * 1024,
            log_files: 5,
        }
    }
}

struct PodHandle {
    key: PodKey,
    messages: mpsc::UnboundedSender<PodMessage>,
    state: watch::Receiver<PodState>,
}

/// The process runtime.
///
/// After a drop its containers keep running, but are no longer started or stopped.
pub struct ProcessRuntime {
    shared: Arc<RuntimeContext>,
    end: CancellationToken,
    _end_on_drop: DropGuard,
    pods: Mutex<HashMap<String, PodHandle>>,
}

impl ProcessRuntime {
    /// Loads the records of an earlier agent from the directory and monitors its containers. Call it in a tokio
    /// runtime.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn new(config: ProcessConfig) -> io::Result<Self> {
        let settings = plan::Settings {
            paths: config.paths,
            launcher: config.launcher,
            log_bytes: config.log_bytes,
            log_files: config.log_files,
            cgroup: container_run::cgroup_parent(),
        };
        let shared = RuntimeContext {
            settings,
            client: config.client,
            events: config.events,
            back_off: config.back_off,
        };
        let end = CancellationToken::new();
        let guard = end.clone().drop_guard();
        let pods = Mutex::new(HashMap::new());
        let runtime = Self { shared: Arc::new(shared), end, _end_on_drop: guard, pods };
        let paths = runtime.shared.settings.paths.clone();
        for uid in records::names(&paths.pods())? {
            let file = plan::pod_dir(&paths, &uid).join("pod.json");
            match records::found::<PodRecord>(&file) {
                Ok(Some(record)) => runtime.add(&uid, record),
                Ok(None) => {}
                // Records are written atomically, so the disk is faulty.
                Err(error) => tracing::warn!("{} cannot be read: {error}", file.display()),
            }
        }
        Ok(runtime)
    }

    fn pods(&self) -> MutexGuard<'_, HashMap<String, PodHandle>> {
        self.pods.lock()
    }

    fn add(&self, uid: &str, record: PodRecord) {
        let (messages, inbox) = mpsc::unbounded_channel();
        let state = watch::Sender::new(PodState::default());
        let entry =
            PodHandle { key: PodKey::of(&record.pod), messages: messages.clone(), state: state.subscribe() };
        let task = PodTask::new(self.shared.clone(), record, state, messages);
        self.pods().insert(uid.to_owned(), entry);
        let end = self.end.clone();
        tokio::spawn(async move { end.run_until_cancelled_owned(task.run(inbox)).await });
    }

    fn logs(&self, key: &PodKey) -> PathBuf {
        let dir = log_dir(&self.shared.settings.paths, &key.namespace, &key.name, &key.uid, "x");
        dir.parent().map(PathBuf::from).unwrap_or(dir)
    }
}

#[async_trait]
impl Runtime for ProcessRuntime {
    async fn start(&self, pod: Arc<Pod>, paths: Vec<PodPath>) -> Result<(), RuntimeError> {
        let key = PodKey::of(&pod);
        let cannot =
            |why: String| RuntimeError::Start { pod: format!("{}/{}", key.namespace, key.name), why };
        if let Some(name) =
            [&key.namespace, &key.name, &key.uid].into_iter().find(|name| !records::is_step(name))
        {
            return Err(cannot(format!("{name:?} cannot be the name of a file")));
        }
        if let Some(why) = plan::unsupported(&pod) {
            return Err(cannot(why));
        }
        if !rustix::process::geteuid().is_root() {
            return Err(cannot("containers are made by root only; run the agent as root".to_owned()));
        }
        let is_new = !self.pods().contains_key(&key.uid);
        if is_new {
            let dir = plan::pod_dir(&self.shared.settings.paths, &key.uid);
            let record = PodRecord {
                pod: Pod::clone(&pod),
                paths: paths.clone(),
                since: Timestamp::now(),
                failure: None,
            };
            let saved = records::make_dir(&dir).and_then(|()| records::write(&dir.join("pod.json"), &record));
            saved.map_err(|error| cannot(format!("{}: {error}", dir.display())))?;
            self.add(&key.uid, record);
        }
        if let Some(entry) = self.pods().get(&key.uid) {
            // The task of a stopped pod receives no messages, and the pod is not started again.
            let _ = entry.messages.send(PodMessage::Start(pod, paths));
        }
        Ok(())
    }

    fn state(&self, uid: &str) -> Option<watch::Receiver<PodState>> {
        self.pods().get(uid).map(|entry| entry.state.clone())
    }

    async fn stop(&self, uid: &str, grace: Duration) -> Result<(), RuntimeError> {
        let Some(messages) = self.pods().get(uid).map(|entry| entry.messages.clone()) else { return Ok(()) };
        let (reply, answer) = oneshot::channel();
        if messages.send(PodMessage::Stop(grace, reply)).is_err() {
            return Ok(());
        }
        match answer.await {
            Ok(result) => result.map_err(|why| RuntimeError::Stop { uid: uid.to_owned(), why }),
            // An earlier stop succeeded and ended the task.
            Err(_) => Ok(()),
        }
    }

    async fn known(&self) -> Vec<String> {
        let mut known: Vec<String> = self
            .pods()
            .iter()
            .filter(|(_, entry)| !entry.messages.is_closed())
            .map(|(uid, _)| uid.clone())
            .collect();
        known.sort();
        known
    }

    fn log(&self, namespace: &str, pod: &str, container: &str, previous: bool) -> Result<LogPlace, LogError> {
        let pods = self.pods();
        let is_named = |entry: &&PodHandle| entry.key.namespace == namespace && entry.key.name == pod;
        // Of two pods with the same name, prefer the one that is not stopped.
        let found = pods.values().filter(is_named).min_by_key(|entry| entry.messages.is_closed());
        let entry = found.ok_or_else(|| LogError::NoPod(pod.to_owned()))?;
        let no_container = || LogError::NoContainer { container: container.to_owned(), pod: pod.to_owned() };
        let restart = {
            let state = entry.state.borrow();
            logs::run_of(logs::of_name(&state, container).ok_or_else(no_container)?, pod, previous)?
        };
        let dir = log_dir(&self.shared.settings.paths, namespace, pod, &entry.key.uid, container);
        Ok(LogPlace { dir, restart, container: container.to_owned(), state: entry.state.clone() })
    }

    async fn forget(&self, uid: &str) {
        let key = {
            let mut pods = self.pods();
            match pods.get(uid) {
                Some(entry) if entry.messages.is_closed() => pods.remove(uid).map(|entry| entry.key),
                Some(_) | None => None,
            }
        };
        let Some(key) = key else { return };
        let dir = self.logs(&key);
        if let Err(error) = records::gone(std::fs::remove_dir_all(&dir)) {
            tracing::warn!("{}: {error}", dir.display());
        }
    }
}
