//! Classification of a claim's state, as the controller observes it. Pure: no I/O, no clock.
//!
//! ==============================================================================================================
//! SPACE SHUTTLE STYLE. A wrong branch here exposes data to another claim, or deletes it. So every branch is
//! written out: a classifier that names each situation and states what was OBSERVED, a `match` without a wildcard
//! arm that acts on it (`claim_sync.rs`), and next to every branch the cases that test it. Do not shorten, do not
//! merge arms that look alike, do not add a catch-all. If a new situation turns up, give it a name.
//! ==============================================================================================================

#![deny(clippy::wildcard_enum_match_arm)]

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};

use orlop_client::names;
use orlop_volume::class;
use orlop_volume::fit::{self, Misfit};
use orlop_volume::object::{self, points_to, reference_uid, volume_name};

/// The related objects that the controller knows at the time of the decision.
#[derive(Clone, Copy, Debug)]
pub struct ClaimContext<'a> {
    /// The volume that the claim names, if the controller knows it.
    pub named: Option<&'a Arc<PersistentVolume>>,
    /// The volume that the search finds for the claim; only evaluated for an unbound claim that names no volume.
    pub found: Option<&'a Arc<PersistentVolume>>,
    /// Whether the claim's class delays binding until a pod uses the claim.
    pub delayed: bool,
    /// The name of the default class, if there is one.
    pub default_class: Option<&'a str>,
}

/// The state of a claim. The first five are unbound claims that leave the choice to the controller, the next six
/// name their volume but binding is not complete, the last five were bound before.
#[derive(Clone, Debug)]
pub enum ClaimSituation {
    /// OBSERVATION: no `bind-completed`, no volume named, and the search finds a volume: one that already refers to
    /// the claim (reserved by a user, chosen by the scheduler, or written by an interrupted bind), or a free one.
    VolumeFound(Arc<PersistentVolume>),
    /// OBSERVATION: no `bind-completed`, no volume named, nothing found; the claim does not specify a class, and a
    /// default class exists by now.
    DefaultClassMissing {
        /// The default class.
        class: String,
    },
    /// OBSERVATION: no `bind-completed`, no volume named, nothing found; its class waits for a pod, and the scheduler
    /// has not selected a node.
    WaitsForConsumer,
    /// OBSERVATION: no `bind-completed`, no volume named, nothing found; it has a class that either binds
    /// immediately, or waits for a pod and the scheduler has selected the node.
    WantsProvisioning,
    /// OBSERVATION: no `bind-completed`, no volume named, nothing found, no class and no default class.
    NothingFits,

    /// OBSERVATION: no `bind-completed`, the claim names a volume that the controller does not know: not created yet, or
    /// never.
    NamedUnknown,
    /// OBSERVATION: no `bind-completed`, the named volume has no claim reference, and all checks pass.
    NamedFree(Arc<PersistentVolume>),
    /// OBSERVATION: no `bind-completed`, the named volume has no claim reference, but does not fit.
    NamedUnfit {
        /// The volume.
        volume: Arc<PersistentVolume>,
        /// The first check that fails.
        misfit: Misfit,
    },
    /// OBSERVATION: no `bind-completed`, the named volume refers to this claim, with or without UID. Either users
    /// wrote both sides, or a bind was interrupted.
    NamedOurs(Arc<PersistentVolume>),
    /// OBSERVATION: no `bind-completed`, the named volume refers to another claim, and a user wrote the name (no
    /// `bound-by-controller`).
    NamedTaken(Arc<PersistentVolume>),
    /// OBSERVATION: no `bind-completed`, the named volume refers to another claim, and a controller wrote the name
    /// (`bound-by-controller`). A controller writes the volume first, so another client has modified the volume
    /// afterwards.
    NamedStolen(Arc<PersistentVolume>),

    /// OBSERVATION: `bind-completed`, and the volume name has been removed from the claim.
    BoundNameless,
    /// OBSERVATION: `bind-completed`, and the controller does not know the volume that it names.
    BoundVolumeGone,
    /// OBSERVATION: `bind-completed`, and the volume has no claim reference. The reference was removed, or the volume
    /// was recreated.
    BoundUnreferenced(Arc<PersistentVolume>),
    /// OBSERVATION: `bind-completed`, and the volume's reference carries this claim's UID. The binding is complete,
    /// or only a status is missing.
    BoundHere(Arc<PersistentVolume>),
    /// OBSERVATION: `bind-completed`, and the volume's reference carries another UID, or none. Another claim owns the
    /// volume.
    BoundElsewhere(Arc<PersistentVolume>),
}

