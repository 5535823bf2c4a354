//! The state that all pod workers share, and the view of a pod that each of them follows.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use tokio::sync::watch;

use super::admit::Admitted;
use super::volume_manager::VolumeManager;
use crate::host::Host;
use crate::runtime::Runtime;

/// The state that all pod workers share.
pub(super) struct WorkerContext {
    pub(super) host: Host,
    pub(super) volumes: Arc<dyn VolumeManager>,
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) node: watch::Receiver<Option<Arc<Node>>>,
    pub(super) admitted: Admitted,
}

/// A pod as the API server last reported it.
#[derive(Clone, Debug, Default)]
pub(super) struct ObservedPod {
    /// Its latest version; `None` when only this machine knows the pod.
    pub(super) pod: Option<Arc<Pod>>,
    /// The API server has deleted the pod.
    pub(super) is_gone: bool,
}
