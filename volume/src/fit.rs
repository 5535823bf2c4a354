//! Matching of volumes and claims: whether a volume fits a claim, and if not, why. One predicate per rule, each
//! with its reason; the binder decides by them and the explanations report them, so the two cannot disagree.
//! Pure.
//!
//! There are two lists of checks. [`named_misfit`] checks a claim that names its volume: selector, affinity and
//! phase do not count, because the user's choice takes precedence. [`search_misfit`] checks a search, in
//! upstream's order. The index (`index.rs`) must return exactly the result of a scan with [`search_misfit`]; a
//! test verifies this.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use kube::core::{Selector, SelectorExt};
use orlop_apimachinery::quantity::Quantity;

use super::class;
use super::modes::ModeSet;
use super::object::{self, VolumeMode, VolumePhase};

/// Why a volume does not fit a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// The volume refers to another claim, or to an earlier one of the same name.
    Reserved {
        /// `namespace/name` of that claim.
        claim: String,
    },
    /// The volume is smaller than the claim requests.
    TooSmall {
        /// The volume's capacity.
        has: Quantity,
        /// The claim's requested capacity.
        wants: Quantity,
    },
    /// One is a filesystem, the other a block device.
    Mode {
        /// The volume's mode.
        has: VolumeMode,
        /// The claim's mode.
        wants: VolumeMode,
    },
    /// The volume attributes classes differ.
    AttributesClass {
        /// The volume's, empty for none.
        has: String,
        /// The claim's, empty for none.
        wants: String,
    },
    /// The volume is being deleted.
    Terminating,
    /// The claim's class delays binding; the scheduler chooses the volume.
    Delayed,
    /// An unreserved volume must be Available.
    Phase(VolumePhase),
    /// The claim's selector does not match the volume's labels, or is invalid.
    Selector,
    /// The storage classes differ.
    Class {
        /// The volume's, empty for none.
        has: String,
        /// The claim's, empty for none.
        wants: String,
    },
    /// The volume does not offer a requested access mode.
    AccessModes {
        /// The offered modes.
        has: ModeSet,
    },
}

impl Misfit {
    /// The text of a `VolumeMismatch` event after "Cannot bind to requested volume", exactly as upstream writes it.
    pub fn event_text(&self, volume: &str) -> String {
        match self {
            Self::Terminating => format!("the volume is marked for deletion \"{volume}\""),
            Self::TooSmall { .. } => "requested PV is too small".to_owned(),
            Self::Class { .. } => "storageClassName does not match".to_owned(),
            Self::AttributesClass { .. } => "volumeAttributesClassName does not match".to_owned(),
            Self::Mode { .. } => "incompatible volumeMode".to_owned(),
            Self::AccessModes { .. } => "incompatible accessMode".to_owned(),
            // Not checked for a claim that names its volume; the text is complete anyway.
            Self::Reserved { .. } | Self::Delayed | Self::Phase(_) | Self::Selector => self.to_string(),
        }
    }
}

fn or_none(name: &str) -> &str {
    if name.is_empty() { "none" } else { name }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reserved { claim } => write!(f, "it is reserved for claim {claim}"),
            Self::TooSmall { has, wants } => {
                write!(f, "its capacity is {has}, and the claim requests {wants}")
            }
            Self::Mode { has, wants } => write!(f, "its mode is {has:?}, and the claim requests {wants:?}"),
            Self::AttributesClass { has, wants } => write!(
                f,
                "its volume attributes class is {}, and the claim requests {}",
                or_none(has),
                or_none(wants)
            ),
            Self::Terminating => f.write_str("it is being deleted"),
            Self::Delayed => f.write_str("the class waits for a pod to be scheduled before it binds"),
            Self::Phase(VolumePhase::Unset) => f.write_str("it has no phase yet, not Available"),
            Self::Phase(phase) => write!(f, "it is {}, not Available", phase.as_str()),
            Self::Selector => f.write_str("its labels do not match the claim's selector"),
            Self::Class { has, wants } => {
                write!(f, "its storage class is {} and the claim's is {}", or_none(has), or_none(wants))
            }
            Self::AccessModes { has } => {
                write!(f, "its access modes are {has}, and the claim requests more")
            }
        }
    }
}

