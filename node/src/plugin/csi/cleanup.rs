//! Removes the directories and the record of a CSI volume that its driver no longer uses.

use super::disk::Disk;
use super::layout::DevicePaths;
use crate::plugin::PluginError;

/// Removes the files that were created before the driver was called, and the record after everything that it
/// describes.
pub(super) async fn clear(disk: &Disk<'_>, at: &DevicePaths) -> Result<(), PluginError> {
    if disk.is_mounted(&at.staging)? {
        let message = format!("kubernetes.io/csi: something is still mounted at {}", at.staging.display());
        return Err(PluginError::uncertain(message));
    }
    disk.remove_dir(&at.staging).await?;
    disk.remove_record(&at.record()).await?;
    for dir in &at.pods {
        disk.tidy(dir).await?;
    }
    for dir in at.pods.iter().chain(&at.parents) {
        disk.remove_dir_if_empty(dir).await?;
    }
    Ok(())
}
