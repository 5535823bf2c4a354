//! The server of a lab, as the root package starts it.

use std::error::Error;
use std::io;

use futures::future::BoxFuture;
use orlop_apiserver::ApiService;
use orlop_cli::args::LoopArgs;
use orlop_cli::config::{Nodes, ServerConfig};
use tokio_util::sync::CancellationToken;

/// Receives the URL of the server, and the service for clients in this process.
pub type Ready = Box<dyn FnOnce(&str, &ApiService) + Send>;

/// Starts the parts of a lab that this crate does not depend on.
pub trait Plane: Send + Sync {
    /// A token that the first SIGINT or SIGTERM cancels.
    ///
    /// # Errors
    /// Signals cannot be received.
    fn stop_on_signal(&self) -> io::Result<CancellationToken>;

    /// Runs the API server and the controllers until `stop`. `ready` receives the URL, and the service for clients in this process.
    fn serve(
        &self,
        server: Box<ServerConfig>,
        loops: LoopArgs,
        nodes: Nodes,
        stop: CancellationToken,
        ready: Ready,
    ) -> BoxFuture<'static, Result<(), Box<dyn Error + Send + Sync>>>;
}