fn amount(text: Option<&Text>) -> Option<Quantity> {
    match text {
        Some(text) => Quantity::parse(&text.0).ok(),
        None => Some(Quantity::ZERO),
    }
}

/// The capacity of a volume. A volume without one has zero capacity; `None` if the capacity cannot be parsed,
/// which excludes the volume from every search.
pub fn capacity(volume: &PersistentVolume) -> Option<Quantity> {
    amount(volume.spec.as_ref().and_then(|spec| spec.capacity.as_ref()?.get("storage")))
}

/// The capacity that a claim requests; a claim without a request accepts any capacity.
pub fn request(claim: &PersistentVolumeClaim) -> Option<Quantity> {
    amount(claim.spec.as_ref().and_then(|spec| spec.resources.as_ref()?.requests.as_ref()?.get("storage")))
}

/// The access modes that a volume offers, as written.
pub fn offered_modes(volume: &PersistentVolume) -> &[String] {
    volume.spec.as_ref().and_then(|spec| spec.access_modes.as_deref()).unwrap_or_default()
}

/// The access modes that a claim requests, as written.
pub fn requested_modes(claim: &PersistentVolumeClaim) -> &[String] {
    claim.spec.as_ref().and_then(|spec| spec.access_modes.as_deref()).unwrap_or_default()
}

/// The labels that a claim requires of a volume. Built once per search.
#[derive(Debug)]
pub enum RequiredLabels {
    /// No selector, or an empty one: every volume matches.
    Anything,
    /// A selector.
    Labels(Selector),
    /// The selector cannot be parsed, so nothing matches.
    Unreadable,
}

impl RequiredLabels {
    /// The selector of `claim`.
    pub fn of(claim: &PersistentVolumeClaim) -> Self {
        match claim.spec.as_ref().and_then(|spec| spec.selector.clone()).map(Selector::try_from) {
            None => Self::Anything,
            Some(Ok(selector)) if selector.selects_all() => Self::Anything,
            Some(Ok(selector)) => Self::Labels(selector),
            Some(Err(_)) => Self::Unreadable,
        }
    }

    /// Whether a volume matches.
    pub fn matches(&self, volume: &PersistentVolume) -> bool {
        match &volume.metadata.labels {
            Some(labels) => self.matches_labels(labels),
            None => self.matches_labels(&BTreeMap::new()),
        }
    }

    /// Whether these labels match.
    pub fn matches_labels(&self, labels: &BTreeMap<String, String>) -> bool {
        match self {
            Self::Anything => true,
            Self::Labels(selector) => selector.matches(labels),
            Self::Unreadable => false,
        }
    }
}

// === single rules ===

