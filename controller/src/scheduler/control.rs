//! Runs the scheduler: pops the next pod, selects a node, counts the pod on it, and spawns a task that binds it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use k8s_openapi::api::core::v1::Pod;

use super::bind::Work;
use super::decide::{self, Decision};
use super::filter::Broken;
use super::node_needs::NodeNeeds;
use super::pod::waits_for_us;
use super::queue::{Moves, Ticket, Waits};
use super::report::Why;
use super::state::{Scheduler, SchedulerState};
use crate::context::{Context, ControllerError};
use orlop_client::failing::Failure;
use orlop_client::worker::panic_text;

/// Runs the controller.
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
    /// Waits until all caches that decisions read are complete.
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
            // Decisions never await; let other tasks of this process run.
            tokio::task::yield_now().await;
        }
    }

    /// Schedules one pod. A panic fails only that pod (I12).
    fn schedule(self: &Arc<Self>, ticket: Ticket) {
        let Some(pod) = self.pods.get(&ticket.key).filter(|pod| waits_for_us(pod)) else {
            return self.queue.done(&ticket);
        };
        // It is bound, but the event has not arrived yet.
        if self.lock().cluster.is_placed(&ticket.key) {
            return self.queue.done(&ticket);
        }
        let decided = std::panic::catch_unwind(AssertUnwindSafe(|| self.decide(&ticket, &pod)));
        let decided = decided.unwrap_or_else(|panic| {
            let text = panic_text(panic.as_ref()).to_owned();
            tracing::error!(pod = %ticket.key, panic = text, "a scheduling decision panicked");
            self.syncs.failed(&ticket.key, Failure::Panic, &text);
            Err(Broken(format!("the decision failed: {text}")))
        });
        let this = Arc::clone(self);
        match decided {
            Ok(Outcome::Place(work)) => {
                self.spawn_for(ticket, async move { this.carry_out(*work).await });
            }
            Ok(Outcome::Unfit(unfit)) => self.spawn_for(ticket.clone(), async move {
                let Unfit { message, waits, seen } = *unfit;
                this.report(&pod, Why::Unschedulable, &message).await;
                this.syncs.succeeded(&ticket.key);
                this.queue.park(&ticket, waits, seen);
            }),
            Err(broken) => self.spawn_for(ticket.clone(), async move {
                this.report(&pod, Why::SchedulerError, &broken.to_string()).await;
                this.queue.retry(&ticket);
            }),
        }
    }

    /// Runs a task about a taken pod. A panic must not keep the pod taken, or it would never be scheduled again (I12).
    fn spawn_for(self: &Arc<Self>, ticket: Ticket, task: impl Future<Output = ()> + Send + 'static) {
        let this = Arc::clone(self);
        self.spawn(async move {
            if let Err(panic) = AssertUnwindSafe(task).catch_unwind().await {
                let text = panic_text(panic.as_ref());
                tracing::error!(pod = %ticket.key, panic = text, "the work for a pod panicked");
                this.syncs.failed(&ticket.key, Failure::Panic, text);
                this.queue.retry(&ticket);
            }
        });
    }

    fn decide(&self, ticket: &Ticket, pod: &Arc<Pod>) -> Result<Outcome, Broken> {
        let facts = decide::facts_of(pod);
        let seen = self.queue.look(ticket, &facts.claims);
        let mut known = self.lock();
        let SchedulerState { cluster, volumes } = &mut *known;
        Ok(match decide::decide(pod, &facts, cluster, volumes)? {
            Decision::Place { node, volumes } => {
                Outcome::Place(Box::new(Work::reserve(ticket, pod, &facts, &node, volumes, &mut known)))
            }
            Decision::Unfit { message, rules, classes } => {
                let needs = Arc::new(NodeNeeds::of(pod));
                let waits = Waits { rules, claims: facts.claims.clone(), classes, needs };
                Outcome::Unfit(Box::new(Unfit { message, waits, seen }))
            }
        })
    }
}

enum Outcome {
    Place(Box<Work>),
    Unfit(Box<Unfit>),
}

/// No node is feasible.
struct Unfit {
    message: String,
    waits: Waits,
    seen: Moves,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::options::Options;
    use crate::testing::FakeApi;

    #[tokio::test(start_paused = true)]
    async fn pod_is_queued_again_after_a_panic_of_its_task() {
        let api = FakeApi::new();
        let scheduler = Arc::new(Scheduler::new(&api.context(Options::default(), &CancellationToken::new())));
        scheduler.queue.add(&"ns/p".into(), 0);
        let ticket = scheduler.queue.next().await.unwrap();
        scheduler.spawn_for(ticket.clone(), async { panic!("on purpose") });
        assert_eq!(scheduler.queue.next().await, Some(ticket));
    }
}
