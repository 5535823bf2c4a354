//! What the cells of tables have in common: columns, ages, access modes.
//!
//! Pure functions from values to text, in upstream's words (upstream: pkg/printers and
//! k8s.io/apimachinery/pkg/util/duration).

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::kind::Column;
use crate::object::Object;

/// What the name column shows.
pub(super) const NAME_DESCRIPTION: &str =
    "Name of the object, unique among those of its kind in its namespace.";

/// What the age column shows.
pub(super) const AGE_DESCRIPTION: &str = "Time since the object was created.";

/// The name column.
pub(super) const NAME: Column =
    Column { name: "Name", kind: "string", format: "name", description: NAME_DESCRIPTION, priority: 0 };

/// The age column.
pub(super) const AGE: Column = text("Age", AGE_DESCRIPTION);

/// A text column that is always shown.
pub(super) const fn text(name: &'static str, description: &'static str) -> Column {
    Column { name, kind: "string", format: "", description, priority: 0 }
}

/// A text column that only wide output shows.
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

/// The age cell: how long ago the object was created.
pub(super) fn age(object: &Object, now: Timestamp) -> Value {
    since(object.str_at(&["metadata", "creationTimestamp"]), now).into()
}

/// How long ago an RFC 3339 time was; `<unknown>` when there is none.
pub(super) fn since(time: &str, now: Timestamp) -> String {
    match time.parse::<Timestamp>() {
        Ok(time) => ago(time, now),
        Err(_) => "<unknown>".to_owned(),
    }
}

/// How long ago a time was.
pub(super) fn ago(time: Timestamp, now: Timestamp) -> String {
    human_duration(now.as_millisecond().saturating_sub(time.as_millisecond()))
}

/// Text when there is some, else `otherwise`.
pub(super) fn or<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}

/// The number of entries of a map at a path.
pub(super) fn entries(object: &Object, path: &[&str]) -> usize {
    object.at(path).and_then(Value::as_object).map_or(0, Map::len)
}

/// Access modes as tables show them: each once, in a fixed order, abbreviated. `modes` is a JSON
/// list of text; what is none of the known modes is left out.
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

/// A span in milliseconds as people read it: about two figures, coarser as it grows.
pub(super) fn human_duration(millis: i64) -> String {
    // Truncated towards zero, so that up to one second in the future still counts as now.
    let seconds = millis / 1000;
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    if seconds < 0 {
        return "0s".to_owned();
    }
    if seconds < 120 {
        return format!("{seconds}s");
    }
    let minutes = seconds / 60;
    if minutes < 10 {
        return two(minutes, "m", seconds % 60, "s");
    }
    if minutes < 180 {
        return format!("{minutes}m");
    }
    let hours = minutes / 60;
    if hours < 8 {
        return two(hours, "h", minutes % 60, "m");
    }
    if hours < 48 {
        return format!("{hours}h");
    }
    let days = hours / 24;
    if hours < 24 * 8 {
        return two(days, "d", hours % 24, "h");
    }
    if days < 365 * 2 {
        return format!("{days}d");
    }
    let years = days / 365;
    if days < 365 * 8 {
        return two(years, "y", days % 365, "d");
    }
    format!("{years}y")
}

fn two(major: i64, major_unit: &str, minor: i64, minor_unit: &str) -> String {
    if minor == 0 {
        format!("{major}{major_unit}")
    } else {
        format!("{major}{major_unit}{minor}{minor_unit}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn durations() {
        const MINUTE: i64 = 60;
        const HOUR: i64 = 60 * MINUTE;
        const DAY: i64 = 24 * HOUR;
        for (seconds, want) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (599, "9m59s"),
            (600, "10m"),
            (179 * MINUTE + 59, "179m"),
            (180 * MINUTE, "3h"),
            (7 * HOUR + 30 * MINUTE, "7h30m"),
            (8 * HOUR + MINUTE, "8h"),
            (47 * HOUR, "47h"),
            (48 * HOUR, "2d"),
            (2 * DAY + HOUR, "2d1h"),
            (8 * DAY + HOUR, "8d"),
            (729 * DAY, "729d"),
            (730 * DAY, "2y"),
            (731 * DAY, "2y1d"),
            (8 * 365 * DAY, "8y"),
            (8 * 365 * DAY + 400 * DAY, "9y"),
        ] {
            assert_eq!(human_duration(seconds * 1000), want, "{seconds} s");
        }
        assert_eq!(human_duration(-1999), "0s", "seconds are truncated towards zero");
    }

    #[test]
    fn ages() {
        let now: Timestamp = "2026-01-01T00:00:10Z".parse().expect("a time");
        assert_eq!(since("2026-01-01T00:00:00Z", now), "10s");
        assert_eq!(since("", now), "<unknown>");
        let object = Object::from_value(json!({"metadata": {"creationTimestamp": "2025-12-31T23:00:10Z"}}));
        assert_eq!(age(&object, now), json!("60m"));
    }

    #[test]
    fn access_modes_in_fixed_order() {
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
