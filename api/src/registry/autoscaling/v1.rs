//! `HorizontalPodAutoscaler` of `autoscaling/v1`: a view of the stored objects. Error messages use the field names of the
//! stored form, as upstream's do.

use jiff::Timestamp;
use serde_json::Value;

use super::v2::{COLUMNS, HorizontalPodAutoscaler, POLICY, PREFIX};
use super::{names, round_trip};
use crate::kind::{Column, Kind, Names, Policy, Scope};
use crate::object::Object;
use crate::validate::FieldErrors;

/// The `HorizontalPodAutoscaler` kind of `autoscaling/v1`.
pub(in crate::registry) struct HorizontalPodAutoscalerV1;

const NAMES: Names = names("v1", "io.k8s.api.autoscaling.v1.HorizontalPodAutoscaler");

impl Kind for HorizontalPodAutoscalerV1 {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Namespaced
    }

    fn storage_prefix(&self) -> &'static str {
        PREFIX
    }

    fn policy(&self) -> Policy {
        POLICY
    }

    fn defaults(&self, scaler: &mut Object) {
        scaler.set_default(&["spec", "minReplicas"], 1);
        // The conversion sets the default metric and writes new annotations.
        *scaler = self.to_shown(self.to_stored(std::mem::take(scaler)));
    }

    fn prepare_create(&self, scaler: &mut Object, now: Timestamp) {
        let mut stored = self.to_stored(std::mem::take(scaler));
        HorizontalPodAutoscaler.prepare_create(&mut stored, now);
        *scaler = self.to_shown(stored);
    }

    fn prepare_update(&self, scaler: &mut Object, old: &Object, _now: Timestamp) {
        self.copy_stored(scaler, old, "status");
    }

    fn prepare_status(&self, scaler: &mut Object, old: &Object, _now: Timestamp) {
        self.copy_stored(scaler, old, "spec");
    }

    fn validate_create(&self, scaler: &Object, errors: &mut FieldErrors) {
        HorizontalPodAutoscaler.validate_create(&self.to_stored(scaler.clone()), errors);
    }

    fn validate_update(&self, scaler: &Object, old: &Object, errors: &mut FieldErrors) {
        let (new, old) = (self.to_stored(scaler.clone()), self.to_stored(old.clone()));
        HorizontalPodAutoscaler.validate_update(&new, &old, errors);
    }

    fn validate_status(&self, scaler: &Object, old: &Object, errors: &mut FieldErrors) {
        let (new, old) = (self.to_stored(scaler.clone()), self.to_stored(old.clone()));
        HorizontalPodAutoscaler.validate_status(&new, &old, errors);
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, scaler: &Object, now: Timestamp) -> Vec<Value> {
        HorizontalPodAutoscaler.cells(&self.to_stored(scaler.clone()), now)
    }

    fn is_view(&self) -> bool {
        true
    }

    fn converted_annotations(&self) -> &'static [&'static str] {
        round_trip::ANNOTATIONS
    }

    fn to_stored(&self, object: Object) -> Object {
        round_trip::to_v2(object)
    }

    fn to_shown(&self, object: Object) -> Object {
        round_trip::to_v1(object)
    }
}

impl HorizontalPodAutoscalerV1 {
    /// Restores the parts of the stored spec or status that are in annotations here, which a client may have omitted.
    fn copy_stored(&self, scaler: &mut Object, old: &Object, member: &str) {
        let mut stored = self.to_stored(std::mem::take(scaler));
        stored.copy_member(&self.to_stored(old.clone()), member);
        *scaler = self.to_shown(stored);
    }
}
