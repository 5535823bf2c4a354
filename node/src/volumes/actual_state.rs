//! The actual state of volumes: which are mounted or may be, which operations run, and which have failed. Pure
//! state; the transitions are in [`Volume::begin`] and [`Volume::end`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use orlop_apimachinery::quantity::Quantity;
use tokio::time::Instant;

use super::Uid;
use super::attach_error::AttachmentWatch;
use super::decide::MountState;
use crate::plugin::{Outcome, Place, Plugin};

/// Delay after the first failure of an operation. Upstream: exponentialbackoff.
const FIRST_DELAY: Duration = Duration::from_millis(500);
/// The longest delay.
const LONGEST_DELAY: Duration = Duration::from_secs(122);

/// An operation on a volume. Only one runs at a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    TearDown(Uid),
    MountDevice,
    SetUp(Uid),
    Refresh(Uid),
    Expand(Uid),
    UnmountDevice,
    /// Not an operation, but reported and retried like one.
    Refuse(Uid),
}

impl Operation {
    /// The log message for a failed operation.
    pub(super) fn words(&self) -> &'static str {
        match self {
            Self::TearDown(_) => "a volume is not torn down",
            Self::MountDevice => "a device is not mounted",
            Self::SetUp(_) => "a volume is not mounted for its pod",
            Self::Refresh(_) => "the content of a volume is not brought up to date",
            Self::Expand(_) => "a volume does not grow on this node",
            Self::UnmountDevice => "a device is not unmounted",
            Self::Refuse(_) => "a pod does not get a volume",
        }
    }

    /// The pod of the operation; `None` for operations of the node.
    pub(super) fn uid(&self) -> Option<&Uid> {
        match self {
            Self::TearDown(uid)
            | Self::SetUp(uid)
            | Self::Refresh(uid)
            | Self::Expand(uid)
            | Self::Refuse(uid) => Some(uid),
            Self::MountDevice | Self::UnmountDevice => None,
        }
    }
}

/// The outcome of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OperationOutcome {
    Done,
    Failed(Outcome, String),
}

/// A failed operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OperationFailure {
    /// The earliest time of a retry.
    pub(super) until: Instant,
    delay: Duration,
    /// The error message.
    pub(super) message: String,
}

impl OperationFailure {
    /// The failure that follows `last`, with twice its delay.
    pub(super) fn after(last: Option<&OperationFailure>, message: String, now: Instant) -> Self {
        let delay = last.map_or(FIRST_DELAY, |last| (last.delay * 2).min(LONGEST_DELAY));
        Self { until: now + delay, delay, message }
    }
}

/// A volume for one pod.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct MountedPod {
    pub(super) place: Place,
    pub(super) state: MountState,
    /// The version of the pod whose content it shows.
    pub(super) version: u64,
    /// Its content is outdated although the pod has not changed.
    pub(super) stale: bool,
    /// The capacity of the claim when it was mounted.
    pub(super) size: Option<Quantity>,
    /// A previous process of the agent mounted it, and this process has not remounted it.
    pub(super) old: bool,
    /// When it was last set up.
    pub(super) set_up_at: Option<Instant>,
}

impl MountedPod {
    /// A mount that may exist.
    pub(super) fn uncertain(place: Place) -> Self {
        Self {
            place,
            state: MountState::Uncertain,
            version: 0,
            stale: false,
            size: None,
            old: false,
            set_up_at: None,
        }
    }
}

/// A running operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Running {
    pub(super) operation: Operation,
    before: MountState,
}

