//! Runs the scheduler: takes the next pod, decides, counts the pod on its node, and hands what is left to a task of its own.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::{BoxFuture, join_all};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::Client;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::bind::{Bells, Work};
use super::cluster::Cluster;
use super::decide::{self, Decision};
use super::filter::{Broken, Rules};
use super::pod::waits_for_us;
use super::queue::{Moves, PodQueue, Ticket};
use super::report::Why;
use super::volumes::{Caches, Volumes};
use crate::clock::Clock;
use crate::informer::Informer;
use crate::manager::{Context, ControllerError};
use crate::names::COMPONENT_SCHEDULER;
use crate::recorder::Recorder;
use crate::worker::panic_text;

/// Writes at a time.
const WRITES: usize = 32;

/// What the scheduler believes: nodes and pods, and storage.
pub struct Known {
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
    pub(super) known: Mutex<Known>,
    pub(super) queue: PodQueue,
    pub(super) bells: Bells,
    pub(super) writes: Semaphore,
    pub(super) bind_timeout: std::time::Duration,
    pub(super) recorder: Recorder,
    pub(super) clock: Clock,
    shutdown: CancellationToken,
    tasks: TaskTracker,
}

/// The controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        let scheduler = Arc::new(Scheduler::new(&context));
        let _handlers = scheduler.listen();
        if !context.ready(scheduler.synced()).await {
            return Ok(());
        }
        let closing = async {
            context.shutdown.cancelled().await;
            scheduler.queue.shutdown();
        };
        tokio::join!(scheduler.schedule_all(), closing);
        scheduler.tasks.close();
        scheduler.tasks.wait().await;
        Ok(())
    })
}

impl Scheduler {
    fn new(context: &Context) -> Self {
        let informers = &context.informers;
        let caches = Caches::new(informers);
        let volumes = Volumes::new(caches.clone());
        Self {
            client: context.client.clone(),
            pods: informers.pods(),
            nodes: informers.nodes(),
            namespaces: informers.namespaces(),
            caches,
            known: Mutex::new(Known { cluster: Cluster::default(), volumes }),
            queue: PodQueue::default(),
            bells: Bells::default(),
            writes: Semaphore::new(WRITES),
            bind_timeout: context.options.scheduler_bind_timeout,
            recorder: context.recorder(COMPONENT_SCHEDULER),
            clock: context.clock,
            shutdown: context.shutdown.clone(),
            tasks: TaskTracker::new(),
        }
    }

    /// Ends when all that decisions look at is complete.
    async fn synced(&self) {
        let caches = &self.caches;
        let waits: [BoxFuture<'_, ()>; 10] = [
            Box::pin(self.pods.synced()),
            Box::pin(self.nodes.synced()),
            Box::pin(self.namespaces.synced()),
            Box::pin(caches.claims.synced()),
            Box::pin(caches.volumes.synced()),
            Box::pin(caches.classes.synced()),
            Box::pin(caches.drivers.synced()),
            Box::pin(caches.csi_nodes.synced()),
            Box::pin(caches.capacities.synced()),
            Box::pin(caches.attachments.synced()),
        ];
        join_all(waits).await;
    }

    async fn schedule_all(self: &Arc<Self>) {
        while let Some(ticket) = self.queue.next().await {
            self.schedule(ticket);
            // Decisions wait for nothing; others of this process want a turn too.
            tokio::task::yield_now().await;
        }
    }

    /// Decides about one pod. A panic is a failure of that pod alone (I12).
    fn schedule(self: &Arc<Self>, ticket: Ticket) {
        let Some(pod) = self.pods.get(&ticket.key).filter(|pod| waits_for_us(pod)) else {
            return self.queue.done(&ticket);
        };
        // It was told its node, and only the news of that are not here yet.
        if self.lock().cluster.is_placed(&ticket.key) {
            return self.queue.done(&ticket);
        }
        let decided = std::panic::catch_unwind(AssertUnwindSafe(|| self.decide(&ticket, &pod)));
        let decided = decided.unwrap_or_else(|panic| {
            let text = panic_text(panic.as_ref()).to_owned();
            tracing::error!(pod = %ticket.key, panic = text, "a scheduling decision panicked");
            Err(Broken(format!("the decision failed: {text}")))
        });
        let this = Arc::clone(self);
        match decided {
            Ok(Outcome::Place(work)) => self.spawn(async move { this.carry_out(*work).await }),
            Ok(Outcome::Unfit { message, rules, claims, seen }) => self.spawn(async move {
                this.report(&pod, Why::Unschedulable, &message).await;
                this.queue.park(&ticket, rules, &claims, seen);
            }),
            Err(broken) => self.spawn(async move {
                this.report(&pod, Why::SchedulerError, &broken.to_string()).await;
                this.queue.retry(&ticket);
            }),
        }
    }

    fn decide(&self, ticket: &Ticket, pod: &Arc<Pod>) -> Result<Outcome, Broken> {
        let facts = decide::facts_of(pod);
        let seen = self.queue.look(ticket, &facts.claims);
        let mut known = self.lock();
        let Known { cluster, volumes } = &mut *known;
        Ok(match decide::decide(pod, &facts, cluster, volumes)? {
            Decision::Place { node, volumes } => {
                Outcome::Place(Box::new(Work::reserve(ticket, pod, &facts, &node, volumes, &mut known)))
            }
            Decision::Unfit { message, rules } => {
                Outcome::Unfit { message, rules, claims: facts.claims.clone(), seen }
            }
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let shutdown = self.shutdown.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = task => {}
            }
        });
    }
}

enum Outcome {
    Place(Box<Work>),
    Unfit { message: String, rules: Rules, claims: Vec<String>, seen: Moves },
}
