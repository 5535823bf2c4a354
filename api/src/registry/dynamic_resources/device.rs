//! A device in a slice: its attributes, capacities, taints, counters and nodes.

use jiff::Timestamp;
use orlop_apimachinery::names as formats;
use serde_json::{Map, Value};

use super::capacity::validate_capacity;
use super::collection::{each_entry, each_unique, entries, items};
use super::counters::validate_counters;
use super::names::{self, QUALIFIED_MAX};
use super::nodes::validate_selector;
use super::taint::{validate_binding, validate_taints};
use crate::object::show_time;
use crate::registry::go_format::Shape;
use crate::registry::workload::{given, text};
use crate::registry::{checks, json_defaults};
use crate::validate::{FieldErrors, Path};

/// Maximum number of attributes and capacities together.
const MOST_PROPERTIES: usize = 32;
/// Maximum number of counter sets that a device consumes.
const MOST_CONSUMED: usize = 2;
/// Maximum length of the value of an attribute, bytes.
const LONGEST_VALUE: usize = 64;

/// The fields of an attribute, of which one is set.
const VALUES: [&str; 4] = ["int", "bool", "string", "version"];
/// The fields of attributes with several values, an alpha feature.
const LIST_VALUES: [&str; 4] = ["ints", "bools", "strings", "versions"];

const ATTRIBUTE: Shape = Shape::Struct(&[
    ("IntValue", "int", Shape::Plain),
    ("BoolValue", "bool", Shape::Plain),
    ("StringValue", "string", Shape::Plain),
    ("VersionValue", "version", Shape::Plain),
    ("IntValues", "ints", Shape::Plain),
    ("BoolValues", "bools", Shape::Plain),
    ("StringValues", "strings", Shape::Plain),
    ("VersionValues", "versions", Shape::Plain),
]);

const ONE_OF: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is \
                      set to true in the ResourceSlice spec";
const NONE_OF: &str = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true \
                       in the ResourceSlice spec";

/// Removes the fields of alpha features, and sets the time of taints that have none.
pub(super) fn prepare_devices(spec: &mut Map<String, Value>, now: Timestamp) {
    for device in json_defaults::objects(json_defaults::list(spec, "devices")) {
        device.remove("nodeAllocatableResourceMappings");
        let attributes = json_defaults::object(device, "attributes");
        for attribute in attributes.into_iter().flat_map(Map::values_mut).filter_map(Value::as_object_mut) {
            LIST_VALUES.iter().for_each(|field| drop(attribute.remove(*field)));
        }
        for taint in json_defaults::objects(json_defaults::list(device, "taints")) {
            json_defaults::value(taint, "timeAdded", show_time(now));
        }
    }
}

/// Validates a device. `old` is the stored one: unchanged capacities and taints remain valid. `per_device` is set if each
/// device names its nodes.
pub(super) fn validate_device(
    device: &Value,
    old: Option<&Value>,
    per_device: bool,
    path: &Path,
    errors: &mut FieldErrors,
) {
    checks::label(errors, &path.child("name"), text(device, "name"));
    let none = Map::new();
    let attributes = entries(device, "attributes").unwrap_or(&none);
    let capacities = entries(device, "capacity").unwrap_or(&none);
    let properties = attributes.len() + capacities.len();
    if properties > MOST_PROPERTIES {
        let why = format!("the total number of attributes and capacities must not exceed {MOST_PROPERTIES}");
        // Validating each property would add an error for each.
        return errors.invalid(path, properties, &why);
    }
    let at = path.child("attributes");
    each_entry(attributes, MOST_PROPERTIES, QUALIFIED_MAX, &at, errors, |name, value, path, errors| {
        names::qualified(name, &at, errors);
        validate_attribute(value, path, errors);
    });
    let is_stored = |field: &str| old.is_some_and(|old| old.get(field) == device.get(field));
    if !is_stored("capacity") {
        let is_shared = given(device, "allowMultipleAllocations").is_some_and(|flag| *flag == true);
        let at = path.child("capacity");
        each_entry(capacities, MOST_PROPERTIES, QUALIFIED_MAX, &at, errors, |name, value, path, errors| {
            names::qualified(name, &at, errors);
            validate_capacity(value, is_shared, path, errors);
        });
    }
    if !is_stored("taints") {
        validate_taints(device, path, errors);
    }
    let set = |consumed: &Value| text(consumed, "counterSet").into();
    let consumed = items(device, "consumesCounters");
    let at = path.child("consumesCounters");
    each_unique(consumed, MOST_CONSUMED, set, &at, errors, |consumed, path, errors| {
        let (name, at) = (text(consumed, "counterSet"), path.child("counterSet"));
        if checks::required(errors, &at, name) {
            checks::label(errors, &at, name);
        }
        validate_counters(consumed, &path.child("counters"), errors);
    });
    validate_nodes(device, per_device, path, errors);
    validate_binding(device, path, errors);
}

