//! Recovers from disk the mounts of an earlier agent: volumes of pods and device mounts. All of them are
//! uncertain until they are remounted or unmounted. Directories are listed only down to the volumes, so a mount that
//! hangs does not block the start.
//!
//! Upstream: pkg/kubelet/volumemanager/reconciler (reconstruct).

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::future::join_all;

use super::Uid;
use super::actual_state::{ActualState, MountedPod, Volume};
use super::decide::MountState;
use super::populator::{is_component, own_name, shared_name};
use crate::host::Host;
use crate::paths::{Paths, unescaped};
use crate::plugin::{Place, Plugin, PluginError, Plugins};

/// The existing mounts cannot be determined. The agent must not start, because it would report to the controller
/// that nothing is mounted.
#[derive(Debug, thiserror::Error)]
pub enum ReconstructError {
    /// A directory below `pods` cannot be listed.
    #[error("cannot list {}: {cause}; see to it that the agent may read its directory", path.display())]
    List {
        /// The directory.
        path: PathBuf,
        /// The system error.
        cause: io::Error,
    },
    /// A plugin failed to list its device mounts.
    #[error("plugin {plugin} does not tell what it has mounted for this node: {cause}")]
    Devices {
        /// The name of the plugin.
        plugin: &'static str,
        /// The error.
        cause: PluginError,
    },
    /// A plugin exceeded the deadline.
    #[error("plugin {plugin} does not tell what it has mounted for this node: no answer for {seconds} s")]
    Late {
        /// The name of the plugin.
        plugin: &'static str,
        /// The deadline.
        seconds: u64,
    },
}

/// The recovered state.
#[derive(Default)]
pub(super) struct ReconstructedState {
    pub(super) actual: ActualState,
    /// Pods that have a directory.
    pub(super) pods: BTreeSet<Uid>,
}

/// Scans the disk.
pub(super) async fn find(host: &Host, plugins: &Plugins) -> Result<ReconstructedState, ReconstructError> {
    let deadline = host.config.mount_timeout;
    let mut found = ReconstructedState::default();
    let devices = plugins.all().map(|plugin| async move {
        let late = || ReconstructError::Late { plugin: plugin.name(), seconds: deadline.as_secs() };
        let answer = tokio::time::timeout(deadline, plugin.devices(host)).await.map_err(|_| late())?;
        let names = answer.map_err(|cause| ReconstructError::Devices { plugin: plugin.name(), cause })?;
        Ok::<_, ReconstructError>((Arc::clone(plugin), names))
    });
    for outcome in join_all(devices).await {
        let (plugin, names) = outcome?;
        for name in names {
            device(&mut found.actual, &plugin, name);
        }
    }
    let paths = host.paths.clone();
    let listed = tokio::task::spawn_blocking(move || scan(&paths)).await;
    let (pods, places) = listed.unwrap_or_else(|error| {
        Err(ReconstructError::List { path: host.paths.pods(), cause: io::Error::other(error) })
    })?;
    found.pods = pods;
    let asked = places.into_iter().map(|place| async move {
        let Some(plugin) = plugins.named(&place.plugin) else { return (place, None) };
        match tokio::time::timeout(deadline, plugin.found(host, &place)).await {
            Ok(Ok(name)) => (place, Some((Arc::clone(plugin), name))),
            Ok(Err(error)) => {
                tracing::warn!(uid = place.uid, plugin = place.plugin, volume = place.dir_name, %error, "cannot identify the volume of a pod directory");
                (place, None)
            }
            Err(_) => {
                tracing::warn!(uid = place.uid, plugin = place.plugin, volume = place.dir_name, "timed out while identifying the volume of a pod directory");
                (place, None)
            }
        }
    });
    for (place, understood) in join_all(asked).await {
        take_up(&mut found.actual, place, understood);
    }
    Ok(found)
}

fn device(actual: &mut ActualState, plugin: &Arc<dyn Plugin>, volume_name: String) {
    let unique = shared_name(plugin.name(), &volume_name);
    let volume =
        actual.volumes.entry(unique).or_insert_with(|| Volume::new(Some(Arc::clone(plugin)), volume_name));
    (volume.has_device, volume.device) = (true, MountState::Uncertain);
}

fn take_up(actual: &mut ActualState, place: Place, understood: Option<(Arc<dyn Plugin>, Option<String>)>) {
    let unique = match understood {
        Some((plugin, Some(name))) => {
            let unique = shared_name(plugin.name(), &name);
            // Its device mount may exist although the plugin did not list it.
            device(actual, &plugin, name);
            unique
        }
        Some((plugin, None)) => {
            let unique = own_name(&place);
            let mut volume = Volume::new(Some(plugin), place.dir_name.clone());
            volume.attachable = Some(false);
            actual.volumes.insert(Arc::clone(&unique), volume);
            unique
        }
        None => {
            // No plugin uses a name of this form.
            let unique: Arc<str> =
                format!("?{}/{}/{}/{}", place.block, place.plugin, place.uid, place.dir_name).into();
            let mut volume = Volume::new(None, place.dir_name.clone());
            volume.attachable = Some(false);
            actual.volumes.insert(Arc::clone(&unique), volume);
            unique
        }
    };
    if let Some(volume) = actual.volumes.get_mut(&unique) {
        let uid: Uid = place.uid.as_str().into();
        volume.mounts.insert(uid, MountedPod { old: true, ..MountedPod::uncertain(place) });
    }
}

/// Pods with a directory, and the places of their volumes.
fn scan(paths: &Paths) -> Result<(BTreeSet<Uid>, Vec<Place>), ReconstructError> {
    let (mut pods, mut places) = (BTreeSet::new(), Vec::new());
    for uid in names(&paths.pods(), true)? {
        pods.insert(Uid::from(uid.as_str()));
        let rooms = [(paths.pod_volumes(&uid), false), (paths.pod(&uid).join("volumeDevices"), true)];
        for (room, block) in rooms {
            for dir in names(&room, true)? {
                // A block device is a link or a file, a file system volume a directory.
                for dir_name in names(&room.join(&dir), !block)? {
                    places.push(Place { uid: uid.clone(), plugin: unescaped(&dir), dir_name, block });
                }
            }
        }
    }
    Ok((pods, places))
}

/// The names in a directory, without opening the entries. A missing directory is empty.
pub(super) fn names(dir: &Path, directories: bool) -> Result<Vec<String>, ReconstructError> {
    let failed = |cause| ReconstructError::List { path: dir.to_owned(), cause };
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(failed(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        if directories && !entry.file_type().map_err(failed)?.is_dir() {
            continue;
        }
        match entry.file_name().into_string() {
            Ok(name) if is_component(&name) => names.push(name),
            Ok(_) | Err(_) => {
                tracing::warn!(path = %entry.path().display(), "a directory has an invalid name; it is left unchanged")
            }
        }
    }
    names.sort();
    Ok(names)
}