/// A volume.
pub(super) struct Volume {
    /// `None` for remains on disk that no plugin recognizes.
    pub(super) plugin: Option<Arc<dyn Plugin>>,
    pub(super) volume_name: String,
    /// Whether it has a device mount, a mount for the node from which pods are served.
    pub(super) has_device: bool,
    /// Whether the attach/detach controller attaches it; `None` when only its directories on disk are known.
    pub(super) attachable: Option<bool>,
    pub(super) device: MountState,
    pub(super) mounts: BTreeMap<Uid, MountedPod>,
    pub(super) running: Option<Running>,
    pub(super) failures: BTreeMap<Operation, OperationFailure>,
    /// Pods for which it is set up although the preceding expansion failed.
    pub(super) unexpanded: BTreeSet<Uid>,
    /// When it started to wait for its attachment.
    pub(super) waits_since: Option<Instant>,
    /// The watch of its VolumeAttachment, while it waits.
    pub(super) attachment: Option<AttachmentWatch>,
}

impl Volume {
    /// A volume that is not mounted.
    pub(super) fn new(plugin: Option<Arc<dyn Plugin>>, volume_name: String) -> Self {
        Self {
            plugin,
            volume_name,
            has_device: false,
            attachable: None,
            device: MountState::NotMounted,
            mounts: BTreeMap::new(),
            running: None,
            failures: BTreeMap::new(),
            unexpanded: BTreeSet::new(),
            waits_since: None,
            attachment: None,
        }
    }

    /// Its mount state for a pod.
    pub(super) fn state_for(&self, uid: &str) -> MountState {
        self.mounts.get(uid).map_or(MountState::NotMounted, |mount| mount.state)
    }

    /// Whether nothing of it is on this node and no operation runs.
    pub(super) fn is_gone(&self) -> bool {
        self.running.is_none()
            && self.device == MountState::NotMounted
            && self.mounts.values().all(|mount| mount.state == MountState::NotMounted)
    }

    /// The time before which a failed operation is not retried.
    pub(super) fn rests(&self, operation: &Operation) -> Option<Instant> {
        self.failures.get(operation).map(|failure| failure.until)
    }

    /// Starts an operation: from now on the state is uncertain, because the operation may leave something behind.
    pub(super) fn begin(&mut self, operation: Operation, place: Option<&Place>) {
        let before = match &operation {
            Operation::MountDevice | Operation::UnmountDevice => {
                std::mem::replace(&mut self.device, MountState::Uncertain)
            }
            Operation::SetUp(uid) | Operation::TearDown(uid) => {
                let before = self.state_for(uid);
                match (self.mounts.get_mut(uid), place) {
                    (Some(mount), _) => mount.state = MountState::Uncertain,
                    (None, Some(place)) => {
                        self.mounts.insert(uid.clone(), MountedPod::uncertain(place.clone()));
                    }
                    (None, None) => {}
                }
                before
            }
            Operation::Refresh(uid) | Operation::Expand(uid) | Operation::Refuse(uid) => self.state_for(uid),
        };
        self.running = Some(Running { operation, before });
    }

