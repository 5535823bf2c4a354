//! How `fsGroup` is applied, as the volume manager asks for it. Whoever walks the file system does it behind this trait.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;

use crate::host::Host;
use crate::plugin::PluginError;

/// What is to belong to a group.
#[derive(Clone, Debug)]
pub struct OwnershipRequest {
    /// The queue of the volume, for [`crate::mount::Mounts::run`].
    pub queue: String,
    /// Where the pod finds the volume.
    pub path: PathBuf,
    /// The group.
    pub fs_group: i64,
    /// `fsGroupChangePolicy: OnRootMismatch`: nothing is done when the root has it already.
    pub on_root_mismatch: bool,
    /// How many files were seen so far; whoever walks counts here.
    pub files: Arc<AtomicU64>,
}

/// Applies `fsGroup`.
#[async_trait]
pub trait VolumeOwnership: Send + Sync + 'static {
    /// Gives everything below a path to a group (upstream: SetVolumeOwnership). May be repeated.
    ///
    /// # Errors
    /// Something could not be changed; the volume stays mounted and it is tried again.
    async fn apply(&self, host: &Host, owned: OwnershipRequest) -> Result<(), PluginError>;
}

/// `fsGroup` of a pod.
pub(super) fn fs_group(pod: &Pod) -> Option<i64> {
    pod.spec.as_ref()?.security_context.as_ref()?.fs_group
}

/// Whether the pod wants nothing done when the root of a volume is right.
pub(super) fn on_root_mismatch(pod: &Pod) -> bool {
    let context = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    context.and_then(|context| context.fs_group_change_policy.as_deref()) == Some("OnRootMismatch")
}
