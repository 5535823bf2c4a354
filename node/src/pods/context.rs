//! The state that all pod workers share, and the view of a pod that each of them follows.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use tokio::sync::watch;

use super::admit::Admitted;
use super::volume_manager::VolumeManager;
use crate::host::Host;
use crate::runtime::Runtime;

/// What all lives share.
pub(super) struct WorkerContext {
    pub(super) host: Host,
    pub(super) volumes: Arc<dyn VolumeManager>,
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) node: watch::Receiver<Option<Arc<Node>>>,
    pub(super) admitted: Admitted,
}

/// A pod as the API has it.
#[derive(Clone, Debug, Default)]
pub(super) struct ObservedPod {
    /// Its last version; none when only this machine knows of it.
    pub(super) pod: Option<Arc<Pod>>,
    /// The API has it no more.
    pub(super) is_gone: bool,
}
