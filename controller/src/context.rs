//! What every controller receives from the manager when it starts, and how it returns.

use std::sync::Arc;

use futures::future::BoxFuture;
use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::options::Options;
use orlop_apimachinery::clock::Clock;
use orlop_client::informers::Informers;
use orlop_client::recorder::{EventSink, Recorder};
use orlop_csi::drivers::Drivers;

/// The dependencies and settings that a controller runs with.
#[derive(Clone)]
pub struct Context {
    /// Reaches the API server.
    pub client: Client,
    /// Caches, shared by all controllers.
    pub informers: Informers,
    /// Takes events.
    pub events: EventSink,
    /// CSI drivers that can be called.
    pub drivers: Drivers,
    /// Settings.
    pub options: Arc<Options>,
    /// Wall-clock time.
    pub clock: Clock,
    /// Cancelled when the controller has to end.
    pub shutdown: CancellationToken,
}

impl Context {
    /// A recorder that writes as `component`.
    pub fn recorder(&self, component: impl Into<Arc<str>>) -> Recorder {
        self.events.recorder(component)
    }

    /// Waits for first lists. False when the end was asked for before they were complete (the server may be away): the
    /// controller has to return then, for half of the cluster is nothing to act on.
    pub async fn ready(&self, synced: impl Future) -> bool {
        tokio::select! {
            () = self.shutdown.cancelled() => false,
            _ = synced => true,
        }
    }
}

/// The reason why a controller ended before its shutdown.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ControllerError(pub String);

/// The body of a controller: runs until `Context::shutdown` is cancelled. It is dropped if it does not end by itself.
pub type Run = fn(Context) -> BoxFuture<'static, Result<(), ControllerError>>;
