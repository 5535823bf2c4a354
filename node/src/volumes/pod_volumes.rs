//! The state of a pod's volumes, as reported to `pods`. Pure.

use std::collections::BTreeSet;
use std::fmt;

use super::Uid;
use super::actual_state::{ActualState, Operation};
use super::decide::{Attach, MountState};
use super::desired_state::{DesiredPod, DesiredVolume};
use super::events::about;
use crate::host::Host;
use crate::runtime::PodPath;

/// A volume that is not mounted yet, or not released yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Its name in the pod; for a volume that is being released, the name of its directory.
    pub volume: String,
    /// The cause, if it is known.
    pub cause: Option<String>,
    /// Whether the cause is an operation in progress, which is no failure.
    pub is_running: bool,
}

/// The volumes a pod waits for. Displayed as upstream's message of the event `FailedMount`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// All volumes that are not mounted.
    pub unmounted: Vec<Pending>,
    /// Those that are not attached yet.
    pub unattached: Vec<Pending>,
    /// Those that could not be resolved.
    pub failed: Vec<Pending>,
    /// The message of a driver whose volume limit is reached on this node. Waiting does not help: upstream rejects
    /// such a pod with reason `VolumeAttachmentLimitExceeded`.
    pub limit: Option<String>,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |list: &[Pending]| {
            let names: Vec<&str> = list.iter().map(|pending| pending.volume.as_str()).collect();
            names.join(" ")
        };
        write!(
            f,
            "unmounted volumes=[{}], unattached volumes=[{}], failed to process volumes=[{}]: ",
            names(&self.unmounted),
            names(&self.unattached),
            names(&self.failed)
        )?;
        let mut seen = BTreeSet::new();
        let causes = self.unmounted.iter().filter_map(|pending| pending.cause.as_deref());
        let causes: Vec<&str> = causes.filter(|cause| seen.insert(*cause)).collect();
        match causes.is_empty() {
            true => f.write_str("timed out waiting for the condition"),
            false => f.write_str(&causes.join("; ")),
        }
    }
}

/// The state of a pod's volumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodVolumes {
    /// Some are not mounted.
    Waiting(Waiting),
    /// All are mounted at these paths.
    Ready(Vec<PodPath>),
    /// The pod has released them, and these are still mounted.
    Releasing(Vec<Pending>),
    /// Nothing of the pod is mounted.
    Released,
}

/// The message about volumes that an ended pod has not released.
pub fn left_words(left: &[Pending]) -> String {
    let words = left.iter().map(|pending| {
        let cause = pending.cause.as_deref().unwrap_or("it is not known why");
        format!("{}: {cause}", pending.volume)
    });
    words.collect::<Vec<_>>().join("; ")
}

/// The message about a running operation.
fn still(operation: &Operation) -> &'static str {
    match operation {
        Operation::MountDevice | Operation::SetUp(_) => "mounting it was begun earlier and has not ended yet",
        Operation::TearDown(_) | Operation::UnmountDevice => "unmounting it has not ended yet",
        Operation::Refresh(_) => "its content is being written",
        Operation::Expand(_) => "it is being expanded",
        Operation::Refuse(_) => "it is being refused",
    }
}

/// The state for one pod. `attach` reports whether a volume is attached.
pub(super) fn of_pod(
    host: &Host,
    uid: &Uid,
    pod: Option<&DesiredPod>,
    actual: &ActualState,
    attach: impl Fn(&str) -> Attach,
) -> PodVolumes {
    let Some(pod) = pod else {
        let left: Vec<Pending> = actual
            .of_pod(uid)
            .map(|(_, volume, mount)| {
                let failure = volume.failures.get(&Operation::TearDown(uid.clone()));
                let cause = match (failure, &volume.running) {
                    (Some(failure), _) => Some(failure.message.clone()),
                    (None, Some(running)) => Some(still(&running.operation).to_owned()),
                    (None, None) => volume.why_not(uid).map(str::to_owned),
                };
                let is_running = failure.is_none() && volume.running.is_some();
                Pending { volume: mount.place.dir_name.clone(), cause, is_running }
            })
            .collect();
        return if left.is_empty() { PodVolumes::Released } else { PodVolumes::Releasing(left) };
    };
    let (mut waiting, mut paths) = (Waiting::default(), Vec::new());
    for (name, wish) in &pod.volumes {
        let pending = |cause: Option<String>| Pending { volume: name.clone(), cause, is_running: false };
        let wanted = match wish {
            DesiredVolume::New | DesiredVolume::Failed(_) => {
                let cause = if let DesiredVolume::Failed(why) = wish { Some(why.clone()) } else { None };
                waiting.unmounted.push(pending(cause.clone()));
                waiting.failed.push(pending(cause));
                continue;
            }
            DesiredVolume::Known(wanted) => wanted,
        };
        let volume = actual.get(&wanted.unique);
        if volume.is_some_and(|volume| volume.state_for(uid) == MountState::Mounted) {
            paths.push(PodPath {
                volume: name.clone(),
                path: wanted.plugin.path(host, &wanted.place),
                read_only: wanted.spec.read_only || wanted.abilities.read_only,
                block: wanted.spec.block,
            });
            continue;
        }
        let failed = volume.and_then(|volume| volume.why_not(uid)).map(str::to_owned);
        if attach(&wanted.unique) == Attach::Waiting {
            let name = wanted.spec.dir_name();
            let trouble = volume.and_then(|volume| volume.attachment.as_ref()?.trouble.as_ref());
            if let Some(trouble) = trouble.filter(|trouble| trouble.exhausted) {
                waiting.limit = Some(trouble.message.clone());
            }
            let cause = match (failed, trouble) {
                (Some(failed), _) => failed,
                (None, Some(trouble)) => about("AttachVolume.Attach failed", name, &trouble.message),
                (None, None) => format!("volume {name:?} is not attached yet"),
            };
            waiting.unattached.push(pending(Some(cause.clone())));
            waiting.unmounted.push(pending(Some(cause)));
        } else {
            waiting.unmounted.push(pending(failed));
        }
    }
    if waiting.unmounted.is_empty() { PodVolumes::Ready(paths) } else { PodVolumes::Waiting(waiting) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreleased_volumes_are_listed_with_their_cause() {
        let pending = |volume: &str, cause: Option<&str>| Pending {
            volume: volume.to_owned(),
            cause: cause.map(str::to_owned),
            is_running: false,
        };
        let left = [pending("a", Some("it is busy")), pending("b", None)];
        assert_eq!(left_words(&left), "a: it is busy; b: it is not known why");
    }

    #[test]
    fn waiting_message_equals_upstreams() {
        let pending = |volume: &str, cause: Option<&str>| Pending {
            volume: volume.to_owned(),
            cause: cause.map(str::to_owned),
            is_running: false,
        };
        let mut waiting =
            Waiting { unmounted: vec![pending("a", None), pending("b", None)], ..Waiting::default() };
        assert_eq!(
            waiting.to_string(),
            "unmounted volumes=[a b], unattached volumes=[], failed to process volumes=[]: timed out waiting for the condition"
        );
        let why = Some("error processing PVC ns/c: PVC is not bound");
        waiting.unmounted[1] = pending("b", why);
        waiting.failed = vec![pending("b", why)];
        assert_eq!(
            waiting.to_string(),
            "unmounted volumes=[a b], unattached volumes=[], failed to process volumes=[b]: error processing PVC ns/c: PVC is not bound"
        );
    }
}
