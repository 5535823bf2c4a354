//! What is on disk, for somebody who is not the agent: a look, and where no agent has the directory the same tidying that the agent does at its
//! start. Volumes are left to the agent: taking one away may need its driver, and only the agent asks drivers.

use std::collections::BTreeSet;

use super::orphans::{self, CleanupMode, Fate, Finding};
use super::reconstruct::{self, ReconstructError, ReconstructedState};
use crate::host::Host;
use crate::plugin::Plugins;

/// A volume that the agent takes away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftVolume {
    /// Its name: `kubernetes.io/csi/driver^handle`; of a volume of one pod alone, the plugin and the name in the pod.
    pub volume: String,
    /// The pod that has it, and that nobody knows; none for the mount of the node, which no known pod uses.
    pub uid: Option<String>,
}

/// What was left on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Volumes that the agent takes away.
    pub volumes: Vec<LeftVolume>,
    /// Directories of pods that nobody knows, without volumes.
    pub findings: Vec<Finding>,
}

/// What is on disk.
pub struct Survey(ReconstructedState);

impl Survey {
    /// Looks at the disk. Pods are to be listed after this: a directory is made for a pod that the API has.
    ///
    /// # Errors
    /// What is mounted cannot be known.
    pub async fn new(host: &Host, plugins: &Plugins) -> Result<Self, ReconstructError> {
        Ok(Self(reconstruct::find(host, plugins).await?))
    }

    /// What belongs to no pod of these. Where it is to be tidied up, what is provably empty and unmounted is removed and other directories are moved into
    /// quarantine; else nothing is touched, and the findings say what would be done.
    pub async fn left(&self, host: &Host, known: &BTreeSet<String>, tidy: bool) -> Left {
        let mut left = Left::default();
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
            // Its volumes are told above.
            if self.0.actual.of_pod(uid).next().is_some() {
                continue;
            }
            let finding = match self.runs(host, uid).await {
                Some(why) => {
                    let path = host.paths.pod(uid);
                    Some(Finding { uid: uid.to_string(), path, fate: Fate::Kept(why) })
                }
                None => orphans::treat(host, uid, zeal).await,
            };
            left.findings.extend(finding);
        }
        left
    }

    /// Why a pod without volumes has to stay, if it has to: something of it may run.
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
