//! Inspects the disk without an agent. If no agent uses the directory, it can do the same cleanup as the agent at
//! startup. Volumes are left to the agent, because unmounting one may need its driver, which only the agent
//! calls.

use std::collections::BTreeSet;

use super::orphans::{self, CleanupMode, Finding, OrphanOutcome};
use super::reconstruct::{self, ReconstructError, ReconstructedState};
use crate::host::Host;
use crate::plugin::Plugins;

/// A volume that the agent will unmount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftVolume {
    /// Its name: `kubernetes.io/csi/driver^handle`; for a volume of one pod, the plugin and the name in the pod.
    pub volume: String,
    /// The unknown pod that uses it; `None` for a device mount that no known pod uses.
    pub uid: Option<String>,
}

/// The remains on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remains {
    /// Volumes that the agent will unmount.
    pub volumes: Vec<LeftVolume>,
    /// Directories of unknown pods, without volumes.
    pub findings: Vec<Finding>,
}

/// The recovered state of the disk.
pub struct Survey(ReconstructedState);

impl Survey {
    /// Scans the disk. List the pods after this call: a directory is created only for a pod that the API server
    /// already has.
    ///
    /// # Errors
    /// The existing mounts cannot be determined.
    pub async fn new(host: &Host, plugins: &Plugins) -> Result<Self, ReconstructError> {
        Ok(Self(reconstruct::find(host, plugins).await?))
    }

    /// The directories that belong to none of these pods. With `tidy`, provably empty and unmounted directories are
    /// removed and others are moved into quarantine; otherwise nothing is changed, and the findings describe what
    /// would be done.
    pub async fn left(&self, host: &Host, known: &BTreeSet<String>, tidy: bool) -> Remains {
        let mut left = Remains::default();
        for (unique, volume) in &self.0.actual.volumes {
            let unknown = volume.mounts.iter().filter(|(uid, _)| !known.contains(&***uid));
            let own: Vec<LeftVolume> = unknown
                .map(|(uid, mount)| {
                    let volume = match volume.has_device {
                        true => unique.to_string(),
                        false => format!("{}/{}", mount.place.plugin, mount.place.dir_name),
                    };
                    LeftVolume { volume, uid: Some(uid.to_string()) }
                })
                .collect();
            if volume.has_device && own.len() == volume.mounts.len() {
                left.volumes.push(LeftVolume { volume: unique.to_string(), uid: None });
            }
            left.volumes.extend(own);
        }
        let zeal = if tidy { CleanupMode::Quarantine } else { CleanupMode::Look };
        for uid in self.0.pods.iter().filter(|uid| !known.contains(&***uid)) {
            // Its volumes are reported above.
            if self.0.actual.of_pod(uid).next().is_some() {
                continue;
            }
            let finding = match self.runs(host, uid).await {
                Some(why) => {
                    let path = host.paths.pod(uid);
                    Some(Finding { uid: uid.to_string(), path, fate: OrphanOutcome::Kept(why) })
                }
                None => orphans::treat(host, uid, zeal).await,
            };
            left.findings.extend(finding);
        }
        left
    }

    /// Why the directory of a pod without volumes must stay, if so: its containers may still run.
    async fn runs(&self, host: &Host, uid: &str) -> Option<String> {
        let records = host.paths.pod(uid).join("containers");
        let listed = tokio::task::spawn_blocking(move || reconstruct::names(&records, false)).await;
        match listed {
            Ok(Ok(names)) if names.is_empty() => None,
            Ok(Ok(_)) => {
                Some("there are records of its containers; the agent ends what runs of them".to_owned())
            }
            Ok(Err(error)) => Some(error.to_string()),
            Err(error) => Some(error.to_string()),
        }
    }
}
