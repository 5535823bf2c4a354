//! Checks the schemas in `allOf`, `anyOf`, `oneOf` and `not`.

use orlop_api::validate::Path;
use serde_json::{Value, json};

use super::Check;
use crate::schema::members;

impl Check<'_> {
    /// Checks that `allOf`, `anyOf`, `oneOf` and `not` only validate values and do not define structure. `form` is the
    /// schema that defines the structure of the values, at `form_path`.
    pub(super) fn combinations(&mut self, schema: &Value, form: &Value, path: &Path, form_path: &Path) {
        for name in ["not", "allOf", "anyOf", "oneOf"] {
            let path = path.child(name);
            if name == "not" && schema["not"].is_object() {
                self.part(&schema["not"], form, &path, form_path);
            }
            if name == "anyOf" && is_int_or_string(&schema[name]) {
                continue;
            }
            for (at, part) in schema[name].as_array().into_iter().flatten().enumerate() {
                self.part(part, form, &path.index(at), form_path);
            }
        }
    }

    fn part(&mut self, part: &Value, form: &Value, path: &Path, form_path: &Path) {
        self.supported(part, path);
        self.pattern(part, path);
        self.only_validates(part, path);
        for (name, property) in members(&part["properties"]) {
            let below = &form["properties"][name];
            let (path, form_path) =
                (path.child("properties").key(name), form_path.child("properties").key(name));
            if below.is_object() {
                self.part(property, below, &path, &form_path);
            } else {
                self.found.form.required(&form_path, &format!("because it is defined in {path}"));
            }
        }
        if part["items"].is_object() {
            let (path, form_path) = (path.child("items"), form_path.child("items"));
            if form["items"].is_object() {
                self.part(&part["items"], &form["items"], &path, &form_path);
            } else {
                self.found.form.required(&form_path, &format!("because it is defined in {path}"));
            }
        }
        self.combinations(part, form, path, form_path);
        self.lists_and_maps(part, path);
    }

    fn only_validates(&mut self, part: &Value, path: &Path) {
        let errors = &mut self.found.form;
        let is_set = |name: &str| match &part[name] {
            Value::Null => false,
            Value::Bool(false) => name == "additionalProperties",
            Value::String(text) => !text.is_empty(),
            Value::Array(list) => !list.is_empty(),
            Value::Bool(true) | Value::Number(_) | Value::Object(_) => true,
        };
        let wanted: [(&[&str], &str); 3] = [
            (
                &["type", "title", "description", "x-kubernetes-list-map-keys", "x-kubernetes-validations"],
                "empty",
            ),
            (
                &["additionalProperties", "default", "x-kubernetes-list-type", "x-kubernetes-map-type"],
                "undefined",
            ),
            (
                &[
                    "nullable",
                    "x-kubernetes-preserve-unknown-fields",
                    "x-kubernetes-embedded-resource",
                    "x-kubernetes-int-or-string",
                ],
                "false",
            ),
        ];
        for (names, why) in wanted {
            for name in names.iter().filter(|name| is_set(name)) {
                errors.forbidden(&path.child(name), &format!("must be {why} to be structural"));
            }
        }
        if !part["properties"]["metadata"].is_null() {
            let path = path.child("properties").key("metadata");
            errors.forbidden(&path, "must not be specified in a nested context");
        }
    }
}

/// Whether these are the parts with which a value is an integer or a string. They may have types.
fn is_int_or_string(parts: &Value) -> bool {
    *parts == json!([{"type": "integer"}, {"type": "string"}])
}
