//! Checks the schemas in `allOf`, `anyOf`, `oneOf` and `not`.

use orlop_api::validate::Path;
use serde_json::Value;

use super::Check;
use crate::pattern::compile;
use crate::schema::members;

impl Check<'_> {
    /// Checks that `allOf`, `anyOf`, `oneOf` and `not` only validate values and do not define structure.
    pub(super) fn combinations(&mut self, schema: &Value, form: &Value, path: &Path) {
        let either = form["x-kubernetes-int-or-string"] == true;
        for name in ["allOf", "anyOf", "oneOf"] {
            for (at, part) in schema[name].as_array().into_iter().flatten().enumerate() {
                let is_either_list = either && matches!(name, "anyOf" | "allOf");
                self.judging(part, form, &path.child(name).index(at), is_either_list);
            }
        }
        if schema["not"].is_object() {
            self.judging(&schema["not"], form, &path.child("not"), false);
        }
    }

    fn judging(&mut self, part: &Value, form: &Value, path: &Path, may_have_type: bool) {
        self.plain_part(part, path, may_have_type);
        for (name, property) in members(&part["properties"]) {
            let below = &form["properties"][name];
            let path = path.child("properties").key(name);
            let is_open = form["x-kubernetes-preserve-unknown-fields"] == true;
            if !below.is_object() && !is_open {
                self.errors
                    .required(&path, "because it is defined in a value validation, but not in the structure");
                continue;
            }
            self.judging(property, below, &path, false);
        }
        if part["items"].is_object() {
            self.judging(&part["items"], &form["items"], &path.child("items"), false);
        }
        self.combinations(part, form, path);
    }

    fn plain_part(&mut self, part: &Value, path: &Path, may_have_type: bool) {
        let errors = &mut *self.errors;
        if !may_have_type && part["type"].as_str().is_some_and(|ty| !ty.is_empty()) {
            errors.forbidden(&path.child("type"), "must be empty to be structural");
        }
        for name in ["default", "additionalProperties", "x-kubernetes-preserve-unknown-fields"] {
            if !part[name].is_null() {
                errors.forbidden(&path.child(name), "must be undefined to be structural");
            }
        }
        for name in ["nullable", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"] {
            if part[name] == true {
                errors.forbidden(&path.child(name), "must be false to be structural");
            }
        }
        for name in ["title", "description"] {
            if part[name].as_str().is_some_and(|text| !text.is_empty()) {
                errors.forbidden(&path.child(name), "must be empty to be structural");
            }
        }
        if part["x-kubernetes-validations"].as_array().is_some_and(|rules| !rules.is_empty()) {
            errors.forbidden(&path.child("x-kubernetes-validations"), "must be empty to be structural");
        }
        if let Some(pattern) = part["pattern"].as_str()
            && let Err(error) = compile(pattern)
        {
            let why = format!("must be a valid regular expression, but isn't: {error}");
            errors.invalid(&path.child("pattern"), pattern, &why);
        }
    }
}
