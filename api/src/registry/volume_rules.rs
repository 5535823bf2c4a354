//! Validation shared by volumes, claims and classes.

use orlop_apimachinery::names;
use orlop_apimachinery::quantity::Quantity;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::checks;
pub(super) use super::checks::{IMMUTABLE, NON_NEGATIVE as NEGATIVE};
use crate::validate::{FieldErrors, Path};

const RWOP: &str = "ReadWriteOncePod";
const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", RWOP];
const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];

/// The maximum total size of the keys and values of a parameter map, in bytes.
const PARAMETERS_SIZE: usize = 256 * 1024;
/// The maximum number of entries of a parameter map.
const PARAMETERS_COUNT: usize = 512;

/// The string at a key; `""` if there is none.
pub(super) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The items at a key; empty if there is no list.
pub(super) fn items<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The value at a key, unless it is absent or `null`.
pub(super) fn given<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    value.get(key).filter(|value| !value.is_null())
}

/// A typed copy of a part of an object; `None` if it does not match the type, which decoding rules out.
pub(super) fn typed<T: DeserializeOwned>(value: &Value) -> Option<T> {
    T::deserialize(value).ok()
}

/// The string map at a key; empty if there is none.
pub(super) fn entries<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    value.get(key).and_then(Value::as_object).into_iter().flatten()
}

/// Adds one error per message of a name check.
pub(super) fn name(path: &Path, value: &str, messages: Vec<String>, errors: &mut FieldErrors) {
    checks::each(errors, path, value, messages);
}

/// A name such as that of a class.
pub(super) fn subdomain(path: &Path, value: &str, errors: &mut FieldErrors) {
    name(path, value, names::dns_subdomain(value), errors);
}

/// A required string.
pub(super) fn required(path: &Path, value: &Value, key: &str, errors: &mut FieldErrors) {
    if text(value, key).is_empty() {
        errors.required(&path.child(key), "");
    }
}

/// A reference to a CSI driver. Since 1.35, upstream reports an empty name once, without its length and format.
pub(super) fn driver_name(path: &Path, value: &str, errors: &mut FieldErrors) {
    if value.is_empty() {
        errors.required(path, "");
        return;
    }
    if value.len() > names::CSI_DRIVER_NAME_MAX {
        errors.too_long(path, names::CSI_DRIVER_NAME_MAX);
    }
    name(path, value, names::csi_driver_name(value), errors);
}

/// Validates the access modes in a spec, but not whether there are any.
pub(super) fn access_modes(path: &Path, spec: &Value, errors: &mut FieldErrors) {
    let (mut exclusive, mut shared) = (false, false);
    let path = path.child("accessModes");
    for mode in items(spec, "accessModes").iter().filter_map(Value::as_str) {
        if !ACCESS_MODES.contains(&mode) {
            errors.not_supported(&path, mode, &ACCESS_MODES);
        } else if mode == RWOP {
            exclusive = true;
        } else {
            shared = true;
        }
    }
    if exclusive && shared {
        errors.forbidden(&path, "may not use ReadWriteOncePod with other access modes");
    }
}

/// The volume mode in a spec.
pub(super) fn volume_mode(path: &Path, spec: &Value, errors: &mut FieldErrors) {
    if let Some(mode) = given(spec, "volumeMode").and_then(Value::as_str)
        && !VOLUME_MODES.contains(&mode)
    {
        errors.not_supported(&path.child("volumeMode"), mode, &VOLUME_MODES);
    }
}

/// A quantity; decoding has rejected everything else.
pub(super) fn quantity(value: &Value) -> Option<Quantity> {
    Quantity::parse(value.as_str()?).ok()
}

/// A quantity that may be zero but not negative. Upstream prints it as a plain number.
///
/// Returns whether it is valid.
pub(super) fn resource(path: &Path, value: &Value, errors: &mut FieldErrors) -> bool {
    let negative = quantity(value).filter(Quantity::is_negative);
    if let Some(amount) = &negative {
        errors.invalid(path, amount.value(), "must be a valid resource quantity");
    }
    negative.is_none()
}

/// A quantity that must be positive.
pub(super) fn positive(path: &Path, value: &Value, errors: &mut FieldErrors) {
    if let Some(amount) = quantity(value).filter(|amount| *amount <= Quantity::ZERO) {
        errors.invalid(path, amount.to_string(), "must be greater than zero");
    }
}

/// Parameters of a class. As upstream, the error for a map that is too large is `TooLong`.
pub(super) fn parameters(path: &Path, parameters: Option<&Value>, errors: &mut FieldErrors) {
    let empty = Map::new();
    let parameters = parameters.and_then(Value::as_object).unwrap_or(&empty);
    if parameters.len() > PARAMETERS_COUNT {
        errors.too_long(path, PARAMETERS_COUNT);
        return;
    }
    if parameters.contains_key("") {
        errors.invalid(path, "", "field can not be empty.");
    }
    if size(parameters.iter()) > PARAMETERS_SIZE {
        errors.too_long(path, PARAMETERS_SIZE);
    }
}

/// The total size of all keys and values in bytes.
pub(super) fn size<'a>(entries: impl Iterator<Item = (&'a String, &'a Value)>) -> usize {
    entries.map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum()
}

/// The name of a provisioner or driver of a class. It is validated, and printed, in lower case.
pub(super) fn provisioner(path: &Path, value: &str, errors: &mut FieldErrors) {
    if value.is_empty() {
        errors.required(path, "");
        return;
    }
    let lower = value.to_lowercase();
    name(path, &lower, names::qualified_name(&lower), errors);
}

/// Deprecated node labels: the old label, the version that deprecated it, the new label.
const NODE_LABELS: [(&str, &str, &str); 5] = [
    ("beta.kubernetes.io/arch", "v1.14", "kubernetes.io/arch"),
    ("beta.kubernetes.io/os", "v1.14", "kubernetes.io/os"),
    ("beta.kubernetes.io/instance-type", "v1.17", "node.kubernetes.io/instance-type"),
    ("failure-domain.beta.kubernetes.io/region", "v1.17", "topology.kubernetes.io/region"),
    ("failure-domain.beta.kubernetes.io/zone", "v1.17", "topology.kubernetes.io/zone"),
];

/// The deprecation message of a node label.
pub(super) fn deprecated_node_label(key: &str) -> Option<String> {
    let (_, since, new) = NODE_LABELS.iter().find(|(old, _, _)| *old == key)?;
    Some(format!("deprecated since {since}; use \"{new}\" instead"))
}

/// The successor of a deprecated node label.
pub(super) fn node_label_successor(key: &str) -> Option<&'static str> {
    NODE_LABELS.iter().find(|(old, _, _)| *old == key).map(|(_, _, new)| *new)
}
