//! The volume manager as pod workers use it.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use tokio::sync::watch;

use crate::volumes::{Finding, PodVolumes, Volumes};

/// What the life of a pod needs of whoever mounts: see [`Volumes`], which is it.
#[async_trait::async_trait]
pub trait VolumeManager: Send + Sync + 'static {
    /// A pod wants its volumes, or has changed.
    fn want(&self, pod: Arc<Pod>);
    /// What is here for a pod stays until it is released.
    fn hold(&self, uid: &str);
    /// Nothing of the pod runs any more.
    fn release(&self, uid: &str);
    /// How the volumes of a pod are.
    fn state(&self, uid: &str) -> watch::Receiver<PodVolumes>;
    /// All pods of this node are known.
    fn synced(&self);
    /// Looks after directories of pods that nobody knows.
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
