//! Runs the scheduler: pops the next pod, selects a node, counts the pod on it, and spawns a task that binds it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::future::{BoxFuture, join_all};
use k8s_openapi::api::core::v1::Pod;

use super::bind::Work;
use super::decide::{self, Decision};
use super::filter::{Broken, Rules};
use super::pod::waits_for_us;
use super::queue::{Moves, Ticket};
use super::report::Why;
use super::state::{Scheduler, SchedulerState};
use crate::context::{Context, ControllerError};
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
        let SchedulerState { cluster, volumes } = &mut *known;
        Ok(match decide::decide(pod, &facts, cluster, volumes)? {
            Decision::Place { node, volumes } => {
                Outcome::Place(Box::new(Work::reserve(ticket, pod, &facts, &node, volumes, &mut known)))
            }
            Decision::Unfit { message, rules } => {
                Outcome::Unfit { message, rules, claims: facts.claims.clone(), seen }
            }
        })
    }
}

enum Outcome {
    Place(Box<Work>),
    Unfit { message: String, rules: Rules, claims: Vec<String>, seen: Moves },
}
