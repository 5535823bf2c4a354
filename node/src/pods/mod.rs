//! A pod's life on this node: volumes first, then the runtime, and the way back; and what the API is told of it (upstream: pkg/kubelet
//! pod_workers.go, kubelet_pods.go, status/).
//!
//! Reading order. What is written: `phase`, `conditions`, `status` (all pure), and `status_writer`, which writes it. Who is taken: `admit`. The life itself:
//! `worker`, with `active_deadline` (its time is over), `empty_dir_limit` (too much in an emptyDir) and `recycler` (recycler pods). Who has a worker, and what is left from before: this file.
//!
//! Every pod (by UID) has one task, so that no two steps of one pod run at a time, and a pod that hangs holds up nobody (I12). A task looks at
//! what is, not at what happened. The volumes of a pod stay until its runtime has let them go, and its object stays until its volumes are gone
//! (I8). When the agent ends, tasks are dropped where they wait; everything on the machine stays, and the next agent goes on.

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

use std::collections::HashMap;
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
use crate::volumes::{Fate, Finding};

/// How often directories of pods that nobody knows are looked for, besides the end of every pod.
const TIDY_EVERY: Duration = Duration::from_secs(60);
/// How long a life rests that ended by a fault of ours.
const REST: Duration = Duration::from_secs(10);

/// What this room is given.
pub struct Inputs {
    /// The machine and the cluster.
    pub host: Host,
    /// Mounts.
    pub volumes: Arc<dyn VolumeManager>,
    /// Runs.
    pub runtime: Arc<dyn Runtime>,
    /// The newest version of the own Node.
    pub node: watch::Receiver<Option<Arc<Node>>>,
}

/// What the informer says.
enum PodEvent {
    Here(Arc<Pod>),
    Gone(String),
}

/// Lives the pods of this node until `shutdown`.
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
        PodWorkers { shared, seats: HashMap::new(), lives: JoinSet::new(), untidy: Arc::clone(&untidy) };
    tokio::select! {
        () = shutdown.cancelled() => {}
        ((), (), ()) = async { tokio::join!(following, desk.run(&pods, news), tidy(room, untidy)) } => {}
    }
}

/// Looks after what is left of pods, now and then and whenever one has gone. A directory that hangs holds up nothing else.
async fn tidy(room: Arc<dyn VolumeManager>, untidy: Arc<Notify>) {
    loop {
        log(&room.tidy().await);
        tokio::select! {
            () = untidy.notified() => {}
            () = tokio::time::sleep(TIDY_EVERY) => {}
        }
    }
}

/// The handler of the informer: it must be quick.
fn tell(sender: &mpsc::UnboundedSender<PodEvent>, change: &Change<Pod>) {
    // Whoever listens ends with the agent.
    if let Some(uid) = change.gone_uid() {
        let _ = sender.send(PodEvent::Gone(uid.to_string()));
    }
    if let Some(pod) = &change.new {
        let _ = sender.send(PodEvent::Here(Arc::clone(pod)));
    }
}

/// Who has a life here.
struct PodWorkers {
    shared: Arc<WorkerContext>,
    seats: HashMap<String, watch::Sender<ObservedPod>>,
    /// Each gives the UID back when it is over.
    lives: JoinSet<String>,
    untidy: Arc<Notify>,
}

impl PodWorkers {
    async fn run(mut self, pods: &Informer<Pod>, mut news: mpsc::UnboundedReceiver<PodEvent>) {
        // Everything of the first list is in the channel when it is complete.
        pods.synced().await;
        while let Ok(said) = news.try_recv() {
            self.take(said);
        }
        for uid in self.shared.runtime.known().await {
            if !self.seats.contains_key(&uid) {
                tracing::info!(uid, "a pod runs that the API has no more; it is ended");
                self.shared.volumes.hold(&uid);
                self.seat(&uid, ObservedPod { pod: None, is_gone: true });
            }
        }
        self.shared.volumes.synced();
        self.untidy.notify_one();
        loop {
            tokio::select! {
                Some(said) = news.recv() => self.take(said),
                Some(over) = self.lives.join_next() => {
                    // A life is never aborted and catches its panics.
                    if let Ok(uid) = over {
                        self.leave(&uid);
                        self.untidy.notify_one();
                    }
                }
            }
        }
    }

    fn take(&mut self, said: PodEvent) {
        match said {
            PodEvent::Here(pod) => {
                let uid = pod.metadata.uid.clone().unwrap_or_default();
                if let Some(seat) = self.seats.get(&uid) {
                    seat.send_replace(ObservedPod { pod: Some(pod), is_gone: false });
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
                self.seat(&uid, ObservedPod { pod: Some(pod), is_gone: false });
            }
            PodEvent::Gone(uid) => {
                if let Some(seat) = self.seats.get(&uid) {
                    seat.send_modify(|seen| seen.is_gone = true);
                }
            }
        }
    }

    /// Begins a life.
    fn seat(&mut self, uid: &str, seen: ObservedPod) {
        let sender = watch::Sender::new(seen);
        let (shared, receiver, uid) = (Arc::clone(&self.shared), sender.subscribe(), uid.to_owned());
        self.seats.insert(uid.clone(), sender);
        self.lives.spawn(async move {
            loop {
                let life = Worker::life(Arc::clone(&shared), uid.clone(), receiver.clone());
                match AssertUnwindSafe(life).catch_unwind().await {
                    Ok(()) => return uid,
                    // Its text is in the log already. What was done is found again.
                    Err(_) => {
                        tracing::error!(uid, "the life of a pod ended by a fault; it begins anew");
                        tokio::time::sleep(REST).await;
                    }
                }
            }
        });
    }

    fn leave(&mut self, uid: &str) {
        self.shared.admitted.remove(uid);
        self.seats.remove(uid);
    }
}

fn log(findings: &[Finding]) {
    for Finding { uid, path, fate } in findings {
        let path = path.display();
        match fate {
            Fate::Removed => tracing::debug!(uid, "removed what was left of a pod: {path}"),
            Fate::Mounted(mounts) => {
                tracing::warn!(
                    uid,
                    ?mounts,
                    "nobody knows the pod of {path}, and something is mounted in it"
                );
            }
            Fate::Quarantined(place) => {
                tracing::warn!(
                    uid,
                    "nobody knows the pod of {path}; what was in it is in {}",
                    place.display()
                );
            }
            Fate::Kept(why) => {
                tracing::debug!(uid, why, "nobody knows the pod of {path}, and it is left as it is");
            }
        }
    }
}
