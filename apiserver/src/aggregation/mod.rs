//! API groups of other servers (aggregated API servers): an APIService with a Service names such a server.
//!
//! [`follow`] reads these objects, has `resolve` find the servers, publishes them as [`Remotes`], has `check` request the resources of
//! each server when the `schedule` requires it, and has `write` save the `condition` `Available`.
//! The handler chain asks for each request whether it belongs to one of them, and [`forward`] sends it there: `exchange` is the
//! connection, `target` the path and the query, `headers` the headers that pass, `via` the mark of requests that this server has sent, and
//! [`crate::client_identity`] the certificate. `discovered` are the resources that the documents of discovery list.
//!
//! Upstream: kube-aggregator.

mod check;
mod condition;
mod discovered;
mod exchange;
mod follow;
mod forward;
mod remote;
mod resolve;
mod schedule;
mod target;
mod via;
mod write;

use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use crate::client_identity::ClientIdentity;
use crate::custom::Served;
use crate::custom::documents::Discovery;
pub(crate) use follow::follow;
pub(crate) use forward::forward;
use orlop_openapi::document::Document;
pub(crate) use remote::{RemoteGroup, RemoteService, Remotes};
pub(crate) use resolve::read_stored;
use via::Via;

/// The groups of other servers.
#[derive(Default)]
pub(crate) struct Aggregation {
    current: ArcSwap<Remotes>,
    /// The certificate with which this server names users to the others.
    identity: Option<Arc<ClientIdentity>>,
    /// Marks the requests of this server.
    via: Via,
    /// The aggregated discovery document of these groups and those of this server.
    pub(crate) discovery: DocumentCache<Discovery>,
    /// The index of the OpenAPI v3 documents of these groups and those of this server.
    pub(crate) openapi_index: DocumentCache<Document>,
}

/// A cached document.
pub(crate) struct DocumentCache<T>(Mutex<Option<CachedDocument<T>>>);

/// A document, and the kinds and servers that it was built from.
struct CachedDocument<T> {
    served: Arc<Served>,
    remotes: Arc<Remotes>,
    document: Arc<T>,
}

impl<T> Default for DocumentCache<T> {
    fn default() -> Self {
        DocumentCache(Mutex::default())
    }
}

impl<T> DocumentCache<T> {
    /// The document for these kinds and servers.
    pub(crate) fn get(&self, served: &Arc<Served>, remotes: &Arc<Remotes>) -> Option<Arc<T>> {
        let cached = self.0.lock();
        let cached = cached.as_ref()?;
        let is_current = Arc::ptr_eq(&cached.served, served) && Arc::ptr_eq(&cached.remotes, remotes);
        is_current.then(|| cached.document.clone())
    }

    /// Replaces the document.
    pub(crate) fn set(&self, served: Arc<Served>, remotes: Arc<Remotes>, document: Arc<T>) {
        *self.0.lock() = Some(CachedDocument { served, remotes, document });
    }
}

impl Aggregation {
    /// Groups of other servers, of which none is known yet.
    pub(crate) fn new(identity: Option<Arc<ClientIdentity>>) -> Self {
        Aggregation { identity, ..Aggregation::default() }
    }

    /// The groups of other servers at this time.
    pub(crate) fn now(&self) -> Arc<Remotes> {
        self.current.load_full()
    }

    /// The server of a path; `None` if this server serves it itself.
    pub(crate) fn of_path(&self, path: &str) -> Option<Arc<RemoteService>> {
        let current = self.current.load();
        if current.is_empty() { None } else { current.of_path(path) }
    }
}
