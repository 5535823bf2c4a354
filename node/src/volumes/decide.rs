//! What to do next about one volume. Pure: all that decides is in [`VolumeFacts`]. Unmount first, then what is wanted, then the mount
//! for the node.

use tokio::time::Instant;

use super::Uid;

/// Where a volume is, for a pod or for the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MountState {
    /// Nowhere.
    NotMounted,
    /// There.
    Mounted,
    /// A call may have left something behind, or an agent before this one has.
    Uncertain,
}

/// Whether a pod wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Demand {
    /// It does.
    Wanted,
    /// Nobody can tell, or something of the pod still runs: it stays as it is.
    Held,
    /// It does not.
    Unwanted,
}

/// Whether it is attached to this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attach {
    /// Nobody attaches it.
    NotNeeded,
    /// The Node does not say so yet.
    Waiting,
    /// The Node says so, and may be believed.
    Attached,
}

/// What has to hold before a volume is mounted for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MountCheck {
    /// It does.
    Passed,
    /// What it needs is not known yet.
    NotYet,
    /// It does not; in words.
    Failed(String),
}

/// The mount for the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Device {
    pub(super) state: MountState,
    /// Something that a pod has may come from it, and nobody can tell.
    pub(super) in_doubt: bool,
    /// Until when a failure keeps it from being mounted.
    pub(super) mount_rests: Option<Instant>,
    pub(super) unmount_rests: Option<Instant>,
}

/// A pod that wants or has the volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodFacts {
    pub(super) uid: Uid,
    pub(super) wish: Demand,
    pub(super) state: MountState,
    pub(super) check: MountCheck,
    /// What it shows has changed.
    pub(super) stale: bool,
    /// When it is set up again although nobody has said that something changed.
    pub(super) repeat_at: Option<Instant>,
    /// The volume is larger than what the node knows of it.
    pub(super) grows: bool,
    /// Until when failures keep things from being done.
    pub(super) tear_down_rests: Option<Instant>,
    pub(super) set_up_rests: Option<Instant>,
    pub(super) refresh_rests: Option<Instant>,
    pub(super) expand_rests: Option<Instant>,
    pub(super) refuse_rests: Option<Instant>,
}

/// All that decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VolumeFacts {
    /// Something is being done with it.
    pub(super) running: bool,
    pub(super) attach: Attach,
    /// None: it is not mounted for the node.
    pub(super) device: Option<Device>,
    /// In the order in which they came.
    pub(super) pods: Vec<PodFacts>,
    /// One pod alone may have it.
    pub(super) exclusive: bool,
    /// The pods of this node are known completely, and its Node was seen.
    pub(super) may_unmount: bool,
    pub(super) now: Instant,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Nothing; what changes it wakes us.
    Rest,
    /// Nothing before this time.
    WaitUntil(Instant),
    /// The attach/detach controller has the turn.
    WaitForAttach,
    /// Take it away from a pod.
    TearDown(Uid),
    /// Mount it for the node; the pod that it is for first.
    MountDevice(Uid),
    /// Make it ready for a pod.
    SetUp(Uid),
    /// The same while the pod lives.
    Refresh(Uid),
    /// Make what is on the node as large as the volume.
    Expand(Uid),
    /// Tell the pod why it does not get it.
    Refuse(Uid, VolumeRefusal),
    /// Take the mount for the node away.
    UnmountDevice,
    /// Nothing is left of it.
    Forget,
}

/// Why a pod does not get a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum VolumeRefusal {
    /// Another pod has it, and one alone may.
    InUse,
    /// In words.
    Check(String),
}

/// Collects what waits for a time.
struct RetryTimes {
    now: Instant,
    soonest: Option<Instant>,
}

impl RetryTimes {
    /// Whether something may be done now; if not it is remembered when.
    fn is_due(&mut self, rests: Option<Instant>) -> bool {
        let Some(until) = rests.filter(|until| *until > self.now) else { return true };
        self.soonest = Some(self.soonest.map_or(until, |soonest| soonest.min(until)));
        false
    }
}

/// Decides.
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

/// What a pod that wants the volume needs next; none when it has all or has to wait.
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
        // Before the pod sees it.
        if pod.grows {
            return rests.is_due(pod.expand_rests).then(|| Decision::Expand(pod.uid.clone()));
        }
    }
    rests.is_due(pod.set_up_rests).then(|| Decision::SetUp(pod.uid.clone()))
}
