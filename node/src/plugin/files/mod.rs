//! Plugins of volumes with content from the API server: configMap, secret, downwardAPI and projected. The agent
//! writes files; containers only read them. Secrets and projected volumes are stored in memory and never on a
//! disk; on a virtual node, where nothing is mounted, they are not written at all.
//!
//! A set-up reads the objects of the volume ([`projected`]), creates the directory, mounts a tmpfs, and replaces
//! all files atomically ([`atomic_writer`]). From then on the objects are watched ([`object_watches`]):
//! [`Files::changes`] reports which volumes must be set up again, without polling. A failed set-up leaves the old
//! content unchanged.
//!
//! Upstream: pkg/volume/{configmap,secret,downwardapi,projected}.

mod atomic_writer;
mod config_map;
mod downward;
mod nested_volumes;
mod object_watches;
mod payload;
mod projected;
mod secret;
mod tokens;

#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use kube::Client;
use rustix::fs::{Gid, Mode, fchmod, fchown, fstat};
use tokio_util::sync::CancellationToken;

use self::atomic_writer::{WriteStep, Writer};
use self::object_watches::VolumeUses;
use self::projected::ContentKind;
use super::{Place, Plugin, PluginError, PodVolume, VolumeCapabilities};
use crate::host::Host;
use crate::mount::{Force, Mount, MountError, MountPoint, Origin};
use crate::volume::{Source, VolumeSpec};
use orlop_volume::crash_points;
use orlop_volume::rooted_fs;

pub use object_watches::Changes;

/// Mode of a volume's directory (upstream: emptyDir, which contains these volumes).
const MODE: u32 = 0o777;
/// The maximum number of stacked mounts; all but one are those of a faulty agent.
const MOST_LAYERS: usize = 8;

/// The plugins of this module, which share their watches.
pub struct Files {
    uses: Arc<VolumeUses>,
}

impl Files {
    /// Reads and watches objects with this client, until `shutdown`.
    pub fn new(client: Client, shutdown: CancellationToken) -> Self {
        Self { uses: Arc::new(VolumeUses::new(client, shutdown)) }
    }

    /// One plugin per kind of volume.
    pub fn plugins(&self) -> Vec<Arc<dyn Plugin>> {
        let plugin =
            |kind| -> Arc<dyn Plugin> { Arc::new(FilesPlugin { kind, uses: Arc::clone(&self.uses) }) };
        ContentKind::ALL.into_iter().map(plugin).collect()
    }

    /// Reports volumes that must be set up again: one of their objects was created, changed or deleted, or a token
    /// must be renewed. The owner of the volumes calls `Volumes::refresh` for each.
    pub fn changes(&self) -> Changes {
        self.uses.changes()
    }
}

struct FilesPlugin {
    kind: ContentKind,
    uses: Arc<VolumeUses>,
}

/// The content and target of a write.
struct WriteJob {
    root: PathBuf,
    path: PathBuf,
    files: payload::Files,
    nested: Vec<String>,
    group: Option<u32>,
    now: Timestamp,
}

#[async_trait]
impl Plugin for FilesPlugin {
    fn name(&self) -> &'static str {
        self.kind.name()
    }

    fn can_support(&self, source: &Source) -> bool {
        match source {
            Source::Inline(volume) => self.kind.is_of(volume),
            Source::Persistent(_) => false,
        }
    }

    fn volume_name(&self, spec: &VolumeSpec) -> Result<String, PluginError> {
        match self.can_support(&spec.source) {
            true => Ok(spec.name.clone()),
            false => Err(PluginError::plain(format!("volume {} is not of {}", spec.name, self.name()))),
        }
    }

    fn abilities(&self, _: &Host, _: &VolumeSpec) -> VolumeCapabilities {
        // The group is applied before the content becomes visible.
        VolumeCapabilities { refreshed: true, read_only: true, ..VolumeCapabilities::default() }
    }

    fn path(&self, host: &Host, place: &Place) -> PathBuf {
        host.paths.pod_volume(&place.uid, self.name(), &place.dir_name)
    }

    async fn set_up(&self, host: &Host, volume: &PodVolume) -> Result<(), PluginError> {
        let (pod, spec) = (&volume.pod, &volume.spec);
        let sources = match &spec.source {
            Source::Inline(inline) => self.kind.sources(inline),
            Source::Persistent(_) => None,
        };
        let (sources, mode) = sources
            .ok_or_else(|| PluginError::plain(format!("volume {} is not of {}", spec.name, self.name())))?;
        let place = self.place(pod.metadata.uid.as_deref().unwrap_or_default(), spec.dir_name());
        let nested = nested_volumes::places(pod, &spec.name).map_err(PluginError::plain)?;
        let used = self.uses.of(&place);
        let mut used = used.lock().await;
        let reader = self.uses.reader(&place, pod.metadata.namespace.as_deref().unwrap_or_default());
        // Objects that were read are watched even when others are missing: only a tear-down ends that.
        let collected = projected::collect(host, &reader, &mut used, pod, &sources, mode).await;
        let collected = collected.map_err(PluginError::uncertain)?;
        self.uses.remind(&mut used, &place, collected.renewal, host.clock);
        let job = WriteJob {
            root: host.paths.root().to_owned(),
            path: self.path(host, &place),
            files: collected.files,
            nested,
            group: projected::group_of(pod),
            now: host.clock.now(),
        };
        self.write(host, &place, job).await.map_err(|error| PluginError::uncertain(error.to_string()))
    }

    async fn tear_down(&self, host: &Host, place: &Place) -> Result<(), PluginError> {
        self.uses.forget(place);
        let path = self.path(host, place);
        self.remove(host, place, path).await.map_err(|error| match error.is_uncertain() {
            true => PluginError::uncertain(error.to_string()),
            false => PluginError::plain(error.to_string()),
        })
    }
}

