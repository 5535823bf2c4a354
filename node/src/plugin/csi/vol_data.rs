//! `vol_data.json`: the record of the calls to a driver, written before the first call and removed after
//! everything else (I9). The keys are upstream's (pkg/volume/csi: volDataKey). It is the only source of
//! information about files found after a crash.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::source::{SEPARATOR, VolumeLifecycle};

/// Its name; the file is next to the target.
pub(super) const FILE: &str = "vol_data.json";
/// The maximum size to read, in bytes.
pub(super) const LARGEST: u64 = 64 << 10;

/// A record. For a volume's global mount it has only driver and handle.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VolumeData {
    /// The driver that was called.
    pub(super) driver_name: String,
    /// The volume handle.
    pub(super) volume_handle: String,
    /// The PersistentVolume, or the volume in the pod.
    #[serde(default, rename = "specVolID", skip_serializing_if = "String::is_empty")]
    pub(super) spec_volume: String,
    /// This node.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) node_name: String,
    /// The name of the VolumeAttachment, whether it exists or not.
    #[serde(default, rename = "attachmentID", skip_serializing_if = "String::is_empty")]
    pub(super) attachment: String,
    /// `Persistent` or `Ephemeral`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) volume_lifecycle_mode: String,
}

impl VolumeData {
    /// The record of a volume's global mount.
    pub(super) fn of_device(driver: &str, handle: &str) -> Self {
        VolumeData {
            driver_name: driver.to_owned(),
            volume_handle: handle.to_owned(),
            ..VolumeData::default()
        }
    }

    /// `<driver>^<handle>`.
    pub(super) fn volume_name(&self) -> String {
        format!("{}{SEPARATOR}{}", self.driver_name, self.volume_handle)
    }

    /// Whether it describes an inline volume.
    pub(super) fn is_ephemeral(&self) -> bool {
        self.volume_lifecycle_mode == VolumeLifecycle::Ephemeral.as_str()
    }

    /// Whether it describes the same volume of a driver.
    pub(super) fn is_same_volume(&self, other: &Self) -> bool {
        (&self.driver_name, &self.volume_handle) == (&other.driver_name, &other.volume_handle)
    }

    /// Serializes the record.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        // A record of strings always serializes.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Parses a record.
    ///
    /// # Errors
    /// The reason why it is not a valid record.
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let record: VolumeData = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        match record.driver_name.is_empty() || record.volume_handle.is_empty() {
            true => Err("it names no driver or no volume".to_owned()),
            false => Ok(record),
        }
    }
}

/// The path of the record in a directory.
pub(super) fn path_in(dir: &Path) -> PathBuf {
    dir.join(FILE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_the_kubelets_format() {
        let written =
            br#"{"attachmentID":"csi-1","driverName":"d","nodeName":"n","specVolID":"pv","volumeHandle":"h",
            "volumeLifecycleMode":"Ephemeral","seLinuxMountContext":""}"#;
        let record = VolumeData {
            driver_name: "d".to_owned(),
            volume_handle: "h".to_owned(),
            spec_volume: "pv".to_owned(),
            node_name: "n".to_owned(),
            attachment: "csi-1".to_owned(),
            volume_lifecycle_mode: "Ephemeral".to_owned(),
        };
        assert_eq!(VolumeData::from_bytes(written), Ok(record.clone()));
        assert_eq!(VolumeData::from_bytes(&record.to_bytes()), Ok(record.clone()));
        assert_eq!((record.volume_name().as_str(), record.is_ephemeral()), ("d^h", true));
        let device = VolumeData::of_device("d", "h");
        assert_eq!(String::from_utf8_lossy(&device.to_bytes()), r#"{"driverName":"d","volumeHandle":"h"}"#);
        for damaged in [
            "",
            "{",
            "[]",
            r#"{"driverName":"d"}"#,
            r#"{"driverName":"d","volumeHandle":""}"#,
            r#"{"driverName":1,"volumeHandle":"h"}"#,
        ] {
            assert!(VolumeData::from_bytes(damaged.as_bytes()).is_err(), "{damaged}");
        }
    }
}