fn validate_attribute(attribute: &Value, path: &Path, errors: &mut FieldErrors) {
    let long = |value: &str, path: &Path, errors: &mut FieldErrors| {
        if value.len() > LONGEST_VALUE {
            errors.too_long(path, LONGEST_VALUE);
        }
    };
    if let Some(value) = given(attribute, "string").and_then(Value::as_str) {
        long(value, &path.child("string"), errors);
    }
    if let Some(value) = given(attribute, "version").and_then(Value::as_str) {
        let path = path.child("version");
        if !is_semantic_version(value) {
            errors.invalid(&path, value, "must be a string compatible with semver.org spec 2.0.0");
        }
        long(value, &path, errors);
    }
    let why = "exactly one value must be specified";
    match VALUES.iter().filter(|field| given(attribute, field).is_some()).count() {
        0 => errors.invalid(path, "", why),
        1 => {}
        _ => errors.invalid_shown(path, &ATTRIBUTE.show(Some(attribute)), why),
    }
}

/// Whether a text is a semantic version: `1.2.3`, `1.2.3-alpha.1+build.5`.
fn is_semantic_version(text: &str) -> bool {
    let (text, build) = match text.split_once('+') {
        Some((text, build)) => (text, Some(build)),
        None => (text, None),
    };
    let (core, before) = match text.split_once('-') {
        Some((core, before)) => (core, Some(before)),
        None => (text, None),
    };
    let word = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let number = |part: &str| digits(part) && (part == "0" || !part.starts_with('0'));
    let numbers: Vec<&str> = core.split('.').take(4).collect();
    numbers.len() == 3
        && numbers.iter().all(|part| number(part))
        && before.is_none_or(|text| text.split('.').all(|part| word(part) && (!digits(part) || number(part))))
        && build.is_none_or(|text| text.split('.').all(word))
}

fn validate_nodes(device: &Value, per_device: bool, path: &Path, errors: &mut FieldErrors) {
    if !per_device {
        if ["nodeName", "nodeSelector", "allNodes"].iter().any(|field| given(device, field).is_some()) {
            errors.invalid(path, Value::Null, NONE_OF);
        }
        return;
    }
    let mut set = Vec::new();
    match given(device, "nodeName").and_then(Value::as_str) {
        None => {}
        Some("") => errors.invalid(&path.child("nodeName"), "", "must not be empty"),
        Some(name) => {
            set.push("`nodeName`");
            checks::each(errors, &path.child("nodeName"), name, formats::dns_subdomain(name));
        }
    }
    if let Some(selector) = given(device, "nodeSelector") {
        set.push("`nodeSelector`");
        validate_selector(selector, &path.child("nodeSelector"), errors);
    }
    match given(device, "allNodes").and_then(Value::as_bool) {
        None => {}
        Some(true) => set.push("`allNodes`"),
        Some(false) => {
            errors.invalid(&path.child("allNodes"), false, "must be either unset or set to true");
        }
    }
    match set.as_slice() {
        [] => errors.required(path, ONE_OF),
        [_] => {}
        many => errors.invalid(path, format!("{{{}}}", many.join(", ")), ONE_OF),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn semantic_versions_are_recognized() {
        for (text, want) in [
            ("1.2.3", true),
            ("0.0.0", true),
            ("1.2.3-alpha.1", true),
            ("1.2.3-0a", true),
            ("1.2.3+build.01", true),
            ("1.2.3-rc-1+a.b", true),
            ("1.2", false),
            ("1.2.3.4", false),
            ("01.2.3", false),
            ("1.2.3-01", false),
            ("1.2.3-", false),
            ("1.2.3+", false),
            ("v1.2.3", false),
            ("", false),
        ] {
            assert_eq!(is_semantic_version(text), want, "{text}");
        }
    }
}
