//! The process of a node agent.

use std::path::Path;

use jiff::Timestamp;
use orlop_apimachinery::clock::Clock;
use orlop_client::client::{self, ConnectError, Endpoint, Lines};
use orlop_node::agent::AgentError;
use orlop_node::config::NodeConfig;
use orlop_node::join::{JoinError, JoinFiles, JoinOptions, rotation};
use tokio_util::sync::CancellationToken;

use crate::component_credentials::{self, ComponentProcess, NoCredentials};
use crate::nodes::{self, NodeError};
use crate::notify;
use crate::server_check;

/// Why the process ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AgentProcessError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Join(#[from] JoinError),
    #[error(transparent)]
    Node(#[from] NodeError),
    #[error(transparent)]
    NoCredentials(#[from] NoCredentials),
}

/// Joins, unless the machine has joined before, and runs the agent of this machine.
pub(crate) async fn join(
    options: &JoinOptions,
    config: NodeConfig,
    stop: CancellationToken,
) -> Result<(), AgentProcessError> {
    // Before the token is used.
    if !rustix::process::geteuid().is_root() {
        return Err(NodeError::Begin { name: config.name, source: AgentError::NotRoot }.into());
    }
    let joined = tokio::select! {
        () = stop.cancelled() => return Ok(()),
        joined = orlop_node::join::join(options, Timestamp::now()) => joined?,
    };
    let endpoint = Endpoint::Kubeconfig { path: Some(joined), context: None, server: None };
    run(endpoint, config, stop).await
}

/// Runs the agent of this machine. Renews its certificate if it has joined.
pub(crate) async fn run(
    endpoint: Endpoint,
    mut config: NodeConfig,
    stop: CancellationToken,
) -> Result<(), AgentProcessError> {
    config.host_path_roots = config.host_path_roots.protecting(std::slice::from_ref(&config.root_dir));
    component_credentials::required(&endpoint, ComponentProcess::Node(&config.name)).await?;
    let lines = Lines::default();
    let client = client::connect_over(endpoint.clone(), &lines).await?;
    let _check = server_check::start(client.clone(), server_check::name_of(&endpoint));
    let asked = stop.clone();
    tokio::spawn(async move {
        asked.cancelled().await;
        notify::stopping();
    });
    let files = JoinFiles::below(&config.root_dir);
    if is_joined(&endpoint, &files) {
        let renewing = rotation::keep(client.clone(), config.name.clone(), files, Clock::Wall, stop.clone());
        tokio::spawn(renewing);
    }
    nodes::run(config, &endpoint, client, lines, notify::ready, stop).await?;
    tracing::info!("stopped");
    Ok(())
}

/// Whether the agent uses the kubeconfig of its join, also through a link.
fn is_joined(endpoint: &Endpoint, files: &JoinFiles) -> bool {
    match endpoint {
        Endpoint::Kubeconfig { path: Some(path), .. } => {
            let real = |path: &Path| path.canonicalize().ok();
            real(path).is_some_and(|path| real(&files.kubeconfig) == Some(path))
        }
        Endpoint::Kubeconfig { path: None, .. } | Endpoint::Url { .. } | Endpoint::Certificate(_) => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn only_the_kubeconfig_of_the_join_is_renewed() {
        let dir = tempfile::tempdir().unwrap();
        let files = JoinFiles::below(dir.path());
        let (link, other) = (dir.path().join("link"), dir.path().join("other"));
        std::fs::write(&other, "").unwrap();
        std::os::unix::fs::symlink(&files.kubeconfig, &link).unwrap();
        let of = |path: Option<&Path>| Endpoint::Kubeconfig {
            path: path.map(Path::to_owned),
            context: None,
            server: None,
        };
        assert!(!is_joined(&of(Some(&files.kubeconfig)), &files), "there is none");
        std::fs::write(&files.kubeconfig, "").unwrap();
        for (path, want) in
            [(Some(&*files.kubeconfig), true), (Some(&*link), true), (Some(&*other), false), (None, false)]
        {
            assert_eq!(is_joined(&of(path), &files), want, "{path:?}");
        }
    }
}
