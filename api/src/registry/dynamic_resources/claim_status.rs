//! The status of a claim: the allocated devices, the pods that use them, and the reports of drivers about them.

use std::collections::HashSet;
use std::net::IpAddr;

use serde_json::{Value, json};

use super::claim_spec::{MOST_CONFIGURATIONS, validate_references};
use super::collection::{each, each_unique, items};
use super::names::{self, RequestNames};
use super::nodes::validate_selector;
use super::selector::{validate_configuration, validate_json};
use super::shown::ALLOCATION;
use super::taint::{validate_binding, validate_tolerations};
use crate::object::Object;
use crate::registry::checks::{self, IMMUTABLE};
use crate::registry::conditions;
use crate::registry::workload::{given, text};
use crate::validate::{FieldErrors, Path};

/// Maximum number of pods that can use a claim.
const MOST_PODS: usize = 256;
const MOST_RESULTS: usize = 32;
const MOST_CONDITIONS: usize = 8;
const MOST_DATA: usize = 10 * 1024;
const MOST_IPS: usize = 16;
const LONGEST_INTERFACE: usize = 256;
const LONGEST_HARDWARE_ADDRESS: usize = 128;

const NO_IP: &str = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)";
const ADDED: &str =
    "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";

/// A device: driver, pool, name, and the share of it.
pub(super) fn device_key(device: &Value) -> [&str; 4] {
    ["driver", "pool", "device", "shareID"].map(|field| text(device, field))
}

fn status(claim: &Object) -> &Value {
    claim.at(&["status"]).unwrap_or(&Value::Null)
}

/// The devices of an allocation.
fn results(status: &Value) -> &[Value] {
    given(status, "allocation").and_then(|one| given(one, "devices")).map_or(&[], |one| items(one, "results"))
}

/// Removes the reports of drivers about devices that are no longer allocated.
pub(super) fn drop_deallocated_devices(claim: &mut Object, old: &Object) {
    let key = |device: &Value| ["driver", "pool", "device"].map(|field| text(device, field).to_owned());
    let mut gone: HashSet<[String; 3]> = results(status(old)).iter().map(key).collect();
    for device in results(status(claim)) {
        gone.remove(&key(device));
    }
    let reported = claim.0.get_mut("status").and_then(Value::as_object_mut);
    let Some(reported) = reported else { return };
    if let Some(devices) = reported.get_mut("devices").and_then(Value::as_array_mut) {
        devices.retain(|device| !gone.contains(&key(device)));
        if devices.is_empty() {
            reported.remove("devices");
        }
    }
}

/// Validates a change of the status.
pub(super) fn validate_status(claim: &Object, old: &Object, errors: &mut FieldErrors) {
    let (new, old) = (status(claim), status(old));
    let path = Path::new("status");
    let known = RequestNames::of(claim.at(&["spec", "devices"]).unwrap_or(&Value::Null));
    let pods = items(new, "reservedFor");
    let at_pods = path.child("reservedFor");
    let uid = |pod: &Value| text(pod, "uid").into();
    each_unique(pods, MOST_PODS, uid, &at_pods, errors, |pod, path, errors| {
        for field in ["resource", "name", "uid"] {
            checks::required(errors, &path.child(field), text(pod, field));
        }
    });
    let allocated: HashSet<[&str; 4]> = results(new).iter().map(device_key).collect();
    let key = |device: &Value| json!(device_key(device));
    let at = path.child("devices");
    each_unique(items(new, "devices"), usize::MAX, key, &at, errors, |device, path, errors| {
        validate_report(device, &allocated, path, errors);
    });
    let allocation = given(new, "allocation");
    if !pods.is_empty() {
        if allocation.is_none() {
            errors.forbidden(&at_pods, "may not be specified when `allocated` is not set");
        } else if claim.is_terminating() {
            let before: HashSet<String> = items(old, "reservedFor").iter().map(Value::to_string).collect();
            if pods.iter().any(|pod| !before.contains(&pod.to_string())) {
                errors.forbidden(&at_pods, ADDED);
            }
        }
    }
    match (given(old, "allocation"), allocation) {
        (Some(before), Some(now)) if before != now => {
            errors.invalid_shown(&path.child("allocation"), &ALLOCATION.show(Some(now)), IMMUTABLE);
        }
        (None, Some(now)) => validate_allocation(now, &known, &path.child("allocation"), errors),
        (Some(_), Some(_)) | (_, None) => {}
    }
}