impl FilesPlugin {
    fn place(&self, uid: &str, dir_name: &str) -> Place {
        Place {
            uid: uid.to_owned(),
            plugin: self.name().to_owned(),
            dir_name: dir_name.to_owned(),
            block: false,
        }
    }

    fn queue(&self, place: &Place) -> String {
        format!("{}/{}-{}", self.name(), place.uid, place.dir_name)
    }

    async fn write(&self, host: &Host, place: &Place, job: WriteJob) -> Result<(), MountError> {
        let queue = self.queue(place);
        let (root, path) = (job.root.clone(), job.path.clone());
        let what = format!("making {}", path.display());
        host.mounts.run(&queue, what, move |_| Ok(rooted_fs::make_dir_below(&root, &path, MODE)?)).await?;
        if self.kind.is_in_memory() {
            mount_memory(host, &queue, &job.path).await?;
            if host.config.is_virtual {
                // A virtual mount has no memory: the content would be on the disk.
                return Ok(());
            }
        }
        let what = format!("writing {}", job.path.display());
        host.mounts.run(&queue, what.clone(), move |_| job.run(&what)).await
    }

    async fn remove(&self, host: &Host, place: &Place, path: PathBuf) -> Result<(), MountError> {
        let queue = self.queue(place);
        if self.kind.is_in_memory() {
            for _ in 0..MOST_LAYERS {
                if topmost(&host.mounts.points()?, &path).is_none() {
                    break;
                }
                host.mounts.unmount(&queue, &path, Force::No).await?;
            }
        }
        let root = host.paths.root().to_owned();
        let what = format!("removing {}", path.display());
        // The walk does not enter mounts.
        host.mounts.run(&queue, what, move |_| Ok(rooted_fs::remove_content_below(&root, &path)?)).await
    }
}

/// The topmost mount at exactly this path.
fn topmost<'a>(points: &'a [MountPoint], path: &Path) -> Option<&'a MountPoint> {
    points.iter().rfind(|point| point.target == path)
}

/// Ensures that a directory is a tmpfs.
async fn mount_memory(host: &Host, queue: &str, path: &Path) -> Result<(), MountError> {
    match topmost(&host.mounts.points()?, path) {
        Some(point) if point.fs_type == "tmpfs" => return Ok(()),
        Some(point) => {
            return Err(MountError::Refused {
                what: format!("mounting tmpfs at {}", path.display()),
                why: format!("a file system {} is mounted there; unmount it", point.fs_type),
                source: None,
            });
        }
        None => {}
    }
    let mount = |options: &[&str]| Mount {
        origin: Origin::Memory { bytes: None },
        target: path.to_owned(),
        options: options.iter().map(|&option| option.to_owned()).collect(),
        read_only: false,
    };
    // Linux 6.4 and later can exclude it from swap.
    match host.mounts.mount(queue, mount(&["noswap"])).await {
        Err(MountError::Refused { source: Some(error), .. })
            if error.kind() == io::ErrorKind::InvalidInput =>
        {
            host.mounts.mount(queue, mount(&[])).await
        }
        other => other,
    }
}

impl WriteJob {
    /// Writes the content. Blocks.
    fn run(self, what: &str) -> Result<(), MountError> {
        let refused = |why: String, source: io::Error| MountError::Refused {
            what: what.to_owned(),
            why,
            source: Some(source),
        };
        let dir = rooted_fs::open_dir_below(&self.root, &self.path)?;
        if let Some(group) = self.group {
            let give = || -> rustix::io::Result<()> {
                let found = fstat(&dir)?;
                if found.st_gid != group || found.st_mode & 0o2000 == 0 {
                    fchown(&dir, None, Some(Gid::from_raw(group)))?;
                    fchmod(&dir, Mode::from_raw_mode(found.st_mode & 0o7777 | 0o2000))?;
                }
                Ok(())
            };
            give().map_err(|errno| {
                refused(format!("it cannot be given to its group: {errno}"), errno.into())
            })?;
        }
        for nested in &self.nested {
            let first = nested.split('/').next().unwrap_or_default();
            // Reserved names belong to the writer, and the content itself already provides these paths.
            let is_ours = first.starts_with("..")
                || rooted_fs::kind_below(&self.root, &self.path.join(first))?
                    == Some(rooted_fs::FileKind::Link);
            if !is_ours {
                rooted_fs::make_dir_below(&self.root, &self.path.join(nested), 0o755)?;
            }
        }
        let writer = Writer { volume: &dir, group: self.group, now: self.now };
        let mut step = |step: WriteStep| {
            crash_points::reached(&format!("content, {step:?}"), &self.path);
            Ok(())
        };
        match writer.write_by(&self.files.into_payload(), &mut step) {
            Ok(wrote) => {
                tracing::debug!(path = %self.path.display(), ?wrote, "content of a volume");
                Ok(())
            }
            Err(error) => Err(refused(error.to_string(), io::Error::other(error))),
        }
    }
}
