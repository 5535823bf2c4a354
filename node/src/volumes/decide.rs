//! Decides the next operation on one volume. Pure: all inputs are in [`VolumeFacts`]. Pods are unmounted first,
//! then requested mounts are made, then the device is unmounted.

use tokio::time::Instant;

use super::Uid;

/// The mount state of a volume, for a pod or for the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MountState {
    /// It is not mounted.
    NotMounted,
    /// It is mounted.
    Mounted,
    /// An operation, or an earlier agent, may have left a mount behind.
    Uncertain,
}

/// Whether a pod requests the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Demand {
    /// It passes.
    Wanted,
    /// Unknown, or a process of the pod still runs: the mount stays as it is.
    Held,
    /// It does not.
    Unwanted,
}

/// Whether the volume is attached to this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attach {
    /// It needs no attachment.
    NotNeeded,
    /// The Node does not report the attachment yet.
    Waiting,
    /// The Node reports the attachment, and the report is current.
    Attached,
}

/// The check before a volume is mounted for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MountCheck {
    /// It does.
    Passed,
    /// The objects it needs are not known yet.
    NotYet,
    /// It fails with this message.
    Failed(String),
}

/// The device mount, for the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Device {
    pub(super) state: MountState,
    /// A pod may use it through a mount that no plugin recognizes.
    pub(super) in_doubt: bool,
    /// The time before which a failed mount is not retried.
    pub(super) mount_rests: Option<Instant>,
    pub(super) unmount_rests: Option<Instant>,
}

/// A pod that requests or uses the volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodFacts {
    pub(super) uid: Uid,
    pub(super) wish: Demand,
    pub(super) state: MountState,
    pub(super) check: MountCheck,
    /// Its content is outdated.
    pub(super) stale: bool,
    /// When it is set up again without a known change.
    pub(super) repeat_at: Option<Instant>,
    /// The volume is larger than the node has recorded.
    pub(super) grows: bool,
    /// The times before which failed operations are not retried.
    pub(super) tear_down_rests: Option<Instant>,
    pub(super) set_up_rests: Option<Instant>,
    pub(super) refresh_rests: Option<Instant>,
    pub(super) expand_rests: Option<Instant>,
    pub(super) refuse_rests: Option<Instant>,
}

/// The inputs of the decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VolumeFacts {
    /// An operation runs.
    pub(super) running: bool,
    pub(super) attach: Attach,
    /// `None` for a volume without a device mount.
    pub(super) device: Option<Device>,
    /// In the order of their arrival.
    pub(super) pods: Vec<PodFacts>,
    /// Only one pod may use it.
    pub(super) exclusive: bool,
    /// All pods of this node are known, and its Node was read.
    pub(super) may_unmount: bool,
    pub(super) now: Instant,
}

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Nothing, until something changes.
    Rest,
    /// Nothing until this time.
    WaitUntil(Instant),
    /// Wait for the attach/detach controller.
    WaitForAttach,
    /// Unmount it for a pod.
    TearDown(Uid),
    /// Mount the device; this pod is the first to use it.
    MountDevice(Uid),
    /// Mount it for a pod.
    SetUp(Uid),
    /// Update its content for a running pod.
    Refresh(Uid),
    /// Expand the file system on the node to the size of the volume.
    Expand(Uid),
    /// Report to the pod why it cannot use the volume.
    Refuse(Uid, VolumeRefusal),
    /// Unmount the device.
    UnmountDevice,
    /// Remove it from the state: nothing of it is left.
    Forget,
}

/// Why a pod cannot use a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum VolumeRefusal {
    /// Another pod uses it, and only one may.
    InUse,
    /// A check failed with this message.
    Check(String),
}

/// Collects the times of delayed operations.
struct RetryTimes {
    now: Instant,
    soonest: Option<Instant>,
}

