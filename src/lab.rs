//! Starts servers for `orlop lab`.

use std::error::Error;
use std::io;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use orlop_cli::args::LoopArgs;
use orlop_cli::config::{Nodes, ServerConfig};
use orlop_lab::Ready;
use tokio_util::sync::CancellationToken;

use crate::{shutdown, wiring};

/// Starts servers in this process.
pub(crate) struct Wiring;

impl orlop_lab::Plane for Wiring {
    fn stop_on_signal(&self) -> io::Result<CancellationToken> {
        shutdown::on_signal(shutdown::WITHOUT_REQUESTS)
    }

    fn serve(
        &self,
        server: Box<ServerConfig>,
        loops: LoopArgs,
        nodes: Nodes,
        stop: CancellationToken,
        ready: Ready,
    ) -> BoxFuture<'static, Result<(), Box<dyn Error + Send + Sync>>> {
        async move { Ok(wiring::serve(&server, Some(&loops), &nodes, stop, ready).await?) }.boxed()
    }
}
