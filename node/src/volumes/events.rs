//! Words for people: which event says what about an operation, letter by letter as upstream has it. Pure.

use orlop_client::names::reason;

use super::actual_state::Operation;
use super::populator::ResolvedVolume;

/// Reason and text of the event on the pod for an operation that failed; none for what pods are not told of.
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
        // Told where it is tried, and refusals bring their own words.
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

/// A device is there for a pod. Of file systems upstream tells nothing, there would be too many.
pub(super) fn mapped(volume: &str, path: &str) -> String {
    format!("MapVolume.MapPodDevice succeeded for volume {volume:?} volumeMapPath {path:?}")
}

/// What is on the node is as large as its volume.
pub(super) fn expanded(volume: &str, node: &str) -> String {
    format!("MountVolume.NodeExpandVolume succeeded for volume {volume:?} {node}")
}

/// A volume is not attached after a long time.
pub(super) fn not_attached(volume: &str, node: &str) -> String {
    format!(
        "timed out waiting for volume {volume:?} to be attached: node {node:?} does not have it in status.volumesAttached; \
         look at its VolumeAttachment and at the attach/detach controller"
    )
}

/// `fsGroup` takes long, at the first time it is told.
pub(super) fn ownership_is_slow(path: &str) -> String {
    format!(
        "Setting volume ownership for {path} is taking longer than expected, consider using OnRootMismatch - \
         https://kubernetes.io/docs/tasks/configure-pod-container/security-context/#configure-volume-permission-and-ownership-change-policy-for-pods"
    )
}

/// The same later on.
pub(super) fn ownership_goes_on(path: &str, files: u64) -> String {
    format!("Setting volume ownership for {path}, processed {files} files.")
}

/// Another pod had the volume first, with another group.
pub(super) fn other_group(wanted: i64, volume: &str, has: Option<i64>) -> String {
    let has = has.map_or_else(|| "none".to_owned(), |group| group.to_string());
    format!(
        "The requested fsGroup is {wanted}, but the volume {volume} has GID {has}. The volume may not be shareable."
    )
}
