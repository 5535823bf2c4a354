//! The state of the volume manager, and the facts about one volume that are derived from it. Pure: no I/O and no
//! side effects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::Uid;
use super::actual_state::{ActualState, MountedPod, Operation, Volume};
use super::decide::{self, Attach, Device, MountCheck, MountState as Presence, PodFacts, VolumeFacts};
use super::desired_state::{DesiredPod, DesiredState};
use super::pod_volumes::PodVolumes;
use super::populator::{self, ResolvedVolume};
use super::resize;
use super::volumes_in_use::VolumesInUse;

/// A pod that requests the volume, with the resolved volume.
type Wants<'s> = Option<(&'s DesiredPod, &'s Arc<ResolvedVolume>)>;

/// Volumes whose content changes without a notification are set up again after this time. The kubelet does so at
/// every sync of the pod, which is every 60 to 90 seconds.
const REPEAT_EVERY: Duration = Duration::from_secs(75);

/// The known state of the Node.
pub(super) struct NodeView {
    pub(super) uid: String,
    pub(super) version: Option<u64>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) attached: BTreeSet<String>,
}

/// All mutable state.
#[derive(Default)]
pub(super) struct ManagerState {
    pub(super) desired: DesiredState,
    pub(super) actual: ActualState,
    pub(super) listing: VolumesInUse,
    pub(super) node: Option<NodeView>,
    pub(super) synced: bool,
    pub(super) held: BTreeSet<Uid>,
    /// Pods whose directories existed when the agent started, and that were not requested since.
    pub(super) old: BTreeSet<Uid>,
    pub(super) reports: BTreeMap<Uid, watch::Sender<PodVolumes>>,
}

impl ManagerState {
    pub(super) fn attach(&self, unique: &str) -> Attach {
        let Some(volume) = self.actual.get(unique) else { return Attach::Waiting };
        if volume.attachable == Some(false) {
            return Attach::NotNeeded;
        }
        let attached = self.node.as_ref().is_some_and(|node| node.attached.contains(unique));
        if attached && self.listing.is_in(unique) { Attach::Attached } else { Attach::Waiting }
    }

    pub(super) fn may_unmount(&self) -> bool {
        self.synced && self.node.is_some()
    }

    /// Attachable volumes that are requested or may be mounted on this node.
    pub(super) fn needed(&self) -> BTreeSet<String> {
        let wanted = self.desired.pods().flat_map(|(_, pod)| pod.known().map(|(_, wanted)| wanted));
        let wanted = wanted.filter(|wanted| wanted.abilities.attach).map(|wanted| wanted.unique.to_string());
        let there = self.actual.volumes.iter();
        let there = there.filter(|(_, volume)| volume.attachable != Some(false) && !volume.is_gone());
        wanted.chain(there.map(|(unique, _)| unique.to_string())).collect()
    }

    /// Whether a pod is known or has mounts left.
    pub(super) fn knows(&self, uid: &str) -> bool {
        self.desired.get(uid).is_some() || self.held.contains(uid) || self.actual.of_pod(uid).next().is_some()
    }

    pub(super) fn wish(&self, unique: &str, volume: &Volume, uid: &Uid) -> decide::Demand {
        if self.desired.get(uid).and_then(|pod| pod.volume(unique)).is_some() {
            return decide::Demand::Wanted;
        }
        let Some(mount) = volume.mounts.get(uid) else { return decide::Demand::Unwanted };
        let kept = self.held.contains(uid) || self.desired.keeps(&mount.place);
        // Unrecognized remains are removed last: a known volume may occupy the same place.
        let known_otherwise = volume.plugin.is_none() && self.actual.has_place(&mount.place, unique);
        if kept || known_otherwise { decide::Demand::Held } else { decide::Demand::Unwanted }
    }

    pub(super) fn facts(&self, unique: &str, now: Instant) -> Option<VolumeFacts> {
        let volume = self.actual.get(unique)?;
        let mut uids: BTreeMap<(u64, Uid), Wants<'_>> = BTreeMap::new();
        for uid in volume.mounts.keys() {
            let order = self.desired.get(uid).map_or(0, |pod| pod.order);
            uids.insert((order, uid.clone()), None);
        }
        for (uid, pod, wanted) in self.desired.of_volume(unique) {
            uids.insert((pod.order, uid.clone()), Some((pod, wanted)));
        }
        let labels = self.node.as_ref().map(|node| &node.labels);
        let exclusive = uids.values().flatten().any(|(_, wanted)| populator::is_exclusive(&wanted.spec));
        let pods = uids.into_iter().map(|((_, uid), wanted)| {
            let rests = |operation: fn(Uid) -> Operation| volume.rests(&operation(uid.clone()));
            let mount = volume.mounts.get(&uid);
            let repeats = wanted.is_some_and(|(_, wanted)| wanted.abilities.repeated);
            let set_up_at = |mount: &MountedPod| mount.set_up_at.filter(|_| repeats);
            let repeat_at = mount.and_then(set_up_at).map(|at| at + REPEAT_EVERY);
            let (check, stale, grows) = wanted.map_or((MountCheck::NotYet, false, false), |(pod, wanted)| {
                let is_behind = |version: u64| wanted.abilities.refreshed && version != pod.version;
                let stale = mount.is_some_and(|mount| mount.stale || is_behind(mount.version));
                let grows = resize::wanted_size(&wanted.spec, mount.and_then(|mount| mount.size.as_ref()));
                let online = volume.state_for(&uid) == Presence::Mounted;
                let grows = grows.is_some() && (online || !volume.unexpanded.contains(&uid));
                (populator::check(wanted, labels), stale, grows)
            });
            PodFacts {
                wish: self.wish(unique, volume, &uid),
                state: volume.state_for(&uid),
                check,
                stale,
                repeat_at,
                grows,
                tear_down_rests: rests(Operation::TearDown),
                set_up_rests: rests(Operation::SetUp),
                refresh_rests: rests(Operation::Refresh),
                expand_rests: rests(Operation::Expand),
                refuse_rests: rests(Operation::Refuse),
                uid,
            }
        });
        let device = volume.has_device.then(|| Device {
            state: volume.device,
            in_doubt: self.is_in_doubt(volume),
            mount_rests: volume.rests(&Operation::MountDevice),
            unmount_rests: volume.rests(&Operation::UnmountDevice),
        });
        Some(VolumeFacts {
            running: volume.running.is_some(),
            attach: self.attach(unique),
            device,
            pods: pods.collect(),
            exclusive,
            may_unmount: self.may_unmount(),
            now,
        })
    }

    /// Whether a pod may have a mount of the same plugin whose volume is unknown.
    fn is_in_doubt(&self, volume: &Volume) -> bool {
        let plugin = volume.plugin.as_ref().map(|plugin| plugin.name());
        self.actual.riddles().any(|place| Some(place.plugin.as_str()) == plugin)
    }

    /// Adds the facts about a volume from a requesting pod.
    pub(super) fn learn(&mut self, unique: &Arc<str>) {
        let Some((_, _, wanted)) = self.desired.of_volume(unique).next() else { return };
        let volume = self
            .actual
            .volumes
            .entry(Arc::clone(unique))
            .or_insert_with(|| Volume::new(None, wanted.volume_name.clone()));
        volume.plugin = Some(Arc::clone(&wanted.plugin));
        volume.has_device |= wanted.abilities.device;
        volume.attachable = Some(wanted.abilities.attach);
    }
}
