//! The topology of the cluster for a driver: the segments that its nodes form. Computed once, and again after node labels or
//! driver topology keys have changed, because every claim needs it.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::CSINode;

use super::topology::{Cluster, Term, keys_of, term_of};
use orlop_client::informer::{Change, Informer, Registration};

/// Nodes, and the drivers registered on them.
pub(super) struct Segments {
    nodes: Informer<Node>,
    csi_nodes: Informer<CSINode>,
    known: Arc<Mutex<KnownNodes>>,
}

#[derive(Default)]
struct KnownNodes {
    terms: HashMap<Vec<String>, BTreeSet<Term>>,
    /// Topology keys by driver.
    keys: HashMap<String, Option<Vec<String>>>,
}

fn lock(known: &Mutex<KnownNodes>) -> MutexGuard<'_, KnownNodes> {
    known.lock()
}

impl Segments {
    pub(super) fn new(nodes: Informer<Node>, csi_nodes: Informer<CSINode>) -> Self {
        Segments { nodes, csi_nodes, known: Arc::default() }
    }

    pub(super) async fn synced(&self) {
        tokio::join!(self.nodes.synced(), self.csi_nodes.synced());
    }

    /// Invalidates the computed segments on changes, and calls `changed` then.
    pub(super) fn attach(&self, changed: impl Fn() + Clone + Send + Sync + 'static) -> [Registration; 2] {
        let (known, notify) = (Arc::clone(&self.known), changed.clone());
        let on_node = move |change: &Change<Node>| {
            let labels = |node: &Arc<Node>| node.metadata.labels.clone();
            if change.new.as_ref().map(labels) != change.old().map(labels) {
                lock(&known).terms.clear();
                notify();
            }
        };
        let known = Arc::clone(&self.known);
        let on_csi_node = move |_: &Change<CSINode>| {
            lock(&known).keys.clear();
            changed();
        };
        [self.nodes.add_handler(on_node), self.csi_nodes.add_handler(on_csi_node)]
    }

    pub(super) fn node(&self, name: &str) -> Option<Arc<Node>> {
        self.nodes.get(name)
    }

    pub(super) fn csi_node(&self, name: &str) -> Option<Arc<CSINode>> {
        self.csi_nodes.get(name)
    }

    /// The cluster as one driver sees it.
    pub(super) fn of<'a>(&'a self, driver: &'a str) -> DriverCluster<'a> {
        DriverCluster { segments: self, driver }
    }
}

/// The cluster as one driver sees it.
pub(super) struct DriverCluster<'a> {
    segments: &'a Segments,
    driver: &'a str,
}

impl Cluster for DriverCluster<'_> {
    fn keys(&self) -> Option<Vec<String>> {
        if let Some(keys) = lock(&self.segments.known).keys.get(self.driver) {
            return keys.clone();
        }
        let all = self.segments.csi_nodes.kept();
        let keys = all.iter().map(|node| keys_of(&node.get(), self.driver)).find(|keys| !keys.is_empty());
        lock(&self.segments.known).keys.insert(self.driver.to_owned(), keys.clone());
        keys
    }

    fn terms(&self, keys: &[String]) -> BTreeSet<Term> {
        if let Some(terms) = lock(&self.segments.known).terms.get(keys) {
            return terms.clone();
        }
        let all = self.segments.nodes.kept();
        let terms: BTreeSet<Term> = all.iter().filter_map(|node| term_of(&node.get(), keys)).collect();
        lock(&self.segments.known).terms.insert(keys.to_vec(), terms.clone());
        terms
    }
}
