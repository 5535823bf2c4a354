//! The counters that the devices of a slice share.

use serde_json::Value;

use super::collection::{each_entry, entries};
use crate::registry::checks;
use crate::validate::{FieldErrors, Path};

/// Maximum number of counters in a set.
const MOST_COUNTERS: usize = 32;
/// Maximum length of the name of a counter, bytes.
const LABEL_MAX: usize = 63;

/// The counters of a set, or those that a device consumes.
pub(super) fn validate_counters(of: &Value, path: &Path, errors: &mut FieldErrors) {
    match entries(of, "counters").filter(|counters| !counters.is_empty()) {
        None => errors.required(path, ""),
        Some(counters) => {
            each_entry(counters, MOST_COUNTERS, LABEL_MAX, path, errors, |name, _, _, errors| {
                checks::label(errors, path, name);
            });
        }
    }
}
