//! The spec of a slice: the driver, the pool, the nodes, the devices, and the counters that devices share.

use serde_json::Value;

use super::collection::{each_unique, items};
use super::counters::validate_counters;
use super::device::validate_device;
use super::names;
use super::nodes::validate_nodes;
use crate::registry::checks;
use crate::registry::workload::{given, number, text};
use crate::validate::{FieldErrors, Path};

const MOST_DEVICES: usize = 128;
/// Maximum number of devices in a slice in which a device has taints or consumes counters.
const MOST_LARGE_DEVICES: usize = 64;
const MOST_COUNTER_SETS: usize = 8;
/// Validates the spec of a new slice, or with `old` a changed one.
pub(super) fn validate_spec(spec: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    let path = Path::new("spec");
    names::driver(text(spec, "driver"), &path.child("driver"), errors);
    let pool = spec.get("pool").unwrap_or(&Value::Null);
    validate_pool(pool, &path.child("pool"), errors);
    if let Some(old) = old {
        let name = |spec: &Value| spec.pointer("/pool/name").cloned();
        let at_name = path.child("pool").child("name");
        checks::immutable(errors, &at_name, name(spec).as_ref(), name(old).as_ref());
        for field in ["driver", "nodeName"] {
            checks::immutable(errors, &path.child(field), given(spec, field), given(old, field));
        }
    }
    validate_nodes(spec, &path, errors);
    let (devices, counters) = (items(spec, "devices"), items(spec, "sharedCounters"));
    if !devices.is_empty() && !counters.is_empty() {
        errors.invalid(&path, "", "only one of `sharedCounters` or `devices` is allowed");
    }
    let is_large =
        |device: &Value| !items(device, "taints").is_empty() || !items(device, "consumesCounters").is_empty();
    let most = if devices.iter().any(is_large) { MOST_LARGE_DEVICES } else { MOST_DEVICES };
    let name = |one: &Value| text(one, "name").into();
    let per_device = given(spec, "perDeviceNodeSelection").is_some_and(|flag| *flag == true);
    each_unique(devices, most, name, &path.child("devices"), errors, |device, path, errors| {
        let old = old.and_then(|old| items(old, "devices").iter().find(|one| one["name"] == device["name"]));
        validate_device(device, old, per_device, path, errors);
    });
    let path = path.child("sharedCounters");
    each_unique(counters, MOST_COUNTER_SETS, name, &path, errors, |set, path, errors| {
        let name = text(set, "name");
        if checks::required(errors, &path.child("name"), name) {
            checks::label(errors, &path.child("name"), name);
        }
        validate_counters(set, &path.child("counters"), errors);
    });
}

fn validate_pool(pool: &Value, path: &Path, errors: &mut FieldErrors) {
    names::pool(text(pool, "name"), &path.child("name"), errors);
    let slices = number(pool, "resourceSliceCount");
    if slices <= 0 {
        errors.invalid(&path.child("resourceSliceCount"), slices, "must be greater than zero");
    }
    let generation = number(pool, "generation");
    if generation < 0 {
        errors.invalid(&path.child("generation"), generation, "must be greater than or equal to zero");
    }
}