    /// Ends the running operation. A final failure restores the previous state. A failed unmount always leaves the
    /// state uncertain, because part of it may be done (upstream: MarkDeviceAsUncertain, MarkVolumeMountAsUncertain).
    pub(super) fn end(&mut self, end: OperationOutcome, now: Instant) {
        let Some(Running { operation, before }) = self.running.take() else { return };
        let state = match (&end, &operation) {
            // Part of the unmount may be done, so the next operation cannot rely on the mount.
            (OperationOutcome::Failed(..), Operation::UnmountDevice | Operation::TearDown(_)) => {
                MountState::Uncertain
            }
            (OperationOutcome::Failed(Outcome::Final, _), _) => before,
            (
                OperationOutcome::Failed(Outcome::Uncertain, _),
                Operation::Refresh(_) | Operation::Expand(_),
            ) => before,
            (OperationOutcome::Failed(Outcome::Uncertain, _), _) => MountState::Uncertain,
            (OperationOutcome::Done, Operation::MountDevice | Operation::SetUp(_)) => MountState::Mounted,
            (OperationOutcome::Done, Operation::UnmountDevice | Operation::TearDown(_)) => {
                MountState::NotMounted
            }
            (OperationOutcome::Done, Operation::Refresh(_) | Operation::Expand(_) | Operation::Refuse(_)) => {
                before
            }
        };
        match &operation {
            Operation::MountDevice | Operation::UnmountDevice => self.device = state,
            Operation::SetUp(uid) | Operation::TearDown(uid) => {
                if state == MountState::NotMounted {
                    self.mounts.remove(uid);
                } else if let Some(mount) = self.mounts.get_mut(uid) {
                    mount.state = state;
                }
            }
            Operation::Refresh(_) | Operation::Expand(_) | Operation::Refuse(_) => {}
        }
        match end {
            OperationOutcome::Done => {
                self.failures.remove(&operation);
                if let Operation::TearDown(uid) = &operation {
                    self.forget_pod(uid);
                }
                if let Operation::SetUp(uid) = &operation {
                    self.unexpanded.remove(uid);
                    self.failures.remove(&Operation::Refuse(uid.clone()));
                }
            }
            OperationOutcome::Failed(_, message) => {
                let failure = OperationFailure::after(self.failures.get(&operation), message, now);
                self.failures.insert(operation, failure);
            }
        }
    }

    /// Removes the failures of a pod that is gone.
    pub(super) fn forget_pod(&mut self, uid: &str) {
        self.unexpanded.remove(uid);
        self.failures.retain(|operation, _| match operation {
            Operation::TearDown(of) => &**of != uid || self.mounts.contains_key(uid),
            Operation::SetUp(of) | Operation::Refresh(of) | Operation::Expand(of) | Operation::Refuse(of) => {
                &**of != uid
            }
            Operation::MountDevice | Operation::UnmountDevice => true,
        });
    }

    /// The failure that prevents the mount for a pod, if any.
    pub(super) fn why_not(&self, uid: &Uid) -> Option<&str> {
        let of_pod = [
            Operation::Refuse(uid.clone()),
            Operation::SetUp(uid.clone()),
            Operation::Expand(uid.clone()),
            Operation::MountDevice,
        ];
        of_pod
            .iter()
            .find_map(|operation| self.failures.get(operation))
            .map(|failure| failure.message.as_str())
    }
}

/// All volumes, by unique name.
#[derive(Default)]
pub(super) struct ActualState {
    pub(super) volumes: BTreeMap<Arc<str>, Volume>,
}

impl ActualState {
    pub(super) fn get(&self, unique: &str) -> Option<&Volume> {
        self.volumes.get(unique)
    }

    pub(super) fn get_mut(&mut self, unique: &str) -> Option<&mut Volume> {
        self.volumes.get_mut(unique)
    }

    /// The mounts that exist, or may exist, for a pod.
    pub(super) fn of_pod(&self, uid: &str) -> impl Iterator<Item = (&Arc<str>, &Volume, &MountedPod)> {
        self.volumes.iter().filter_map(move |(unique, volume)| {
            let mount = volume.mounts.get(uid)?;
            (mount.state != MountState::NotMounted).then_some((unique, volume, mount))
        })
    }

    /// Places with remains that no plugin recognizes, and that no known volume occupies.
    pub(super) fn riddles(&self) -> impl Iterator<Item = &Place> {
        let riddles = self.volumes.iter().filter(|(_, volume)| volume.plugin.is_none());
        riddles.flat_map(move |(unique, volume)| {
            volume
                .mounts
                .values()
                .map(|mount| &mount.place)
                .filter(move |place| !self.has_place(place, unique))
        })
    }

    /// Whether a volume other than `unique` occupies a place, or may occupy it.
    pub(super) fn has_place(&self, place: &Place, unique: &str) -> bool {
        let others = self.volumes.iter().filter(|(name, _)| &***name != unique);
        others.flat_map(|(_, volume)| volume.mounts.values()).any(|mount| mount.place == *place)
    }
}
