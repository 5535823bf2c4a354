//! The context that the manager passes to every controller, and the type of a controller's body.

use std::fmt::Display;
use std::sync::Arc;

use futures::future::BoxFuture;
use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::options::Options;
use kube::Resource;
use orlop_apimachinery::clock::Clock;
use orlop_client::failing::{Failing, Syncs};
use orlop_client::informers::Informers;
use orlop_client::recorder::{EventSink, Recorder};
use orlop_csi::drivers::Drivers;

/// The dependencies and settings that a controller runs with.
#[derive(Clone)]
pub struct Context {
    /// Client for the API server, with the controller's own user.
    pub client: Client,
    /// Caches, shared by all controllers.
    pub informers: Informers,
    /// Receives events to write, with the controller's own user.
    pub events: EventSink,
    /// CSI drivers that can be called.
    pub drivers: Drivers,
    /// The settings of all controllers.
    pub options: Arc<Options>,
    /// The objects whose syncs fail.
    pub failing: Failing,
    /// Wall-clock time.
    pub clock: Clock,
    /// Cancelled to request the controller's shutdown.
    pub shutdown: CancellationToken,
}

impl Context {
    /// Returns a recorder that writes events as `component`.
    pub fn recorder(&self, component: impl Into<Arc<str>>) -> Recorder {
        self.events.recorder(component)
    }

    /// For the workers of a queue whose keys name objects of kind `R`.
    pub fn syncs<R: Resource<DynamicType = ()>, K: Display>(&self, controller: &'static str) -> Syncs<K> {
        Syncs::of::<R>(controller, &self.failing)
    }

    /// For the workers of a queue whose keys name no single object.
    pub fn other_syncs<K: Display>(&self, controller: &'static str) -> Syncs<K> {
        Syncs::other(controller, &self.failing)
    }

    /// Waits until `synced` completes. Returns false if shutdown is requested first (the server may be unreachable):
    /// the controller must then return, because it cannot act on an incomplete cache.
    pub async fn ready(&self, synced: impl Future) -> bool {
        tokio::select! {
            () = self.shutdown.cancelled() => false,
            _ = synced => true,
        }
    }
}

/// The reason why a controller ended before shutdown was requested.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ControllerError(pub String);

/// The body of a controller: runs until `Context::shutdown` is cancelled. It is dropped if it does not return
/// after that.
pub type Run = fn(Context) -> BoxFuture<'static, Result<(), ControllerError>>;
