//! Garbage collector: an object all of whose owners are gone is deleted; foreground and orphan deletions are carried
//! out.
//!
//! [`graph`] holds who owns whom, by UID, fed by watches of everything that can be listed, watched and deleted: those
//! that other controllers have anyway, and watches of metadata for the rest. It only says what to look at: nothing is
//! deleted before the object and its owners were read live ([`attempt_to_delete`]). What the server serves is read at the start, and
//! again when a definition of a kind has changed.

pub mod attempt_to_delete;
pub mod graph;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use k8s_openapi::api::apps::v1::{ControllerRevision, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::ReplicationController;
use kube::Client;
use kube::core::{DynamicObject, ObjectMeta, PartialObjectMeta};
use orlop_client::api::Api;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::context::{Context, ControllerError};
use crate::gc::discovery::{Served, discover};
use attempt_to_delete::{Collector, Kinds};
use graph::{Graph, Node, Work};
use orlop_apimachinery::clock::Backoff;
use orlop_client::api::Object;
use orlop_client::informer::{Change, Informer, Registration};
use orlop_client::informers::Informers;
use orlop_client::names::{COMPONENT_GC, controller};
use orlop_client::queue::WorkQueue;
use orlop_client::worker;

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
        let mut watches = Watches {
            context: context.clone(),
            graph: Arc::clone(&graph),
            queue: queue.clone(),
            definitions: Arc::default(),
            running: HashMap::new(),
        };
        let synced = join_all(watches.settle(&served));
        tokio::select! {
            () = context.shutdown.cancelled() => return Ok(()),
            _ = synced => {}
        }
        let recorder = context.recorder(COMPONENT_GC);
        let kinds = Kinds::new(served);
        let collector = Collector::new(context.client.clone(), kinds.clone(), graph, queue.clone(), recorder);
        let (name, workers) = (controller::GARBAGE_COLLECTOR, context.options.concurrent_gc_syncs);
        let work = worker::run_until(&context.shutdown, &queue, workers, name, |work| collector.work(work));
        tokio::join!(work, watches.follow(kinds));
        Ok(())
    })
}

/// The watches of all kinds. Kinds come and go with the definitions that bring them.
struct Watches {
    context: Context,
    graph: Arc<Mutex<Graph>>,
    queue: WorkQueue<Work>,
    /// Told when a definition of a kind has changed.
    definitions: Arc<Notify>,
    /// By group and plural: what ends the watch, and what feeds the graph while it is held.
    running: HashMap<(String, String), (CancellationToken, Vec<Registration>)>,
}

impl Watches {
    /// Begins what is missing and ends what is not served any more. The futures end when what was begun is complete.
    fn settle(&mut self, served: &[Arc<Served>]) -> Vec<BoxFuture<'static, ()>> {
        let name = |kind: &Served| (kind.resource.group.clone(), kind.resource.plural.clone());
        let names: HashSet<(String, String)> = served.iter().map(|kind| name(kind)).collect();
        self.running.retain(|name, (stop, _)| {
            let stays = names.contains(name);
            if !stays {
                stop.cancel();
            }
            stays
        });
        let mut synced = Vec::new();
        for kind in served.iter().filter(|kind| is_watched(kind)) {
            if self.running.contains_key(&name(kind)) {
                continue;
            }
            let (graph, queue) = (Arc::clone(&self.graph), self.queue.clone());
            let feeder = Feeder { kind: Arc::clone(kind), graph, queue };
            let stop = self.context.shutdown.child_token();
            let (waiting, handlers) = match shared(&feeder, &self.context.informers) {
                Some((waiting, handler)) => (waiting, vec![handler]),
                None => self.begin(&feeder, &stop),
            };
            self.running.insert(name(kind), (stop, handlers));
            synced.push(waiting);
        }
        synced
    }

    /// A watch of a kind's metadata.
    fn begin(
        &self,
        feeder: &Feeder,
        stop: &CancellationToken,
    ) -> (BoxFuture<'static, ()>, Vec<Registration>) {
        let informer = Informer::<Meta>::trimmed(trim);
        let (waiting, handler) = feeder.attach(&informer);
        let mut handlers = vec![handler];
        if is_definition(&feeder.kind) {
            let definitions = Arc::clone(&self.definitions);
            handlers.push(informer.add_handler(move |_| definitions.notify_one()));
        }
        let api = Api::all_with(self.context.client.clone(), &feeder.kind.resource);
        let stop = stop.clone();
        tokio::spawn(async move { informer.run(api, stop).await });
        (waiting, handlers)
    }

    /// Looks at what is served whenever a definition has changed.
    async fn follow(mut self, kinds: Kinds) {
        let shutdown = self.context.shutdown.clone();
        let client = self.context.client.clone();
        loop {
            let served = async {
                self.definitions.notified().await;
                everything(&client).await
            };
            let served = tokio::select! {
                () = shutdown.cancelled() => return,
                served = served => served,
            };
            // Objects that are there already come with the first list of a watch; nobody waits for it.
            drop(self.settle(&served));
            kinds.replace(served);
        }
    }
}

/// Whether objects of the kind bring kinds.
fn is_definition(kind: &Served) -> bool {
    kind.resource.group == "apiextensions.k8s.io" && kind.resource.kind == "CustomResourceDefinition"
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
        K: Object,
    {
        let handler =
            informer.add_handler(feed(Arc::clone(&self.kind), Arc::clone(&self.graph), self.queue.clone()));
        let informer = informer.clone();
        (Box::pin(async move { informer.synced().await }), handler)
    }
}

/// Puts changes of one kind into the graph, and what follows from them into the queue.
fn feed<K: Object>(
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
