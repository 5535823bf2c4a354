//! Performs operations: one on one volume, each with a few calls of its plugin. It makes no decisions; the state
//! transitions are in `actual`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use orlop_apimachinery::quantity::Quantity;
use orlop_client::names::reason;
use orlop_client::recorder::EventType::{Normal, Warning};
use tokio::time::Instant;

use super::actual_state::Operation;
use super::events;
use super::fs_group::{OwnershipRequest, fs_group, on_root_mismatch};
use super::manager::Manager;
use super::orphans;
use super::populator::ResolvedVolume;
use crate::mount::Force;
use crate::plugin::{Outcome, Place, Plugin, PluginError, PodVolume};

/// Delays of the first and of later events about a slow `fsGroup`.
const FIRST_PROGRESS: Duration = Duration::from_secs(30);
const NEXT_PROGRESS: Duration = Duration::from_secs(60);

/// An operation and its inputs.
pub(super) struct OperationInput {
    pub(super) unique: Arc<str>,
    pub(super) operation: Operation,
    /// `None` for remains that no plugin recognizes.
    pub(super) plugin: Option<Arc<dyn Plugin>>,
    pub(super) volume_name: String,
    /// The pod that requests the volume, and the volume; `None` for an unmount.
    pub(super) pod: Option<(Arc<Pod>, Arc<ResolvedVolume>)>,
    /// The mount to remove.
    pub(super) place: Option<Place>,
    /// The recorded size of the volume on this node.
    pub(super) known_size: Option<Quantity>,
    /// The volume is already mounted for the pod.
    pub(super) online: bool,
    /// Another pod uses the volume: its `fsGroup`.
    pub(super) other: Option<Option<i64>>,
}

/// The result of a successful operation.
#[derive(Default)]
pub(super) struct OperationResult {
    /// The claim after an expansion, and the new size.
    pub(super) claim: Option<(PersistentVolumeClaim, Quantity)>,
}

/// A failed operation.
pub(super) struct OperationError {
    pub(super) outcome: Outcome,
    pub(super) message: String,
    /// The pod is started without the expansion.
    pub(super) goes_on: bool,
}

impl From<PluginError> for OperationError {
    fn from(error: PluginError) -> Self {
        Self { outcome: error.outcome, message: error.message, goes_on: false }
    }
}

impl OperationInput {
    fn pod_volume(&self) -> Option<PodVolume> {
        let (pod, wanted) = self.pod.as_ref()?;
        Some(PodVolume { pod: Arc::clone(pod), spec: Arc::clone(&wanted.spec) })
    }
}

impl Manager {
    /// Performs the operation.
    pub(super) async fn perform(&self, job: &OperationInput) -> Result<OperationResult, OperationError> {
        let no_plugin = || PluginError::plain("no plugin understands this volume");
        match (&job.operation, &job.plugin) {
            (Operation::TearDown(_), Some(plugin)) => {
                if let Some(place) = &job.place {
                    plugin.tear_down(&self.host, place).await?;
                }
            }
            (Operation::TearDown(_), None) => {
                if let Some(place) = &job.place {
                    self.clear(&job.unique, place).await?;
                }
            }
            (Operation::UnmountDevice, Some(plugin)) => {
                plugin.unmount_device(&self.host, &job.volume_name).await?;
            }
            (Operation::MountDevice, Some(plugin)) => {
                if let Some(volume) = job.pod_volume() {
                    plugin.mount_device_for(&self.host, &volume).await?;
                }
            }
            (Operation::SetUp(_) | Operation::Refresh(_), Some(plugin)) => {
                if let Some(volume) = job.pod_volume() {
                    plugin.set_up(&self.host, &volume).await?;
                    self.give_to_group(job).await?;
                    self.tell_mapped(job);
                }
            }
            (Operation::Expand(_), Some(plugin)) => return self.expand(job, plugin).await,
            (Operation::Refuse(_), _) => {}
            (
                Operation::UnmountDevice
                | Operation::MountDevice
                | Operation::SetUp(_)
                | Operation::Refresh(_)
                | Operation::Expand(_),
                None,
            ) => return Err(no_plugin().into()),
        }
        Ok(OperationResult::default())
    }

