//! The server of a laboratory, as the root package starts it.

use std::error::Error;
use std::io;

use orlop_cli::args::LoopArgs;
use orlop_cli::config::{Nodes, ServerConfig};
use tokio_util::sync::CancellationToken;

/// Starts the parts of a laboratory that this crate cannot see.
pub trait Plane: Send + 'static {
    /// A token that the first SIGINT or SIGTERM cancels.
    ///
    /// # Errors
    /// Signals cannot be received.
    fn stop_on_signal() -> io::Result<CancellationToken>;

    /// Runs the API server and the controllers until `stop`. `ready` receives the URL, and the router for clients in this process.
    fn serve(
        server: Box<ServerConfig>,
        loops: LoopArgs,
        nodes: Nodes,
        stop: CancellationToken,
        ready: impl FnOnce(&str, &axum::Router) + Send + 'static,
    ) -> impl Future<Output = Result<(), Box<dyn Error + Send + Sync>>> + Send;
}