/// The volume is smaller than the claim requests. The comparison is exact, without a limit of 64 bits.
// Tests: OWN-FIT-4, IDX-MATCH-13, IDX-MATCH-15
pub fn too_small(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Option<Misfit> {
    let (has, wants) = (capacity(volume).unwrap_or(Quantity::ZERO), request(claim).unwrap_or(Quantity::ZERO));
    (has < wants).then_some(Misfit::TooSmall { has, wants })
}

/// One is a filesystem, the other a block device.
// Tests: PV-14-3, PV-14-4, IDX-VMODE-1, IDX-VMODE-2, IDX-VMODE-3, IDX-VMODE-6, IDX-VMODE-8, IDX-VMODE-9
pub fn mode_differs(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Option<Misfit> {
    let (has, wants) = (VolumeMode::of_volume(volume), VolumeMode::of_claim(claim));
    (has != wants).then_some(Misfit::Mode { has, wants })
}

/// The volume attributes classes differ; absent and empty are the same.
// Tests: OWN-VAC-1, OWN-VAC-2, IDX-MATCH-9
pub fn attributes_class_differs(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Option<Misfit> {
    let (has, wants) = (class::volume_attributes_class(volume), class::claim_attributes_class(claim));
    (has != wants).then(|| Misfit::AttributesClass { has: has.to_owned(), wants: wants.to_owned() })
}

/// The storage classes differ.
// Tests: PV-13-1, PV-13-2, PV-13-3, OWN-CLS-2, OWN-CLS-3
pub fn class_differs(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Option<Misfit> {
    let (has, wants) = (class::volume_class(volume), class::claim_class(claim));
    (has != wants).then(|| Misfit::Class { has: has.to_owned(), wants: wants.to_owned() })
}

/// The volume is being deleted.
// Tests: OWN-DEL-1, IDX-INUSE-2
pub fn terminating(volume: &PersistentVolume) -> Option<Misfit> {
    object::is_terminating(&volume.metadata).then_some(Misfit::Terminating)
}

/// A requested access mode is missing.
// Tests: OWN-AM-3, OWN-AM-8
pub fn access_modes_missing(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Option<Misfit> {
    let offered = offered_modes(volume);
    let missing = requested_modes(claim).iter().any(|mode| !offered.contains(mode));
    missing.then(|| Misfit::AccessModes { has: ModeSet::offered(offered) })
}

/// The volume refers to another claim, or to an earlier one of the same name.
pub fn reserved_for_other(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Option<Misfit> {
    let reference = object::claim_ref(volume)?;
    let ours = object::points_to(volume, claim);
    (!ours).then(|| Misfit::Reserved { claim: object::reference_key(reference) })
}

/// The volume is unreserved and not Available.
pub fn not_available(volume: &PersistentVolume) -> Option<Misfit> {
    let phase = VolumePhase::of(volume);
    (phase != VolumePhase::Available).then_some(Misfit::Phase(phase))
}

/// The volume's labels do not match the claim's selector.
pub fn labels_differ(volume: &PersistentVolume, wanted: &RequiredLabels) -> Option<Misfit> {
    (!wanted.matches(volume)).then_some(Misfit::Selector)
}

// === the two lists ===

/// The first reason not to bind a claim to the unreserved volume that it names.
// Tests: PV-1-16, PV-2-8, PV-2-10, PV-2-11, PV-14-5-2, OWN-ASK-4, OWN-ASK-7, OWN-ASK-11, OWN-VAC-4
pub fn named_misfit(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Option<Misfit> {
    terminating(volume)
        .or_else(|| too_small(volume, claim))
        .or_else(|| class_differs(volume, claim))
        .or_else(|| attributes_class_differs(volume, claim))
        .or_else(|| mode_differs(volume, claim))
        .or_else(|| access_modes_missing(volume, claim))
}

/// The first reason to exclude this volume from a search for this claim. `delayed`: the claim's class waits for a
/// pod. A volume that refers to the claim is accepted regardless of its class, labels and phase.
// Tests: PV-1-17, OWN-RES-2, OWN-RES-3, OWN-RES-4, OWN-RES-8, OWN-DEL-2, IDX-DELAYED, PV-14-8-1
pub fn search_misfit(
    volume: &PersistentVolume,
    claim: &PersistentVolumeClaim,
    wanted: &RequiredLabels,
    delayed: bool,
) -> Option<Misfit> {
    if let Some(misfit) = reserved_for_other(volume, claim) {
        return Some(misfit);
    }
    let ours = object::points_to(volume, claim);
    let misfit = access_modes_missing(volume, claim)
        .or_else(|| too_small(volume, claim))
        .or_else(|| mode_differs(volume, claim))
        .or_else(|| attributes_class_differs(volume, claim))
        .or_else(|| terminating(volume));
    if misfit.is_some() || ours {
        return misfit;
    }
    if delayed {
        return Some(Misfit::Delayed);
    }
    not_available(volume).or_else(|| labels_differ(volume, wanted)).or_else(|| class_differs(volume, claim))
}
