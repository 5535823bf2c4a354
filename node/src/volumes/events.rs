//! Event reasons and messages of volume operations, identical to upstream's. Pure.

use orlop_client::names::reason;

use super::actual_state::Operation;
use super::populator::ResolvedVolume;

/// Reason and message of the event on the pod for a failed operation; `None` for operations without an event.
pub(super) fn failure(
    operation: &Operation,
    wanted: &ResolvedVolume,
    why: &str,
) -> Option<(&'static str, String)> {
    let block = wanted.spec.block;
    let what = match operation {
        Operation::MountDevice if block => "MapVolume.SetUpDevice failed",
        Operation::MountDevice => "MountVolume.MountDevice failed",
        Operation::SetUp(_) | Operation::Refresh(_) if block => "MapVolume.MapPodDevice failed",
        Operation::SetUp(_) | Operation::Refresh(_) => "MountVolume.SetUp failed",
        // Expansions emit their own events, and refusals have their own messages.
        Operation::Expand(_) | Operation::Refuse(_) => return None,
        Operation::TearDown(_) | Operation::UnmountDevice => return None,
    };
    let reason = if block { reason::FAILED_MAP_VOLUME } else { reason::FAILED_MOUNT };
    Some((reason, about(what, wanted.spec.dir_name(), why)))
}

/// `WHAT for volume "NAME" : WHY`.
pub(super) fn about(what: &str, volume: &str, why: &str) -> String {
    format!("{what} for volume {volume:?} : {why}")
}

/// A device is mapped for a pod. Like upstream, there is no such event for file systems, because there would be
/// too many.
pub(super) fn mapped(volume: &str, path: &str) -> String {
    format!("MapVolume.MapPodDevice succeeded for volume {volume:?} volumeMapPath {path:?}")
}

/// The file system on the node has the size of the volume.
pub(super) fn expanded(volume: &str, node: &str) -> String {
    format!("MountVolume.NodeExpandVolume succeeded for volume {volume:?} {node}")
}

/// A volume is still not attached after a long time.
pub(super) fn not_attached(volume: &str, node: &str) -> String {
    format!(
        "timed out waiting for volume {volume:?} to be attached: node {node:?} does not have it in status.volumesAttached; \
         look at its VolumeAttachment and at the attach/detach controller"
    )
}

/// Applying `fsGroup` takes long: the first event.
pub(super) fn ownership_is_slow(path: &str) -> String {
    format!(
        "Setting volume ownership for {path} is taking longer than expected, consider using OnRootMismatch - \
         https://kubernetes.io/docs/tasks/configure-pod-container/security-context/#configure-volume-permission-and-ownership-change-policy-for-pods"
    )
}

/// The later events, with the number of files.
pub(super) fn ownership_goes_on(path: &str, files: u64) -> String {
    format!("Setting volume ownership for {path}, processed {files} files.")
}

/// Another pod mounted the volume first, with another group.
pub(super) fn other_group(wanted: i64, volume: &str, has: Option<i64>) -> String {
    let has = has.map_or_else(|| "none".to_owned(), |group| group.to_string());
    format!(
        "The requested fsGroup is {wanted}, but the volume {volume} has GID {has}. The volume may not be shareable."
    )
}
