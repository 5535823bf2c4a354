//! What a crash left, from records alone. A damaged record is told in the log and holds up nothing but its own volume (I12).

use super::cleanup::clear;
use super::disk::{Disk, StoredRecord};
use super::layout::{BlockPaths, DevicePaths, PublishPaths};
use super::vol_data::{self, VolumeData};
use crate::host::Host;
use crate::plugin::{Place, PluginError};

/// The directory of block volumes, which stands among those of drivers, and what is in it besides volumes.
const DEVICES: &str = "volumeDevices";
const NO_VOLUMES: [&str; 2] = ["staging", "publish"];

/// Names of volumes that have something for the whole node.
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
            // A damaged record is told, and stays.
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

/// Block volumes of the node: the PersistentVolume, and the record.
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

/// A volume's directory without a record: its driver was not asked yet, or everything is undone. What is empty goes.
async fn left_over(disk: &Disk<'_>, at: &DevicePaths) {
    if let Err(error) = clear(disk, at).await {
        let dir = at.data.display();
        tracing::error!(%dir, %error, "there is no record beside a CSI volume of this node; it is left alone");
    }
}

/// The volume in a place. None: it is the pod's alone, or nothing was asked for yet.
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
            "something is mounted at {}, and there is no {} that says what",
            target.display(),
            record.display()
        ))),
        StoredRecord::Nothing => Ok(None),
    }
}
