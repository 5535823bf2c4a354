//! Runtimes, which run a pod once its volumes are mounted: nothing (`none`, an external program uses the paths)
//! or processes. A runtime identifies pods by UID, survives a restart of the agent, and reports container states
//! as the API defines them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

mod captured_output;
pub mod hooks;
pub mod logs;
pub mod none;
pub mod process;
mod records;

use logs::{LogError, LogPlace};

/// A volume of a pod as its containers see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodPath {
    /// Its name in the pod.
    pub volume: String,
    /// The path on this machine.
    pub path: PathBuf,
    /// Whether it is read-only.
    pub read_only: bool,
    /// Whether it is a block device.
    pub block: bool,
}

/// The state of a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodState {
    /// Statuses of `initContainers`, in their order.
    pub init: Vec<ContainerStatus>,
    /// Statuses of `containers`, in their order.
    pub containers: Vec<ContainerStatus>,
    /// All containers have exited and none is started again.
    pub ended: bool,
    /// Why the pod failed although no container did: `DeadlineExceeded` with its message.
    pub failure: Option<(String, String)>,
}

/// A runtime operation failed.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// A pod cannot be started; the message becomes an event.
    #[error("pod {pod} cannot be started: {why}")]
    Start {
        /// Namespace and name.
        pod: String,
        /// The reason.
        why: String,
    },
    /// A pod cannot be stopped; the operation is retried.
    #[error("pod with UID {uid} cannot be stopped: {why}")]
    Stop {
        /// UID.
        uid: String,
        /// The reason.
        why: String,
    },
}

/// A pod runtime.
#[async_trait]
pub trait Runtime: Send + Sync + 'static {
    /// Starts a pod whose volumes are mounted. A pod that already runs is left unchanged.
    async fn start(&self, pod: Arc<Pod>, paths: Vec<PodPath>) -> Result<(), RuntimeError>;

    /// The state of a pod, with its changes; `None` when the pod is unknown.
    fn state(&self, uid: &str) -> Option<watch::Receiver<PodState>>;

    /// Stops a pod: containers get SIGTERM, and SIGKILL after `grace`. Returns when no process of the pod runs or
    /// uses a volume. An unknown pod is not an error.
    async fn stop(&self, uid: &str, grace: Duration) -> Result<(), RuntimeError>;

    /// Pods that were running before the agent started.
    async fn known(&self) -> Vec<String>;

    /// The location of the log of a container, of its last run or the previous one. Runtimes without containers have
    /// no logs.
    ///
    /// # Errors
    /// The pod or container does not exist, or it has no log; the messages are upstream's.
    fn log(&self, namespace: &str, pod: &str, container: &str, previous: bool) -> Result<LogPlace, LogError> {
        let _ = (namespace, container, previous);
        Err(LogError::NotYet(format!(
            "the agent does not run the containers of pod {pod:?}, so it has no log of them"
        )))
    }

    /// The object of a stopped pod is deleted: the runtime may delete its last state and its logs.
    async fn forget(&self, uid: &str) {
        let _ = uid;
    }
}
