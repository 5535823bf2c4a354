//! Selectors of devices, and the parameters for drivers.

use serde_json::Value;

use super::collection::{each, items};
use super::names;
use crate::registry::expressions::CompilesExpressions;
use crate::registry::workload::{given, text};
use crate::validate::{FieldErrors, Path};

/// Maximum number of selectors of a request or a class.
const MOST_SELECTORS: usize = 32;
/// Maximum length of an expression, bytes.
const LONGEST_EXPRESSION: usize = 10 * 1024;
/// Maximum size of the parameters for a driver, bytes.
const MOST_PARAMETERS: usize = 10 * 1024;

/// The `selectors` of a request or a class.
pub(super) fn validate_selectors(
    of: &Value,
    compiler: &dyn CompilesExpressions,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let path = path.child("selectors");
    each(items(of, "selectors"), MOST_SELECTORS, &path, errors, |selector, path, errors| {
        if errors.is_full() {
            return;
        }
        let path = path.child("cel");
        let Some(cel) = given(selector, "cel") else { return errors.required(&path, "") };
        let (expression, path) = (text(cel, "expression"), path.child("expression"));
        if expression.len() > LONGEST_EXPRESSION {
            errors.too_long(&path, LONGEST_EXPRESSION);
        } else if let Err(why) = compiler.check_device_selector(expression) {
            errors.invalid(&path, expression, &why);
        }
    });
}

/// The driver and its parameters, in a configuration. `is_stored` is set if the object has been stored with the same
/// configuration.
pub(super) fn validate_configuration(
    configuration: &Value,
    is_stored: bool,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let path = path.child("opaque");
    let Some(opaque) = given(configuration, "opaque") else { return errors.required(&path, "") };
    names::driver(text(opaque, "driver"), &path.child("driver"), errors);
    let max = if is_stored { usize::MAX } else { MOST_PARAMETERS };
    validate_json(opaque.get("parameters"), max, &path.child("parameters"), errors);
}

/// A JSON object of at most `max` bytes.
pub(super) fn validate_json(value: Option<&Value>, max: usize, path: &Path, errors: &mut FieldErrors) {
    match value {
        None | Some(Value::Null) => errors.required(path, ""),
        Some(value) if max < usize::MAX && value.to_string().len() > max => errors.too_long(path, max),
        Some(Value::Object(_)) => {}
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            errors.invalid(path, "<value omitted>", "must be a valid JSON object");
        }
    }
}
