//! The record of a disk, written before the login.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::NAME;
use super::source::Disk;
use crate::host::Host;
use crate::paths::{Paths, hex};
use crate::plugin::PluginError;
use crate::plugin::volume_queue::VolumeQueue;

/// The data that a logout needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DiskRecord {
    pub(super) volume_name: String,
    pub(super) portals: Vec<String>,
    pub(super) iqn: String,
    pub(super) lun: i32,
    /// The interface of the sessions.
    pub(super) iface: String,
    /// The interface that it was copied from, because the volume has its own initiator name.
    pub(super) copied_from: Option<String>,
    /// Interfaces of sessions that removed disks created and that this disk still uses.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) inherited: BTreeMap<String, Iface>,
}

/// The properties of an interface besides its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Iface {
    /// It was created for a disk, and is deleted with it.
    pub(super) is_copy: bool,
}

impl DiskRecord {
    pub(super) fn of(disk: &Disk) -> Self {
        let (iface, copied_from) = match &disk.initiator {
            None => (disk.iface.clone(), None),
            // Upstream: the portal and the volume's name.
            Some(_) => {
                (format!("{}:{}-lun-{}", disk.portals[0], disk.iqn, disk.lun), Some(disk.iface.clone()))
            }
        };
        Self {
            volume_name: disk.name.clone(),
            portals: disk.portals.clone(),
            iqn: disk.iqn.clone(),
            lun: disk.lun,
            iface,
            copied_from,
            inherited: BTreeMap::new(),
        }
    }

    /// All interfaces that the sessions may use.
    pub(super) fn ifaces(&self) -> BTreeMap<String, Iface> {
        let mut all = self.inherited.clone();
        all.insert(self.iface.clone(), Iface { is_copy: self.copied_from.is_some() });
        all
    }

    /// The path of the global mount (upstream: makePDNameInternal).
    pub(super) fn global(&self, paths: &Paths) -> PathBuf {
        let portal = self.portals.first().map(String::as_str).unwrap_or_default();
        let disk = format!("{portal}-{}-lun-{}", self.iqn, self.lun);
        paths.plugin(NAME).join(format!("iface-{}", self.iface)).join(disk)
    }

    fn place(paths: &Paths, volume_name: &str) -> PathBuf {
        let name = format!("{}.json", hex(&Sha256::digest(volume_name)));
        paths.plugin(NAME).join("records").join(name)
    }

    pub(super) async fn write(&self, host: &Host, queue: &VolumeQueue<'_>) -> Result<(), PluginError> {
        let bytes = serde_json::to_vec(self)
            .map_err(|error| PluginError::plain(format!("writing down {}: {error}", self.volume_name)))?;
        queue.make_dir(&host.paths.plugin(NAME).join("records"), 0o750).await?;
        queue.write_file(&Self::place(&host.paths, &self.volume_name), bytes).await
    }

    pub(super) async fn read(
        host: &Host,
        queue: &VolumeQueue<'_>,
        volume_name: &str,
    ) -> Result<Option<Self>, PluginError> {
        Self::read_from(queue, Self::place(&host.paths, volume_name)).await
    }

    async fn read_from(queue: &VolumeQueue<'_>, at: PathBuf) -> Result<Option<Self>, PluginError> {
        let Some(bytes) = queue.read_file(&at).await? else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(|error| {
            PluginError::plain(format!(
                "{} is damaged: {error}; log out of the target by hand (iscsiadm -m session), then remove the file",
                at.display()
            ))
            .caused(error)
        })
    }

    /// Reads all records.
    pub(super) async fn all(host: &Host, queue: &VolumeQueue<'_>) -> Result<Vec<Self>, PluginError> {
        let dir = host.paths.plugin(NAME).join("records");
        let mut all = Vec::new();
        for name in queue.names(&dir).await? {
            if name.ends_with(".json") && !name.starts_with('.') {
                all.extend(Self::read_from(queue, dir.join(name)).await?);
            }
        }
        Ok(all)
    }

    pub(super) async fn remove(&self, host: &Host, queue: &VolumeQueue<'_>) -> Result<(), PluginError> {
        queue.remove_file(&Self::place(&host.paths, &self.volume_name)).await
    }
}
