//! Plugins that fail as they are told.

use std::path::PathBuf;

use async_trait::async_trait;

use super::machine::Machine;
use crate::host::Host;
use crate::plugin::{Abilities, Expanded, Outcome, Place, Plugin, PluginError, PodVolume};
use crate::volume::{Source, VolumeSpec};
use crate::volumes::{OwnershipRequest, VolumeOwnership};

/// A plugin: `disk` is attached and mounted for the node, `own` is a directory of the pod.
pub(super) struct Fake {
    pub(super) name: &'static str,
    pub(super) machine: Machine,
}

impl Fake {
    fn is_disk(&self) -> bool {
        self.name != "test/own"
    }

    /// The plugin whose volumes have VolumeAttachments.
    fn is_real(&self) -> bool {
        self.name == "kubernetes.io/csi"
    }
}

#[async_trait]
impl Plugin for Fake {
    fn name(&self) -> &'static str {
        self.name
    }

    fn can_support(&self, source: &Source) -> bool {
        match source {
            Source::Inline(volume) => !self.is_disk() && volume.empty_dir.is_some(),
            Source::Persistent(volume) => {
                let csi = volume.spec.as_ref().and_then(|spec| spec.csi.as_ref());
                self.is_disk() && csi.is_some_and(|csi| (csi.driver == "real") == self.is_real())
            }
        }
    }

    fn volume_name(&self, spec: &VolumeSpec) -> Result<String, PluginError> {
        match &spec.source {
            Source::Inline(volume) => Ok(volume.name.clone()),
            Source::Persistent(volume) => {
                let handle = &volume.spec.as_ref().unwrap().csi.as_ref().unwrap().volume_handle;
                Ok(if self.is_real() { format!("real^{handle}") } else { handle.clone() })
            }
        }
    }

    fn abilities(&self, _: &Host, spec: &VolumeSpec) -> Abilities {
        let disk = self.is_disk();
        let known = !self.machine.state().unsynced;
        let csi = match &spec.source {
            Source::Persistent(volume) => volume.spec.as_ref().unwrap().csi.as_ref().unwrap().driver.clone(),
            Source::Inline(_) => String::new(),
        };
        Abilities {
            attach: disk && !(known && csi == "unattached"),
            device: disk,
            mount_options: false,
            block: disk,
            refreshed: !disk,
            repeated: known && csi == "again",
            // One that sets the group itself says so when it was asked once; of another it is known when its object was read.
            owned: !(known && csi == "grouped")
                && (csi != "group" || self.machine.state().devices.is_empty()),
            owned_once: csi == "once",
            read_only: spec.name == "shown",
        }
    }

    fn path(&self, host: &Host, place: &Place) -> PathBuf {
        host.paths.pod_volume(&place.uid, &place.plugin, &place.dir_name)
    }

    async fn mount_device(&self, _: &Host, spec: &VolumeSpec) -> Result<(), PluginError> {
        let name = self.volume_name(spec)?;
        let unique = format!("{}/{name}", self.name);
        let attach = name != "loose";
        let call = format!("stage {name}");
        self.machine
            .call(&unique, call, |state| {
                if attach && !state.attached.contains(&unique) {
                    state.wrong.push(format!("{name} is mounted and not attached"));
                }
                state.devices.insert(name.clone());
            })
            .await
    }

    async fn mount_device_for(&self, host: &Host, volume: &PodVolume) -> Result<(), PluginError> {
        self.machine.state().staged_for.push(volume.pod.metadata.uid.clone().unwrap());
        let context = volume.pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
        self.machine.state().groups.push(context.and_then(|context| context.fs_group));
        self.mount_device(host, &volume.spec).await
    }

    async fn unmount_device(&self, _: &Host, name: &str) -> Result<(), PluginError> {
        let call = format!("unstage {name}");
        self.machine
            .call(&format!("{}/{name}", self.name), call, |state| {
                if state.places.values().any(|of| of == name) {
                    state.wrong.push(format!("{name} is unstaged and a pod has it"));
                }
                state.devices.remove(name);
            })
            .await
    }

    async fn devices(&self, _: &Host) -> Result<Vec<String>, PluginError> {
        let devices: Vec<String> = self.machine.state().devices.iter().cloned().collect();
        let ours = |name: &String| self.is_disk() && name.starts_with("real^") == self.is_real();
        Ok(devices.into_iter().filter(ours).collect())
    }

    async fn set_up(&self, host: &Host, volume: &PodVolume) -> Result<(), PluginError> {
        let name = self.volume_name(&volume.spec)?;
        let place = Place {
            uid: volume.pod.metadata.uid.clone().unwrap(),
            plugin: self.name.to_owned(),
            dir_name: volume.spec.dir_name().to_owned(),
            block: volume.spec.block,
        };
        let (path, disk) = (self.path(host, &place), self.is_disk());
        let queue = if disk { format!("{}/{name}", self.name) } else { path.display().to_string() };
        let call = format!("publish {name} {}", place.uid);
        let read_only = volume.spec.read_only;
        self.machine
            .call(&queue, call, |state| {
                if disk && !state.devices.contains(&name) {
                    state.wrong.push(format!("{name} is published and not staged"));
                }
                std::fs::create_dir_all(&path).unwrap();
                state.read_only.push(read_only);
                state.places.insert(place, name);
            })
            .await
    }

    async fn tear_down(&self, host: &Host, place: &Place) -> Result<(), PluginError> {
        let name = self.machine.state().places.get(place).cloned().unwrap_or_else(|| place.dir_name.clone());
        let path = self.path(host, place);
        let queue = if self.is_disk() { format!("{}/{name}", self.name) } else { path.display().to_string() };
        let call = format!("unpublish {name} {}", place.uid);
        self.machine
            .call(&queue, call, |state| {
                state.places.remove(place);
                let _ = std::fs::remove_dir(&path);
            })
            .await
    }

    async fn found(&self, _: &Host, place: &Place) -> Result<Option<String>, PluginError> {
        let state = self.machine.state();
        let name = state.places.get(place).filter(|_| !state.unreadable.contains(&place.uid));
        match (self.is_disk(), name) {
            (false, _) => Ok(None),
            (true, Some(name)) => Ok(Some(name.clone())),
            (true, None) => Err(PluginError::plain("it has no record")),
        }
    }

    async fn expand(&self, _: &Host, volume: &PodVolume, bytes: i64) -> Result<Expanded, PluginError> {
        let name = self.volume_name(&volume.spec)?;
        let error = self.machine.state().expand_error;
        self.machine.call(&format!("{}/{name}", self.name), format!("expand {name} {bytes}"), |_| ()).await?;
        match error {
            Some(error) => Err(error()),
            None => Ok(Expanded::To(bytes)),
        }
    }
}

/// Who gives volumes their group.
pub(super) struct Group(pub(super) Machine);

#[async_trait]
impl VolumeOwnership for Group {
    async fn apply(&self, _: &Host, owned: OwnershipRequest) -> Result<(), PluginError> {
        let (took, fails) = {
            let mut state = self.0.state();
            let fails = state.own_fails > 0;
            state.own_fails = state.own_fails.saturating_sub(1);
            state.owned.push(format!("{} {}", owned.queue, owned.fs_group));
            (state.own_for, fails)
        };
        if let Some(took) = took {
            owned.files.store(77, std::sync::atomic::Ordering::Relaxed);
            tokio::time::sleep(took).await;
        }
        if fails {
            return Err(PluginError { message: "chown: no".into(), outcome: Outcome::Final, source: None });
        }
        Ok(())
    }
}
