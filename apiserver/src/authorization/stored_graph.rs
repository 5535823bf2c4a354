//! The relations between objects and nodes, as the store has them.
//!
//! A decision sees every write that was acknowledged before: the graph is brought up to date when it is read. A task also brings it
//! up to date after each change, so that a decision seldom has to.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::select_all;
use orlop_auth::node::{MIRROR_POD, NodeGraph, RelatedKind, RelationSource};
use orlop_codec::encode::partial::{self, Parts};
use orlop_store::{Kv, Record, Revision};
use parking_lot::Mutex;

use super::{BRIEF_BYTES, BRIEF_WAIT};
use crate::dispatch::key_names;
use crate::encode::stored;
use crate::followed::{Followed, FollowedKind, Reached};
use crate::projection::Projection;
use crate::registry::{self, Kind};

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
        let mut state = self.state.lock();
        state.catch_up(&*self.store);
        state.graph.is_related(node, kind, namespace, name)
    }

    /// Like [`is_related`](Self::is_related), on a thread that serves connections. `None` if large objects must be read before, or if
    /// another thread reads them.
    pub(crate) fn is_related_briefly(
        &self,
        node: &str,
        kind: RelatedKind,
        namespace: &str,
        name: &str,
    ) -> Option<bool> {
        let mut state = self.state.try_lock_for(BRIEF_WAIT)?;
        let is_current = state.followed.is_current() || {
            let head = self.store.head().revision();
            state.follow(head, BRIEF_BYTES) == Reached::Head
        };
        is_current.then(|| state.graph.is_related(node, kind, namespace, name))
    }

    /// Reads the store on a thread where this does not delay requests: decoding all pods takes long.
    pub(crate) async fn catch_up(self: Arc<Self>) {
        // A panic is reported by its thread, and decisions read the store themselves.
        let _ = tokio::task::spawn_blocking(move || self.state.lock().catch_up(&*self.store)).await;
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
                    Ok(Some(_)) => self.clone().catch_up().await,
                    // The watch is behind: start again at the head.
                    Ok(None) => break,
                    Err(_) => return,
                }
            }
        }
    }
}

impl GraphState {
    /// Brings the graph to the head of the store.
    fn catch_up(&mut self, store: &dyn Kv<Projection>) {
        match self.follow(store.head().revision(), usize::MAX) {
            Reached::Head => {}
            // There is no limit, so nothing is too large.
            Reached::Large | Reached::Lost => {
                let graph = &mut self.graph;
                *graph = NodeGraph::default();
                self.followed = Followed::read(store, &KINDS, |source, kind, key, record| {
                    set(graph, source, kind, key, record);
                });
            }
        }
    }

    fn follow(&mut self, head: Revision, most: usize) -> Reached {
        let GraphState { graph, followed } = self;
        followed.follow(head, most, |source, kind, key, record| set(graph, source, kind, key, record))
    }
}

/// The members of an object from which relations follow.
fn related_parts(source: RelationSource) -> &'static Parts {
    const SPEC: Parts = Parts::Members(&[("spec", Parts::All)]);
    const NODE: Parts = Parts::Members(&[("spec", Parts::Members(&[("nodeName", Parts::All)]))]);
    const METADATA: Parts = Parts::Members(&[
        ("name", Parts::All),
        ("namespace", Parts::All),
        ("annotations", Parts::Members(&[(MIRROR_POD, Parts::All)])),
    ]);
    const CLAIMS: Parts =
        Parts::Members(&[("resourceClaimStatuses", Parts::All), ("extendedResourceClaimStatus", Parts::All)]);
    const POD: Parts = Parts::Members(&[("metadata", METADATA), ("spec", Parts::All), ("status", CLAIMS)]);
    match source {
        RelationSource::Pod => &POD,
        RelationSource::Volume => &SPEC,
        RelationSource::ResourceSlice | RelationSource::VolumeAttachment => &NODE,
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
    // Pods that wait for a node need not be read.
    let relates = |record: &&Record<Projection>| {
        source != RelationSource::Pod
            || record.view.field("spec.nodeName").is_some_and(|node| !node.is_empty())
    };
    // An unreadable object relates nothing to a node.
    let readable = record.filter(relates).filter(|record| stored::readable(record).is_ok());
    let object = readable.and_then(|record| partial::parts(&record.value, related_parts(source)));
    graph.set(source, namespace, name, object.as_ref());
}
