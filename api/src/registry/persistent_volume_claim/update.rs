//! Permitted changes of a claim (upstream: ValidatePersistentVolumeClaimUpdate).

use std::collections::BTreeMap;

use orlop_apimachinery::quantity::Quantity;
use serde_json::Value;

use super::spec_of;
use crate::object::Object;
use crate::registry::storage_class::BETA_ANNOTATION;
use crate::registry::volume_rules::{IMMUTABLE, entries, given, quantity};
use crate::validate::{FieldErrors, Path};

const CLASS: &str = "storageClassName";
const ATTRIBUTES_CLASS: &str = "volumeAttributesClassName";

/// The spec is immutable, with the exceptions that this function permits.
pub(super) fn validate(claim: &Object, old: &Object, errors: &mut FieldErrors) {
    let (mut spec, mut old_spec) = (Spec::of(claim), Spec::of(old));
    // The volume name may be set once.
    if old.str_at(&["spec", "volumeName"]).is_empty() {
        copy(&spec.fields, &mut old_spec.fields, "volumeName");
    }
    if class_moves_to_field(claim, old) {
        spec.fields.remove(CLASS);
    } else {
        let annotation = |claim: &Object| claim.annotation(BETA_ANNOTATION).unwrap_or_default().to_owned();
        if annotation(claim) != annotation(old) {
            let path = Path::new("metadata.annotations").child(BETA_ANNOTATION);
            errors.invalid(&path, annotation(claim), IMMUTABLE);
        }
        if class_is_given_later(claim, old) {
            spec.fields.remove(CLASS);
        }
    }
    // At this point the status of `claim` is the stored one.
    if claim.str_at(&["status", "phase"]) == "Bound" {
        if !spec.requests.is_empty() {
            copy(&old_spec.requests, &mut spec.requests, "storage");
        }
        if spec.fields.contains_key(ATTRIBUTES_CLASS) {
            copy(&old_spec.fields, &mut spec.fields, ATTRIBUTES_CLASS);
        }
    }
    if spec != old_spec {
        let detail = "spec is immutable after creation except resources.requests and \
                      volumeAttributesClassName for bound claims\n";
        errors.forbidden(&Path::new("spec"), detail);
    }
    size(claim, old, errors);
    let (mode, old_mode) = (given(spec_of(claim), "volumeMode"), given(spec_of(old), "volumeMode"));
    if mode != old_mode {
        errors.invalid(&Path::new("volumeMode"), mode.cloned().unwrap_or_default(), IMMUTABLE);
    }
    attributes_class(claim, old, errors);
}

/// A spec for comparison: quantities are compared by value, and `null` equals an absent field.
#[derive(PartialEq)]
struct Spec {
    /// All fields except the resources.
    fields: BTreeMap<String, Value>,
    requests: BTreeMap<String, Quantity>,
    limits: BTreeMap<String, Quantity>,
}

impl Spec {
    fn of(claim: &Object) -> Self {
        let spec = spec_of(claim);
        let resources = spec.get("resources").unwrap_or(&Value::Null);
        let amounts = |field| {
            let amount = |(name, amount): (&String, &Value)| Some((name.clone(), quantity(amount)?));
            entries(resources, field).filter_map(amount).collect()
        };
        let is_field = |(field, value): &(&String, &Value)| *field != "resources" && !value.is_null();
        let fields = spec.as_object().into_iter().flatten().filter(is_field);
        Spec {
            fields: fields.map(|(field, value)| (field.clone(), value.clone())).collect(),
            requests: amounts("requests"),
            limits: amounts("limits"),
        }
    }
}

fn copy<V: Clone>(from: &BTreeMap<String, V>, to: &mut BTreeMap<String, V>, field: &str) {
    match from.get(field) {
        Some(value) => to.insert(field.to_owned(), value.clone()),
        None => to.remove(field),
    };
}

/// Whether the class moves from the annotation to the field; the annotation may then be removed.
fn class_moves_to_field(claim: &Object, old: &Object) -> bool {
    let class = given(spec_of(claim), CLASS).and_then(Value::as_str);
    let (annotation, old_annotation) = (claim.annotation(BETA_ANNOTATION), old.annotation(BETA_ANNOTATION));
    old_annotation.is_some()
        && given(spec_of(old), CLASS).is_none()
        && class == old_annotation
        && (annotation.is_none() || annotation == old_annotation)
}

/// Whether a claim without a class is assigned one: a default class was created after the claim.
fn class_is_given_later(claim: &Object, old: &Object) -> bool {
    let class = given(spec_of(claim), CLASS).and_then(Value::as_str);
    let old_annotation = old.annotation(BETA_ANNOTATION);
    class.is_some()
        && given(spec_of(old), CLASS).is_none()
        && (old_annotation.is_none() || old_annotation == class)
}

/// A smaller request is permitted only if it stays above the current capacity: to recover from a failed
/// expansion.
fn size(claim: &Object, old: &Object, errors: &mut FieldErrors) {
    const REQUEST: [&str; 4] = ["spec", "resources", "requests", "storage"];
    let amount = |claim: &Object, path: &[&str]| claim.at(path).and_then(quantity).unwrap_or(Quantity::ZERO);
    let new = amount(claim, &REQUEST);
    if new < amount(old, &REQUEST) && new <= amount(old, &["status", "capacity", "storage"]) {
        let path = Path::new("spec.resources.requests.storage");
        errors.forbidden(&path, "field can not be less than status.capacity");
    }
}

/// An attributes class that is in effect can be replaced but not removed.
fn attributes_class(claim: &Object, old: &Object, errors: &mut FieldErrors) {
    let class = given(spec_of(claim), ATTRIBUTES_CLASS);
    if class == given(spec_of(old), ATTRIBUTES_CLASS)
        || old.at(&["status", "currentVolumeAttributesClassName"]).is_none_or(Value::is_null)
    {
        return;
    }
    let what = match class.and_then(Value::as_str) {
        None => "nil",
        Some("") => "empty string",
        Some(_) => return,
    };
    let detail =
        format!("update to {what} is forbidden when status.currentVolumeAttributesClassName is not nil");
    errors.forbidden(&Path::new("spec").child(ATTRIBUTES_CLASS), &detail);
}
