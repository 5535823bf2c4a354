//! A runtime that runs nothing: an external program uses the volumes through links with stable names
//! (`by-name/<namespace>/<pod>/<volume>`), and hooks can notify it. Containers are reported as running while the
//! volumes are mounted, because clients read from that whether a volume is in use.
//!
//! A record beside the volumes of the pod lists its links. It is written before the first link and deleted after
//! the last one, so that a restarted agent knows what to remove.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStatus, Pod,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use orlop_apimachinery::clock::Clock;
use orlop_client::recorder::{EventType, Recorder};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::hooks::{HookError, HookEvent, Hooks};
use super::{PodPath, PodState, Runtime, RuntimeError, records};
use crate::paths::Paths;
use crate::volume::PodKey;
use orlop_volume::crash_points;

#[cfg(test)]
mod tests;

/// Reason of the event for a failed hook.
const FAILED_HOOK: &str = "FailedHook";

/// The record of a pod on disk.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct PodRecord {
    pod: Pod,
    paths: Vec<PodPath>,
    /// When it was first reported as running; `None` before.
    started_at: Option<Timestamp>,
}

struct PodEntry {
    record: Mutex<PodRecord>,
    /// Serializes starts and stops.
    turn: tokio::sync::Mutex<()>,
    state: watch::Sender<PodState>,
}

/// A runtime that runs nothing.
pub struct NoRuntime {
    paths: Paths,
    hooks: Hooks,
    clock: Clock,
    events: Option<Recorder>,
    pods: Mutex<HashMap<String, Arc<PodEntry>>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

impl NoRuntime {
    /// Loads the records of an earlier agent from the directory.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn new(paths: Paths, hooks: Hooks, clock: Clock, events: Option<Recorder>) -> io::Result<Self> {
        let mut pods = HashMap::new();
        for uid in records::names(&paths.pods())? {
            let file = record_file(&paths, &uid);
            match records::found::<PodRecord>(&file) {
                Ok(Some(record)) => {
                    let entry = PodEntry::new(record);
                    pods.insert(uid, Arc::new(entry));
                }
                Ok(None) => {}
                // Records are written atomically, so the disk is faulty; the links stay until their pod is started again.
                Err(error) => tracing::warn!("{} cannot be read: {error}", file.display()),
            }
        }
        Ok(Self { paths, hooks, clock, events, pods: Mutex::new(pods) })
    }

    fn entry(&self, uid: &str) -> Option<Arc<PodEntry>> {
        locked(&self.pods).get(uid).cloned()
    }

    /// The other pod that owns the links of this name, if any.
    fn holder(&self, key: &PodKey) -> Option<String> {
        let pods = locked(&self.pods);
        let is_holder = |entry: &PodEntry| {
            let other = PodKey::of(&locked(&entry.record).pod);
            other.uid != key.uid
                && (other.namespace, other.name) == (key.namespace.clone(), key.name.clone())
                && !entry.state.borrow().ended
        };
        pods.iter().find(|(_, entry)| is_holder(entry)).map(|(uid, _)| uid.clone())
    }

    fn links(&self, key: &PodKey) -> PathBuf {
        self.paths.by_name().join(&key.namespace).join(&key.name)
    }

    /// Runs a hook whose failure is only reported.
    async fn tell(&self, event: HookEvent, record: &PodRecord, volume: Option<&PodPath>) {
        if let Err(error) = self.hooks.run(event, &record.pod, &record.paths, volume).await {
            self.complain(&record.pod, &error);
        }
    }

    fn complain(&self, pod: &Pod, error: &HookError) {
        tracing::warn!(pod = %PodKey::of(pod), "{error}");
        if let Some(events) = &self.events {
            events.event(pod, EventType::Warning, FAILED_HOOK, error.to_string());
        }
    }
}

