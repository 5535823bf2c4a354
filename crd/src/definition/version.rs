//! Validates the versions of a definition.

use std::collections::HashMap;

use orlop_api::object::Object;
use orlop_api::validate::{FieldErrors, Path};
use serde_json::Value;

use super::part::{self, Shared};
use super::version_format;
use crate::format::{LABEL_1035, is_label_1035};
use crate::structural;

/// Maximum number of versions. Upstream has no limit, but each has a schema to compile.
const MAX_VERSIONS: usize = 50;
/// Maximum length of the warning of a deprecated version, bytes.
const MAX_WARNING: usize = 256;

/// The versions of a definition, and what their validation shares.
pub(super) struct Versions<'d> {
    all: &'d [Value],
    /// The versions of the stored definition.
    known: HashMap<&'d str, &'d Value>,
    shared: Shared,
    work: structural::Work,
}

impl<'d> Versions<'d> {
    pub(super) fn of(object: &'d Object, old: Option<&'d Object>) -> Self {
        let all = super::versions(object);
        let mut known = HashMap::new();
        for version in old.map(super::versions).into_iter().flatten() {
            known.entry(version["name"].as_str().unwrap_or_default()).or_insert(version);
        }
        let few = if all.len() > MAX_VERSIONS { &[][..] } else { all };
        Versions { all, known, shared: Shared::of(few), work: structural::Work::new() }
    }

    /// Validates each version, and the parts in which the versions differ.
    pub(super) fn validate_each(&mut self, path: &Path, errors: &mut FieldErrors) {
        let all = self.all;
        if all.len() > MAX_VERSIONS {
            return errors.too_many(path, all.len(), MAX_VERSIONS);
        }
        for (at, version) in all.iter().enumerate() {
            if !version["schema"]["openAPIV3Schema"].is_object() {
                errors.required(&path.index(at).child("schema").child("openAPIV3Schema"), "");
            }
        }
        for (at, version) in all.iter().enumerate() {
            let path = path.index(at);
            let name = version["name"].as_str().unwrap_or_default();
            if !is_label_1035(name) {
                errors.invalid(&path.child("name"), name, LABEL_1035);
            }
            validate_deprecation(version, &path.child("deprecationWarning"), errors);
            if !self.shared.schema {
                self.validate_schema(version, has_status(version), &path.child("schema"), errors);
            }
            if !self.shared.subresources {
                part::validate_subresources(version, &path.child("subresources"), errors);
            }
            if !self.shared.columns {
                part::validate_columns(version, &path.child("additionalPrinterColumns"), errors);
            }
            if !self.shared.selectable {
                let schema = (!self.shared.schema).then_some(&version["schema"]["openAPIV3Schema"]);
                let missing = "may only be set when `version.schema.openAPIV3Schema` is not included";
                part::validate_selectable(version, schema, missing, &path.child("selectableFields"), errors);
            }
        }
        let mut names: Vec<&str> = all.iter().filter_map(|version| version["name"].as_str()).collect();
        names.sort_unstable();
        if names.windows(2).any(|pair| pair[0] == pair[1]) {
            errors.invalid_shown(
                path,
                &version_format::show(all, &self.shared),
                "must contain unique version names",
            );
        }
        if all.iter().filter(|version| version["storage"] == true).count() != 1 {
            let why = "must have exactly one version marked as storage version";
            errors.invalid_shown(path, &version_format::show(all, &self.shared), why);
        }
        // Upstream's internal form repeats the name of the first version.
        if let Some(name) = all.first().and_then(|version| version["name"].as_str())
            && !is_label_1035(name)
        {
            errors.invalid(&Path::new("spec").child("version"), name, LABEL_1035);
        }
    }

    /// Validates the parts that all versions share. Upstream's paths are then those of its internal form.
    pub(super) fn validate_shared(&mut self, spec: &Path, errors: &mut FieldErrors) {
        let Some(version) = self.all.first().filter(|_| self.all.len() <= MAX_VERSIONS) else { return };
        if self.shared.schema {
            let has_status = self.all.iter().any(has_status);
            self.validate_schema(version, has_status, &spec.child("validation"), errors);
        }
        if self.shared.subresources {
            part::validate_subresources(version, &spec.child("subresources"), errors);
        }
        if self.shared.columns {
            part::validate_columns(version, &spec.child("additionalPrinterColumns"), errors);
        }
        if self.shared.selectable {
            let schema = self.shared.schema.then_some(&version["schema"]["openAPIV3Schema"]);
            let missing = "may only be set when validations.schema is included";
            part::validate_selectable(version, schema, missing, &spec.child("selectableFields"), errors);
        }
    }

