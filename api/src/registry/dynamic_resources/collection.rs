//! Lists, sets and maps with a maximum size. If there are more entries, no entry is validated, so that the size bounds
//! the cost.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::validate::{FieldErrors, Path};

/// The items of a list; empty if absent.
pub(super) fn items<'a>(of: &'a Value, field: &str) -> &'a [Value] {
    of.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The entries of a map; `None` if absent.
pub(super) fn entries<'a>(of: &'a Value, field: &str) -> Option<&'a Map<String, Value>> {
    of.get(field).and_then(Value::as_object)
}

/// Validates each item of a list of at most `max` items. Returns whether the items were validated.
pub(super) fn each(
    list: &[Value],
    max: usize,
    path: &Path,
    errors: &mut FieldErrors,
    mut rule: impl FnMut(&Value, &Path, &mut FieldErrors),
) -> bool {
    if list.len() > max {
        errors.too_many(path, list.len(), max);
        return false;
    }
    for (at, item) in list.iter().enumerate() {
        rule(item, &path.index(at), errors);
    }
    true
}

/// Validates each item of a list of at most `max` items with different keys.
pub(super) fn each_unique(
    list: &[Value],
    max: usize,
    key: impl Fn(&Value) -> Value,
    path: &Path,
    errors: &mut FieldErrors,
    rule: impl FnMut(&Value, &Path, &mut FieldErrors),
) {
    if !each(list, max, path, errors, rule) {
        return;
    }
    let mut seen = HashSet::new();
    for (at, item) in list.iter().enumerate() {
        let key = key(item);
        if !seen.insert(key.to_string()) {
            errors.duplicate(&path.index(at), key);
        }
    }
}

/// Validates each entry of a map of at most `max` entries. `long` is the length from which a key is abbreviated in paths.
pub(super) fn each_entry(
    map: &Map<String, Value>,
    max: usize,
    long: usize,
    path: &Path,
    errors: &mut FieldErrors,
    mut rule: impl FnMut(&str, &Value, &Path, &mut FieldErrors),
) {
    if map.len() > max {
        errors.too_many(path, map.len(), max);
        return;
    }
    for (key, value) in map {
        rule(key, value, &path.key(&abbreviated(key, long)), errors);
    }
}

/// A key of at most `max` bytes: the middle of a longer one is omitted.
fn abbreviated(key: &str, max: usize) -> String {
    if key.len() <= max {
        return key.to_owned();
    }
    let left = max.saturating_sub(3);
    let head = key.floor_char_boundary(left.div_ceil(2));
    let tail = key.ceil_char_boundary(key.len() - left / 2);
    format!("{}...{}", &key[..head], &key[tail..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_keys_are_abbreviated_in_the_middle() {
        for (key, max, want) in [
            ("short", 16, "short"),
            ("0123456789abcdefghij", 16, "0123456...efghij"),
            ("ééééééééééééé", 16, "ééé...ééé"),
        ] {
            assert_eq!(abbreviated(key, max), want, "{key}");
        }
    }
}
