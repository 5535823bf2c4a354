//! Times of API objects that the types of k8s-openapi cannot decode, although the API allows them:
//!
//! * a required time that is `null` or missing. Go clients write the zero time, which upstream's types encode as `null`.
//! * times that [`Timestamp`] cannot represent: the last 26 hours of the year 9999, with which some clients mean "never", and times
//!   before the year 0, which an offset can produce.
//!
//! [`mend`] replaces them in JSON. Without this, controllers could not read such an object at all (I12).

use jiff::Timestamp;
use serde_json::{Map, Value};

/// Go's zero time. Types with a required time need a value for an unset one; the server reads this one as unset.
pub const ZERO: &str = "0001-01-01T00:00:00Z";
/// The latest time, as the API writes it. Valid for members with and without fractions of a second.
pub const LATEST: &str = "9999-12-30T22:00:00Z";
/// The earliest time that the API can write.
pub const EARLIEST: &str = "0000-01-01T00:00:00Z";

/// The names of times, by the member that contains them; an item of a list has the name of the list. The empty name is the object itself.
/// A pair of names identifies a time: texts of users, such as labels, are not times, even if they look like times. A test of the client
/// compares this list with the schemas of all kinds that it reads.
const TIMES: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "eventTime",
            "firstTimestamp",
            "lastTimestamp",
            "deprecatedFirstTimestamp",
            "deprecatedLastTimestamp",
        ],
    ),
    ("metadata", &["creationTimestamp", "deletionTimestamp"]),
    ("managedFields", &["time"]),
    ("spec", &["acquireTime", "renewTime", "pingTime"]),
    (
        "status",
        &[
            "startTime",
            "completionTime",
            "lastScheduleTime",
            "lastSuccessfulTime",
            "lastPhaseTransitionTime",
            "lastScaleTime",
            "creationTime",
            "expirationTimestamp",
            "beginRefreshAt",
            "notBefore",
            "notAfter",
        ],
    ),
    ("conditions", &["lastTransitionTime", "lastUpdateTime", "lastProbeTime", "lastHeartbeatTime"]),
    ("running", &["startedAt"]),
    ("terminated", &["startedAt", "finishedAt"]),
    ("error", &["time"]),
    ("attachError", &["time"]),
    ("detachError", &["time"]),
    ("allocation", &["allocationTimestamp"]),
    ("taint", &["timeAdded"]),
    ("taints", &["timeAdded"]),
    ("series", &["lastObservedTime"]),
];
/// The times that some types require, by the member that contains them.
const REQUIRED: &[(&str, &str)] = &[("conditions", "lastTransitionTime"), ("series", "lastObservedTime")];
/// A map whose values are times: the disrupted pods of a PodDisruptionBudget.
const MAP_OF_TIMES: &str = "disruptedPods";
/// Members whose content is not part of the object's type.
const UNTYPED: &[&str] = &["annotations", "labels", "data", "stringData", "binaryData"];

/// The times that [`mend`] replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mend {
    /// Times that cannot be represented, by the nearest one that can, and unset times in a map of times.
    Range,
    /// Also unset times that some types require, by [`ZERO`]. Other types have optional times with the same names, so this replaces more
    /// than necessary: use it only if [`Mend::Range`] does not suffice.
    Required,
}

/// Replaces times of an object that its type cannot decode. Returns whether it has replaced any.
pub fn mend(object: &mut Value, mend: Mend) -> bool {
    in_value("", object, mend)
}