    /// Validates the schema of a version, unless it is that of the stored definition.
    fn validate_schema(&mut self, version: &Value, has_status: bool, path: &Path, errors: &mut FieldErrors) {
        let schema = &version["schema"]["openAPIV3Schema"];
        if !schema.is_object() {
            return;
        }
        let path = path.child("openAPIV3Schema");
        let known = self.known.get(version["name"].as_str().unwrap_or_default());
        let is_changed = |part: &str| known.is_none_or(|known| known[part] != version[part]);
        if has_status && (is_changed("schema") || is_changed("subresources")) {
            validate_root(schema, &path, errors);
        }
        if is_changed("schema") {
            structural::validate(schema, &path, &mut self.work, errors);
        }
    }
}

fn has_status(version: &Value) -> bool {
    version["subresources"]["status"].is_object()
}

/// The fields of a schema, with Go's names, that may be set at the root if there is a status subresource.
const ROOT_FIELDS: [&str; 22] = [
    "Description",
    "Type",
    "Format",
    "Title",
    "Maximum",
    "ExclusiveMaximum",
    "Minimum",
    "ExclusiveMinimum",
    "MaxLength",
    "MinLength",
    "Pattern",
    "MaxItems",
    "MinItems",
    "UniqueItems",
    "MultipleOf",
    "Required",
    "Items",
    "Properties",
    "ExternalDocs",
    "Example",
    "XPreserveUnknownFields",
    "XValidations",
];

/// Checks the root of a schema whose `status` is validated on its own. Only the first error is reported.
fn validate_root(schema: &Value, path: &Path, errors: &mut FieldErrors) {
    for field in version_format::set_fields(schema) {
        if field == "Type" && schema["type"] != "object" {
            let why = "only \"object\" is allowed as the type at the root of the schema if the status subresource is \
                       enabled";
            return errors.invalid(&path.child("type"), schema["type"].clone(), why);
        }
        if !ROOT_FIELDS.contains(&field) {
            let fields = ROOT_FIELDS.join(" ");
            let why = format!(
                "only [{fields}] fields are allowed at the root of the schema if the status subresource is enabled"
            );
            return match version_format::show_schema(schema) {
                Some(shown) => errors.invalid_shown(path, &shown, &why),
                None => errors.invalid_unshown(path, &why),
            };
        }
    }
}

fn validate_deprecation(version: &Value, path: &Path, errors: &mut FieldErrors) {
    let Some(warning) = version["deprecationWarning"].as_str() else { return };
    if version["deprecated"] != true {
        return errors.invalid(path, warning, "can only be set for deprecated versions");
    }
    if warning.len() > MAX_WARNING {
        errors.invalid(path, warning, "must be <= 256 characters long");
    }
    if warning.is_empty() {
        errors.invalid(path, warning, "must not be an empty string");
    }
    let is_printable = |c: char| c == ' ' || !c.is_control() && !c.is_whitespace();
    if let Some((at, _)) = warning.char_indices().find(|(_, c)| !is_printable(*c)) {
        let why = "must only contain printable UTF-8 characters; non-printable character found at index";
        errors.invalid(path, warning, &format!("{why} {at}"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn root_of_a_schema_with_status_is_restricted() {
        for (case, schema, want) in [
            (
                "1 valid",
                json!({"type": "object", "description": "d", "x-kubernetes-validations": [{"rule": "true"}]}),
                None,
            ),
            ("2 empty", json!({"type": "object", "nullable": false, "allOf": []}), None),
            (
                "3 type",
                json!({"type": "array", "not": {}}),
                Some("s.type: Invalid value: \"array\": only \"object\" is allowed as the type at the root"),
            ),
            (
                "4 combination",
                json!({"type": "object", "anyOf": [{}], "additionalProperties": true}),
                Some("s: Invalid value: {\"ID\":\"\",\"Schema\":\"\","),
            ),
            (
                "5 embedded",
                json!({"type": "object", "x-kubernetes-embedded-resource": true}),
                Some("s: Invalid value: {\"ID\":"),
            ),
        ] {
            let mut errors = FieldErrors::new();
            validate_root(&schema, &Path::new("s"), &mut errors);
            let found: Vec<String> =
                errors.causes().iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
            assert_eq!(found.len(), usize::from(want.is_some()), "{case}: {found:?}");
            assert!(found.iter().all(|text| text.starts_with(want.unwrap_or_default())), "{case}: {found:?}");
        }
    }
}
