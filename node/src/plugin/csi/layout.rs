//! Where a CSI volume has its directories, files and links (upstream: pkg/volume/csi, makeDeviceMountPath, getTargetPath,
//! getStagingPath, getPublishPath). Pure.

use std::path::PathBuf;

use super::{NAME, vol_data};
use crate::paths::Paths;
use crate::plugin::Place;

/// Below a volume's directory for the node: where it is staged.
const GLOBAL: &str = "globalmount";
/// Below a pod's directory of a volume: where it is published.
const MOUNT: &str = "mount";

/// What a volume has for the whole node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DevicePaths {
    /// Where it is staged.
    pub(super) staging: PathBuf,
    /// The directory of its record.
    pub(super) data: PathBuf,
    /// Directories with something for each pod.
    pub(super) pods: Vec<PathBuf>,
    /// Directories that go after the record, the innermost first.
    pub(super) parents: Vec<PathBuf>,
}

impl DevicePaths {
    /// Of a volume with a file system.
    pub(super) fn of_files(paths: &Paths, driver: &str, handle: &str) -> Self {
        let dir = paths.csi_global(driver, handle);
        Self::in_dir(dir)
    }

    /// Of the volume with a file system that has this directory.
    pub(super) fn in_dir(dir: PathBuf) -> Self {
        Self { staging: dir.join(GLOBAL), data: dir.clone(), pods: Vec::new(), parents: vec![dir] }
    }

    /// Of a block volume, by its PersistentVolume.
    pub(super) fn of_block(paths: &Paths, volume: &str) -> Self {
        let devices = paths.csi_devices();
        let own = devices.join(volume);
        Self {
            staging: devices.join("staging").join(volume),
            data: own.join("data"),
            pods: vec![devices.join("publish").join(volume), own.join("dev")],
            parents: vec![own.join("data"), own],
        }
    }

    /// The record.
    pub(super) fn record(&self) -> PathBuf {
        vol_data::path_in(&self.data)
    }
}

/// What a pod has of a volume with a file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PublishPaths {
    /// Where it is published.
    pub(super) target: PathBuf,
    /// The directory of target and record.
    pub(super) dir: PathBuf,
}

impl PublishPaths {
    /// Of a place.
    pub(super) fn of(paths: &Paths, place: &Place) -> Self {
        let dir = paths.pod_volume(&place.uid, NAME, &place.dir_name);
        Self { target: dir.join(MOUNT), dir }
    }

    /// The record.
    pub(super) fn record(&self) -> PathBuf {
        vol_data::path_in(&self.dir)
    }
}

/// What a pod has of a block volume. The record is the device's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BlockPaths {
    /// Where it is published: the driver makes a device, or a file that shows one.
    pub(super) target: PathBuf,
    /// Shown once more there for the node.
    pub(super) map: PathBuf,
    /// The link that the pod gets.
    pub(super) link: PathBuf,
}

impl BlockPaths {
    /// Of a place.
    pub(super) fn of(paths: &Paths, place: &Place) -> Self {
        let devices = paths.csi_devices();
        Self {
            target: devices.join("publish").join(&place.dir_name).join(&place.uid),
            map: devices.join(&place.dir_name).join("dev").join(&place.uid),
            link: paths.pod_device(&place.uid, NAME, &place.dir_name),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_layout_is_that_of_the_kubelet() {
        let paths = Paths::new("/r");
        let place =
            |block| Place { uid: "u".to_owned(), plugin: NAME.to_owned(), dir_name: "pv".to_owned(), block };
        let files = PublishPaths::of(&paths, &place(false));
        let block = BlockPaths::of(&paths, &place(true));
        let device = DevicePaths::of_block(&paths, "pv");
        let global = DevicePaths::of_files(&paths, "d", "h");
        for (found, expected) in [
            (files.target.clone(), "/r/pods/u/volumes/kubernetes.io~csi/pv/mount"),
            (files.record(), "/r/pods/u/volumes/kubernetes.io~csi/pv/vol_data.json"),
            (block.target, "/r/plugins/kubernetes.io/csi/volumeDevices/publish/pv/u"),
            (block.map, "/r/plugins/kubernetes.io/csi/volumeDevices/pv/dev/u"),
            (block.link, "/r/pods/u/volumeDevices/kubernetes.io~csi/pv"),
            (device.staging.clone(), "/r/plugins/kubernetes.io/csi/volumeDevices/staging/pv"),
            (device.record(), "/r/plugins/kubernetes.io/csi/volumeDevices/pv/data/vol_data.json"),
            (
                global.staging.clone(),
                "/r/plugins/kubernetes.io/csi/d/aaa9402664f1a41f40ebbc52c9993eb66aeb366602958fdfaa283b71e64db123/globalmount",
            ),
        ] {
            assert_eq!(found, Path::new(expected));
        }
        assert_eq!(global.record().parent(), global.staging.parent());
    }
}