#[async_trait]
impl Runtime for NoRuntime {
    async fn start(&self, pod: Arc<Pod>, paths: Vec<PodPath>) -> Result<(), RuntimeError> {
        let key = PodKey::of(&pod);
        let cannot =
            |why: String| RuntimeError::Start { pod: format!("{}/{}", key.namespace, key.name), why };
        check_names(&key, &paths).map_err(cannot)?;
        let entry = {
            let fresh = PodRecord { pod: Pod::clone(&pod), paths: paths.clone(), started_at: None };
            let mut pods = locked(&self.pods);
            pods.entry(key.uid.clone()).or_insert_with(|| Arc::new(PodEntry::new(fresh))).clone()
        };
        let _turn = entry.turn.lock().await;
        if entry.state.borrow().ended {
            return Ok(());
        }
        if let Some(other) = self.holder(&key) {
            locked(&self.pods).remove(&key.uid);
            return Err(cannot(format!(
                "pod {other} of the same name still has the links; it must stop first"
            )));
        }
        let record = {
            let mut record = locked(&entry.record);
            record.pod = Pod::clone(&pod);
            record.paths = paths;
            record.clone()
        };
        let file = record_file(&self.paths, &key.uid);
        save(&file, &record).map_err(|error| cannot(format!("{}: {error}", file.display())))?;
        let links = self.links(&key);
        make_links(&links, &record.paths).map_err(|error| cannot(format!("{}: {error}", links.display())))?;
        if record.started_at.is_some() {
            return Ok(());
        }
        for path in &record.paths {
            self.tell(HookEvent::VolumeMounted, &record, Some(path)).await;
        }
        let outcome = self.hooks.run(HookEvent::PodStarted, &record.pod, &record.paths, None).await;
        outcome.map_err(|error| cannot(error.to_string()))?;
        let record = PodRecord { started_at: Some(self.clock.now()), ..record };
        save(&file, &record).map_err(|error| cannot(format!("{}: {error}", file.display())))?;
        entry.state.send_replace(running(&record));
        *locked(&entry.record) = record;
        Ok(())
    }

    fn state(&self, uid: &str) -> Option<watch::Receiver<PodState>> {
        Some(self.entry(uid)?.state.subscribe())
    }

    async fn stop(&self, uid: &str, _grace: Duration) -> Result<(), RuntimeError> {
        let Some(entry) = self.entry(uid) else { return Ok(()) };
        let _turn = entry.turn.lock().await;
        if entry.state.borrow().ended {
            return Ok(());
        }
        let record = locked(&entry.record).clone();
        let cannot = |path: &Path, error: io::Error| RuntimeError::Stop {
            uid: uid.to_owned(),
            why: format!("{}: {error}", path.display()),
        };
        self.tell(HookEvent::PodStopping, &record, None).await;
        let links = self.links(&PodKey::of(&record.pod));
        crash_points::reached("remove links by name", &links);
        remove_links(&links).map_err(|error| cannot(&links, error))?;
        for path in &record.paths {
            self.tell(HookEvent::VolumeUnmounting, &record, Some(path)).await;
        }
        self.tell(HookEvent::PodStopped, &record, None).await;
        let file = record_file(&self.paths, uid);
        crash_points::reached("remove record of runtime", &file);
        records::gone(std::fs::remove_file(&file)).map_err(|error| cannot(&file, error))?;
        crash_points::reached("after record of runtime", &file);
        if let Some(dir) = file.parent() {
            records::gone(std::fs::remove_dir(dir)).map_err(|error| cannot(dir, error))?;
        }
        entry.state.send_replace(ended(&record, self.clock.now()));
        Ok(())
    }

    async fn known(&self) -> Vec<String> {
        let pods = locked(&self.pods);
        let mut known: Vec<String> = pods
            .iter()
            .filter(|(_, entry)| !entry.state.borrow().ended)
            .map(|(uid, _)| uid.clone())
            .collect();
        known.sort();
        known
    }

    async fn forget(&self, uid: &str) {
        let mut pods = locked(&self.pods);
        if pods.get(uid).is_some_and(|entry| entry.state.borrow().ended) {
            pods.remove(uid);
        }
    }
}

impl PodEntry {
    fn new(record: PodRecord) -> Self {
        let state = if record.started_at.is_some() { running(&record) } else { PodState::default() };
        Self {
            record: Mutex::new(record),
            turn: tokio::sync::Mutex::new(()),
            state: watch::Sender::new(state),
        }
    }
}

fn record_file(paths: &Paths, uid: &str) -> PathBuf {
    paths.pod(uid).join("containers").join("none.json")
}

fn save(file: &Path, record: &PodRecord) -> io::Result<()> {
    if let Some(dir) = file.parent() {
        records::make_dir(dir)?;
    }
    records::write(file, record)
}

/// Rejects names that cannot be a path component.
fn check_names(key: &PodKey, paths: &[PodPath]) -> Result<(), String> {
    let names =
        [&key.namespace, &key.name, &key.uid].into_iter().chain(paths.iter().map(|path| &path.volume));
    match names.into_iter().find(|name| !records::is_step(name)) {
        Some(name) => Err(format!("{name:?} cannot be the name of a file")),
        None => Ok(()),
    }
}

