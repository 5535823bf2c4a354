//! Decides the next action for a claim and for a volume, as named situations (upstream: sig-storage-lib's shouldProvision and
//! shouldDelete, external-provisioner's ShouldProvision). Pure.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;

use super::intent::{self, Intent, Noted};
use orlop_client::meta::{annotation, has_finalizer, is_terminating};
use orlop_client::names::{
    ANN_BETA_STORAGE_PROVISIONER, ANN_MIGRATED_TO, ANN_PROVISIONED_BY, ANN_SELECTED_NODE,
    ANN_STORAGE_PROVISIONER, FINALIZER_EXTERNAL_PROVISIONER, migrated_driver,
};
use orlop_volume::csi::handle;

/// The situation of a claim.
#[derive(Debug, PartialEq)]
pub(super) enum ClaimSituation {
    /// A driver was called for this claim, or is about to be, and the volume is not known to be saved.
    Asked(Box<Intent>),
    /// The volume is saved, or the server has another one of that name; the note can be removed. `at_once` is false while the
    /// binder is about to write the claim anyway.
    Saved {
        /// No other controller is going to remove the note.
        at_once: bool,
    },
    /// The note cannot be parsed.
    Unreadable(String),
    /// Only the finalizer is left. It protects nothing then.
    FinalizerAlone,
    /// No driver is called: the claim has a volume, is being deleted, waits for a node or its class, or belongs to another
    /// provisioner.
    Nothing(Idle),
    /// A driver has to be called.
    Wanted {
        /// Its name.
        driver: String,
        /// The node that the scheduler chose.
        node: Option<String>,
    },
}

impl ClaimSituation {
    /// The driver to call.
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

/// Why no action is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Idle {
    /// The claim belongs to another provisioner, or to none yet.
    NotOurs,
    /// It names a volume.
    HasVolume,
    /// It is being deleted.
    Going,
    /// Its class does not exist.
    NoClass,
    /// Its class waits for a pod, and no node was chosen.
    WaitsForNode,
}

/// The objects around a claim.
pub(super) struct ClaimContext<'a> {
    /// The volume with the name that the claim's volume would have.
    pub(super) volume: Option<&'a PersistentVolume>,
    /// This process has just saved it, even if the cache does not show it yet.
    pub(super) saved: bool,
    /// The class of the claim.
    pub(super) class: Option<&'a StorageClass>,
}

/// The provisioner that a claim names, if it names one.
pub(super) fn provisioner(claim: &PersistentVolumeClaim) -> Option<&str> {
    let migrated = annotation(claim, ANN_MIGRATED_TO).filter(|driver| !driver.is_empty());
    let asked = || {
        annotation(claim, ANN_STORAGE_PROVISIONER).or_else(|| annotation(claim, ANN_BETA_STORAGE_PROVISIONER))
    };
    migrated.or_else(asked).filter(|driver| !driver.is_empty())
}

/// The driver responsible for a claim: the one in its note, even if the claim now names another; without a note, the one to be
/// called.
pub(super) fn driver_of(claim: &PersistentVolumeClaim) -> Option<String> {
    match intent::noted(claim) {
        Noted::Intent(intent) => Some(intent.driver),
        Noted::None | Noted::FinalizerAlone | Noted::Unreadable(_) => provisioner(claim).map(str::to_owned),
    }
}

/// Whether a class belongs to this driver, or to a plugin migrated to it. An annotation of the claim is not sufficient: the
/// parameters and secrets of a class are for its own driver.
fn is_of(class: &StorageClass, driver: &str) -> bool {
    class.provisioner == driver || migrated_driver(&class.provisioner) == Some(driver)
}

/// The volume that a claim names, empty when it names none.
pub(super) fn named_volume(claim: &PersistentVolumeClaim) -> &str {
    claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).unwrap_or_default()
}

/// Decides the situation of a claim. `served` returns which drivers are called from here.
pub(super) fn claim(
    claim: &PersistentVolumeClaim,
    around: &ClaimContext<'_>,
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
    // The server accepts no new finalizer on an object that is being deleted, and its volume is not needed.
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

/// The situation of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum VolumeSituation {
    /// No action, or it belongs to another provisioner.
    Nothing,
    /// It is in use and has to be deleted afterwards: its object needs the finalizer.
    Protect,
    /// It has to be retained: its object needs no finalizer.
    Release,
    /// It is released, and its policy is Delete.
    Delete {
        /// Its driver.
        driver: String,
        /// The driver's handle of it.
        handle: String,
    },
}

/// The driver whose provisioner manages a volume.
pub(super) fn owner(volume: &PersistentVolume) -> Option<&str> {
    let source = handle::source(volume).map(|csi| csi.driver.as_str());
    match annotation(volume, ANN_PROVISIONED_BY) {
        None => source,
        // A migrated volume names the driver that serves it now.
        Some(by) => {
            let migrated = annotation(volume, ANN_MIGRATED_TO).filter(|driver| !driver.is_empty());
            Some(migrated.unwrap_or(by))
        }
    }
}

/// Decides the situation of a volume.
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
            // The annotation "provisioned by" was added to a volume of another kind.
            Some(_) | None => Nothing,
        },
        ("Retain" | "Recycle", _) if held => Release,
        _ => Nothing,
    }
}

#[cfg(test)]
mod tests;
