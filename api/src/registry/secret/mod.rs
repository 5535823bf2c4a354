//! `Secret`: bytes by key, with rules for the well-known types.
//!
//! `stringData` is write-only: defaulting merges it into `data`, so later steps never see it. No
//! error message contains a secret's value.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::config_map::{MAX_BYTES, decoded_len, frozen};
use super::{cells, checks};
use crate::kind::{Column, Kind, Names, Scope, UnknownField};
use crate::object::Object;
use crate::validate::{FieldErrors, Path};

/// The `Secret` kind.
pub(super) struct Secret;

const NAMES: Names = Names {
    group: "",
    version: "v1",
    kind: "Secret",
    plural: "secrets",
    singular: "secret",
    short: &[],
    categories: &[],
    schema: "io.k8s.api.core.v1.Secret",
};

const COLUMNS: &[Column] = &[
    cells::NAME,
    cells::text("Type", "What the secret is for; decides which keys it must have."),
    cells::text("Data", "Number of keys."),
    cells::AGE,
];

const SERVICE_ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";

impl Kind for Secret {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Namespaced
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/secrets/"
    }

    fn defaults(&self, object: &mut Object) {
        if object.str_at(&["type"]).is_empty() {
            object.set(&["type"], "Opaque");
        }
        let Some(Value::Object(strings)) = object.remove(&["stringData"]) else {
            return;
        };
        for (key, value) in strings {
            let text = STANDARD.encode(value.as_str().unwrap_or_default());
            object.set(&["data", &key], text);
        }
    }

    fn validate(&self, object: &Object, errors: &mut FieldErrors) {
        let empty = Map::new();
        let data = object.at(&["data"]).and_then(Value::as_object).unwrap_or(&empty);
        let mut total = 0;
        for (key, value) in data {
            checks::config_key(errors, &at(key), key);
            total += decoded_len(value.as_str().unwrap_or_default());
        }
        if total > MAX_BYTES {
            errors.too_long(&Path::new("data"), MAX_BYTES);
        }
        let need = |errors: &mut FieldErrors, keys: &[&str]| {
            for key in keys.iter().filter(|key| !data.contains_key(**key)) {
                errors.required(&at(key), "");
            }
        };
        match object.str_at(&["type"]) {
            "kubernetes.io/service-account-token"
                if object.annotation(SERVICE_ACCOUNT_NAME).is_none_or(str::is_empty) =>
            {
                errors.required(&Path::new("metadata.annotations").key(SERVICE_ACCOUNT_NAME), "");
            }
            "kubernetes.io/dockercfg" => docker(data, ".dockercfg", errors),
            "kubernetes.io/dockerconfigjson" => docker(data, ".dockerconfigjson", errors),
            // One of the two is sufficient.
            "kubernetes.io/basic-auth"
                if !["username", "password"].iter().any(|key| data.contains_key(*key)) =>
            {
                need(errors, &["username", "password"]);
            }
            "kubernetes.io/ssh-auth"
                if data.get("ssh-privatekey").and_then(Value::as_str).is_none_or(str::is_empty) =>
            {
                errors.required(&at("ssh-privatekey"), "");
            }
            "kubernetes.io/tls" => need(errors, &["tls.crt", "tls.key"]),
            _ => {}
        }
    }

    fn validate_update(&self, object: &Object, old: &Object, errors: &mut FieldErrors) {
        checks::immutable(errors, &Path::new("type"), object.at(&["type"]), old.at(&["type"]));
        frozen(object, old, &["data"], errors);
    }

    fn selectable(&self) -> &'static [&'static str] {
        &["type"]
    }

    fn unknown_field(&self) -> UnknownField {
        UnknownField::NotSupported
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        vec![
            cells::name(object),
            object.str_at(&["type"]).into(),
            cells::entries(object, &["data"]).into(),
            cells::age(object, now),
        ]
    }
}

fn at(key: &str) -> Path {
    Path::new("data").key(key)
}

/// A docker configuration is required and must be a JSON object.
fn docker(data: &Map<String, Value>, key: &str, errors: &mut FieldErrors) {
    const REDACTED: &str = "<secret contents redacted>";
    let Some(value) = data.get(key) else {
        errors.required(&at(key), "");
        return;
    };
    let bytes = STANDARD.decode(value.as_str().unwrap_or_default()).unwrap_or_default();
    let problem = match serde_json::from_slice::<Value>(&bytes) {
        Ok(Value::Object(_) | Value::Null) => return,
        Ok(Value::Bool(_)) => wrong_type("bool"),
        Ok(Value::Number(_)) => wrong_type("number"),
        Ok(Value::String(_)) => wrong_type("string"),
        Ok(Value::Array(_)) => wrong_type("array"),
        Err(error) if error.is_eof() => "unexpected end of JSON input".to_owned(),
        Err(error) => match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
            Some(byte) if !starts_json(*byte) => {
                format!("invalid character {:?} looking for beginning of value", char::from(*byte))
            }
            // Syntax errors contain a position and what was expected, never the value itself.
            Some(_) | None => error.to_string(),
        },
    };
    errors.invalid(&at(key), REDACTED, &problem);
}

fn wrong_type(found: &str) -> String {
    format!("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}")
}

fn starts_json(byte: u8) -> bool {
    matches!(byte, b'{' | b'[' | b'"' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n')
}

#[cfg(test)]
mod tests;
