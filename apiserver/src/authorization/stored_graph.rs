//! The relations between objects and nodes, as the store has them.
//!
//! A decision sees every write that was acknowledged before: the graph is brought up to date when it is read. A task also brings it
//! up to date after each change, so that a decision seldom has to.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::select_all;
use orlop_auth::node::{NodeGraph, RelatedKind, RelationSource};
use orlop_store::{Kv, Record};
use parking_lot::Mutex;

use crate::dispatch::key_names;
use crate::encode::stored;
use crate::followed::{Followed, FollowedKind};
use crate::projection::Projection;
use crate::registry::{self, Kind};
use orlop_api::object::Object;

/// The kinds from which the relations follow.
const KINDS: [FollowedKind<RelationSource>; 4] = [
    (RelationSource::Pod, "", "pods"),
    (RelationSource::Volume, "", "persistentvolumes"),
    (RelationSource::VolumeAttachment, "storage.k8s.io", "volumeattachments"),
    (RelationSource::ResourceSlice, "resource.k8s.io", "resourceslices"),
];

/// The graph, and how far it has read the store.
pub(crate) struct StoredGraph {
    store: Arc<dyn Kv<Projection>>,
    state: Mutex<GraphState>,
}

#[derive(Default)]
struct GraphState {
    graph: NodeGraph,
    followed: Followed<RelationSource>,
}

impl StoredGraph {
    /// Reads the store at the first decision.
    pub(crate) fn new(store: Arc<dyn Kv<Projection>>) -> Self {
        StoredGraph { store, state: Mutex::default() }
    }

    /// Whether a node needs an object, according to all acknowledged writes.
    pub(crate) fn is_related(&self, node: &str, kind: RelatedKind, namespace: &str, name: &str) -> bool {
        self.now(|graph| graph.is_related(node, kind, namespace, name))
    }

    /// Passes the graph of all acknowledged writes to a function.
    fn now<R>(&self, read: impl FnOnce(&NodeGraph) -> R) -> R {
        let head = self.store.head().revision();
        let mut state = self.state.lock();
        let GraphState { graph, followed } = &mut *state;
        if !followed.follow(head, |source, kind, key, record| set(graph, source, kind, key, record)) {
            *graph = NodeGraph::default();
            *followed = Followed::read(&*self.store, &KINDS, |source, kind, key, record| {
                set(graph, source, kind, key, record);
            });
        }
        read(graph)
    }

    /// Reads the store on a thread where this does not delay requests: decoding all pods takes long.
    pub(crate) async fn catch_up(self: Arc<Self>) {
        // A panic is reported by its thread, and decisions read the store themselves.
        let _ = tokio::task::spawn_blocking(move || self.now(|_| ())).await;
    }

    /// Keeps the graph up to date until the store is closed.
    pub(crate) async fn keep_current(self: Arc<Self>) {
        loop {
            let head = self.store.head().revision();
            self.clone().catch_up().await;
            let prefixes = KINDS.iter().filter_map(|(_, group, plural)| {
                registry::by_resource(group, "v1", plural).map(|kind| kind.storage_prefix())
            });
            let watchers: Result<Vec<_>, _> = prefixes.map(|prefix| self.store.watch(prefix, head)).collect();
            let Ok(mut watchers) = watchers else { return };
            loop {
                // Dropping the other futures loses nothing.
                let next = watchers.iter_mut().map(|watcher| watcher.next_of_ring().boxed());
                let (events, ..) = select_all(next).await;
                match events {
                    Ok(Some(_)) => self.now(|_| ()),
                    // The watch is behind: start again at the head.
                    Ok(None) => break,
                    Err(_) => return,
                }
            }
        }
    }
}

fn set(
    graph: &mut NodeGraph,
    source: RelationSource,
    kind: &dyn Kind,
    key: &str,
    record: Option<&Record<Projection>>,
) {
    let (namespace, name) = key_names(kind, key);
    // Pods that wait for a node need not be decoded.
    let relates = |record: &&Record<Projection>| {
        source != RelationSource::Pod
            || record.view.field("spec.nodeName").is_some_and(|node| !node.is_empty())
    };
    // An unreadable object relates nothing to a node.
    let object = record.filter(relates).and_then(|record| stored::decode_as(kind, record).ok());
    let object = object.map(Object::into_value);
    graph.set(source, namespace, name, object.as_ref());
}
