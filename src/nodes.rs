//! Runs node agents: that of this machine, and virtual nodes, whose mounts are only recorded.

use std::path::{Path, PathBuf};

use orlop_apiserver::ApiService;
use orlop_apiserver::authentication::in_process;
use orlop_auth::UserInfo;
use orlop_cli::config::{Nodes, host_of};
use orlop_client::client::{self, Endpoint, Lines};
use orlop_node::agent::{Agent, AgentError, Inputs};
use orlop_node::config::NodeConfig;
use orlop_node::eviction::Thresholds;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// Why node agents ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NodeError {
    /// An agent cannot start.
    #[error("node {name} cannot begin: {source}")]
    Begin { name: String, source: AgentError },
    /// A panic; its message is in the log already.
    #[error("node {0} ended by a panic")]
    Panic(String),
    /// Mounts need root.
    #[error(
        "--node mounts volumes on this machine, and only root may: run it as root, or leave --node out (--virtual-nodes N needs no root)"
    )]
    NotRoot,
    /// The directory for the records of virtual nodes cannot be created.
    #[error("no directory for virtual nodes: {0}")]
    Directory(#[source] std::io::Error),
}

/// Starts a node agent.
async fn begin(inputs: Inputs, stop: &CancellationToken) -> Result<(String, Agent), NodeError> {
    let name = inputs.config.name.clone();
    match Agent::start(inputs, stop.clone()).await {
        Ok(agent) => Ok((name, agent)),
        Err(source) => Err(NodeError::Begin { name, source }),
    }
}

/// Runs the agent of a machine with a remote server until `stop`. Calls `ready` when the agent has started.
pub(crate) async fn run(
    config: NodeConfig,
    endpoint: &Endpoint,
    client: kube::Client,
    lines: Lines,
    ready: impl FnOnce(),
    stop: CancellationToken,
) -> Result<(), NodeError> {
    let server = host_of(endpoint);
    let shown =
        server.as_ref().map_or_else(String::new, |(host, port)| format!(", its server is {host}:{port}"));
    let (name, agent) = begin(Inputs { config, client, lines, server }, &stop).await?;
    tracing::info!("node {name} has begun{shown}");
    ready();
    agent.ended().await.map_err(|_| NodeError::Panic(name))
}

/// All nodes in the process of the API server.
pub(crate) struct Local {
    agents: Vec<(String, Agent)>,
    /// Without a data directory the records are deleted with the process, as the objects are.
    _records: Option<TempDir>,
}

/// Whether the user may run these nodes. Checked before anything is opened.
pub(crate) fn allowed(nodes: &Nodes, is_root: bool) -> Result<(), NodeError> {
    if nodes.machine.is_some() && !is_root { Err(NodeError::NotRoot) } else { Ok(()) }
}

impl Local {
    /// Starts the agents. Each connects to the server in this process as its node. No volume may erase the directories `own`.
    pub(crate) async fn begin(
        nodes: &Nodes,
        data_dir: Option<&Path>,
        own: &[PathBuf],
        service: &ApiService,
        stop: &CancellationToken,
    ) -> Result<Self, NodeError> {
        let mut local = Local { agents: Vec::new(), _records: None };
        let mut configs: Vec<NodeConfig> =
            nodes.machine.iter().map(|config| NodeConfig::clone(config)).collect();
        if nodes.virtual_nodes > 0 {
            let dir = match data_dir {
                Some(dir) => dir.join("virtual-nodes"),
                None => {
                    let records = tempfile::tempdir().map_err(NodeError::Directory)?;
                    let dir = records.path().to_owned();
                    local._records = Some(records);
                    dir
                }
            };
            configs.extend((1..=nodes.virtual_nodes).map(|number| virtual_node(&dir, number)));
        }
        for mut config in configs {
            config.host_path_roots = config.host_path_roots.protecting(own);
            let user = UserInfo::node(&config.name);
            let client = client::in_process(in_process(service.clone(), user));
            local
                .agents
                .push(begin(Inputs { config, client, lines: Lines::default(), server: None }, stop).await?);
        }
        Ok(local)
    }

    /// Waits until all agents have ended.
    pub(crate) async fn ended(self) -> Result<(), NodeError> {
        let mut outcome = Ok(());
        for (name, agent) in self.agents {
            let end = agent.ended().await.map_err(|_| NodeError::Panic(name));
            outcome = outcome.and(end);
        }
        outcome
    }
}

fn virtual_node(dir: &Path, number: u32) -> NodeConfig {
    let name = format!("virtual-{number}");
    let root: PathBuf = dir.join(&name);
    // Virtual nodes need no resources, so low resources on the machine must not affect them.
    NodeConfig { is_virtual: true, thresholds: Thresholds::default(), ..NodeConfig::new(name, root) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_node_requires_root() {
        let machine = Some(Box::new(NodeConfig::new("n", "/x")));
        for (machine, is_root, want) in
            [(machine.clone(), true, true), (machine, false, false), (None, false, true)]
        {
            let nodes = Nodes { machine, virtual_nodes: 3 };
            let outcome = allowed(&nodes, is_root);
            assert_eq!(outcome.is_ok(), want);
            if let Err(error) = outcome {
                assert!(error.to_string().contains("run it as root"), "{error}");
            }
        }
    }
}
