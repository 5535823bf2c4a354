//! The emptyDir plugin: directories that live as long as their pod (upstream: pkg/volume/emptydir), on the disk
//! of the agent's directory, in memory, or in huge pages. Their contents are deleted after the pod, by a walk
//! that stays in the volume. A marker in the pod's directory records that the emptyDir is set up: later set-ups
//! do not change it, because the pod may have changed it.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::EmptyDirVolumeSource;
use orlop_apimachinery::quantity::Quantity;
use rustix::fs::{Mode, fchmod, fstat};

use super::volume_queue::{VolumeQueue, place_of, shown};
use super::{Place, Plugin, PluginError, PodVolume, VolumeCapabilities};
use crate::host::Host;
use crate::mount::{Mount, Origin};
use crate::volume::{Source, VolumeSpec};
use orlop_volume::rooted_fs::{self, RootedFsError};

mod medium;
mod size_limit;
#[cfg(test)]
mod tests;

use medium::Medium;
pub use size_limit::{DirUsage, MeasureBounds, OverLimit, measure, over_limit};

/// The plugin's name.
pub const NAME: &str = "kubernetes.io/empty-dir";
/// All users in the pod may write (upstream: perm).
const MODE: u32 = 0o777;

/// The emptyDir plugin.
#[derive(Debug, Default)]
pub struct EmptyDirPlugin;

fn source_of(spec: &VolumeSpec) -> Result<&EmptyDirVolumeSource, PluginError> {
    let found = match &spec.source {
        Source::Inline(volume) => volume.empty_dir.as_ref(),
        Source::Persistent(_) => None,
    };
    found.ok_or_else(|| PluginError::plain(format!("{}: it has no emptyDir source", shown(spec))))
}

/// The limit in bytes; none for no limit.
fn size_limit(spec: &VolumeSpec, source: &EmptyDirVolumeSource) -> Result<Option<u64>, PluginError> {
    let Some(text) = &source.size_limit else { return Ok(None) };
    let limit = Quantity::parse(&text.0).map_err(|error| {
        PluginError::plain(format!("{}: sizeLimit {:?}: {error}", shown(spec), text.0)).caused(error)
    })?;
    Ok(u64::try_from(limit.value()).ok().filter(|bytes| *bytes > 0))
}

/// The directory of the marker.
fn mark_dir(host: &Host, place: &Place) -> PathBuf {
    host.paths.pod_plugin(&place.uid, NAME).join(&place.dir_name)
}

#[async_trait]
impl Plugin for EmptyDirPlugin {
    fn name(&self) -> &'static str {
        NAME
    }

    fn can_support(&self, source: &Source) -> bool {
        match source {
            Source::Inline(volume) => volume.empty_dir.is_some(),
            Source::Persistent(_) => false,
        }
    }

    fn volume_name(&self, spec: &VolumeSpec) -> Result<String, PluginError> {
        source_of(spec)?;
        Ok(spec.name.clone())
    }

    fn abilities(&self, _: &Host, _: &VolumeSpec) -> VolumeCapabilities {
        VolumeCapabilities { owned: true, ..VolumeCapabilities::default() }
    }

    fn path(&self, host: &Host, place: &Place) -> PathBuf {
        host.paths.pod_volume(&place.uid, &place.plugin, &place.dir_name)
    }

    async fn set_up(&self, host: &Host, volume: &PodVolume) -> Result<(), PluginError> {
        let spec = &*volume.spec;
        let source = source_of(spec)?;
        let medium = Medium::of(source.medium.as_deref().unwrap_or_default(), &volume.pod)
            .map_err(|why| PluginError::plain(format!("{}: {why}", shown(spec))))?;
        let origin = match &medium {
            Medium::Disk => None,
            Medium::Memory => Some((Origin::Memory { bytes: size_limit(spec, source)? }, Vec::new())),
            Medium::HugePages { option } => {
                let (fs_type, nodev) = ("hugetlbfs".to_owned(), "nodev".to_owned());
                Some((Origin::FileSystem { fs_type, source: nodev }, vec![option.clone()]))
            }
        };
        let place = place_of(NAME, volume)?;
        let (queue, target) = (VolumeQueue::of_place(host, &place), self.path(host, &place));
        let mounted = queue.mounted(&target)?;
        match (medium.fs_type(), &mounted) {
            (Some(wanted), Some(found)) if found.fs_type != wanted => {
                return Err(PluginError::plain(format!(
                    "{} must have {wanted} mounted, but has {} ({}): unmount it, then the agent continues automatically",
                    target.display(),
                    found.fs_type,
                    found.source
                )));
            }
            _ => {}
        }
        let mark = mark_dir(host, &place);
        let is_marked = queue.read_file(&mark.join("ready")).await?.is_some();
        let is_whole = match &origin {
            // The directory may have been removed by hand.
            None => queue.is_dir(&target).await?,
            Some(_) => mounted.is_some(),
        };
        if is_marked && is_whole {
            return Ok(());
        }
        if mounted.is_none() {
            make_open_dir(&queue, &target).await?;
        }
        if let (Some((origin, options)), None) = (origin, &mounted) {
            queue.mount_at(Mount { origin, target, options, read_only: false }).await?;
        }
        queue.make_dir(&mark, 0o750).await?;
        queue.write_file(&mark.join("ready"), Vec::new()).await
    }

    async fn tear_down(&self, host: &Host, place: &Place) -> Result<(), PluginError> {
        let (queue, target) = (VolumeQueue::of_place(host, place), self.path(host, place));
        let mark = mark_dir(host, place);
        // From here on the remaining parts no longer count as set up.
        queue.remove_file(&mark.join("ready")).await?;
        queue.remove_dir(&mark).await?;
        queue.unmount(&target).await?;
        let what = format!("deleting the contents of {}", target.display());
        let roots = host.config.host_path_roots.clone();
        let remove =
            move |root: &Path| rooted_fs::remove_unprotected_below(root, &target, &roots.protected_ids());
        queue.below(what, remove).await
    }
}

impl VolumeQueue<'_> {
    /// Whether this path is a directory.
    async fn is_dir(&self, path: &Path) -> Result<bool, PluginError> {
        let (what, path) = (format!("looking at {}", path.display()), path.to_owned());
        let look =
            move |root: &Path| Ok(rooted_fs::kind_below(root, &path)? == Some(rooted_fs::FileKind::Dir));
        self.below(what, look).await
    }
}

/// Creates a world-writable directory, or makes an existing one world-writable.
async fn make_open_dir(queue: &VolumeQueue<'_>, path: &Path) -> Result<(), PluginError> {
    let (what, path) = (format!("making {}", path.display()), path.to_owned());
    let make = move |root: &Path| {
        rooted_fs::make_dir_below(root, &path, MODE)?;
        let dir = rooted_fs::open_dir_below(root, &path)?;
        let open = || {
            let has = fstat(&dir)?.st_mode & 0o7777;
            if has & MODE == MODE { Ok(()) } else { fchmod(&dir, Mode::from_raw_mode(has | MODE)) }
        };
        open().map_err(|errno| RootedFsError::Refused {
            path: path.clone(),
            why: format!("its mode cannot be set: {errno}"),
            source: errno.into(),
        })
    };
    queue.below(what, make).await
}
