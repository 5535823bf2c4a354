//! Common parts of table cells: columns, ages, access modes.
//!
//! Pure functions from values to text, identical to upstream's (upstream: pkg/printers and
//! k8s.io/apimachinery/pkg/util/duration).

use jiff::Timestamp;
use orlop_apimachinery::duration;
use serde_json::{Map, Value};

use crate::kind::Column;
use crate::object::Object;

/// Description of the name column.
pub(super) const NAME_DESCRIPTION: &str =
    "Name of the object, unique among those of its kind in its namespace.";

/// Description of the age column.
pub(super) const AGE_DESCRIPTION: &str = "Time since the object was created.";

/// The name column.
pub(super) const NAME: Column =
    Column { name: "Name", kind: "string", format: "name", description: NAME_DESCRIPTION, priority: 0 };

/// The age column.
pub(super) const AGE: Column = text("Age", AGE_DESCRIPTION);

/// A string column that is always shown.
pub(super) const fn text(name: &'static str, description: &'static str) -> Column {
    Column { name, kind: "string", format: "", description, priority: 0 }
}

/// A string column that only wide output shows.
pub(super) const fn wide(name: &'static str, description: &'static str) -> Column {
    Column { name, kind: "string", format: "", description, priority: 1 }
}

/// A column of another JSON type (`integer`, `boolean`) that is always shown.
pub(super) const fn typed(name: &'static str, kind: &'static str, description: &'static str) -> Column {
    Column { name, kind, format: "", description, priority: 0 }
}

/// The name cell.
pub(super) fn name(object: &Object) -> Value {
    object.name().into()
}

/// The age cell: the time since the object was created.
pub(super) fn age(object: &Object, now: Timestamp) -> Value {
    since(object.str_at(&["metadata", "creationTimestamp"]), now).into()
}

/// The time elapsed since an RFC 3339 timestamp; `<unknown>` if it is empty.
pub(super) fn since(time: &str, now: Timestamp) -> String {
    match time.parse::<Timestamp>() {
        Ok(time) => ago(time, now),
        Err(_) => "<unknown>".to_owned(),
    }
}

/// The time elapsed since a timestamp.
pub fn ago(time: Timestamp, now: Timestamp) -> String {
    duration::human(now.as_millisecond().saturating_sub(time.as_millisecond()) / 1000)
}

/// `text`, or `otherwise` if it is empty.
pub(super) fn or<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}

/// The number of entries of a map at a path.
pub(super) fn entries(object: &Object, path: &[&str]) -> usize {
    object.at(path).and_then(Value::as_object).map_or(0, Map::len)
}

/// Access modes in table format: each once, in a fixed order, abbreviated. `modes` is a JSON
/// list of strings; unknown modes are omitted.
pub(super) fn access_modes(modes: Option<&Value>) -> String {
    const SHORT: [(&str, &str); 4] = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let given = modes.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let shown: Vec<&str> = SHORT
        .iter()
        .filter(|(mode, _)| given.iter().any(|one| one.as_str() == Some(mode)))
        .map(|(_, short)| *short)
        .collect();
    shown.join(",")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ages_are_rounded_towards_zero() {
        let now: Timestamp = "2026-01-01T00:00:10Z".parse().expect("a time");
        assert_eq!(since("2026-01-01T00:00:00Z", now), "10s");
        assert_eq!(since("", now), "<unknown>");
        assert_eq!(since("2026-01-01T00:00:11.5Z", now), "0s", "seconds are rounded towards zero");
        let object = Object::from_value(json!({"metadata": {"creationTimestamp": "2025-12-31T23:00:10Z"}}));
        assert_eq!(age(&object, now), json!("60m"));
    }

    #[test]
    fn access_modes_are_abbreviated_in_a_fixed_order() {
        for (modes, want) in [
            (json!(null), ""),
            (json!(["ReadWriteMany", "ReadWriteOnce", "ReadWriteOnce"]), "RWO,RWX"),
            (json!(["ReadWriteOncePod"]), "RWOP"),
            (json!(["ReadOnlyMany"]), "ROX"),
        ] {
            assert_eq!(access_modes(Some(&modes)), want, "{modes}");
        }
    }
}
