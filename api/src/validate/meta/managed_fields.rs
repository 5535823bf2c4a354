//! Validation of `metadata.managedFields`, and of the names of field managers.

use serde_json::Value;

use crate::validate::{FieldErrors, Path};

const MANAGER_MAX: usize = 128;
const SUBRESOURCE_MAX: usize = 256;

/// The entries of `managedFields`, without the field sets themselves.
pub(super) fn validate(entries: &[Value], path: &Path, errors: &mut FieldErrors) {
    for (i, entry) in entries.iter().enumerate() {
        let path = path.index(i);
        let text = |member: &str| entry.get(member).and_then(Value::as_str).unwrap_or_default();
        let operation = text("operation");
        if !matches!(operation, "Apply" | "Update") {
            errors.invalid(&path.child("operation"), operation, "must be `Apply` or `Update`");
        }
        let fields_type = text("fieldsType");
        if !matches!(fields_type, "" | "FieldsV1") {
            errors.invalid(&path.child("fieldsType"), fields_type, "must be `FieldsV1`");
        }
        validate_field_manager(text("manager"), &path.child("manager"), errors);
        if text("subresource").len() > SUBRESOURCE_MAX {
            errors.too_long(&path.child("subresource"), SUBRESOURCE_MAX);
        }
    }
}

/// The name of a field manager, also in the query of a write: at most 128 bytes, printable.
pub fn validate_field_manager(manager: &str, path: &Path, errors: &mut FieldErrors) {
    if manager.len() > MANAGER_MAX {
        errors.too_long(path, MANAGER_MAX);
    }
    for (i, c) in manager.char_indices() {
        if errors.is_full() {
            return;
        }
        let printable = c == ' ' || !(c.is_control() || c.is_whitespace());
        if !printable {
            let why = format!("invalid character U+{:04X} (at position {i})", u32::from(c));
            errors.invalid(path, manager, &why);
        }
    }
}
