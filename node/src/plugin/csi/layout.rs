//! Paths of a CSI volume's directories, files and links (upstream: pkg/volume/csi, makeDeviceMountPath,
//! getTargetPath, getStagingPath, getPublishPath). Pure.

use std::path::PathBuf;

use super::{NAME, vol_data};
use crate::paths::Paths;
use crate::plugin::Place;

/// The staging path, below a volume's directory for the node.
const GLOBAL: &str = "globalmount";
/// The target path, below a pod's directory of a volume.
const MOUNT: &str = "mount";

/// The paths of a volume for the whole node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DevicePaths {
    /// The staging path.
    pub(super) staging: PathBuf,
    /// The directory of its record.
    pub(super) data: PathBuf,
    /// Directories with an entry per pod.
    pub(super) pods: Vec<PathBuf>,
    /// Directories that are removed after the record, the innermost first.
    pub(super) parents: Vec<PathBuf>,
}

impl DevicePaths {
    /// The paths of a volume with a file system.
    pub(super) fn of_files(paths: &Paths, driver: &str, handle: &str) -> Self {
        let dir = paths.csi_global(driver, handle);
        Self::in_dir(dir)
    }

    /// The paths of the volume with a file system in this directory.
    pub(super) fn in_dir(dir: PathBuf) -> Self {
        Self { staging: dir.join(GLOBAL), data: dir.clone(), pods: Vec::new(), parents: vec![dir] }
    }

    /// The paths of a block volume, by its PersistentVolume.
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

/// The paths of a pod's publication of a volume with a file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PublishPaths {
    /// The target path.
    pub(super) target: PathBuf,
    /// The directory of the target and the record.
    pub(super) dir: PathBuf,
}

impl PublishPaths {
    /// The paths for a place.
    pub(super) fn of(paths: &Paths, place: &Place) -> Self {
        let dir = paths.pod_volume(&place.uid, NAME, &place.dir_name);
        Self { target: dir.join(MOUNT), dir }
    }

    /// The record.
    pub(super) fn record(&self) -> PathBuf {
        vol_data::path_in(&self.dir)
    }
}

/// The paths of a pod's publication of a block volume. Its record is that of the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BlockPaths {
    /// The target path: the driver creates a device node, or a file that a device is bound to.
    pub(super) target: PathBuf,
    /// A second bind mount of it for the node.
    pub(super) map: PathBuf,
    /// The pod's link.
    pub(super) link: PathBuf,
}

impl BlockPaths {
    /// The paths for a place.
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
    fn layout_matches_the_kubelet() {
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
