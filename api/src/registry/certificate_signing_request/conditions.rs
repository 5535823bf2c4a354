//! The conditions of a request: restores those that a write cannot change, and sets their times.

use jiff::Timestamp;
use serde_json::Value;

use super::super::checks;
use super::super::volume_rules::{items, text};
use crate::object::Object;

/// The type of an approval.
pub(super) const APPROVED: &str = "Approved";
/// The type of a denial.
pub(super) const DENIED: &str = "Denied";
/// The type of a rejection by the signer.
pub(super) const FAILED: &str = "Failed";

/// The conditions of an object.
pub(super) fn of(object: &Object) -> &[Value] {
    object.at(&["status"]).map_or(&[], |status| items(status, "conditions"))
}

/// The conditions of one type.
pub(super) fn of_type<'a>(object: &'a Object, kind: &str) -> Vec<&'a Value> {
    of(object).iter().filter(|condition| text(condition, "type") == kind).collect()
}

fn list(object: &mut Object) -> Option<&mut Vec<Value>> {
    object.object_at(&["status"]).get_mut("conditions")?.as_array_mut()
}

/// Restores the stored conditions of these types. If their number differs, changes nothing: validation then reports the difference.
pub(super) fn keep(object: &mut Object, old: &Object, types: &[&str]) {
    for kind in types {
        let stored: Vec<Value> = of_type(old, kind).into_iter().cloned().collect();
        let Some(list) = list(object) else { return };
        let given: Vec<&mut Value> = list.iter_mut().filter(|one| text(one, "type") == *kind).collect();
        if given.len() == stored.len() {
            given.into_iter().zip(stored).for_each(|(given, stored)| *given = stored);
        }
    }
}

/// Sets the times that a client omits. The transition time changes only with the status of a condition.
pub(super) fn set_times(object: &mut Object, old: &Object, now: Timestamp) {
    const UPDATE: &str = "lastUpdateTime";
    const TRANSITION: &str = "lastTransitionTime";
    let now = Value::from(checks::seconds(now));
    for condition in list(object).into_iter().flatten() {
        let same = |other: &&Value| {
            ["type", "status"].iter().all(|key| text(other, key) == text(condition, key))
                && !text(other, TRANSITION).is_empty()
        };
        let since = of(old).iter().find(same).map_or(&now, |other| &other[TRANSITION]).clone();
        let Value::Object(members) = condition else { continue };
        for (key, time) in [(UPDATE, now.clone()), (TRANSITION, since)] {
            if members.get(key).is_none_or(Value::is_null) {
                members.insert(key.to_owned(), time);
            }
        }
    }
}
