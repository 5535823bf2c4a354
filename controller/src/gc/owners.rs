//! Garbage collector: an object all of whose owners are gone is deleted; foreground and orphan deletions are carried
//! out.
//!
//! [`graph`] holds who owns whom, by UID, fed by metadata watches of everything that can be listed, watched and
//! deleted. It only says what to look at: nothing is deleted before the object and its owners were read live
//! ([`attempt`]). What the server serves is read once, at the start.

pub mod attempt;
pub mod graph;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use kube::core::{DynamicObject, PartialObjectMeta};
use kube::{Api, Client};
use tokio::task::JoinSet;

use crate::clock::Backoff;
use crate::gc::discovery::{Served, discover};
use crate::informer::{Change, Informer};
use crate::manager::{Context, ControllerError};
use crate::names::{COMPONENT_GC, controller};
use crate::queue::WorkQueue;
use crate::worker;
use attempt::{Collector, Kinds};
use graph::{Graph, Node, Work};

/// Metadata of any object.
pub type Meta = PartialObjectMeta<DynamicObject>;

/// The controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        let served = tokio::select! {
            () = context.shutdown.cancelled() => return Ok(()),
            served = everything(&context.client) => served,
        };
        let queue = WorkQueue::new(context.options.rate_limit);
        let graph: Arc<Mutex<Graph>> = Arc::default();
        let mut tasks = JoinSet::new();
        let (mut informers, mut handlers) = (Vec::new(), Vec::new());
        for kind in served.iter().filter(|kind| is_watched(kind)) {
            let informer = Informer::<Meta>::new();
            let feed = feed(Arc::clone(kind), Arc::clone(&graph), queue.clone());
            handlers.push(informer.add_handler(feed));
            let api = Api::all_with(context.client.clone(), &kind.resource);
            let (running, shutdown) = (informer.clone(), context.shutdown.clone());
            tasks.spawn(async move { running.run(api, shutdown).await });
            informers.push(informer);
        }
        let synced = join_all(informers.iter().map(Informer::synced));
        tokio::select! {
            () = context.shutdown.cancelled() => return Ok(()),
            _ = synced => {}
        }
        let recorder = context.recorder(COMPONENT_GC);
        let collector = Collector::new(context.client.clone(), Kinds(served), graph, queue.clone(), recorder);
        let (name, workers) = (controller::GARBAGE_COLLECTOR, context.options.concurrent_gc_syncs);
        worker::run_until(&context.shutdown, &queue, workers, name, |work| collector.work(work)).await;
        Ok(())
    })
}

/// Everything the server serves. A group that cannot be read may hold dependents, so nothing begins without it.
async fn everything(client: &Client) -> Vec<Arc<Served>> {
    let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
    loop {
        let found = discover(client).await;
        if found.failures.is_empty() {
            return found.served.into_iter().map(Arc::new).collect();
        }
        tracing::warn!(
            failures = found.failures.join("; "),
            "the garbage collector waits for a complete discovery"
        );
        tokio::time::sleep(backoff.advance()).await;
    }
}

/// Events are many, own nothing, and expire by themselves.
fn is_watched(kind: &Served) -> bool {
    let is_event =
        kind.resource.kind == "Event" && matches!(kind.resource.group.as_str(), "" | "events.k8s.io");
    !is_event && ["list", "watch", "delete"].iter().all(|verb| kind.can(verb))
}

/// Puts changes of one kind into the graph, and what follows from them into the queue.
fn feed(
    kind: Arc<Served>,
    graph: Arc<Mutex<Graph>>,
    queue: WorkQueue<Work>,
) -> impl Fn(&Change<Meta>) + Send + Sync + 'static {
    move |change| {
        let mut graph = graph.lock().unwrap_or_else(PoisonError::into_inner);
        let mut work = Vec::new();
        let gone = change.old.as_deref().filter(|_| change.new.is_none() || change.replaced());
        if let Some(uid) = gone.and_then(|object| object.metadata.uid.as_deref()) {
            work.extend(graph.forget(uid));
        }
        if let Some(node) = change.new.as_deref().and_then(|object| Node::of(&kind, object)) {
            work.extend(graph.observe(node));
        }
        drop(graph);
        work.into_iter().for_each(|item| queue.add(item));
    }
}

#[cfg(test)]
mod tests;
