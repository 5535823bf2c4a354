//! Finds the disk of a login: its name in /dev/disk/by-path, and the multipath device on top of it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::IscsiPlugin;
use super::source::Disk;
use crate::plugin::PluginError;
use crate::plugin::volume_queue::VolumeQueue;

/// Where and for how long to search disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looks {
    /// The directory of disks by connection path.
    pub by_path: PathBuf,
    /// The kernel's directory of disks.
    pub sys_block: PathBuf,
    /// Number of attempts (upstream: 10).
    pub tries: u32,
    /// Pause between attempts.
    pub pause: Duration,
}

impl Default for Looks {
    fn default() -> Self {
        Self {
            by_path: PathBuf::from("/dev/disk/by-path"),
            sys_block: PathBuf::from("/sys/block"),
            tries: 10,
            pause: Duration::from_secs(1),
        }
    }
}

impl IscsiPlugin {
    /// Waits until the disk appears; none when it does not.
    pub(super) async fn wait(
        &self,
        queue: &VolumeQueue<'_>,
        disk: &Disk,
    ) -> Result<Option<PathBuf>, PluginError> {
        for attempt in 0..self.looks.tries.max(1) {
            if attempt > 0 {
                tokio::time::sleep(self.looks.pause).await;
            }
            if let Some(device) = self.find(queue, disk).await? {
                return Ok(Some(device));
            }
        }
        Ok(None)
    }

    /// Searches the disk once.
    pub(super) async fn find(
        &self,
        queue: &VolumeQueue<'_>,
        disk: &Disk,
    ) -> Result<Option<PathBuf>, PluginError> {
        let wanted: Vec<String> = disk.portals.iter().map(|portal| disk.by_path(portal)).collect();
        let looks = self.looks.clone();
        let what = format!("looking for the disk {}", disk.name);
        queue
            .run(what.clone(), move || {
                find(&looks, &wanted).map_err(|error| crate::mount::MountError::Refused {
                    what,
                    why: error.to_string(),
                    source: Some(error),
                })
            })
            .await
    }
}

fn find(looks: &Looks, wanted: &[String]) -> io::Result<Option<PathBuf>> {
    let entries = match fs::read_dir(&looks.by_path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let Ok(name) = entry?.file_name().into_string() else { continue };
        // Hardware iSCSI adapters put a prefix in front.
        let rank = wanted.iter().position(|wanted| {
            name == *wanted || name.starts_with("pci-") && name.ends_with(&format!("-{wanted}"))
        });
        let path = looks.by_path.join(name);
        // A link to a removed disk does not count.
        if let Some(rank) = rank.filter(|_| path.exists()) {
            found.push((rank, path));
        }
    }
    found.sort();
    for (_, path) in &found {
        if let Some(multipath) = multipath(looks, path)? {
            return Ok(Some(multipath));
        }
    }
    Ok(found.into_iter().next().map(|(_, path)| path))
}

/// The multipath device that has this disk as a path.
fn multipath(looks: &Looks, path: &Path) -> io::Result<Option<PathBuf>> {
    let device = fs::canonicalize(path)?;
    let Some(name) = device.file_name() else { return Ok(None) };
    let holders = match fs::read_dir(looks.sys_block.join(name).join("holders")) {
        Ok(holders) => holders,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    for holder in holders {
        let holder = holder?.file_name();
        let uuid = fs::read_to_string(looks.sys_block.join(&holder).join("dm/uuid")).unwrap_or_default();
        if uuid.starts_with("mpath-") {
            return Ok(Some(Path::new("/dev").join(holder)));
        }
    }
    Ok(None)
}
