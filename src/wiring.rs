//! The only place that sees every crate: builds a process from its parts, and takes it down in order.

use std::time::Duration;

use crate::config::{Role, ServerConfig};
use crate::data_dir::{self, DataDirError};
use crate::listen::ListenError;
use crate::shutdown;

/// Why a process ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error("signals cannot be received")]
    Signals(#[source] std::io::Error),
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    #[error(transparent)]
    Listen(#[from] ListenError),
}

/// Runs the parts of a role until the process is asked to stop.
pub(crate) async fn run(role: &Role) -> Result<(), RunError> {
    match role {
        Role::Serve(server, _) | Role::Apiserver(server) => serve(server).await,
        Role::Controller(..) => Ok(()),
    }
}

async fn serve(config: &ServerConfig) -> Result<(), RunError> {
    let stop = shutdown::on_signal().map_err(RunError::Signals)?;
    let endpoint = &config.endpoint;
    let auth = endpoint.auth().map_err(ListenError::from)?;
    let listener = endpoint.bind()?;
    let data_dir = data_dir::prepare(config.store.data_dir.as_deref())?;
    let router = orlop_web::router();

    let url = listener.url();
    let handle = listener.handle();
    let mut serving = tokio::spawn(listener.serve(auth.protect(router)));
    endpoint.announce(&url)?;
    tracing::info!("data in {}; try: {}", data_dir.display(), endpoint.kubectl(&url));
    tokio::select! {
        () = stop.cancelled() => {}
        ended = &mut serving => return ended.unwrap_or(Ok(())).map_err(RunError::from),
    }
    tokio::time::sleep(endpoint.shutdown_delay).await;
    handle.graceful_shutdown(Some(Duration::from_secs(10)));
    serving.await.unwrap_or(Ok(())).map_err(RunError::from)
}
