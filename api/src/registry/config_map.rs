//! `ConfigMap`: strings and bytes by key.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::cells;
use super::checks;
use crate::kind::{Column, Kind, Names, Scope};
use crate::object::Object;
use crate::validate::{FieldErrors, Path};

/// The `ConfigMap` kind.
pub(super) struct ConfigMap;

const NAMES: Names = Names {
    group: "",
    version: "v1",
    kind: "ConfigMap",
    plural: "configmaps",
    singular: "configmap",
    short: &["cm"],
    categories: &[],
    schema: "io.k8s.api.core.v1.ConfigMap",
};

const COLUMNS: &[Column] =
    &[cells::NAME, cells::text("Data", "Number of keys, text and bytes together."), cells::AGE];

/// The maximum total size of the values of a ConfigMap or a Secret, in bytes.
pub(super) const MAX_BYTES: usize = 1024 * 1024;

/// The message for a change of a field that `immutable` protects.
pub(super) const FROZEN: &str = "field is immutable when `immutable` is set";

impl Kind for ConfigMap {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Namespaced
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/configmaps/"
    }

    fn validate(&self, object: &Object, errors: &mut FieldErrors) {
        let empty = Map::new();
        let map = |name| object.at(&[name]).and_then(Value::as_object).unwrap_or(&empty);
        let (data, binary) = (map("data"), map("binaryData"));
        let mut total = 0;
        for (key, value) in data {
            let path = Path::new("data").key(key);
            checks::config_key(errors, &path, key);
            if binary.contains_key(key) {
                errors.invalid(&path, key.as_str(), "duplicate of key present in binaryData");
            }
            total += value.as_str().map_or(0, str::len);
        }
        for (key, value) in binary {
            checks::config_key(errors, &Path::new("binaryData").key(key), key);
            total += decoded_len(value.as_str().unwrap_or_default());
        }
        if total > MAX_BYTES {
            // Upstream refers to the whole object by an empty path, which it prints as `[]`.
            errors.too_long(&Path::new("[]"), MAX_BYTES);
        }
    }

    fn validate_update(&self, object: &Object, old: &Object, errors: &mut FieldErrors) {
        frozen(object, old, &["data", "binaryData"], errors);
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        let keys = cells::entries(object, &["data"]) + cells::entries(object, &["binaryData"]);
        vec![cells::name(object), keys.into(), cells::age(object, now)]
    }
}

/// The rules of `immutable`: once it is true, it cannot be unset and the fields cannot change.
pub(super) fn frozen(object: &Object, old: &Object, members: &[&str], errors: &mut FieldErrors) {
    let immutable = |object: &Object| object.at(&["immutable"]).and_then(Value::as_bool) == Some(true);
    if !immutable(old) {
        return;
    }
    if !immutable(object) {
        errors.forbidden(&Path::new("immutable"), FROZEN);
    }
    for member in members {
        if entries(object, member) != entries(old, member) {
            errors.forbidden(&Path::new(member), FROZEN);
        }
    }
}

/// A map's entries; an absent map is an empty one.
fn entries<'a>(object: &'a Object, member: &str) -> BTreeMap<&'a str, &'a Value> {
    object
        .at(&[member])
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), value))
        .collect()
}

/// The decoded length of padded base64 in bytes.
pub(super) fn decoded_len(base64: &str) -> usize {
    let padding = base64.bytes().rev().take_while(|byte| *byte == b'=').count();
    (base64.len() / 4 * 3).saturating_sub(padding)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{causes, kind_now, object};
    use super::*;

    const KEY: &str = "Invalid value: \"a/b\": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

    #[test]
    fn invalid_keys_and_sizes_are_rejected() {
        let long = "x".repeat(MAX_BYTES + 1);
        for (case, body, want) in [
            ("fine", json!({"data": {"k": "v"}, "binaryData": {"b": "eA=="}}), vec![]),
            ("bad key", json!({"data": {"a/b": "x"}}), vec![("FieldValueInvalid", "data[a/b]", KEY)]),
            (
                "bad binary key",
                json!({"binaryData": {"a/b": "eA=="}}),
                vec![("FieldValueInvalid", "binaryData[a/b]", KEY)],
            ),
            (
                "key in both",
                json!({"data": {"k": "v"}, "binaryData": {"k": "eA=="}}),
                vec![(
                    "FieldValueInvalid",
                    "data[k]",
                    "Invalid value: \"k\": duplicate of key present in binaryData",
                )],
            ),
            (
                "too large",
                json!({"data": {"k": long}}),
                vec![("FieldValueTooLong", "[]", "Too long: may not be more than 1048576 bytes")],
            ),
        ] {
            assert_eq!(causes(|errors| ConfigMap.validate(&object(body), errors)), want, "{case}");
        }
    }

    #[test]
    fn immutable_config_map_cannot_change() {
        let text = "Forbidden: field is immutable when `immutable` is set";
        let old = json!({"immutable": true, "data": {"k": "v"}});
        for (case, new, want) in [
            ("off", json!({"data": {"k": "v"}}), vec![("FieldValueForbidden", "immutable", text)]),
            (
                "data",
                json!({"immutable": true, "data": {"k": "w"}}),
                vec![("FieldValueForbidden", "data", text)],
            ),
            (
                "binary",
                json!({"immutable": true, "data": {"k": "v"}, "binaryData": {"b": ""}}),
                vec![("FieldValueForbidden", "binaryData", text)],
            ),
            ("unchanged", old.clone(), vec![]),
        ] {
            let got = causes(|errors| ConfigMap.validate_update(&object(new), &object(old.clone()), errors));
            assert_eq!(got, want, "{case}");
        }
        let free = json!({"data": {"k": "v"}});
        assert_eq!(
            causes(|errors| ConfigMap.validate_update(&object(json!({})), &object(free), errors)),
            vec![],
            "not frozen"
        );
    }

    #[test]
    fn cells() {
        let map = object(json!({
            "metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "data": {"k": "v"}, "binaryData": {"b": "", "c": ""},
        }));
        assert_eq!(ConfigMap.cells(&map, kind_now()), vec![json!("a"), json!(3), json!("60s")]);
        assert_eq!(decoded_len("eA=="), 1);
        assert_eq!(decoded_len(""), 0);
    }
}
