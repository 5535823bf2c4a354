//! What runs a pod once its volumes are there: nothing (`none`, somebody else uses the paths) or processes. A runtime knows pods
//! by their UID, survives a restart of the agent, and tells the state of containers as the API has it.

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

/// A volume of a pod as its containers get it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodPath {
    /// Its name in the pod.
    pub volume: String,
    /// Where it is on this machine.
    pub path: PathBuf,
    /// Nothing may be written through it.
    pub read_only: bool,
    /// It is a device.
    pub block: bool,
}

/// How a pod is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodState {
    /// Of `initContainers`, in their order.
    pub init: Vec<ContainerStatus>,
    /// Of `containers`, in their order.
    pub containers: Vec<ContainerStatus>,
    /// All containers have ended and none will be started again.
    pub ended: bool,
    /// Why it failed although no container did: `DeadlineExceeded` with its message.
    pub failure: Option<(String, String)>,
}

/// A runtime could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// A pod cannot be started; the text becomes an event.
    #[error("pod {pod} cannot be started: {why}")]
    Start {
        /// Namespace and name.
        pod: String,
        /// In words.
        why: String,
    },
    /// A pod cannot be stopped; it is tried again.
    #[error("pod with UID {uid} cannot be stopped: {why}")]
    Stop {
        /// UID.
        uid: String,
        /// In words.
        why: String,
    },
}

/// What runs pods.
#[async_trait]
pub trait Runtime: Send + Sync + 'static {
    /// Starts a pod whose volumes are mounted. A pod that runs already is left as it is.
    async fn start(&self, pod: Arc<Pod>, paths: Vec<PodPath>) -> Result<(), RuntimeError>;

    /// How a pod is, and the moments when that changes; none when it is not known here.
    fn state(&self, uid: &str) -> Option<watch::Receiver<PodState>>;

    /// Ends a pod: containers are asked to stop, and killed after `grace`. Returns when nothing of it runs or holds a volume. A pod that
    /// is not known here is no error.
    async fn stop(&self, uid: &str, grace: Duration) -> Result<(), RuntimeError>;

    /// Pods that run from before the agent was started.
    async fn known(&self) -> Vec<String>;

    /// Where the log of a container is: of its last run, or the one before. Runtimes that run nothing have none.
    ///
    /// # Errors
    /// There is no such pod or container, or it has no log; in upstream's words.
    fn log(&self, namespace: &str, pod: &str, container: &str, previous: bool) -> Result<LogPlace, LogError> {
        let _ = (namespace, container, previous);
        Err(LogError::NotYet(format!(
            "the agent does not run the containers of pod {pod:?}, so it has no log of them"
        )))
    }

    /// The object of a pod that was stopped is gone: what was kept of it (its last state, logs) may go too.
    async fn forget(&self, uid: &str) {
        let _ = uid;
    }
}
