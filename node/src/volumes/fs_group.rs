//! The interface through which the volume manager applies `fsGroup`. The implementation walks the file system.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;

use crate::host::Host;
use crate::plugin::PluginError;

/// A request to apply `fsGroup`.
#[derive(Clone, Debug)]
pub struct OwnershipRequest {
    /// The queue of the volume, for [`crate::mount::Mounts::run`].
    pub queue: String,
    /// The path of the volume for the pod.
    pub path: PathBuf,
    /// The group ID.
    pub fs_group: i64,
    /// `fsGroupChangePolicy: OnRootMismatch`: skip the volume when its root already has the group.
    pub on_root_mismatch: bool,
    /// The number of files processed so far, incremented by the implementation.
    pub files: Arc<AtomicU64>,
}

/// Applies `fsGroup` to a volume.
#[async_trait]
pub trait VolumeOwnership: Send + Sync + 'static {
    /// Sets the group of everything below a path (upstream: SetVolumeOwnership). Idempotent.
    ///
    /// # Errors
    /// A file could not be changed; the volume stays mounted and the caller retries.
    async fn apply(&self, host: &Host, owned: OwnershipRequest) -> Result<(), PluginError>;
}

/// The `fsGroup` of a pod.
pub(super) fn fs_group(pod: &Pod) -> Option<i64> {
    pod.spec.as_ref()?.security_context.as_ref()?.fs_group
}

/// Whether the policy of the pod is `OnRootMismatch`.
pub(super) fn on_root_mismatch(pod: &Pod) -> bool {
    let context = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    context.and_then(|context| context.fs_group_change_policy.as_deref()) == Some("OnRootMismatch")
}
