//! Starts servers for `orlop lab`.

use std::error::Error;
use std::io;

use orlop_cli::args::LoopArgs;
use orlop_cli::config::{Nodes, ServerConfig};
use tokio_util::sync::CancellationToken;

use crate::{shutdown, wiring};

/// The wiring of this process.
pub(crate) struct Wiring;

impl orlop_lab::Plane for Wiring {
    fn stop_on_signal() -> io::Result<CancellationToken> {
        shutdown::on_signal()
    }

    async fn serve(
        server: Box<ServerConfig>,
        loops: LoopArgs,
        nodes: Nodes,
        stop: CancellationToken,
        ready: impl FnOnce(&str, &axum::Router) + Send,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(wiring::serve(&server, Some(&loops), &nodes, stop, ready).await?)
    }
}
