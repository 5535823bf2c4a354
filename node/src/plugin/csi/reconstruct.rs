//! Reconstructs the state after a crash, from records alone. A damaged record is logged and affects only its own
//! volume (I12).

use super::cleanup::clear;
use super::disk::{Disk, StoredRecord};
use super::layout::{BlockPaths, DevicePaths, PublishPaths};
use super::vol_data::{self, VolumeData};
use crate::host::Host;
use crate::plugin::{Place, PluginError};

/// The directory of block volumes, a sibling of the drivers' directories, and its entries that are no volumes.
const DEVICES: &str = "volumeDevices";
const NO_VOLUMES: [&str; 2] = ["staging", "publish"];

/// Names of the volumes with files for the whole node.
pub(super) async fn devices(host: &Host) -> Result<Vec<String>, PluginError> {
    let disk = Disk::new(host, "restart");
    let drivers = host.paths.plugin(super::NAME);
    let mut found: Vec<String> = Vec::new();
    for driver in disk.names(&drivers).await? {
        if driver == DEVICES {
            continue;
        }
        let dir = drivers.join(&driver);
        for volume in disk.names(&dir).await? {
            let data = dir.join(volume);
            match disk.read_record(&vol_data::path_in(&data)).await {
                Ok(StoredRecord::Found(record)) => found.push(record.volume_name()),
                Ok(StoredRecord::Nothing) => left_over(&disk, &DevicePaths::in_dir(data)).await,
                Err(error) => tracing::error!(%error, "a CSI volume of this node cannot be accounted for"),
            }
        }
    }
    let blocks = blocks(host, &disk).await?;
    for volume in disk.names(&host.paths.csi_devices()).await? {
        if !NO_VOLUMES.contains(&volume.as_str()) && !blocks.iter().any(|(known, _)| *known == volume) {
            let at = DevicePaths::of_block(&host.paths, &volume);
            // A damaged record is logged and stays.
            if matches!(disk.read_record(&at.record()).await, Ok(StoredRecord::Nothing)) {
                left_over(&disk, &at).await;
            }
        }
    }
    found.extend(blocks.into_iter().map(|(_, record)| record.volume_name()));
    found.sort();
    found.dedup();
    Ok(found)
}

/// Block volumes of the node: each PersistentVolume with its record.
pub(super) async fn blocks(host: &Host, disk: &Disk<'_>) -> Result<Vec<(String, VolumeData)>, PluginError> {
    let mut found = Vec::new();
    for volume in disk.names(&host.paths.csi_devices()).await? {
        if NO_VOLUMES.contains(&volume.as_str()) {
            continue;
        }
        match disk.read_record(&DevicePaths::of_block(&host.paths, &volume).record()).await {
            Ok(StoredRecord::Found(record)) => found.push((volume, record)),
            Ok(StoredRecord::Nothing) => {}
            Err(error) => tracing::error!(%error, "a CSI block volume of this node cannot be accounted for"),
        }
    }
    Ok(found)
}

/// Cleans up a volume's directory without a record: its driver was not called yet, or everything is undone. Empty
/// directories are removed.
async fn left_over(disk: &Disk<'_>, at: &DevicePaths) {
    if let Err(error) = clear(disk, at).await {
        let dir = at.data.display();
        tracing::error!(%dir, %error, "there is no record beside a CSI volume of this node; it is left alone");
    }
}

/// The volume of a place. None: an inline volume, or one that no driver was called for.
pub(super) async fn found(host: &Host, place: &Place) -> Result<Option<String>, PluginError> {
    let disk = Disk::new(host, &format!("{}/{}", place.uid, place.dir_name));
    let (record, target) = match place.block {
        true => (
            DevicePaths::of_block(&host.paths, &place.dir_name).record(),
            BlockPaths::of(&host.paths, place).target,
        ),
        false => {
            let at = PublishPaths::of(&host.paths, place);
            (at.record(), at.target)
        }
    };
    match disk.read_record(&record).await? {
        StoredRecord::Found(record) if record.is_ephemeral() => Ok(None),
        StoredRecord::Found(record) => Ok(Some(record.volume_name())),
        StoredRecord::Nothing if disk.is_mounted(&target)? => Err(PluginError::plain(format!(
            "{} is a mount point, but its record {} is missing",
            target.display(),
            record.display()
        ))),
        StoredRecord::Nothing => Ok(None),
    }
}