fn in_value(name: &str, value: &mut Value, mend: Mend) -> bool {
    match value {
        Value::Object(members) => in_members(name, members, mend),
        Value::Array(items) => {
            items.iter_mut().fold(false, |replaced, item| in_value(name, item, mend) | replaced)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// `parent` is the name of the member that contains these.
fn in_members(parent: &str, members: &mut Map<String, Value>, mend: Mend) -> bool {
    let mut replaced = mend == Mend::Required && set_required(parent, members);
    for (name, member) in members {
        replaced |= match member {
            Value::String(text) if is_time(parent, name) => into_range(text),
            Value::Null if parent == MAP_OF_TIMES => {
                *member = ZERO.into();
                true
            }
            Value::Object(_) | Value::Array(_) if !UNTYPED.contains(&name.as_str()) => {
                in_value(name, member, mend)
            }
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_) => false,
        };
    }
    replaced
}

fn set_required(parent: &str, members: &mut Map<String, Value>) -> bool {
    let Some((_, name)) = REQUIRED.iter().find(|(of, _)| *of == parent) else { return false };
    let time = members.entry(*name).or_insert(Value::Null);
    let unset = time.is_null();
    if unset {
        *time = ZERO.into();
    }
    unset
}

fn is_time(parent: &str, name: &str) -> bool {
    parent == MAP_OF_TIMES || TIMES.iter().any(|(of, names)| *of == parent && names.contains(&name))
}

fn into_range(text: &mut String) -> bool {
    let limit = match text.as_str() {
        text if text.starts_with("9999-12-3") => LATEST,
        text if text.starts_with('-') => EARLIEST,
        _ => return false,
    };
    if text.parse::<Timestamp>().is_ok() {
        return false;
    }
    limit.clone_into(text);
    true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_are_replaced_only_where_a_type_has_a_time() {
        let (range, required) = (Mend::Range, Mend::Required);
        let never = "9999-12-31T23:59:59Z";
        let before = "-001-12-31T23:00:00Z";
        let table = [
            (
                "never",
                range,
                json!({"status": {"startTime": never}}),
                json!({"status": {"startTime": LATEST}}),
            ),
            (
                "before the year 0",
                range,
                json!({"spec": {"renewTime": before}}),
                json!({"spec": {"renewTime": EARLIEST}}),
            ),
            (
                "a map of times",
                range,
                json!({"status": {"disruptedPods": {"a": null, "b": never, "c": "2026-01-02T03:04:05Z"}}}),
                json!({"status": {"disruptedPods": {"a": ZERO, "b": LATEST, "c": "2026-01-02T03:04:05Z"}}}),
            ),
            (
                "items of a list",
                required,
                json!({"status": {"conditions": [{"lastTransitionTime": null}, {}, {"lastTransitionTime": never}]}}),
                json!({"status": {"conditions": [
                    {"lastTransitionTime": ZERO}, {"lastTransitionTime": ZERO}, {"lastTransitionTime": LATEST}]}}),
            ),
        ];
        for (name, how, mut object, wanted) in table {
            assert!(mend(&mut object, how), "{name}");
            assert_eq!(object, wanted, "{name}");
            assert!(!mend(&mut object, how), "{name}: again");
        }
        let unchanged = [
            (required, json!({"metadata": {"labels": {"startTime": never}, "annotations": {"time": never}}})),
            (required, json!({"data": {"status": {"startTime": never}}})),
            (required, json!({"spec": {"nodeSelector": {"startTime": never}}, "status": {"reason": never}})),
            (required, json!({"status": {"startTime": "soon"}})),
            (required, json!({"status": {"startTime": null, "conditions": []}})),
            (range, json!({"status": {"conditions": [{"lastTransitionTime": null}, {}]}})),
            (range, json!({"metadata": {"creationTimestamp": ZERO, "deletionTimestamp": EARLIEST}})),
            (required, json!("text")),
        ];
        for (how, object) in unchanged {
            let mut mended = object.clone();
            assert!(!mend(&mut mended, how), "{object}");
            assert_eq!(mended, object);
        }
    }

    #[test]
    fn replacements_can_be_represented() {
        for text in [ZERO, LATEST, EARLIEST] {
            assert!(text.parse::<Timestamp>().is_ok(), "{text}");
        }
        assert!("9999-12-31T23:59:59Z".parse::<Timestamp>().is_err(), "otherwise this module is not needed");
    }
}