impl RetryTimes {
    /// Whether an operation is due now; if not, its time is recorded.
    fn is_due(&mut self, rests: Option<Instant>) -> bool {
        let Some(until) = rests.filter(|until| *until > self.now) else { return true };
        self.soonest = Some(self.soonest.map_or(until, |soonest| soonest.min(until)));
        false
    }
}

/// The next step for a volume.
pub(super) fn decide(facts: &VolumeFacts) -> Decision {
    if facts.running {
        return Decision::Rest;
    }
    let mut rests = RetryTimes { now: facts.now, soonest: None };
    if facts.may_unmount {
        for pod in facts
            .pods
            .iter()
            .filter(|pod| pod.wish == Demand::Unwanted && pod.state != MountState::NotMounted)
        {
            if rests.is_due(pod.tear_down_rests) {
                return Decision::TearDown(pod.uid.clone());
            }
        }
    }
    let mut waits_for_attach = false;
    for pod in facts.pods.iter().filter(|pod| pod.wish == Demand::Wanted) {
        match next_for(facts, pod, &mut rests) {
            Some(Decision::WaitForAttach) => waits_for_attach = true,
            Some(decision) => return decision,
            None => {}
        }
    }
    let in_hand =
        facts.pods.iter().any(|pod| pod.wish != Demand::Unwanted || pod.state != MountState::NotMounted);
    if !in_hand {
        match facts.device {
            Some(device) if device.state != MountState::NotMounted => {
                if facts.may_unmount && !device.in_doubt && rests.is_due(device.unmount_rests) {
                    return Decision::UnmountDevice;
                }
            }
            Some(_) | None => return Decision::Forget,
        }
    }
    match (rests.soonest, waits_for_attach) {
        (Some(until), _) => Decision::WaitUntil(until),
        (None, true) => Decision::WaitForAttach,
        (None, false) => Decision::Rest,
    }
}

/// The next step for a pod that requests the volume; `None` when it is done or has to wait.
fn next_for(facts: &VolumeFacts, pod: &PodFacts, rests: &mut RetryTimes) -> Option<Decision> {
    match pod.state {
        MountState::Mounted => {
            let repeats = pod.repeat_at.is_some() && rests.is_due(pod.repeat_at);
            if (pod.stale || repeats) && rests.is_due(pod.refresh_rests) {
                return Some(Decision::Refresh(pod.uid.clone()));
            }
            (pod.grows && rests.is_due(pod.expand_rests)).then(|| Decision::Expand(pod.uid.clone()))
        }
        MountState::NotMounted | MountState::Uncertain => mount(facts, pod, rests),
    }
}

fn mount(facts: &VolumeFacts, pod: &PodFacts, rests: &mut RetryTimes) -> Option<Decision> {
    let refuse = |rests: &mut RetryTimes, why: VolumeRefusal| {
        rests.is_due(pod.refuse_rests).then(|| Decision::Refuse(pod.uid.clone(), why))
    };
    let taken = facts.exclusive
        && facts.pods.iter().any(|other| other.uid != pod.uid && other.state != MountState::NotMounted);
    if taken {
        return refuse(rests, VolumeRefusal::InUse);
    }
    match &pod.check {
        MountCheck::Passed => {}
        MountCheck::NotYet => return None,
        MountCheck::Failed(why) => return refuse(rests, VolumeRefusal::Check(why.clone())),
    }
    if facts.attach == Attach::Waiting {
        return Some(Decision::WaitForAttach);
    }
    if let Some(device) = facts.device {
        if device.state != MountState::Mounted {
            return rests.is_due(device.mount_rests).then(|| Decision::MountDevice(pod.uid.clone()));
        }
        // Expand before the pod can see it.
        if pod.grows {
            return rests.is_due(pod.expand_rests).then(|| Decision::Expand(pod.uid.clone()));
        }
    }
    rests.is_due(pod.set_up_rests).then(|| Decision::SetUp(pod.uid.clone()))
}
