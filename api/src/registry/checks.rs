//! Validation of single values, shared by many kinds: names, numbers, enumerations.
//!
//! Each function takes the value's path and adds the errors with upstream's messages.

use jiff::Timestamp;
use orlop_apimachinery::names;
use orlop_apimachinery::quantity::Quantity;
use serde_json::Value;

use crate::validate::{FieldErrors, Path};

/// The message for negative numbers.
pub(super) const NON_NEGATIVE: &str = "must be greater than or equal to 0";

/// The message for immutable fields.
pub(super) const IMMUTABLE: &str = "field is immutable";

/// Adds one error per message about the value.
pub(super) fn each(errors: &mut FieldErrors, path: &Path, value: &str, messages: Vec<String>) {
    for message in messages {
        errors.invalid(path, value, &message);
    }
}

/// A name of an object: an RFC 1123 subdomain.
pub(super) fn subdomain(errors: &mut FieldErrors, path: &Path, value: &str) {
    each(errors, path, value, names::dns_subdomain(value));
}

/// An RFC 1123 label.
pub(super) fn label(errors: &mut FieldErrors, path: &Path, value: &str) {
    each(errors, path, value, names::dns_label(value));
}

/// A label key, a finalizer or similar: an optional prefix and a name.
pub(super) fn qualified_name(errors: &mut FieldErrors, path: &Path, value: &str) {
    each(errors, path, value, names::qualified_name(value));
}

/// A key in a ConfigMap or Secret.
pub(super) fn config_key(errors: &mut FieldErrors, path: &Path, value: &str) {
    each(errors, path, value, names::config_map_key(value));
}

/// Must not be empty. Returns whether the value is present.
pub(super) fn required(errors: &mut FieldErrors, path: &Path, value: &str) -> bool {
    if value.is_empty() {
        errors.required(path, "");
    }
    !value.is_empty()
}

/// Must not be negative.
pub(super) fn non_negative(errors: &mut FieldErrors, path: &Path, value: impl Into<i64>) {
    let value = value.into();
    if value < 0 {
        errors.invalid(path, value, NON_NEGATIVE);
    }
}

/// Must be one of the supported values, if present.
pub(super) fn one_of(errors: &mut FieldErrors, path: &Path, value: Option<&str>, supported: &[&str]) {
    if let Some(value) = value
        && !supported.contains(&value)
    {
        errors.not_supported(path, value, supported);
    }
}

/// A quantity must not be negative. Values that do not parse are skipped: decoding has already rejected them.
pub(super) fn non_negative_quantity(errors: &mut FieldErrors, path: &Path, value: &str) {
    if Quantity::parse(value).is_ok_and(|quantity| quantity.is_negative()) {
        errors.invalid(path, value, NON_NEGATIVE);
    }
}

/// Must not change.
pub(super) fn immutable(errors: &mut FieldErrors, path: &Path, new: Option<&Value>, old: Option<&Value>) {
    if new != old {
        errors.invalid(path, new.cloned().unwrap_or_default(), IMMUTABLE);
    }
}

/// A timestamp in the format of API objects: RFC 3339, whole seconds, UTC.
pub(super) fn seconds(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A domain and a path: `acme.io/foo`.
pub(super) fn domain_prefixed_path(errors: &mut FieldErrors, path: &Path, text: &str) {
    const NO_PATH: &str = "invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
    if text.is_empty() {
        return errors.required(path, "");
    }
    let Some((host, rest)) = text.split_once('/').filter(|(host, rest)| !host.is_empty() && !rest.is_empty())
    else {
        return errors.invalid(path, text, "must be a domain-prefixed path (such as \"acme.io/foo\")");
    };
    subdomain(errors, path, host);
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
    if !rest.bytes().all(is_valid) {
        errors.invalid(path, rest, NO_PATH);
    }
}
