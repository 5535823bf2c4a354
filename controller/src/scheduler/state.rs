//! The state of the running scheduler. The impl blocks that act on it are in the other files of this folder.

use parking_lot::{Mutex, MutexGuard};

use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::Client;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::bind_notify::BindNotifier;
use super::cluster::Cluster;
use super::queue::{Key, PodQueue};
use super::volumes::{Caches, Volumes};
use crate::context::Context;
use orlop_apimachinery::clock::Clock;
use orlop_client::failing::Syncs;
use orlop_client::informer::Informer;
use orlop_client::names::{COMPONENT_SCHEDULER, controller};
use orlop_client::recorder::Recorder;

/// Concurrent writes.
const WRITES: usize = 32;

/// The scheduler's state, including assumptions: nodes, pods and storage.
pub struct SchedulerState {
    /// Nodes and the pods on them.
    pub cluster: Cluster,
    /// Storage.
    pub volumes: Volumes,
}

/// The scheduler.
pub struct Scheduler {
    pub(super) client: Client,
    pub(super) pods: Informer<Pod>,
    pub(super) nodes: Informer<Node>,
    pub(super) namespaces: Informer<Namespace>,
    pub(super) caches: Caches,
    pub(super) known: Mutex<SchedulerState>,
    pub(super) queue: PodQueue,
    /// Registers pods whose scheduling panics.
    pub(super) syncs: Syncs<Key>,
    pub(super) bind_notify: BindNotifier,
    pub(super) writes: Semaphore,
    pub(super) bind_timeout: std::time::Duration,
    pub(super) recorder: Recorder,
    pub(super) clock: Clock,
    pub(super) shutdown: CancellationToken,
    pub(super) tasks: TaskTracker,
}

impl Scheduler {
    pub(super) fn new(context: &Context) -> Self {
        let informers = &context.informers;
        let caches = Caches::new(informers);
        let volumes = Volumes::new(caches.clone());
        Self {
            client: context.client.clone(),
            pods: informers.pods(),
            nodes: informers.nodes(),
            namespaces: informers.namespaces(),
            caches,
            known: Mutex::new(SchedulerState { cluster: Cluster::default(), volumes }),
            queue: PodQueue::default(),
            syncs: context.syncs::<Pod, _>(controller::SCHEDULER),
            bind_notify: BindNotifier::default(),
            writes: Semaphore::new(WRITES),
            bind_timeout: context.options.scheduler_bind_timeout,
            recorder: context.recorder(COMPONENT_SCHEDULER),
            clock: context.clock,
            shutdown: context.shutdown.clone(),
            tasks: TaskTracker::new(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, SchedulerState> {
        self.known.lock()
    }

    /// Runs a task until it ends or the scheduler does.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let shutdown = self.shutdown.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = task => {}
            }
        });
    }
}
