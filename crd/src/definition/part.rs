//! Validates the parts of versions other than their schemas: subresources, printer columns and selectable fields.

use std::collections::HashSet;

use orlop_api::validate::{FieldErrors, Path};
use serde_json::Value;

use crate::columns;

/// Maximum number of selectable fields.
const MAX_SELECTABLE: usize = 8;
/// Maximum length of the path of a selectable field, bytes. The process keeps these names until it ends.
const MAX_SELECTABLE_PATH: usize = 256;

/// The parts that are the same in all versions. Upstream validates them once, as parts of the definition.
pub(super) struct Shared {
    pub(super) schema: bool,
    pub(super) subresources: bool,
    pub(super) columns: bool,
    pub(super) selectable: bool,
}

impl Shared {
    pub(super) fn of(versions: &[Value]) -> Self {
        let is_shared =
            |name: &str| versions.windows(2).all(|pair| part(&pair[0], name) == part(&pair[1], name));
        Shared {
            schema: is_shared("schema"),
            subresources: is_shared("subresources"),
            columns: is_shared("additionalPrinterColumns"),
            selectable: is_shared("selectableFields"),
        }
    }
}

/// Returns a part of a version; `None` if it is empty.
fn part<'v>(version: &'v Value, name: &str) -> Option<&'v Value> {
    version.get(name).filter(|part| !part.is_null() && part.as_array().is_none_or(|list| !list.is_empty()))
}

/// Validates the subresources of a version.
pub(super) fn validate_subresources(version: &Value, path: &Path, errors: &mut FieldErrors) {
    let scale = &version["subresources"]["scale"];
    if !scale.is_object() {
        return;
    }
    for (name, roots, is_required) in [
        ("specReplicasPath", &[".spec."][..], true),
        ("statusReplicasPath", &[".status."], true),
        ("labelSelectorPath", &[".spec.", ".status."], false),
    ] {
        let path = path.child("scale").child(name);
        let given = scale[name].as_str().unwrap_or_default();
        let is_below = roots.iter().any(|root| given.starts_with(root));
        if given.is_empty() {
            if is_required {
                errors.required(&path, "");
            }
        } else if !given.starts_with('.') {
            errors.invalid(&path, given, "must be a simple json path starting with .");
        } else if !is_below {
            let roots: Vec<&str> = roots.iter().map(|root| root.trim_end_matches('.')).collect();
            let either = if roots.len() > 1 { "either " } else { "" };
            let why = format!("should be a json path under {either}{}", roots.join(" or "));
            errors.invalid(&path, given, &why);
        } else if columns::simple_path(given).is_none() {
            errors.invalid(&path, given, "should be a simple json path, such as .spec.replicas");
        }
    }
}

/// Validates the printer columns of a version.
pub(super) fn validate_columns(version: &Value, path: &Path, errors: &mut FieldErrors) {
    let columns = version["additionalPrinterColumns"].as_array().map_or(&[][..], Vec::as_slice);
    if columns.len() > columns::MAX_COLUMNS {
        errors.too_many(path, columns.len(), columns::MAX_COLUMNS);
    }
    for (at, column) in columns.iter().take(columns::MAX_COLUMNS).enumerate() {
        validate_column(column, &path.index(at), errors);
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
    // The name of the field in upstream's internal form.
    let path = path.child("JSONPath");
    match text("jsonPath") {
        "" => errors.required(&path, ""),
        given if !given.starts_with('.') => {
            errors.invalid(&path, given, "must be a simple json path starting with .");
        }
        given => {
            if let Err(why) = columns::JsonPath::parse(given) {
                errors.invalid(&path, given, &why);
            }
        }
    }
}

/// Validates the selectable fields of a version. Without a schema, `missing` is the error.
pub(super) fn validate_selectable(
    version: &Value,
    schema: Option<&Value>,
    missing: &str,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let selectable = version["selectableFields"].as_array().map_or(&[][..], Vec::as_slice);
    if selectable.is_empty() {
        return;
    }
    let Some(schema) = schema.filter(|schema| schema.is_object()) else {
        return errors.invalid(path, "", missing);
    };
    let mut seen = HashSet::new();
    for (at, field) in selectable.iter().enumerate() {
        if errors.is_full() {
            return;
        }
        let path = path.index(at).child("jsonPath");
        let given = field["jsonPath"].as_str().unwrap_or_default();
        if given.len() > MAX_SELECTABLE_PATH {
            errors.too_long(&path, MAX_SELECTABLE_PATH);
        } else if validate_selectable_path(given, schema, &path, errors) && !seen.insert(given) {
            errors.duplicate(&path, given);
        }
    }
    if seen.len() > MAX_SELECTABLE {
        errors.too_many(path, seen.len(), MAX_SELECTABLE);
    }
}

/// Checks that a selectable field is a string, an integer or a boolean at a simple path. Returns whether the field exists.
fn validate_selectable_path(given: &str, schema: &Value, path: &Path, errors: &mut FieldErrors) -> bool {
    if given.is_empty() {
        errors.required(path, "");
        return false;
    }
    let mut is_invalid = |why: &str| {
        errors.invalid(path, given, &format!("is an invalid path: {why}"));
        false
    };
    if !given.starts_with('.') {
        let first = given.split(['.', '[', ']']).next().unwrap_or_default();
        return is_invalid(&format!("expected [ or . but got: {first}"));
    }
    if given.contains('[') {
        return is_invalid("array notation is not allowed");
    }
    let Some(steps) = columns::simple_path(given) else {
        return is_invalid("must be a simple json path, such as .spec.color");
    };
    let found = steps.iter().try_fold(schema, |schema, step| schema["properties"].get(step));
    let Some(found) = found else {
        return is_invalid("does not refer to a valid field");
    };
    if steps.first().is_some_and(|first| first == "metadata") {
        errors.invalid(path, given, "must not point to fields in metadata");
    }
    let ty = found["type"].as_str().unwrap_or_default();
    if !matches!(ty, "string" | "boolean" | "integer") {
        let why = "must point to a field of type string, boolean or integer. Enum string fields and strings with \
                   formats are allowed.";
        errors.invalid(path, given, why);
    }
    true
}