/// Creates exactly these links for a pod and removes others. A link is replaced atomically.
fn make_links(dir: &Path, paths: &[PodPath]) -> io::Result<()> {
    records::make_dir(dir)?;
    for path in paths {
        let link = dir.join(&path.volume);
        if std::fs::read_link(&link).is_ok_and(|target| target == path.path) {
            continue;
        }
        // The name of a volume contains no `~`.
        let fresh = dir.join(format!("{}~new", path.volume));
        records::gone(std::fs::remove_file(&fresh))?;
        crash_points::reached("make link by name", &link);
        std::os::unix::fs::symlink(&path.path, &fresh)?;
        crash_points::reached("put link by name", &link);
        std::fs::rename(&fresh, &link)?;
    }
    for name in records::names(dir)? {
        if !paths.iter().any(|path| path.volume == name) {
            std::fs::remove_file(dir.join(name))?;
        }
    }
    Ok(())
}

/// Removes the links of a pod, and the directory of its namespace if it is empty. Only links are removed.
fn remove_links(dir: &Path) -> io::Result<()> {
    for name in records::names(dir)? {
        let path = dir.join(name);
        if !std::fs::symlink_metadata(&path)?.is_symlink() {
            return Err(io::Error::other(format!(
                "{} is not a link; another program created it",
                path.display()
            )));
        }
        records::gone(std::fs::remove_file(path))?;
    }
    records::gone(std::fs::remove_dir(dir))?;
    if let Some(namespace) = dir.parent() {
        // Fails while other pods of the namespace have links.
        let _ = std::fs::remove_dir(namespace);
    }
    Ok(())
}

fn running(record: &PodRecord) -> PodState {
    let at = record.started_at;
    let state = ContainerState {
        running: Some(ContainerStateRunning { started_at: at.map(Time) }),
        ..Default::default()
    };
    let spec = record.pod.spec.as_ref();
    let status = |container: &Container| status(record, container, state.clone(), true);
    PodState {
        init: init(record, at.unwrap_or_default(), true),
        containers: spec.map(|spec| spec.containers.iter().map(status).collect()).unwrap_or_default(),
        ended: false,
        failure: None,
    }
}

/// The state of a stopped pod. A pod that was never reported as running reports no containers: they have no exit code.
fn ended(record: &PodRecord, now: Timestamp) -> PodState {
    if record.started_at.is_none() {
        return PodState { ended: true, ..PodState::default() };
    }
    let spec = record.pod.spec.as_ref();
    let state = terminated(record, now);
    let status = |container: &Container| status(record, container, state.clone(), false);
    PodState {
        init: init(record, now, false),
        containers: spec.map(|spec| spec.containers.iter().map(status).collect()).unwrap_or_default(),
        ended: true,
        failure: None,
    }
}

/// Init containers are reported as completed: the external program does the work they would do. Sidecars run as
/// long as the pod does.
fn init(record: &PodRecord, now: Timestamp, is_running: bool) -> Vec<ContainerStatus> {
    let containers = record.pod.spec.as_ref().and_then(|spec| spec.init_containers.as_deref());
    let now = record.started_at.unwrap_or(now);
    let done = terminated(record, now);
    let running = || ContainerState {
        running: Some(ContainerStateRunning { started_at: record.started_at.map(Time) }),
        ..Default::default()
    };
    let one = |container: &Container| match container.restart_policy.as_deref() == Some("Always") {
        true if is_running => status(record, container, running(), true),
        true => status(record, container, done.clone(), false),
        false => ContainerStatus { ready: true, ..status(record, container, done.clone(), false) },
    };
    containers.unwrap_or_default().iter().map(one).collect()
}

fn terminated(record: &PodRecord, now: Timestamp) -> ContainerState {
    let terminated = ContainerStateTerminated {
        exit_code: 0,
        reason: Some("Completed".to_owned()),
        started_at: record.started_at.map(Time),
        finished_at: Some(Time(now)),
        ..Default::default()
    };
    ContainerState { terminated: Some(terminated), ..Default::default() }
}

fn status(
    record: &PodRecord,
    container: &Container,
    state: ContainerState,
    is_running: bool,
) -> ContainerStatus {
    let uid = record.pod.metadata.uid.as_deref().unwrap_or_default();
    ContainerStatus {
        name: container.name.clone(),
        container_id: Some(format!("orlop://none/{uid}/{}", container.name)),
        image: container.image.clone().unwrap_or_default(),
        image_id: String::new(),
        ready: is_running,
        started: Some(is_running),
        restart_count: 0,
        state: Some(state),
        ..Default::default()
    }
}
