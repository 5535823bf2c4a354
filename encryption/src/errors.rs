//! Joins errors in upstream's form.

use std::collections::HashSet;

/// Joins errors; equal ones only once. `None` if there are none.
pub(crate) fn aggregate(mut errors: Vec<String>) -> Option<String> {
    let mut seen = HashSet::new();
    errors.retain(|error| seen.insert(error.clone()));
    match errors.len() {
        0 => None,
        1 => errors.pop(),
        _ => Some(format!("[{}]", errors.join(", "))),
    }
}