fn validate_allocation(allocation: &Value, known: &RequestNames<'_>, path: &Path, errors: &mut FieldErrors) {
    let devices = allocation.get("devices").unwrap_or(&Value::Null);
    let at = path.child("devices");
    each(items(devices, "results"), MOST_RESULTS, &at.child("results"), errors, |result, path, errors| {
        known.validate_reference(text(result, "request"), &path.child("request"), errors);
        validate_device_name(result, path, errors);
        validate_binding(result, path, errors);
        validate_tolerations(result, path, errors);
    });
    // The configurations of the class and of the claim.
    let config = items(devices, "config");
    each(config, 2 * MOST_CONFIGURATIONS, &at.child("config"), errors, |config, path, errors| {
        let (source, at) = (text(config, "source"), path.child("source"));
        if checks::required(errors, &at, source) {
            checks::one_of(errors, &at, Some(source), &["FromClaim", "FromClass"]);
        }
        validate_references(config, known, path, errors);
        validate_configuration(config, false, path, errors);
    });
    if let Some(selector) = given(allocation, "nodeSelector") {
        validate_selector(selector, &path.child("nodeSelector"), errors);
    }
}

fn validate_device_name(device: &Value, path: &Path, errors: &mut FieldErrors) {
    names::driver(text(device, "driver"), &path.child("driver"), errors);
    names::pool(text(device, "pool"), &path.child("pool"), errors);
    checks::label(errors, &path.child("device"), text(device, "device"));
    if let Some(share) = given(device, "shareID").and_then(Value::as_str) {
        names::uid(share, &path.child("shareID"), errors);
    }
}

/// Validates the report of a driver about a device.
fn validate_report(device: &Value, allocated: &HashSet<[&str; 4]>, path: &Path, errors: &mut FieldErrors) {
    validate_device_name(device, path, errors);
    let key = device_key(device);
    if !allocated.contains(&key) {
        let shown = key.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/");
        errors.invalid(path, shown, "must be an allocated device in the claim");
    }
    let (list, at) = (items(device, "conditions"), path.child("conditions"));
    if list.len() > MOST_CONDITIONS {
        errors.too_many(&at, list.len(), MOST_CONDITIONS);
    } else {
        conditions::validate(list, &at, errors);
    }
    if let Some(data) = given(device, "data") {
        validate_json(Some(data), MOST_DATA, &path.child("data"), errors);
    }
    let Some(network) = given(device, "networkData") else { return };
    let path = path.child("networkData");
    for (field, max) in [("interfaceName", LONGEST_INTERFACE), ("hardwareAddress", LONGEST_HARDWARE_ADDRESS)]
    {
        if text(network, field).len() > max {
            errors.too_long(&path.child(field), max);
        }
    }
    let at = path.child("ips");
    each_unique(items(network, "ips"), MOST_IPS, Value::clone, &at, errors, |address, path, errors| {
        validate_interface_address(address.as_str().unwrap_or_default(), path, errors);
    });
}

/// An address with the length of its network's prefix, in canonical form.
fn validate_interface_address(text: &str, path: &Path, errors: &mut FieldErrors) {
    let parsed = text.split_once('/').and_then(|(ip, bits)| {
        let ip: IpAddr = ip.parse().ok()?;
        let bits: u8 = bits.parse().ok()?;
        let most = if ip.is_ipv4() { 32 } else { 128 };
        (bits <= most).then(|| format!("{ip}/{bits}"))
    });
    match parsed {
        None => errors.invalid(path, text, NO_IP),
        Some(canonical) if canonical != text => {
            errors.invalid(path, text, &format!("must be in canonical form ({canonical:?})"));
        }
        Some(_) => {}
    }
}
