//! What is due for a claim, and what for a volume, as named situations (upstream: sig-storage-lib's shouldProvision and
//! shouldDelete, external-provisioner's ShouldProvision). Pure.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;

use super::intent::{self, Intent, Noted};
use crate::csi::handle;
use orlop_client::meta::{annotation, has_finalizer, is_terminating};
use orlop_client::names::{
    ANN_BETA_STORAGE_PROVISIONER, ANN_MIGRATED_TO, ANN_PROVISIONED_BY, ANN_SELECTED_NODE,
    ANN_STORAGE_PROVISIONER, FINALIZER_EXTERNAL_PROVISIONER, migrated_driver,
};

/// What is due for a claim.
#[derive(Debug, PartialEq)]
pub(super) enum ClaimSituation {
    /// A driver was, or is about to be, asked for this, and it is not known to be saved.
    Asked(Box<Intent>),
    /// It is saved, or the server has it from somebody else under that name; the note can go. `at_once` is false while the
    /// binder is about to write the claim anyway.
    Saved {
        /// Nobody else is going to take the note off.
        at_once: bool,
    },
    /// There is a note that cannot be read.
    Unreadable(String),
    /// The finalizer alone is there. Nothing holds the claim then.
    FinalizerAlone,
    /// No driver is asked for: the claim has a volume, or is going, or waits for a node or its class, or is another's.
    Nothing(Idle),
    /// A driver is to be asked.
    Wanted {
        /// Which one.
        driver: String,
        /// The node that the scheduler chose.
        node: Option<String>,
    },
}

impl ClaimSituation {
    /// The driver that is called.
    pub(super) fn asks(&self) -> Option<&str> {
        match self {
            ClaimSituation::Asked(intent) => Some(&intent.driver),
            ClaimSituation::Wanted { driver, .. } => Some(driver),
            ClaimSituation::Saved { .. }
            | ClaimSituation::Unreadable(_)
            | ClaimSituation::FinalizerAlone
            | ClaimSituation::Nothing(_) => None,
        }
    }
}

/// Why nothing is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Idle {
    /// Another provisioner's, or nobody's yet.
    NotOurs,
    /// It names a volume.
    HasVolume,
    /// It is being deleted.
    Going,
    /// Its class is not there.
    NoClass,
    /// Its class waits for a pod, and no node was chosen.
    WaitsForNode,
}

/// What is known around a claim.
pub(super) struct Around<'a> {
    /// The volume of the name that the claim's would have.
    pub(super) volume: Option<&'a PersistentVolume>,
    /// It was saved here a moment ago, whatever the cache says.
    pub(super) saved: bool,
    /// The class of the claim.
    pub(super) class: Option<&'a StorageClass>,
}

/// Who shall make the volume of a claim, if it says so.
pub(super) fn provisioner(claim: &PersistentVolumeClaim) -> Option<&str> {
    let migrated = annotation(claim, ANN_MIGRATED_TO).filter(|driver| !driver.is_empty());
    let asked = || {
        annotation(claim, ANN_STORAGE_PROVISIONER).or_else(|| annotation(claim, ANN_BETA_STORAGE_PROVISIONER))
    };
    migrated.or_else(asked).filter(|driver| !driver.is_empty())
}

/// The driver whose business a claim is: the one that its note says was asked, whatever else the claim says by now; without a
/// note the one that is to be asked.
pub(super) fn driver_of(claim: &PersistentVolumeClaim) -> Option<String> {
    match intent::noted(claim) {
        Noted::Intent(intent) => Some(intent.driver),
        Noted::None | Noted::FinalizerAlone | Noted::Unreadable(_) => provisioner(claim).map(str::to_owned),
    }
}

/// Whether a class is of this driver, or of a plugin that it took over. An annotation of the claim does not make it so: the
/// parameters and secrets of a class are for its own driver.
fn is_of(class: &StorageClass, driver: &str) -> bool {
    class.provisioner == driver || migrated_driver(&class.provisioner) == Some(driver)
}