impl ClaimSituation {
    /// Whether the binding is broken because of the volume's state.
    pub fn accuses_volume(&self) -> bool {
        match self {
            ClaimSituation::BoundVolumeGone | ClaimSituation::BoundElsewhere(_) => true,
            ClaimSituation::VolumeFound(_)
            | ClaimSituation::DefaultClassMissing { .. }
            | ClaimSituation::WaitsForConsumer
            | ClaimSituation::WantsProvisioning
            | ClaimSituation::NothingFits
            | ClaimSituation::NamedUnknown
            | ClaimSituation::NamedFree(_)
            | ClaimSituation::NamedUnfit { .. }
            | ClaimSituation::NamedOurs(_)
            | ClaimSituation::NamedTaken(_)
            | ClaimSituation::NamedStolen(_)
            | ClaimSituation::BoundNameless
            | ClaimSituation::BoundUnreferenced(_)
            | ClaimSituation::BoundHere(_) => false,
        }
    }
}

/// Classifies the state of `claim`.
pub fn classify(claim: &PersistentVolumeClaim, around: ClaimContext<'_>) -> ClaimSituation {
    match (
        object::has_annotation(&claim.metadata, names::ANN_BIND_COMPLETED),
        volume_name(claim).is_empty(),
        around.named,
    ) {
        (false, true, _) => classify_searching(claim, around),
        (false, false, None) => ClaimSituation::NamedUnknown,
        (false, false, Some(volume)) => classify_naming(claim, volume),
        (true, true, _) => ClaimSituation::BoundNameless,
        (true, false, None) => ClaimSituation::BoundVolumeGone,
        (true, false, Some(volume)) => classify_bound(claim, volume),
    }
}

fn classify_searching(claim: &PersistentVolumeClaim, around: ClaimContext<'_>) -> ClaimSituation {
    if let Some(volume) = around.found {
        return ClaimSituation::VolumeFound(Arc::clone(volume));
    }
    // The default class takes precedence: after the write the claim returns with a class.
    if let Some(class) = around.default_class
        && !class::claim_has_class(claim)
    {
        return ClaimSituation::DefaultClassMissing { class: class.to_owned() };
    }
    if around.delayed && !object::has_annotation(&claim.metadata, names::ANN_SELECTED_NODE) {
        return ClaimSituation::WaitsForConsumer;
    }
    if !class::claim_class(claim).is_empty() {
        return ClaimSituation::WantsProvisioning;
    }
    ClaimSituation::NothingFits
}

fn classify_naming(claim: &PersistentVolumeClaim, volume: &Arc<PersistentVolume>) -> ClaimSituation {
    if object::claim_ref(volume).is_none() {
        return match fit::named_misfit(volume, claim) {
            None => ClaimSituation::NamedFree(Arc::clone(volume)),
            Some(misfit) => ClaimSituation::NamedUnfit { volume: Arc::clone(volume), misfit },
        };
    }
    if points_to(volume, claim) {
        return ClaimSituation::NamedOurs(Arc::clone(volume));
    }
    if object::has_annotation(&claim.metadata, names::ANN_BOUND_BY_CONTROLLER) {
        return ClaimSituation::NamedStolen(Arc::clone(volume));
    }
    ClaimSituation::NamedTaken(Arc::clone(volume))
}

fn classify_bound(claim: &PersistentVolumeClaim, volume: &Arc<PersistentVolume>) -> ClaimSituation {
    let Some(reference) = object::claim_ref(volume) else {
        return ClaimSituation::BoundUnreferenced(Arc::clone(volume));
    };
    // Only the UID decides, as upstream; a reference without UID is a reservation and not this binding.
    let uid = reference_uid(reference);
    if !uid.is_empty() && uid == object::uid(&claim.metadata) {
        return ClaimSituation::BoundHere(Arc::clone(volume));
    }
    ClaimSituation::BoundElsewhere(Arc::clone(volume))
}
