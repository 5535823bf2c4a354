//! Times that the API allows and [`jiff::Timestamp`] cannot represent: the last 26 hours of the year 9999, with which some clients mean
//! "never". Without this, one such object would fail every list of its kind, and so stop all controllers that read the kind (I12).

use jiff::Timestamp;
use serde_json::{Map, Value};

/// Members with values of users: texts in them are not times, even if they look like times.
const USER_DATA: &[&str] = &[
    "annotations",
    "labels",
    "data",
    "stringData",
    "binaryData",
    "parameters",
    "volumeAttributes",
    "options",
];
/// The latest time, as the API writes it. Valid for members with and without fractions of a second.
const LATEST: &str = "9999-12-30T22:00:00Z";

/// The same JSON with each such time replaced by the latest one that can be represented; `None` if there is none.
pub(super) fn representable(json: &[u8]) -> Option<Vec<u8>> {
    let mut value: Value = serde_json::from_slice(json).ok()?;
    let replaced = match &mut value {
        Value::Object(members) => in_members(members),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => false,
    };
    replaced.then(|| serde_json::to_vec(&value).ok()).flatten()
}

fn in_members(members: &mut Map<String, Value>) -> bool {
    let mut replaced = false;
    for (name, member) in members {
        if !USER_DATA.contains(&name.as_str()) {
            // The times of a PodDisruptionBudget's pods are members of a map.
            replaced |= in_value(member, is_time(name) || name == "disruptedPods");
        }
    }
    replaced
}

fn in_value(value: &mut Value, is_time: bool) -> bool {
    match value {
        Value::String(text)
            if is_time && text.starts_with("9999-12-3") && text.parse::<Timestamp>().is_err() =>
        {
            LATEST.clone_into(text);
            true
        }
        Value::Object(members) if is_time => {
            members.values_mut().fold(false, |replaced, member| in_value(member, true) | replaced)
        }
        Value::Object(members) => in_members(members),
        Value::Array(items) => {
            items.iter_mut().fold(false, |replaced, item| in_value(item, false) | replaced)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn is_time(name: &str) -> bool {
    ["Time", "Timestamp", "At"].iter().any(|end| name.ends_with(end)) || ["time", "timeAdded"].contains(&name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use k8s_openapi::api::core::v1::PersistentVolume;
    use serde_json::json;

    use crate::api::Json as _;

    #[test]
    fn i12_time_at_the_end_of_9999_does_not_prevent_decoding() {
        let never = "9999-12-31T23:59:59Z";
        let volume = json!({"metadata": {"name": "v", "annotations": {"startTime": never}}, "spec": {},
            "status": {"phase": "Available", "lastPhaseTransitionTime": never}});
        let volume = PersistentVolume::decode(volume.to_string().as_bytes()).unwrap();
        let time = volume.status.unwrap().last_phase_transition_time.unwrap().0;
        assert_eq!(time.to_string(), super::LATEST);
        assert_eq!(volume.metadata.annotations.unwrap()["startTime"], never);
        let odd =
            json!({"metadata": {"name": "v"}, "spec": {}, "status": {"lastPhaseTransitionTime": "soon"}});
        assert!(PersistentVolume::decode(odd.to_string().as_bytes()).is_err());
    }
}
