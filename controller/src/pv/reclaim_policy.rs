//! Reclaim policies: the action that a volume requires once its claim is deleted.

use k8s_openapi::api::core::v1::PersistentVolume;

use orlop_client::names;
use orlop_volume::object::{annotation, reclaim_policy};

/// The action of a reclaim policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Another component reclaims the volume (`migrated-to`).
    SomebodyElses,
    /// Keep volume and data until an administrator decides.
    Retain,
    /// Scrub the data and make the volume available again.
    Recycle,
    /// Delete asset and volume.
    Delete,
    /// A policy unknown to this version. Nothing is changed.
    Unknown,
}

impl Policy {
    // Tests: NEW-POLICY, NEW-MIGRATED-RELEASED
    /// The policy of `volume`.
    pub fn of(volume: &PersistentVolume) -> Self {
        if annotation(&volume.metadata, names::ANN_MIGRATED_TO).is_some_and(|driver| !driver.is_empty()) {
            return Self::SomebodyElses;
        }
        match reclaim_policy(volume) {
            "Retain" => Self::Retain,
            "Recycle" => Self::Recycle,
            "Delete" => Self::Delete,
            _ => Self::Unknown,
        }
    }
}
