//! The lifecycle of pods on this node: mount the volumes, start the runtime, undo both in reverse order, and
//! report the status to the API server (upstream: pkg/kubelet pod_workers.go, kubelet_pods.go, status/).
//!
//! Reading order. Status: `phase`, `conditions` and `status` (all pure), and `status_writer`, which writes it.
//! Admission: `admit`. Lifecycle: `worker`, with `active_deadline` (its time is over), `empty_dir_limit` (an
//! emptyDir exceeds its limit) and `recycler` (recycler pods). The set of workers, and the cleanup of pods of an
//! earlier agent: this file.
//!
//! Every pod (by UID) has one task, so two steps of one pod never run concurrently, and a pod that hangs does not
//! delay other pods (I12). A task acts on the current state, not on events. The volumes of a pod stay mounted
//! until its runtime has released them, and its object stays until its volumes are unmounted (I8). When the agent
//! shuts down, it drops the tasks where they wait; everything on the machine stays, and the next agent continues.

mod active_deadline;
mod admit;
mod conditions;
mod context;
mod empty_dir_limit;
mod facts;
mod phase;
mod recycler;
mod status;
mod status_writer;
#[cfg(test)]
mod tests;
mod volume_manager;
mod worker;

use std::collections::{HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use k8s_openapi::api::core::v1::{Node, Pod};
use orlop_client::api::Api;
use orlop_client::informer::{Change, Informer};
use orlop_client::pods::is_finished;
use orlop_client::watcher::Selection;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::admit::Admitted;
use self::context::{ObservedPod, WorkerContext};
pub use self::volume_manager::VolumeManager;
use self::worker::Worker;
use crate::host::Host;
use crate::runtime::Runtime;
use crate::volumes::{Finding, OrphanOutcome};

/// How often directories of unknown pods are looked for, in addition to the end of every pod.
const TIDY_EVERY: Duration = Duration::from_secs(60);
/// How long a worker that panicked waits before it restarts.
const REST: Duration = Duration::from_secs(10);

/// The dependencies of the pod workers.
pub struct Inputs {
    /// The machine and the cluster.
    pub host: Host,
    /// Mounts volumes.
    pub volumes: Arc<dyn VolumeManager>,
    /// Runs containers.
    pub runtime: Arc<dyn Runtime>,
    /// The latest version of the node's own Node.
    pub node: watch::Receiver<Option<Arc<Node>>>,
}

/// An event of the pod informer.
enum PodEvent {
    Here(Arc<Pod>),
    Gone(String),
}

/// Runs the pods of this node until `shutdown`.
pub async fn run(inputs: Inputs, shutdown: CancellationToken) {
    let Inputs { host, volumes, runtime, node } = inputs;
    let shared = Arc::new(WorkerContext { host, volumes, runtime, node, admitted: Admitted::default() });
    let pods = Informer::<Pod>::new();
    let (sender, news) = mpsc::unbounded_channel();
    let _registration = pods.add_handler(move |change| tell(&sender, change));
    let selected = Selection::fields(&format!("spec.nodeName={}", shared.host.config.name));
    let following = pods.run_selected(Api::all(shared.host.client.clone()), selected, shutdown.clone());
    let (untidy, room) = (Arc::new(Notify::new()), Arc::clone(&shared.volumes));
    let desk =
        PodWorkers { shared, workers: HashMap::new(), lives: JoinSet::new(), untidy: Arc::clone(&untidy) };
    tokio::select! {
        () = shutdown.cancelled() => {}
        ((), (), ()) = async { tokio::join!(following, desk.run(&pods, news), tidy(room, untidy)) } => {}
    }
}

/// Cleans up directories of deleted pods, every [`TIDY_EVERY`] and whenever a worker ends. A directory that hangs
/// delays no pod.
async fn tidy(room: Arc<dyn VolumeManager>, untidy: Arc<Notify>) {
    loop {
        log(&room.tidy().await);
        tokio::select! {
            () = untidy.notified() => {}
            () = tokio::time::sleep(TIDY_EVERY) => {}
        }
    }
}

/// The handler of the informer: it must not block.
fn tell(sender: &mpsc::UnboundedSender<PodEvent>, change: &Change<Pod>) {
    // The receiver lives as long as the agent.
    if let Some(uid) = change.gone_uid() {
        let _ = sender.send(PodEvent::Gone(uid.to_string()));
    }
    if let Some(pod) = &change.new {
        let _ = sender.send(PodEvent::Here(Arc::clone(pod)));
    }
}

/// The workers of all pods.
struct PodWorkers {
    shared: Arc<WorkerContext>,
    workers: HashMap<String, watch::Sender<ObservedPod>>,
    /// Each task returns its UID when it ends.
    lives: JoinSet<String>,
    untidy: Arc<Notify>,
}

impl PodWorkers {
    async fn run(mut self, pods: &Informer<Pod>, mut events: mpsc::UnboundedReceiver<PodEvent>) {
        // When the first list is complete, all its pods are in the channel.
        pods.synced().await;
        while let Ok(event) = events.try_recv() {
            self.take(event);
        }
        // The pods that exist and cannot be decoded. Their containers and volumes stay as they are until the pod can be decoded, or until the
        // agent starts again after the deletion of the pod.
        let unreadable: HashSet<String> = pods.set_aside().into_iter().map(|pod| pod.uid).collect();
        unreadable.iter().for_each(|uid| self.shared.volumes.hold(uid));
        for uid in self.shared.runtime.known().await {
            if !self.workers.contains_key(&uid) && !unreadable.contains(&uid) {
                tracing::info!(uid, "a running pod is not in the API; the agent stops it");
                self.shared.volumes.hold(&uid);
                self.start_worker(&uid, ObservedPod { pod: None, is_gone: true });
            }
        }
        self.shared.volumes.synced();
        self.untidy.notify_one();
        loop {
            tokio::select! {
                Some(event) = events.recv() => self.take(event),
                Some(over) = self.lives.join_next() => {
                    // A worker task is never aborted and catches its panics.
                    if let Ok(uid) = over {
                        self.leave(&uid);
                        self.untidy.notify_one();
                    }
                }
            }
        }
    }

    fn take(&mut self, event: PodEvent) {
        match event {
            PodEvent::Here(pod) => {
                let uid = pod.metadata.uid.clone().unwrap_or_default();
                if let Some(worker) = self.workers.get(&uid) {
                    worker.send_replace(ObservedPod { pod: Some(pod), is_gone: false });
                    return;
                }
                if pod.metadata.deletion_timestamp.is_some() || is_finished(&pod) {
                    self.shared.volumes.hold(&uid);
                } else {
                    self.shared.volumes.want(Arc::clone(&pod));
                    if pod.status.as_ref().is_some_and(|status| status.start_time.is_some()) {
                        self.shared.admitted.keep(&uid);
                    }
                }
                self.start_worker(&uid, ObservedPod { pod: Some(pod), is_gone: false });
            }
            PodEvent::Gone(uid) => {
                if let Some(worker) = self.workers.get(&uid) {
                    worker.send_modify(|seen| seen.is_gone = true);
                }
            }
        }
    }

    /// Starts the worker of a pod.
    fn start_worker(&mut self, uid: &str, seen: ObservedPod) {
        let sender = watch::Sender::new(seen);
        let (shared, receiver, uid) = (Arc::clone(&self.shared), sender.subscribe(), uid.to_owned());
        self.workers.insert(uid.clone(), sender);
        self.lives.spawn(async move {
            loop {
                let life = Worker::life(Arc::clone(&shared), uid.clone(), receiver.clone());
                match AssertUnwindSafe(life).catch_unwind().await {
                    Ok(()) => return uid,
                    // The panic handler has logged the message. The next run finds the work that is already done.
                    Err(_) => {
                        tracing::error!(uid, "the worker of a pod panicked; restarting it");
                        tokio::time::sleep(REST).await;
                    }
                }
            }
        });
    }

    fn leave(&mut self, uid: &str) {
        self.shared.admitted.remove(uid);
        self.workers.remove(uid);
    }
}

fn log(findings: &[Finding]) {
    for Finding { uid, path, fate } in findings {
        let path = path.display();
        match fate {
            OrphanOutcome::Removed => tracing::debug!(uid, "removed the directory of a deleted pod: {path}"),
            OrphanOutcome::Mounted(mounts) => {
                tracing::warn!(uid, ?mounts, "the pod of {path} is unknown, and something is mounted in it");
            }
            OrphanOutcome::Quarantined(place) => {
                tracing::warn!(
                    uid,
                    "the pod of {path} is unknown; its content was moved to {}",
                    place.display()
                );
            }
            OrphanOutcome::Kept(why) => {
                tracing::debug!(
                    uid,
                    why,
                    "the pod of {path} is unknown, and the directory is left unchanged"
                );
            }
        }
    }
}
