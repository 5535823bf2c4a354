//! Validates the versions of a definition.

use std::collections::{HashMap, HashSet};

use orlop_api::object::Object;
use orlop_api::validate::{FieldErrors, Path};
use serde_json::Value;

use super::name::{LABEL_1035, is_label_1035};
use crate::{columns, structural};

/// Maximum number of selectable fields.
const MAX_SELECTABLE: usize = 8;
/// Maximum length of the path of a selectable field, bytes. The process keeps these names until it ends.
const MAX_SELECTABLE_PATH: usize = 256;
/// Maximum number of versions. Upstream has no limit, but each has a schema to compile.
const MAX_VERSIONS: usize = 50;

/// Validates all versions.
pub(super) fn validate_all(object: &Object, old: Option<&Object>, path: &Path, errors: &mut FieldErrors) {
    let versions = super::versions(object);
    if versions.len() > MAX_VERSIONS {
        return errors.too_many(path, versions.len(), MAX_VERSIONS);
    }
    let mut work = structural::Work::new();
    let mut known = HashMap::new();
    for version in old.map(super::versions).into_iter().flatten() {
        known.entry(version["name"].as_str().unwrap_or_default()).or_insert(version);
    }
    for (at, version) in versions.iter().enumerate() {
        let path = path.index(at);
        let name = version["name"].as_str().unwrap_or_default();
        if !is_label_1035(name) {
            errors.invalid(&path.child("name"), name, LABEL_1035);
        }
        validate_version(version, known.get(name).copied(), &path, &mut work, errors);
    }
    let whole = || Value::from(versions);
    let mut names: Vec<&str> = versions.iter().filter_map(|version| version["name"].as_str()).collect();
    names.sort_unstable();
    if names.windows(2).any(|pair| pair[0] == pair[1]) {
        errors.invalid(path, whole(), "must contain unique version names");
    }
    if versions.iter().filter(|version| version["storage"] == true).count() != 1 {
        errors.invalid(path, whole(), "must have exactly one version marked as storage version");
    }
}

fn validate_version(
    version: &Value,
    known: Option<&Value>,
    path: &Path,
    work: &mut structural::Work,
    errors: &mut FieldErrors,
) {
    let schema_path = path.child("schema").child("openAPIV3Schema");
    let schema = &version["schema"]["openAPIV3Schema"];
    if !schema.is_object() {
        errors.required(&schema_path, "schemas are required");
    } else if known.is_none_or(|known| known["schema"] != version["schema"]) {
        structural::validate(schema, &schema_path, work, errors);
    }
    let warning = version["deprecationWarning"].as_str();
    if let Some(warning) = warning {
        let path = path.child("deprecationWarning");
        if version["deprecated"] != true {
            errors.invalid(&path, warning, "can only be set for deprecated versions");
        }
        if warning.is_empty() || warning.len() > 256 || warning.chars().any(char::is_control) {
            errors.invalid(&path, warning, "must be 1 to 256 printable UTF-8 characters");
        }
    }
    let scale = &version["subresources"]["scale"];
    if scale.is_object() {
        let path = path.child("subresources").child("scale");
        for (name, roots, is_required) in [
            ("specReplicasPath", &[".spec."][..], true),
            ("statusReplicasPath", &[".status."], true),
            ("labelSelectorPath", &[".status.", ".spec."], false),
        ] {
            let path = path.child(name);
            let given = scale[name].as_str().unwrap_or_default();
            let under = roots.iter().any(|root| given.starts_with(root));
            if given.is_empty() {
                if is_required {
                    errors.required(&path, "");
                }
            } else if columns::simple_path(given).is_none() {
                errors.invalid(&path, given, "should be a simple json path, such as .spec.replicas");
            } else if !under {
                let roots: Vec<&str> = roots.iter().map(|root| root.trim_end_matches('.')).collect();
                let either = if roots.len() > 1 { "either " } else { "" };
                errors.invalid(
                    &path,
                    given,
                    &format!("should be a json path under {either}{}", roots.join(" or ")),
                );
            }
        }
    }
    let list = |name: &str| version[name].as_array().map_or(&[][..], Vec::as_slice);
    let columns = list("additionalPrinterColumns");
    let columns_path = path.child("additionalPrinterColumns");
    if columns.len() > columns::MAX_COLUMNS {
        errors.too_many(&columns_path, columns.len(), columns::MAX_COLUMNS);
    }
    for (at, column) in columns.iter().take(columns::MAX_COLUMNS).enumerate() {
        validate_column(column, &columns_path.index(at), errors);
    }
    let selectable = list("selectableFields");
    let selectable_path = path.child("selectableFields");
    if selectable.len() > MAX_SELECTABLE {
        errors.too_many(&selectable_path, selectable.len(), MAX_SELECTABLE);
    }
    let mut seen = HashSet::new();
    for (at, field) in selectable.iter().enumerate() {
        if errors.is_full() {
            return;
        }
        let path = selectable_path.index(at).child("jsonPath");
        let given = field["jsonPath"].as_str().unwrap_or_default();
        if !seen.insert(given) {
            errors.duplicate(&path, given);
        }
        if given.len() > MAX_SELECTABLE_PATH {
            errors.too_long(&path, MAX_SELECTABLE_PATH);
            continue;
        }
        validate_selectable(given, schema, &path, errors);
    }
}

fn validate_column(column: &Value, path: &Path, errors: &mut FieldErrors) {
    let text = |name: &str| column[name].as_str().unwrap_or_default();
    if text("name").is_empty() {
        errors.required(&path.child("name"), "");
    }
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    match text("type") {
        "" => errors.required(&path.child("type"), "must be one of boolean,date,integer,number,string"),
        ty if TYPES.contains(&ty) => {}
        ty => errors.invalid(&path.child("type"), ty, "must be one of boolean,date,integer,number,string"),
    }
    const FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
    let format = text("format");
    if !format.is_empty() && !FORMATS.contains(&format) {
        let why = format!("must be one of {}", FORMATS.join(","));
        errors.invalid(&path.child("format"), format, &why);
    }
    match text("jsonPath") {
        "" => errors.required(&path.child("jsonPath"), ""),
        given => {
            if let Err(why) = columns::JsonPath::parse(given) {
                errors.invalid(&path.child("jsonPath"), given, &why);
            }
        }
    }
}

/// Checks that a selectable field is a string, an integer or a boolean at a simple path.
fn validate_selectable(given: &str, schema: &Value, path: &Path, errors: &mut FieldErrors) {
    if given.is_empty() {
        return errors.required(path, "");
    }
    let Some(steps) = columns::simple_path(given) else {
        return errors.invalid(
            path,
            given,
            "is an invalid path: must be a simple json path, such as .spec.color",
        );
    };
    if steps.first().is_some_and(|first| first == "metadata") {
        return errors.invalid(path, given, "must not point to fields in metadata");
    }
    let found = steps.iter().try_fold(schema, |schema, step| schema["properties"].get(step));
    let Some(found) = found else {
        return errors.invalid(path, given, "is an invalid path: does not refer to a valid field");
    };
    let ty = found["type"].as_str().unwrap_or_default();
    if !matches!(ty, "string" | "boolean" | "integer") {
        let why = "must point to a field of type string, boolean or integer. Enum string fields and strings with \
                   formats are allowed.";
        errors.invalid(path, given, why);
    }
}
