//! The NFS plugin: directories of NFS servers (upstream: pkg/volume/nfs). Each pod has a mount of its own. An
//! unreachable server blocks only its own volumes: existing mounts are checked in the volume's queue, and an
//! unmount that does not finish is forced.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rustix::fs::{fstat, fstatfs};
use rustix::io::Errno;

use super::volume_queue::{VolumeQueue, place_of, plugin_error, still_mounted};
use super::{Place, Plugin, PluginError, PodVolume, VolumeCapabilities};
use crate::host::Host;
use crate::mount::{Force, Mount, Origin};
use crate::volume::{Source, VolumeSpec};
use orlop_volume::rooted_fs::{self, RootedFsError};

mod export;
#[cfg(test)]
mod tests;

use export::Export;

/// The plugin's name.
pub const NAME: &str = "kubernetes.io/nfs";
/// The time after which an unmount is forced (upstream: CleanupMountWithForce, 1 min).
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Checks whether the server still knows the mount at a path below the root.
type Probe = dyn Fn(&Path, &Path) -> io::Result<()> + Send + Sync;

/// The NFS plugin.
pub struct NfsPlugin {
    patience: Duration,
    probe: Arc<Probe>,
}

impl Default for NfsPlugin {
    fn default() -> Self {
        Self { patience: PATIENCE, probe: Arc::new(look) }
    }
}

impl NfsPlugin {
    /// With another time before an unmount is forced.
    pub fn with_patience(patience: Duration) -> Self {
        Self { patience, ..Self::default() }
    }

    /// Whether the existing mount is usable.
    async fn is_alive(&self, queue: &VolumeQueue<'_>, path: &Path) -> Result<bool, PluginError> {
        let (probe, looked_at) = (Arc::clone(&self.probe), path.to_owned());
        let what = format!("looking at {}, which is mounted already", path.display());
        let found = queue.below(what, move |root| Ok(probe(root, &looked_at))).await?;
        let Err(error) = found else { return Ok(true) };
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            // The server is reachable, but denies access to root.
            Some(Errno::ACCESS | Errno::PERM) => Ok(true),
            Some(Errno::STALE | Errno::NOTCONN) => Ok(false),
            _ => Err(PluginError::uncertain(format!(
                "{} is mounted, but the server returns an error: {error}; fix the server, then the agent continues automatically",
                path.display()
            ))
            .caused(error)),
        }
    }

    /// Unmounts, with force when that takes too long; returns whether it was forced.
    async fn unmount(&self, queue: &VolumeQueue<'_>, target: &Path) -> Result<Force, PluginError> {
        match tokio::time::timeout(self.patience, queue.unmount_once(target, Force::No)).await {
            Ok(Ok(())) => return Ok(Force::No),
            Ok(Err(error)) if !error.is_uncertain() => return Err(plugin_error(error)),
            Ok(Err(_)) | Err(_) => {}
        }
        let target_shown = target.display();
        tracing::warn!(target = %target_shown, "the server does not answer; it is unmounted by force");
        // The hung call occupies the queue; this call ends it.
        queue.beside().unmount_once(target, Force::Yes).await.map_err(|error| {
            let message = format!(
                "{error}; the unmount takes more than {} s and cannot be forced: bring the server back, or restart the node",
                self.patience.as_secs()
            );
            PluginError::uncertain(message).caused(error)
        })?;
        Ok(Force::Yes)
    }
}

#[async_trait]
impl Plugin for NfsPlugin {
    fn name(&self) -> &'static str {
        NAME
    }

    fn can_support(&self, source: &Source) -> bool {
        Export::is_in(source)
    }

    fn volume_name(&self, spec: &VolumeSpec) -> Result<String, PluginError> {
        let export = Export::of(spec)?;
        Ok(format!("{}/{}", export.server, export.path))
    }

    fn abilities(&self, _: &Host, _: &VolumeSpec) -> VolumeCapabilities {
        VolumeCapabilities { mount_options: true, ..VolumeCapabilities::default() }
    }

    fn path(&self, host: &Host, place: &Place) -> PathBuf {
        host.paths.pod_volume(&place.uid, &place.plugin, &place.dir_name)
    }

    async fn set_up(&self, host: &Host, volume: &PodVolume) -> Result<(), PluginError> {
        let spec = &*volume.spec;
        let export = Export::of(spec)?;
        let place = place_of(NAME, volume)?;
        let (queue, target) = (VolumeQueue::of_place(host, &place), self.path(host, &place));
        if queue.mounted(&target)?.is_some() {
            if self.is_alive(&queue, &target).await? {
                return Ok(());
            }
            tracing::info!(target = %target.display(), "the file handle of the mount is stale; remounting");
            queue.unmount_once(&target, Force::Yes).await.map_err(plugin_error)?;
            if queue.mounted(&target)?.is_some() {
                return Err(still_mounted(&target));
            }
        }
        let origin = Origin::FileSystem { fs_type: "nfs".to_owned(), source: export.source() };
        let options = spec.mount_options().to_vec();
        queue.mount_at(Mount { origin, target, options, read_only: spec.read_only || export.read_only }).await
    }

    async fn tear_down(&self, host: &Host, place: &Place) -> Result<(), PluginError> {
        let (queue, target) = (VolumeQueue::of_place(host, place), self.path(host, place));
        let forced = match queue.mounted(&target)? {
            Some(_) => self.unmount(&queue, &target).await?,
            None => Force::No,
        };
        if forced == Force::Yes && queue.mounted(&target)?.is_none() {
            // The first call may still hang while the kernel closes the session with the server (minutes for NFSv4). Nothing
            // is mounted there any more.
            return queue.beside().clear(&target).await;
        }
        // The mounts below the topmost one are not the agent's, but they are unmounted too.
        queue.clear(&target).await
    }
}

/// Opens the path with O_PATH and queries the server.
fn look(root: &Path, path: &Path) -> io::Result<()> {
    let opened = rooted_fs::open_path_below(root, path).map_err(|error| match error {
        RootedFsError::Refused { source, .. } => source,
        RootedFsError::Missing { .. } => Errno::STALE.into(),
        RootedFsError::Unsafe { .. } => io::Error::other(error),
    })?;
    fstatfs(&opened)?;
    fstat(&opened)?;
    Ok(())
}