    /// Unmounts everything at or below an unrecognized place, the last mount first. Nothing else is touched.
    async fn clear(&self, queue: &str, place: &Place) -> Result<(), PluginError> {
        let paths = &self.host.paths;
        let dir = match place.block {
            true => paths.pod_device(&place.uid, &place.plugin, &place.dir_name),
            false => paths.pod_volume(&place.uid, &place.plugin, &place.dir_name),
        };
        let points = self.host.mounts.points().map_err(|error| PluginError::plain(error.to_string()))?;
        for point in points.iter().rev().filter(|point| point.target.starts_with(&dir)) {
            self.host.mounts.unmount(queue, &point.target, Force::No).await.map_err(|error| {
                let message = error.to_string();
                match error.is_uncertain() {
                    true => PluginError::uncertain(message),
                    false => PluginError::plain(message),
                }
            })?;
        }
        orphans::remove_empty(&self.host, dir).await;
        Ok(())
    }

    async fn give_to_group(&self, job: &OperationInput) -> Result<(), PluginError> {
        let Some((pod, wanted)) = &job.pod else { return Ok(()) };
        // The current capabilities: those of some drivers are known only after the first call.
        let (spec, abilities) = (&wanted.spec, wanted.plugin.abilities(&self.host, &wanted.spec));
        let refreshed = matches!(job.operation, Operation::Refresh(_));
        let Some(group) = fs_group(pod).filter(|_| abilities.owned && !spec.read_only && !spec.block) else {
            return Ok(());
        };
        if abilities.owned_once {
            if refreshed {
                return Ok(());
            }
            if let Some(has) = job.other {
                if has != Some(group) {
                    let text = events::other_group(group, spec.dir_name(), has);
                    self.host.events.event(&**pod, Warning, reason::ALREADY_MOUNTED_VOLUME, text);
                }
                return Ok(());
            }
        }
        if let Some(dir) = wanted.plugin.machine_dir(&self.host, spec).await?
            && self.host.config.host_path_roots.containing(&dir).is_none()
        {
            return Err(PluginError::plain(format!(
                "the group of {} is not set to fsGroup {group}: it is not in a directory that --host-path-roots of the \
                 node agent allows",
                dir.display()
            )));
        }
        let files = Arc::new(AtomicU64::new(0));
        let path = wanted.plugin.path(&self.host, &wanted.place);
        let shown = path.display().to_string();
        let owned = OwnershipRequest {
            queue: job.unique.to_string(),
            path,
            fs_group: group,
            on_root_mismatch: on_root_mismatch(pod),
            files: Arc::clone(&files),
        };
        let mut done = self.ownership.apply(&self.host, owned);
        let (mut at, mut first) = (Instant::now() + FIRST_PROGRESS, true);
        let outcome = loop {
            tokio::select! {
                outcome = &mut done => break outcome,
                () = tokio::time::sleep_until(at) => {
                    let text = match first {
                        true => events::ownership_is_slow(&shown),
                        false => events::ownership_goes_on(&shown, files.load(Ordering::Relaxed)),
                    };
                    self.host.events.event(&**pod, Warning, reason::VOLUME_PERMISSION_CHANGE, text);
                    (at, first) = (at + NEXT_PROGRESS, false);
                }
            }
        };
        // The volume is mounted, but not yet ready for the pod.
        outcome.map_err(|error| PluginError { outcome: Outcome::Uncertain, ..error })
    }

    fn tell_mapped(&self, job: &OperationInput) {
        let (Operation::SetUp(_), Some((pod, wanted))) = (&job.operation, &job.pod) else { return };
        if wanted.spec.block {
            let path = wanted.plugin.path(&self.host, &wanted.place).display().to_string();
            let text = events::mapped(wanted.spec.dir_name(), &path);
            self.host.events.event(&**pod, Normal, reason::SUCCESSFUL_MOUNT_VOLUME, text);
        }
    }
}
