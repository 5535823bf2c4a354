//! The implementation of [`Volumes`](super::Volumes): one queue holds keys of pods (resolve their volumes), of
//! volumes (decide the next step and perform it), and of reports. Decisions are made in memory without waiting;
//! lookups and operations run in their own tasks, at most one per key. Every change adds its keys to the queue
//! again; failures are retried after their delay.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeSet;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use orlop_client::queue::WorkQueue;
use orlop_client::worker::panic_text;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Uid;
use super::desired_state::DesiredPod;
use super::fs_group::VolumeOwnership;
use super::manager_state::ManagerState;
use super::pod_volumes::{self, PodVolumes};
use super::reconstruct::ReconstructedState;
use super::volumes_in_use::VolumesInUse;
use crate::host::Host;
use crate::objects::Objects;
use crate::objects::claims::Claims;
use crate::plugin::Plugins;

/// A key of the work queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// Resolve the volumes of a pod.
    Pod(Uid),
    /// Reconcile a volume.
    Volume(Arc<str>),
    /// Report the state of a pod's volumes. It lists all of them, so the changes of many volumes share a report.
    Report(Uid),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(uid) => write!(f, "pod {uid}"),
            Self::Volume(unique) => write!(f, "volume {unique}"),
            Self::Report(uid) => write!(f, "report of pod {uid}"),
        }
    }
}
/// The volume manager's implementation.
pub(super) struct Manager {
    pub(super) host: Host,
    pub(super) plugins: Plugins,
    pub(super) ownership: Arc<dyn VolumeOwnership>,
    pub(super) objects: Objects,
    pub(super) claims: Claims,
    state: Mutex<ManagerState>,
    pub(super) queue: WorkQueue<Key>,
    pub(super) in_use: watch::Sender<BTreeSet<String>>,
    tasks: TaskTracker,
    pub(super) shutdown: CancellationToken,
}

impl Manager {
    pub(super) fn new(
        host: Host,
        plugins: Plugins,
        ownership: Arc<dyn VolumeOwnership>,
        found: ReconstructedState,
        shutdown: CancellationToken,
    ) -> Self {
        let objects = Objects::new(host.client.clone());
        let mut state = ManagerState { actual: found.actual, old: found.pods, ..ManagerState::default() };
        state.listing = VolumesInUse::begin(state.needed());
        let in_use = watch::Sender::new(state.listing.published());
        Self {
            host,
            plugins,
            ownership,
            objects,
            claims: Claims::default(),
            state: Mutex::new(state),
            queue: WorkQueue::default(),
            in_use,
            tasks: TaskTracker::new(),
            shutdown,
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, ManagerState> {
        self.state.lock()
    }

    /// Starts the background tasks.
    pub(super) fn start(self: &Arc<Self>) {
        let this = Arc::clone(self);
        self.tasks.spawn(async move {
            let on_change = |key: &str| this.claim_changed(key);
            this.claims.run(this.host.client.clone(), this.shutdown.clone(), on_change).await;
        });
        let this = Arc::clone(self);
        self.tasks.spawn(async move {
            let keys = async {
                while let Some(key) = this.queue.get().await {
                    this.work(&key);
                    this.queue.done(&key);
                    tokio::task::consume_budget().await;
                }
            };
            tokio::select! {
                () = keys => {}
                () = this.shutdown.cancelled() => this.queue.shutdown(),
            }
        });
        let all: Vec<Arc<str>> = self.state().actual.volumes.keys().cloned().collect();
        all.into_iter().for_each(|unique| self.queue.add(Key::Volume(unique)));
    }

    /// Handles one key. A panic fails only this key, which is retried with back-off (I12).
    fn work(self: &Arc<Self>, key: &Key) {
        let done = std::panic::catch_unwind(AssertUnwindSafe(|| match key {
            Key::Pod(uid) => self.look_up(uid),
            Key::Volume(unique) => self.look_at(unique),
            Key::Report(uid) => self.send_report(uid),
        }));
        match done {
            Ok(()) => self.queue.forget(key),
            Err(panic) => {
                tracing::error!(
                    ?key,
                    panic = panic_text(panic.as_ref()),
                    "work for a volume panicked, will be tried again"
                );
                self.queue.add_rate_limited(key.clone());
            }
        }
    }

    /// Waits until all tasks have ended. Call it after `shutdown` is cancelled.
    pub(super) async fn ended(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Runs a task that is dropped on shutdown.
    pub(super) fn spawn(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
        let shutdown = self.shutdown.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = work => {}
                () = shutdown.cancelled() => {}
            }
        });
    }

    /// Queues all volumes that are mounted for a pod or requested by it.
    pub(super) fn wake_pod(&self, state: &ManagerState, uid: &Uid) {
        let there = state.actual.of_pod(uid).map(|(unique, _, _)| Arc::clone(unique));
        there.for_each(|unique| self.queue.add(Key::Volume(unique)));
        let wanted = state.desired.get(uid).into_iter().flat_map(DesiredPod::known);
        wanted.for_each(|(_, wanted)| self.queue.add(Key::Volume(Arc::clone(&wanted.unique))));
    }

    pub(super) fn publish(&self, state: &mut ManagerState) {
        let needed = state.needed();
        state.listing.need(&needed);
        let published = state.listing.published();
        self.in_use.send_if_modified(|known| std::mem::replace(known, published.clone()) != published);
    }

    pub(super) fn report_now(&self, state: &ManagerState, uid: &Uid) -> PodVolumes {
        pod_volumes::of_pod(&self.host, uid, state.desired.get(uid), &state.actual, |unique| {
            state.attach(unique)
        })
    }

    /// Reports the state of a pod's volumes to its receivers soon.
    pub(super) fn report(&self, state: &ManagerState, uid: &Uid) {
        if state.reports.contains_key(uid) {
            self.queue.add(Key::Report(uid.clone()));
        }
    }

    fn send_report(&self, uid: &Uid) {
        let mut state = self.state();
        let Some(sender) = state.reports.get(uid) else { return };
        let now = self.report_now(&state, uid);
        let over = now == PodVolumes::Released;
        sender.send_if_modified(|known| std::mem::replace(known, now.clone()) != now);
        if over {
            // Waiting receivers have the last report; a later call returns a new one.
            state.reports.remove(uid);
        }
    }

    pub(super) fn report_all(&self, state: &ManagerState) {
        state.reports.keys().for_each(|uid| self.report(state, uid));
    }
}
