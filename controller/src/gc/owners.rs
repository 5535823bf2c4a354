//! Garbage collector: an object all of whose owners are gone is deleted; foreground and orphan deletions are carried
//! out.
//!
//! [`graph`] holds who owns whom, by UID, fed by watches of everything that can be listed, watched and deleted: those
//! that other controllers have anyway, and watches of metadata for the rest. It only says what to look at: nothing is
//! deleted before the object and its owners were read live ([`attempt`]). What the server serves is read once, at the start.

pub mod attempt;
pub mod graph;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use k8s_openapi::api::apps::v1::{ControllerRevision, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::ReplicationController;
use kube::core::{DynamicObject, ObjectMeta, PartialObjectMeta};
use kube::{Api, Client};
use tokio::task::JoinSet;

use crate::clock::Backoff;
use crate::gc::discovery::{Served, discover};
use crate::informer::{Change, Informer, Registration};
use crate::informers::Informers;
use crate::kept::Keep;
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
        let (mut synced, mut handlers) = (Vec::new(), Vec::new());
        for kind in served.iter().filter(|kind| is_watched(kind)) {
            let feeder = Feeder { kind: Arc::clone(kind), graph: Arc::clone(&graph), queue: queue.clone() };
            let (waiting, handler) = match shared(&feeder, &context.informers) {
                Some(attached) => attached,
                None => {
                    let informer = Informer::<Meta>::trimmed(trim);
                    let attached = feeder.attach(&informer);
                    let api = Api::all_with(context.client.clone(), &kind.resource);
                    let shutdown = context.shutdown.clone();
                    tasks.spawn(async move { informer.run(api, shutdown).await });
                    attached
                }
            };
            synced.push(waiting);
            handlers.push(handler);
        }
        let synced = join_all(synced);
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

/// Follows a kind in the cache that other controllers use too, if there is one: every change is received and decoded once.
fn shared(feeder: &Feeder, informers: &Informers) -> Option<(BoxFuture<'static, ()>, Registration)> {
    let resource = &feeder.kind.resource;
    Some(match (resource.group.as_str(), resource.kind.as_str()) {
        ("", "PersistentVolume") => feeder.attach(&informers.volumes()),
        ("", "PersistentVolumeClaim") => feeder.attach(&informers.claims()),
        ("", "Pod") => feeder.attach(&informers.pods()),
        ("", "Node") => feeder.attach(&informers.nodes()),
        ("", "Namespace") => feeder.attach(&informers.namespaces()),
        ("storage.k8s.io", "StorageClass") => feeder.attach(&informers.classes()),
        ("storage.k8s.io", "VolumeAttributesClass") => feeder.attach(&informers.attributes_classes()),
        ("", "ReplicationController") => feeder.attach(&informers.of::<ReplicationController>()),
        ("apps", "ReplicaSet") => feeder.attach(&informers.of::<ReplicaSet>()),
        ("apps", "Deployment") => feeder.attach(&informers.of::<Deployment>()),
        ("apps", "StatefulSet") => feeder.attach(&informers.of::<StatefulSet>()),
        ("apps", "ControllerRevision") => feeder.attach(&informers.of::<ControllerRevision>()),
        _ => return None,
    })
}

/// Leaves of an object's metadata what the graph is made of.
fn trim(object: &mut Meta) {
    let meta = std::mem::take(&mut object.metadata);
    object.metadata = ObjectMeta {
        name: meta.name,
        namespace: meta.namespace,
        uid: meta.uid,
        resource_version: meta.resource_version,
        owner_references: meta.owner_references,
        finalizers: meta.finalizers,
        deletion_timestamp: meta.deletion_timestamp,
        ..ObjectMeta::default()
    };
}

/// Tells the graph about one kind.
struct Feeder {
    kind: Arc<Served>,
    graph: Arc<Mutex<Graph>>,
    queue: WorkQueue<Work>,
}

impl Feeder {
    /// From now on; the future ends when the cache is complete.
    fn attach<K>(&self, informer: &Informer<K>) -> (BoxFuture<'static, ()>, Registration)
    where
        K: Keep,
    {
        let handler =
            informer.add_handler(feed(Arc::clone(&self.kind), Arc::clone(&self.graph), self.queue.clone()));
        let informer = informer.clone();
        (Box::pin(async move { informer.synced().await }), handler)
    }
}

/// Puts changes of one kind into the graph, and what follows from them into the queue.
fn feed<K: Keep>(
    kind: Arc<Served>,
    graph: Arc<Mutex<Graph>>,
    queue: WorkQueue<Work>,
) -> impl Fn(&Change<K>) + Send + Sync + 'static {
    move |change| {
        let mut graph = graph.lock().unwrap_or_else(PoisonError::into_inner);
        let mut work = Vec::new();
        if let Some(uid) = change.gone_uid() {
            work.extend(graph.forget(uid));
        }
        if let Some(node) = change.new.as_deref().and_then(|object| Node::of(&kind, change.key(), object)) {
            work.extend(graph.observe(node));
        }
        drop(graph);
        work.into_iter().for_each(|item| queue.add(item));
    }
}

#[cfg(test)]
mod tests;
