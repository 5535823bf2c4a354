//! The garbage collector: deletes objects whose owners no longer exist and carries out foreground and orphan
//! deletions.
//!
//! [`graph`] stores the ownership relations by UID. It is fed by watches of every resource that can be listed,
//! watched and deleted: the informers of the other controllers where one exists, and metadata watches for the
//! rest. The graph only proposes work: nothing is deleted before the object and its owners have been read live
//! ([`attempt_to_delete`]).
//!
//! Discovery runs at startup, whenever a CustomResourceDefinition changes, and every 30 seconds, because other API servers come and go
//! ([`repeated_discovery`]). If a kind cannot be listed, collection of the others starts 30 seconds later.

pub mod attempt_to_delete;
pub mod graph;
mod repeated_discovery;

use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use k8s_openapi::api::apps::v1::{ControllerRevision, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::ReplicationController;
use kube::core::{DynamicObject, ObjectMeta, PartialObjectMeta};
use orlop_client::api::Api;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::context::{Context, ControllerError};
use crate::gc::discovery::Served;
use attempt_to_delete::{Collector, Kinds};
use graph::{Graph, Node, Work};
use orlop_client::api::Object;
use orlop_client::informer::{Change, Informer, Registration};
use orlop_client::informers::Informers;
use orlop_client::names::{COMPONENT_GC, controller};
use orlop_client::queue::WorkQueue;
use orlop_client::worker;
use repeated_discovery::RepeatedDiscovery;

/// How long collection waits for the first lists of all kinds. Upstream: initialSyncTimeout.
const INITIAL_SYNC_TIMEOUT: Duration = Duration::from_secs(30);
/// The time between two discoveries. Upstream: the period of Sync.
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(30);

/// Metadata of any object.
pub type Meta = PartialObjectMeta<DynamicObject>;

/// The controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        let mut discovery = RepeatedDiscovery::new(context.client.clone());
        let served = tokio::select! {
            () = context.shutdown.cancelled() => return Ok(()),
            served = discovery.discover() => served,
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
        let synced = tokio::time::timeout(INITIAL_SYNC_TIMEOUT, join_all(watches.settle(&served)));
        tokio::select! {
            () = context.shutdown.cancelled() => return Ok(()),
            synced = synced => if synced.is_err() {
                tracing::warn!("the garbage collector starts although it has not read the objects of all kinds");
            }
        }
        let recorder = context.recorder(COMPONENT_GC);
        let kinds = Kinds::new(served);
        let collector = Collector::new(context.client.clone(), kinds.clone(), graph, queue.clone(), recorder);
        let (name, workers) = (controller::GARBAGE_COLLECTOR, context.options.concurrent_gc_syncs);
        let work = worker::run_until(&context.shutdown, &queue, workers, context.other_syncs(name), |work| {
            collector.work(work)
        });
        tokio::join!(work, watches.follow(discovery, kinds));
        Ok(())
    })
}

/// The watches of all kinds. Custom kinds appear and disappear with their definitions.
struct Watches {
    context: Context,
    graph: Arc<Mutex<Graph>>,
    queue: WorkQueue<Work>,
    /// Notified when a CustomResourceDefinition changes.
    definitions: Arc<Notify>,
    /// By group and plural: the token that stops the watch, and the registrations that feed the graph.
    running: HashMap<(String, String), (CancellationToken, Vec<Registration>)>,
}

impl Watches {
    /// Starts missing watches and stops those of kinds that are no longer served. Each future completes when its
    /// cache has synced.
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

    /// Starts a watch of a kind's metadata.
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

    /// Runs discovery whenever a definition changes, and regularly.
    async fn follow(mut self, mut discovery: RepeatedDiscovery, kinds: Kinds) {
        let shutdown = self.context.shutdown.clone();
        loop {
            let served = async {
                // Either a definition has changed, or the time is over.
                let _ = tokio::time::timeout(DISCOVERY_INTERVAL, self.definitions.notified()).await;
                discovery.discover().await
            };
            let served = tokio::select! {
                () = shutdown.cancelled() => return,
                served = served => served,
            };
            // The first list of a watch delivers the existing objects; there is no need to wait for it.
            drop(self.settle(&served));
            kinds.replace(served);
        }
    }
}

/// Whether objects of this kind define custom kinds.
fn is_definition(kind: &Served) -> bool {
    kind.resource.group == "apiextensions.k8s.io" && kind.resource.kind == "CustomResourceDefinition"
}

/// Excludes Events: they are numerous, own nothing and expire by themselves.
fn is_watched(kind: &Served) -> bool {
    let is_event =
        kind.resource.kind == "Event" && matches!(kind.resource.group.as_str(), "" | "events.k8s.io");
    !is_event && ["list", "watch", "delete"].iter().all(|verb| kind.can(verb))
}

/// Attaches to the informer that other controllers use for this kind, if there is one, so that every change is
/// received and decoded once.
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

/// Reduces metadata to the fields that the graph uses.
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

/// Feeds one kind into the graph.
struct Feeder {
    kind: Arc<Served>,
    graph: Arc<Mutex<Graph>>,
    queue: WorkQueue<Work>,
}

impl Feeder {
    /// Starts feeding from `informer`; the future completes when its cache has synced.
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

/// Applies changes of one kind to the graph and queues the resulting work.
fn feed<K: Object>(
    kind: Arc<Served>,
    graph: Arc<Mutex<Graph>>,
    queue: WorkQueue<Work>,
) -> impl Fn(&Change<K>) + Send + Sync + 'static {
    move |change| {
        let mut graph = graph.lock();
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