/// The volume that a claim names, empty when it names none.
pub(super) fn named_volume(claim: &PersistentVolumeClaim) -> &str {
    claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).unwrap_or_default()
}

/// Decides about a claim. `served` tells which drivers are called from here.
pub(super) fn claim(
    claim: &PersistentVolumeClaim,
    around: &Around<'_>,
    served: impl Fn(&str) -> bool,
) -> ClaimSituation {
    use ClaimSituation::{Asked, FinalizerAlone, Nothing, Saved, Unreadable, Wanted};
    match intent::noted(claim) {
        Noted::None => {}
        Noted::FinalizerAlone => return FinalizerAlone,
        Noted::Unreadable(why) => return Unreadable(why),
        Noted::Intent(intent) => {
            let saved =
                around.saved || around.volume.is_some_and(|volume| intent::is_fulfilled(&intent, volume));
            return match (saved, served(&intent.driver)) {
                (true, _) => {
                    let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
                    Saved { at_once: is_terminating(claim) || phase == Some("Bound") }
                }
                (false, true) => Asked(intent),
                (false, false) => Nothing(Idle::NotOurs),
            };
        }
    }
    let Some(driver) = provisioner(claim).filter(|driver| served(driver)) else {
        return Nothing(Idle::NotOurs);
    };
    if !named_volume(claim).is_empty() || around.volume.is_some() || around.saved {
        return Nothing(Idle::HasVolume);
    }
    // The server takes no new finalizer on an object that is going, and nobody waits for its volume.
    if is_terminating(claim) {
        return Nothing(Idle::Going);
    }
    let Some(class) = around.class else { return Nothing(Idle::NoClass) };
    if !is_of(class, driver) {
        return Nothing(Idle::NotOurs);
    }
    let node = annotation(claim, ANN_SELECTED_NODE).filter(|node| !node.is_empty());
    let delayed = class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer");
    if delayed && node.is_none() {
        return Nothing(Idle::WaitsForNode);
    }
    Wanted { driver: driver.to_owned(), node: node.map(str::to_owned) }
}

/// What is due for a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum VolumeSituation {
    /// Nothing, or it is another's.
    Nothing,
    /// It is used and to be deleted afterwards: its object must not go before that.
    Protect,
    /// It is to be kept: its object may go.
    Release,
    /// Nobody wants it, and its policy says Delete.
    Delete {
        /// Who has it.
        driver: String,
        /// What the driver calls it.
        handle: String,
    },
}

/// The driver whose provisioner looks after a volume.
pub(super) fn owner(volume: &PersistentVolume) -> Option<&str> {
    let source = handle::source(volume).map(|csi| csi.driver.as_str());
    match annotation(volume, ANN_PROVISIONED_BY) {
        None => source,
        // A migrated volume says who serves it now.
        Some(by) => {
            let migrated = annotation(volume, ANN_MIGRATED_TO).filter(|driver| !driver.is_empty());
            Some(migrated.unwrap_or(by))
        }
    }
}

/// Decides about a volume.
pub(super) fn volume(volume: &PersistentVolume, served: impl Fn(&str) -> bool) -> VolumeSituation {
    use VolumeSituation::{Delete, Nothing, Protect, Release};
    let Some(driver) = owner(volume).filter(|driver| served(driver)) else { return Nothing };
    let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
    let policy = volume.spec.as_ref().and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
    let held = has_finalizer(volume, FINALIZER_EXTERNAL_PROVISIONER);
    let going = is_terminating(volume);
    match (policy.unwrap_or("Retain"), phase) {
        ("Delete", "Bound") if !held && !going => Protect,
        ("Delete", "Released") if held || !going => match super::source_of(volume) {
            Some(csi) if csi.driver == driver && !csi.volume_handle.is_empty() => {
                Delete { driver: driver.to_owned(), handle: csi.volume_handle.clone() }
            }
            // Somebody wrote "provisioned by" onto a volume that is of another kind.
            Some(_) | None => Nothing,
        },
        ("Retain" | "Recycle", _) if held => Release,
        _ => Nothing,
    }
}

#[cfg(test)]
mod tests;
