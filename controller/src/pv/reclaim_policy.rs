//! What a volume's reclaim policy requires once its claim is gone.

use k8s_openapi::api::core::v1::PersistentVolume;

use orlop_client::names;
use orlop_volume::object::{annotation, reclaim_policy};

/// What a policy asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Another component looks after the volume (`migrated-to`).
    SomebodyElses,
    /// Keep volume and data; a person decides.
    Retain,
    /// Scrub the data and offer the volume again.
    Recycle,
    /// Delete asset and volume.
    Delete,
    /// A word that this version does not know. Nothing is touched.
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
