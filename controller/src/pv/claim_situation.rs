//! What state a claim is in, as the controller sees it. Pure: no I/O, no clock.
//!
//! ==================================================================================================================
//! SPACE SHUTTLE STYLE. A wrong turn here gives somebody another one's data, or deletes it. So every branch is written
//! out: a classifier that names each situation and says what was OBSERVED, a `match` without a wildcard arm that acts on
//! it (`claim_sync.rs`), and after every branch the cases that hold it. Do not shorten, do not merge arms that look alike,
//! do not add a catch-all. If a new situation turns up, give it a name.
//! ==================================================================================================================

#![deny(clippy::wildcard_enum_match_arm)]

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};

use orlop_client::names;
use orlop_volume::class;
use orlop_volume::fit::{self, Misfit};
use orlop_volume::object::{self, points_to, reference_uid, volume_name};

/// What the controller knows around a claim at the moment of the decision.
#[derive(Clone, Copy, Debug)]
pub struct ClaimContext<'a> {
    /// The volume that the claim names, if the controller knows it.
    pub named: Option<&'a Arc<PersistentVolume>>,
    /// What the search finds for the claim; only asked of an unbound claim that names no volume.
    pub found: Option<&'a Arc<PersistentVolume>>,
    /// Whether the claim's class waits for a pod.
    pub delayed: bool,
    /// The name of the default class, if there is one.
    pub default_class: Option<&'a str>,
}

/// The state of a claim. The first five are unbound claims that leave the choice to the controller, the next six name
/// their volume but binding is not finished, the last five were bound once.
#[derive(Clone, Debug)]
pub enum ClaimSituation {
    /// OBSERVATION: no `bind-completed`, no volume named, and the search finds a volume: one that already points to the
    /// claim (reserved by a user, chosen by the scheduler, or written by a bind that was cut short), or a free one.
    VolumeFound(Arc<PersistentVolume>),
    /// OBSERVATION: no `bind-completed`, no volume named, nothing found; the claim says nothing about its class, and a
    /// default class exists by now.
    DefaultClassMissing {
        /// The default class.
        class: String,
    },
    /// OBSERVATION: no `bind-completed`, no volume named, nothing found; its class waits for a pod, and the scheduler has
    /// not chosen a node.
    WaitsForConsumer,
    /// OBSERVATION: no `bind-completed`, no volume named, nothing found; it has a class, which either binds at once or
    /// waits for a pod and the scheduler has chosen the node.
    WantsProvisioning,
    /// OBSERVATION: no `bind-completed`, no volume named, nothing found, no class and no default class.
    NothingFits,

    /// OBSERVATION: no `bind-completed`, the claim names a volume that the controller does not know: not created yet, or
    /// never.
    NamedUnknown,
    /// OBSERVATION: no `bind-completed`, the named volume points to nobody, and all checks pass.
    NamedFree(Arc<PersistentVolume>),
    /// OBSERVATION: no `bind-completed`, the named volume points to nobody, but it does not fit.
    NamedUnfit {
        /// The volume.
        volume: Arc<PersistentVolume>,
        /// The first check that fails.
        misfit: Misfit,
    },
    /// OBSERVATION: no `bind-completed`, the named volume points to this claim, with or without UID. Either both sides
    /// were written by users, or a bind was cut short.
    NamedOurs(Arc<PersistentVolume>),
    /// OBSERVATION: no `bind-completed`, the named volume points to somebody else, and the name was written by a user (no
    /// `bound-by-controller`).
    NamedTaken(Arc<PersistentVolume>),
    /// OBSERVATION: no `bind-completed`, the named volume points to somebody else, and the name was written by a controller
    /// (`bound-by-controller`). A controller writes the volume first, so somebody has tampered with it since.
    NamedStolen(Arc<PersistentVolume>),

    /// OBSERVATION: `bind-completed`, and the name of the volume is gone. Somebody took it away.
    BoundNameless,
    /// OBSERVATION: `bind-completed`, and the controller does not know the volume that it names.
    BoundVolumeGone,
    /// OBSERVATION: `bind-completed`, and the volume points to nobody. Somebody took the reference away, or the volume was
    /// created anew.
    BoundUnreferenced(Arc<PersistentVolume>),
    /// OBSERVATION: `bind-completed`, and the volume's reference carries this claim's UID. All is well, or some status is
    /// missing.
    BoundHere(Arc<PersistentVolume>),
    /// OBSERVATION: `bind-completed`, and the volume's reference carries another UID, or none. Somebody else has the volume.
    BoundElsewhere(Arc<PersistentVolume>),
}

impl ClaimSituation {
    /// Whether it says that the bond with the volume is broken by what the volume is.
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

/// Names the state that `claim` is in.
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
    // The default class comes before the rest: after the write the claim comes back with a class.
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
    // The UID alone decides, as upstream; a reference without UID is somebody's reservation and not this bond.
    let uid = reference_uid(reference);
    if !uid.is_empty() && uid == object::uid(&claim.metadata) {
        return ClaimSituation::BoundHere(Arc::clone(volume));
    }
    ClaimSituation::BoundElsewhere(Arc::clone(volume))
}
