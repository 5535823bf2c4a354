//! The interface of the volume manager that pod workers use.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use tokio::sync::watch;

use crate::volumes::{Finding, PodVolumes, Volumes};

/// The operations that pod workers need; [`Volumes`] implements them.
#[async_trait::async_trait]
pub trait VolumeManager: Send + Sync + 'static {
    /// Requests the volumes of a pod, again after every change of the pod.
    fn want(&self, pod: Arc<Pod>);
    /// Keeps everything that is mounted for a pod until [`release`](Self::release).
    fn hold(&self, uid: &str);
    /// Releases the volumes: no container of the pod runs any more.
    fn release(&self, uid: &str);
    /// The state of the volumes of a pod.
    fn state(&self, uid: &str) -> watch::Receiver<PodVolumes>;
    /// Reports that all pods of this node are known.
    fn synced(&self);
    /// Cleans up directories of unknown pods.
    async fn tidy(&self) -> Vec<Finding>;
}

#[async_trait::async_trait]
impl VolumeManager for Volumes {
    fn want(&self, pod: Arc<Pod>) {
        Volumes::want(self, pod);
    }

    fn hold(&self, uid: &str) {
        Volumes::hold(self, uid);
    }

    fn release(&self, uid: &str) {
        Volumes::release(self, uid);
    }

    fn state(&self, uid: &str) -> watch::Receiver<PodVolumes> {
        Volumes::state(self, uid)
    }

    fn synced(&self) {
        Volumes::synced(self);
    }

    async fn tidy(&self) -> Vec<Finding> {
        self.gc(false).await
    }
}
