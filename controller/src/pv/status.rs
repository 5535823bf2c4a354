//! Phases: builds the status of volumes and claims, and writes it if it differs. The functions that build a
//! status are pure and return `None` if there is nothing to change, so that no write is redundant.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimStatus};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use orlop_apimachinery::quantity::Quantity;

use super::binder::Binder;
use super::error::{NoCapacity, SyncError};
use orlop_client::names;
use orlop_client::recorder::EventType;
use orlop_volume::class;
use orlop_volume::object::{self, ClaimPhase, VolumePhase, annotation, claim_key};

/// The volume in this phase, or `None` if it already is. A message alone is never changed.
pub fn volume_in_phase(
    volume: &PersistentVolume,
    phase: VolumePhase,
    message: &str,
) -> Option<PersistentVolume> {
    if VolumePhase::of(volume) == phase {
        return None;
    }
    let mut changed = volume.clone();
    let status = changed.status.get_or_insert_default();
    status.phase = Some(phase.as_str().to_owned());
    status.message = (!message.is_empty()).then(|| message.to_owned());
    Some(changed)
}

/// The claim without a volume: Pending or Lost, without the fields copied from a volume.
// Tests: PV-1-3, PV-2-2
pub fn claim_without_volume(
    claim: &PersistentVolumeClaim,
    phase: ClaimPhase,
) -> Option<PersistentVolumeClaim> {
    let settled = claim.status.as_ref().is_some_and(|status| {
        status.access_modes.as_ref().is_none_or(Vec::is_empty)
            && status.capacity.as_ref().is_none_or(BTreeMap::is_empty)
            && status.current_volume_attributes_class_name.is_none()
    });
    if ClaimPhase::of(claim) == phase && settled {
        return None;
    }
    let mut changed = claim.clone();
    let status = changed.status.get_or_insert_default();
    status.phase = Some(phase.as_str().to_owned());
    status.access_modes = None;
    status.capacity = None;
    status.current_volume_attributes_class_name = None;
    Some(changed)
}

/// The claim bound to this volume. Access modes always follow the volume; the capacity is copied only when the
/// claim becomes Bound, since afterwards a difference means a resize in progress, and the attributes class only
/// in the transition from Pending to Bound.
// Tests: PV-5-2-3, OWN-AM-5, OWN-AM-9, OWN-FIX-3, PV-1-10, OWN-LOST-5
pub fn claim_with_volume(
    claim: &PersistentVolumeClaim,
    volume: &PersistentVolume,
) -> Result<Option<PersistentVolumeClaim>, NoCapacity> {
    let old = claim.status.clone().unwrap_or_default();
    let before = ClaimPhase::of(claim);
    let mut status = PersistentVolumeClaimStatus { phase: Some("Bound".to_owned()), ..old.clone() };
    let offered = volume.spec.as_ref().and_then(|spec| spec.access_modes.clone()).unwrap_or_default();
    if old.access_modes.as_deref().unwrap_or_default() != offered {
        status.access_modes = Some(offered);
    }
    if before != ClaimPhase::Bound {
        let capacity = capacity_to_show(volume)?;
        let shown = old.capacity.as_ref().and_then(|capacity| capacity.get("storage"));
        if shown.and_then(|text| Quantity::parse(&text.0).ok()) != Quantity::parse(&capacity.0).ok() {
            status.capacity = Some(BTreeMap::from([("storage".to_owned(), capacity)]));
        }
    }
    if before == ClaimPhase::Pending {
        let class = class::volume_attributes_class(volume);
        status.current_volume_attributes_class_name = (!class.is_empty()).then(|| class.to_owned());
    }
    if status == old {
        return Ok(None);
    }
    Ok(Some(PersistentVolumeClaim { status: Some(status), ..claim.clone() }))
}

/// The capacity for the claim's status: the one before a resize whose node part is pending, else the volume's.
fn capacity_to_show(volume: &PersistentVolume) -> Result<Text, NoCapacity> {
    let name = || object::name(&volume.metadata).to_owned();
    let capacity = volume.spec.as_ref().and_then(|spec| spec.capacity.as_ref()?.get("storage").cloned());
    let capacity = capacity.ok_or_else(|| NoCapacity::Missing { volume: name() })?;
    let Some(before_resize) = annotation(&volume.metadata, names::ANN_PRE_RESIZE_CAPACITY) else {
        return Ok(capacity);
    };
    match Quantity::parse(before_resize) {
        Ok(quantity) => Ok(Text(quantity.to_string())),
        Err(_) => Err(NoCapacity::BeforeResize { volume: name(), text: before_resize.to_owned() }),
    }
}

// === writing ===

impl Binder {
    /// Sets the phase of a volume if it differs. Returns the resulting volume.
    pub(super) async fn set_volume_phase(
        &self,
        volume: &Arc<PersistentVolume>,
        phase: VolumePhase,
        message: &str,
    ) -> Result<Arc<PersistentVolume>, SyncError> {
        match volume_in_phase(volume, phase, message) {
            Some(changed) => self.write_volume_status(changed).await,
            None => Ok(Arc::clone(volume)),
        }
    }

    /// Marks a volume as Failed and records an event with the reason, once per change of phase.
    pub(super) async fn fail_volume(
        &self,
        volume: &Arc<PersistentVolume>,
        reason: &'static str,
        message: &str,
    ) -> Result<Arc<PersistentVolume>, SyncError> {
        let Some(changed) = volume_in_phase(volume, VolumePhase::Failed, message) else {
            return Ok(Arc::clone(volume));
        };
        let written = self.write_volume_status(changed).await?;
        self.volume_event(&written, EventType::Warning, reason, message);
        Ok(written)
    }

    /// Sets a claim to Pending and removes the fields copied from a volume.
    pub(super) async fn set_claim_pending(
        &self,
        claim: &Arc<PersistentVolumeClaim>,
    ) -> Result<(), SyncError> {
        if let Some(changed) = claim_without_volume(claim, ClaimPhase::Pending) {
            self.write_claim_status(changed).await?;
        }
        Ok(())
    }

    /// Marks a claim as Lost and records an event with the reason, once per change of phase.
    pub(super) async fn set_claim_lost(
        &self,
        claim: &Arc<PersistentVolumeClaim>,
        reason: &'static str,
        message: &str,
    ) -> Result<(), SyncError> {
        if ClaimPhase::of(claim) == ClaimPhase::Lost {
            return Ok(());
        }
        if let Some(changed) = claim_without_volume(claim, ClaimPhase::Lost) {
            let written = self.write_claim_status(changed).await?;
            self.claim_event(&written, EventType::Warning, reason, message);
        }
        Ok(())
    }

    /// Sets a claim to Bound with the properties of its volume.
    pub(super) async fn set_claim_bound(
        &self,
        claim: &Arc<PersistentVolumeClaim>,
        volume: &PersistentVolume,
    ) -> Result<(), SyncError> {
        let changed = claim_with_volume(claim, volume)
            .map_err(|source| SyncError::Capacity { claim: claim_key(claim), source })?;
        if let Some(changed) = changed {
            self.write_claim_status(changed).await?;
        }
        Ok(())
    }
}
